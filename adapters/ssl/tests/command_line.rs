//! The program as people run it: what it refuses, what it keeps, what it says.
#![cfg(all(feature = "cli", feature = "train"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn run(at: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_earthmover-ssl"))
        .args(arguments)
        .current_dir(at)
        .output()
        .unwrap()
}

/// Code, standard output, standard error.
fn told(output: &Output) -> (i32, String, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

const SMALL: [&str; 12] = [
    "--steps",
    "4",
    "--batch",
    "4",
    "--ratio",
    "2",
    "--model",
    "mlp-8",
    "--evaluate-every",
    "2",
    "--output",
    "out",
];

fn train(at: &Path, more: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["train"]
        .iter()
        .chain(&SMALL)
        .chain(more)
        .copied()
        .collect();
    told(&run(at, &arguments))
}

/// An array as NumPy writes it.
fn npy(path: &Path, kind: &str, shape: &[usize], bytes: &[u8]) {
    let sizes: Vec<String> = shape.iter().map(|s| format!("{s},")).collect();
    let header = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}\n",
        sizes.join(" ")
    );
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(bytes);
    std::fs::write(path, file).unwrap();
}

fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn integers(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn two_settings_of_one_method_are_two_runs() {
    let at = place("settings");
    let (code, out, err) = train(&at, &["--method", "sla tolerance=0.9,sla tolerance=0.001"]);
    assert_eq!(code, 0, "{err}");
    assert!(at.join("out/sla-tolerance-0.9-seed1/summary.json").exists());
    assert!(
        at.join("out/sla-tolerance-0.001-seed1/summary.json")
            .exists()
    );
    assert!(
        out.contains("SLA (tolerance 0.9)") && out.contains("SLA (tolerance 0.001)"),
        "{out}"
    );
    let (code, _, err) = train(&at, &["--method", "sla,sla", "--overwrite"]);
    assert!(code == 2 && err.contains("twice"), "{err}");
}

#[test]
fn a_second_start_replaces_nothing_unless_that_is_meant() {
    let at = place("second");
    let method = ["--method", "supervised"];
    let (code, out, err) = train(&at, &method);
    assert_eq!(code, 0, "{err}");
    // Without a terminal: a line at every evaluation, from the first step on.
    for step in ["step 0", "step 2", "step 4"] {
        assert!(out.contains(step), "{out}");
    }
    let settings = at.join("out/supervised-only-seed1/settings.json");
    let before = std::fs::metadata(&settings).unwrap().modified().unwrap();
    let (code, _, err) = train(&at, &method);
    assert!(code == 2 && err.contains("--overwrite"), "{err}");
    assert_eq!(
        std::fs::metadata(&settings).unwrap().modified().unwrap(),
        before
    );
    let with = |more: &[&str]| train(&at, &[&method, more].concat());
    assert_eq!(with(&["--resume"]).0, 0);
    assert_eq!(with(&["--overwrite"]).0, 0);
    let (code, out, err) = with(&["--resume", "--steps=8"]);
    assert!(code == 0 && out.contains("step 8"), "{out}{err}");
    // Readers of event files forget what was said of the step that a run goes on from: it is said again.
    let files = std::fs::read_dir(at.join("out/supervised-only-seed1")).unwrap();
    let events = files.map(|e| e.unwrap().path());
    let events = events.filter(|p| p.to_string_lossy().contains("tfevents"));
    let said: Vec<usize> = events
        .map(|path| {
            let bytes = std::fs::read(path).unwrap();
            let name = b"test/error_percent";
            bytes.windows(name.len()).filter(|w| w == name).count()
        })
        .collect();
    assert_eq!(said, [3, 3], "steps 0, 2, 4 and steps 4, 6, 8");
}

#[test]
fn what_has_no_effect_is_refused_or_said() {
    let at = place("effects");
    for (arguments, told) in [
        (
            &["--method", "fixmatch", "--gamma", "10"][..],
            "--gamma is a setting of sla",
        ),
        (&["--seeds", "1,1"], "seed 1 is given twice"),
        (&["--device", "cuda:7"], "cuda:7"),
        (&["--size", "32"], "--size is for folders"),
        (
            &[
                "--batch",
                "1000000",
                "--ratio",
                "1",
                "--model",
                "cnn-512-512",
            ],
            "GB of memory",
        ),
        (&["--model", "mlp-100000-100000"], "GB of memory"),
        (&["--momentum", "1"], "the momentum is 1"),
        (&["--clip", "0"], "above 0"),
        // A plan is checked like a run.
        (&["--init", "nowhere.safetensors", "--dry-run"], "nowhere"),
    ] {
        let (code, _, err) = train(&at, arguments);
        assert!(code == 2 && err.contains(told), "{arguments:?}: {err}");
    }
    assert!(!at.join("out").exists());
    for (arguments, told) in [
        (&["--tolerance", "5"][..], "tolerance of 5 is met by any"),
        (&["--ema", "1"], "ema is 1"),
        (&["--cutout", "30"], "covers the whole image"),
        (
            &[
                "--bounds",
                "0.01,0.01,0.01,0.01,0.01,0.01,0.01,0.01,0.01,0.01",
            ],
            "sum to 0.100",
        ),
        (
            &["--labels", "5", "--split", "label_dist"],
            "have no labeled example",
        ),
    ] {
        let (code, _, err) = train(
            &at,
            &[&["--method", "sla", "--overwrite"], arguments].concat(),
        );
        assert!(code == 0 && err.contains(told), "{arguments:?}: {err}");
    }
    // The last of them tells the reader of the report, too, and the classes have their names.
    let page = std::fs::read_to_string(at.join("out/report.html")).unwrap();
    assert!(page.contains("have no labeled example"));
    let (code, _, _) = told(&run(&at, &["report", "out", "--output", "again.html"]));
    let again = std::fs::read_to_string(at.join("again.html")).unwrap();
    assert!(code == 0 && again.contains("Class by class") && !again.contains("class 3"));
}

/// Rows of two features around two centres; class by class.
fn points(n: usize) -> (Vec<f32>, Vec<i64>) {
    let centre = |i: usize| if i.is_multiple_of(2) { -2.0 } else { 2.0 };
    let noise = |i: usize| ((i * 7919) % 101) as f32 / 101.0 - 0.5;
    let x = (0..n).flat_map(|i| [centre(i) + noise(i), centre(i) + noise(i + 50)]);
    (x.collect(), (0..n).map(|i| (i % 2) as i64).collect())
}

#[test]
fn from_unlabeled_arrays_to_labels_and_predictions() {
    let at = place("arrays");
    let data = at.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let (x, truth) = points(200);
    let known: Vec<i64> = truth
        .iter()
        .enumerate()
        .map(|(i, &y)| if i < 8 { y } else { -1 })
        .collect();
    npy(&data.join("x_train.npy"), "<f4", &[200, 2], &singles(&x));
    npy(&data.join("y_train.npy"), "<i8", &[200], &integers(&known));
    let arguments = [
        "--dataset",
        "arrays",
        "--data",
        "data",
        "--method",
        "sla",
        "--steps=150",
    ];
    let (code, out, err) = train(&at, &arguments);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("the error is not measured"), "{err}");
    // Where there is nothing to evaluate a line still says how it goes.
    assert!(
        out.contains("SLA              seed 1: step 2, loss"),
        "{out}"
    );
    assert!(
        out.contains("8 with a label") && out.contains("labels: earthmover-ssl labels"),
        "{out}"
    );
    let (code, out, err) = told(&run(&at, &["labels", "out/sla-seed1", "-o", "labels.npy"]));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("8 labels were given"), "{out}");
    let bytes = std::fs::read(at.join("labels.npy")).unwrap();
    let labels: Vec<i64> = bytes[bytes.len() - 1600..]
        .chunks(8)
        .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let right = labels.iter().zip(&truth).filter(|(a, b)| a == b).count();
    assert!(right > 180, "{right} of 200");
    std::fs::write(at.join("new.csv"), "-2,-2\n2.5,2\n").unwrap();
    let (code, _, err) = told(&run(
        &at,
        &["predict", "out/sla-seed1", "new.csv", "-o", "p.csv"],
    ));
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let classes: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(1).unwrap())
        .collect();
    assert_eq!(classes, ["0", "1"], "{text}");
    let over = ["predict", "out/sla-seed1", "new.csv", "-o", "./new.csv"];
    let (code, _, err) = told(&run(&at, &over));
    assert!(code == 2 && err.contains("over another file"), "{err}");
    let (code, out, _) = told(&run(&at, &["labels", "out/sla-seed1", "--json"]));
    let answer: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert!(code == 0 && answer["given"] == 8, "{out}");
    // A log that is lost is no reason to lose the weights, and a page without one says so.
    let log = at.join("out/sla-seed1/steps.csv");
    std::fs::remove_file(&log).unwrap();
    let (code, _, err) = told(&run(&at, &["report", "out"]));
    assert!(code == 2 && err.contains("it is missing"), "{err}");
    let arguments = [&arguments[..], &["--steps=160"]].concat();
    let (code, _, err) = train(&at, &[&arguments[..], &["--resume"]].concat());
    assert!(code == 0 && log.exists(), "{err}");
    // What is no number is named by its file.
    let damaged = [&[f32::NAN][..], &x[1..]].concat();
    npy(
        &data.join("x_train.npy"),
        "<f4",
        &[200, 2],
        &singles(&damaged),
    );
    let (code, _, err) = train(&at, &[&arguments[..], &["--resume"]].concat());
    assert!(code == 2 && err.contains("x_train.npy: feature 0"), "{err}");
    // Data that have changed are noticed; a column that is no labels, too.
    npy(
        &data.join("x_train.npy"),
        "<f4",
        &[200, 2],
        &singles(&vec![0.5; 400]),
    );
    let (code, _, err) = train(&at, &[&arguments[..], &["--resume"]].concat());
    assert!(
        code == 2 && err.contains("other data") || err.contains("not"),
        "{err}"
    );
    npy(
        &data.join("y_train.npy"),
        "<i8",
        &[200],
        &integers(&vec![999_999; 200]),
    );
    let (code, _, err) = train(&at, &[&arguments[..], &["--overwrite"]].concat());
    assert!(code == 2 && err.contains("label 999999"), "{err}");
}

#[test]
fn a_list_of_labeled_examples_is_what_is_labeled() {
    let at = place("listed");
    std::fs::write(
        at.join("list.txt"),
        "# ours\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n",
    )
    .unwrap();
    let (code, out, err) = train(&at, &["--labeled", "list.txt", "--method", "supervised"]);
    assert!(code == 0 && out.contains("10 with a label"), "{out}{err}");
    std::fs::write(at.join("list.txt"), "0\n0\n").unwrap();
    let (code, _, err) = train(&at, &["--labeled", "list.txt", "--overwrite"]);
    assert!(code == 2 && err.contains("named twice"), "{err}");
}

#[test]
fn plans_are_said_and_objects_are_for_programs() {
    let at = place("plans");
    std::fs::write(
        at.join("run.toml"),
        "method = \"fixmatch\"\nseeds = \"1..3\"\nlr = 0.01\n",
    )
    .unwrap();
    let (code, out, err) = train(&at, &["--config", "run.toml", "--dry-run"]);
    assert!(
        code == 0 && out.matches("would run").count() == 3,
        "{out}{err}"
    );
    assert!(!at.join("out").exists());
    let (code, out, _) = train(&at, &["--json", "--method", "supervised"]);
    assert_eq!(code, 0);
    let events: Vec<serde_json::Value> = out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(
        events
            .iter()
            .any(|e| e["event"] == "evaluation" && e["step"] == 2)
    );
    assert!(
        events
            .iter()
            .any(|e| e["event"] == "run" && e["summary"]["finished"] == true)
    );
    let completions = told(&run(&at, &["completions", "bash"]));
    assert!(completions.0 == 0 && completions.1.contains("allocate"));
}

#[test]
fn experiments_check_first_keep_results_and_fail_loudly() {
    let at = place("experiments");
    let grid = |methods: &str, seeds: &str, changes: &str| {
        format!(
            "name = \"t\"\noutput = \"exp\"\n[[grid]]\ntitle = \"g\"\npreset = \"digits\"\nlabels = [20]\nmethods = [{methods}]\n\
             seeds = [{seeds}]\nchanges = {{ steps = 3, batch = 4, ratio = 2, model = \"mlp-8\" {changes} }}\n"
        )
    };
    let file = at.join("e.toml");
    let experiments = |text: String| {
        std::fs::write(&file, text).unwrap();
        told(&run(&at, &["experiments", "e.toml"]))
    };
    // One wrong run among good ones: none is started.
    let (code, _, err) = experiments(grid("\"supervised\", \"sla bounds=0.5,0.5\"", "1", ""));
    assert!(code == 2 && err.contains("nothing was run"), "{err}");
    assert!(!at.join("exp/g").exists());
    let (code, _, err) = experiments(grid("\"supervised\"", "1, 1", ""));
    assert!(code == 2 && err.contains("given twice"), "{err}");
    let good = grid("\"supervised\"", "1", "");
    assert_eq!(experiments(good.clone()).0, 0);
    let table = std::fs::read_to_string(at.join("exp/results.csv")).unwrap();
    assert!(table.contains(",finished,"));
    // The run is spoilt, and its loss is no number: a failure, an exit code, and the old result stays.
    std::fs::remove_dir_all(at.join("exp/g")).unwrap();
    let (code, out, _) = experiments(grid("\"supervised\"", "1", ", learning-rate = 1e30"));
    assert!(code == 1 && out.contains("FAILED"), "{out}");
    let kept = std::fs::read_to_string(at.join("exp/results.csv")).unwrap();
    assert!(
        kept.contains(",finished,") && !kept.contains(",failed,"),
        "{kept}"
    );
    // A sweep over two settings is all of their combinations.
    let swept = format!(
        "{}sweep = {{ learning-rate = [0.01, 0.03], gamma = [10, 100] }}\n",
        grid("\"sla\"", "1", "")
    );
    std::fs::remove_dir_all(at.join("exp")).unwrap();
    let (code, _, err) = experiments(swept);
    assert_eq!(code, 0, "{err}");
    let table = std::fs::read_to_string(at.join("exp/results.csv")).unwrap();
    assert_eq!(table.matches(",finished,").count(), 4);
    assert!(table.contains("gamma 10, learning-rate 0.03"), "{table}");
}

#[test]
fn logits_become_labels_within_bounds() {
    let at = place("allocate");
    // Everything looks like class 0, some of it less so.
    let n = 90;
    let logits: Vec<f32> = (0..n)
        .flat_map(|i| [3.0, 0.03 * i as f32, 0.02 * ((i * 7) % n) as f32])
        .collect();
    npy(&at.join("l.npy"), "<f4", &[n, 3], &singles(&logits));
    npy(
        &at.join("y.npy"),
        "<i8",
        &[6],
        &integers(&[0, 1, 2, 0, 1, 2]),
    );
    let base = [
        "allocate",
        "--logits",
        "l.npy",
        "--bounds",
        "empirical:y.npy",
        "--rho",
        "0.9",
    ];
    let more = ["--out", "q.npy", "--labels", "l.csv", "--table", "t.csv"];
    let (code, out, err) = told(&run(&at, &[&base[..], &more].concat()));
    assert!(code == 0 && out.contains("certificate"), "{out}{err}");
    let text = std::fs::read_to_string(at.join("l.csv")).unwrap();
    let counts = |class: &str| {
        let column = text.lines().skip(1).map(|l| l.split(',').nth(1).unwrap());
        column.filter(|c| *c == class).count()
    };
    assert_eq!(text.lines().count(), n + 1);
    for class in ["0", "1", "2"] {
        assert!(
            (15..=32).contains(&counts(class)),
            "{class}: {}",
            counts(class)
        );
    }
    assert!(counts("") > 0, "some abstain");
    // A header of whole lines of 64 bytes, then n × k numbers.
    let soft = std::fs::read(at.join("q.npy")).unwrap();
    assert!(
        (soft.len() - n * 3 * 4).is_multiple_of(64),
        "{}",
        soft.len()
    );
    let (code, out, _) = told(&run(&at, &[&base[..], &["--json"]].concat()));
    let answer: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert!(
        code == 0
            && answer["certificate"]["dual"].as_f64() <= answer["certificate"]["primal"].as_f64()
    );
    for (wrong, told_) in [
        (&["--bounds", "0.5,0.5"][..], "2 shares for 3 classes"),
        (&["--rho", "1.5"], "rho"),
        (&["--labels", "l.txt"], ".csv or .npy"),
        (&["--bounds", "wilson:0.8"], "wilson:0.8:y.npy"),
        (&["--out", "nowhere/q.npy"], "nowhere"),
        (&["--out", "q.npy", "--labels", "nowhere/l.csv"], "nowhere"),
        // Nothing is written over what is read, or over each other.
        (&["--labels", "l.npy"], "over another file"),
        (&["--out", "./l.npy"], "over another file"),
        (
            &["--out", "z.npy", "--labels", "z.npy"],
            "over another file",
        ),
        (
            &["--bounds", "empirical:y.npy", "--out", "y.npy"],
            "over another file",
        ),
    ] {
        let (code, _, err) = told(&run(
            &at,
            &[&["allocate", "--logits", "l.npy"], wrong].concat(),
        ));
        assert!(code == 2 && err.contains(told_), "{wrong:?}: {err}");
    }
    let left = std::fs::read_dir(&at)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    assert!(
        !left
            .into_iter()
            .any(|n| n.to_string_lossy().ends_with(".part"))
    );
    npy(
        &at.join("p.npy"),
        "<f4",
        &[2, 2],
        &singles(&[0.5, 0.5, 0.9, 0.1]),
    );
    let (code, _, err) = told(&run(&at, &["allocate", "--logits", "p.npy"]));
    assert!(code == 0 && err.contains("Give their logarithms"), "{err}");
}

#[test]
fn files_that_are_passed_over_are_named() {
    let at = place("folder");
    for (i, class) in ["a", "b", "unlabeled", "a/deeper"].iter().enumerate() {
        let folder = at.join("photos").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        for j in 0..4 {
            let grey = |_, _| image::Luma([(60 * i + 7 * j) as u8]);
            let picture = image::GrayImage::from_fn(8, 8, grey);
            picture.save(folder.join(format!("{j}.png"))).unwrap();
        }
    }
    std::fs::write(at.join("photos/b/x.webp"), "?").unwrap();
    std::fs::write(at.join("photos/b/.hidden"), "?").unwrap();
    let (code, out, err) = train(
        &at,
        &[
            "--dataset",
            "folder",
            "--data",
            "photos",
            "--device",
            "auto",
        ],
    );
    assert!(
        code == 0 && out.contains("12 training examples"),
        "{out}{err}"
    );
    assert!(
        err.contains("5 files are not used") && err.contains("a/deeper/0.png"),
        "{err}"
    );
    // Where it was computed is what is recorded.
    let settings = std::fs::read_to_string(at.join("out/sla-seed1/settings.json")).unwrap();
    assert!(!settings.contains("auto"), "{settings}");
}
