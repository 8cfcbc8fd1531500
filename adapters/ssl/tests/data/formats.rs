//! Every loader on small files written here by an encoder of its own, whole and damaged.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use earthmover_ssl::data::{
    DataError, Kind, Samples, Shape, UNLABELED, arrays, cifar, digits, folder, idx, mat, npy, svhn,
};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// A folder that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("earthmover-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn pixels(part: &earthmover_ssl::data::Part) -> &[u8] {
    match part.samples() {
        Samples::Pixels(p) => p,
        _ => panic!("images expected"),
    }
}

fn features(part: &earthmover_ssl::data::Part) -> &[f32] {
    match part.samples() {
        Samples::Features(f) => f,
        _ => panic!("features expected"),
    }
}

/// Bytes without a pattern that a wrong stride could hide.
fn noise(count: usize, salt: u32) -> Vec<u8> {
    (0..count as u32)
        .map(|i| ((i.wrapping_mul(2_654_435_761) ^ salt) >> 13) as u8)
        .collect()
}

// Digits.

#[test]
fn digits_are_whole_and_split_in_proportion() {
    let all = digits::all().unwrap();
    assert_eq!(all.len(), 1797);
    // Counts as published with the set.
    assert_eq!(
        all.class_counts(10),
        [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    );
    assert_eq!(
        all.shape(),
        Shape::Image {
            height: 8,
            width: 8,
            channels: 1
        }
    );
    // First row of the first image in the original file: 0 0 5 13 9 1 0 0.
    let scaled = [0u16, 0, 5, 13, 9, 1, 0, 0].map(|v| ((v * 255 + 8) / 16) as u8);
    assert_eq!(all.image(0).unwrap()[..8], scaled);
    assert_eq!(pixels(&all).iter().max(), Some(&255));

    let set = digits::load().unwrap();
    assert_eq!((set.train.len(), set.test.len()), (1437, 360));
    for (c, &n) in set.test.class_counts(10).iter().enumerate() {
        let share = 360.0 * all.class_counts(10)[c] as f64 / 1797.0;
        assert!((n as f64 - share).abs() < 1.0, "class {c}: {n} of {share}");
    }
    assert_eq!(set, digits::load().unwrap());
    assert!(set.licence.contains("CC BY 4.0"));
}

// IDX.

fn idx_file(sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|s| s.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn write_idx(dir: &Scratch, gz: bool) {
    for (prefix, n) in [("train", 12u32), ("t10k", 5)] {
        let images = idx_file(&[n, 4, 3], &noise(n as usize * 12, n));
        let labels = idx_file(&[n], &(0..n).map(|i| (i % 10) as u8).collect::<Vec<_>>());
        if gz {
            dir.write(&format!("{prefix}-images-idx3-ubyte.gz"), &gzip(&images));
            dir.write(&format!("{prefix}-labels-idx1-ubyte.gz"), &gzip(&labels));
        } else {
            dir.write(&format!("{prefix}-images.idx3-ubyte"), &images);
            dir.write(&format!("{prefix}-labels.idx1-ubyte"), &labels);
        }
    }
}

#[test]
fn idx_plain_and_gzipped_agree() {
    let (plain, packed) = (Scratch::new("idx-plain"), Scratch::new("idx-gz"));
    write_idx(&plain, false);
    write_idx(&packed, true);
    let a = idx::mnist(&plain.0).unwrap();
    assert_eq!(a, idx::mnist(&packed.0).unwrap());
    assert_eq!((a.train.len(), a.test.len()), (12, 5));
    assert_eq!(
        a.shape(),
        Shape::Image {
            height: 4,
            width: 3,
            channels: 1
        }
    );
    assert_eq!(pixels(&a.train), noise(144, 12));
    assert_eq!(a.test.labels(), [0, 1, 2, 3, 4]);
}

#[test]
fn idx_damage_is_told_apart() {
    let dir = Scratch::new("idx-bad");
    write_idx(&dir, false);
    let labels = dir.0.join("train-labels.idx1-ubyte");
    let images = dir.0.join("train-images.idx3-ubyte");
    let good = fs::read(&images).unwrap();
    for cut in 0..good.len() {
        dir.write("cut", &good[..cut]);
        let error = idx::read(&dir.0.join("cut"), &labels, "").unwrap_err();
        assert!(
            matches!(error, DataError::Length { found, .. } if found == cut as u64),
            "{cut}: {error}"
        );
    }
    let mut long = good.clone();
    long.push(0);
    dir.write("long", &long);
    assert!(matches!(
        idx::read(&dir.0.join("long"), &labels, ""),
        Err(DataError::Length { .. })
    ));
    // Labels in the place of images.
    assert!(matches!(
        idx::read(&labels, &labels, ""),
        Err(DataError::Corrupt { .. } | DataError::Length { .. })
    ));
    // A header that claims 2⁹⁶ pixels.
    dir.write("huge", &idx_file(&[u32::MAX; 3], &[1, 2, 3]));
    assert!(matches!(
        idx::read(&dir.0.join("huge"), &labels, ""),
        Err(DataError::Length { .. })
    ));
    // Three labels for twelve images.
    dir.write("few", &idx_file(&[3], &[1, 2, 3]));
    let error = idx::read(&images, &dir.0.join("few"), "").unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Count {
                examples: 12,
                labels: 3,
                ..
            }
        ),
        "{error}"
    );
    // A gzip stream cut in the middle.
    let packed = gzip(&good);
    dir.write("cut.gz", &packed[..packed.len() / 2]);
    assert!(matches!(
        idx::read(&dir.0.join("cut.gz"), &labels, ""),
        Err(DataError::Corrupt { .. })
    ));
    // Labels outside the ten classes.
    dir.write("t10k-labels.idx1-ubyte", &idx_file(&[5], &[0, 1, 10, 2, 3]));
    let error = idx::mnist(&dir.0).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Label {
                index: 2,
                label: 10,
                classes: 10,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_missing_file_says_which_and_how_to_get_it() {
    let dir = Scratch::new("missing");
    let text = idx::fashion_mnist(&dir.0).unwrap_err().to_string();
    assert!(
        text.contains("train-images-idx3-ubyte") && text.contains("dataset-fashion-mnist"),
        "{text}"
    );
    let text = cifar::cifar10(&dir.0).unwrap_err().to_string();
    assert!(
        text.contains("data_batch_1.bin") && text.contains("cifar-10-binary.tar.gz"),
        "{text}"
    );
    let text = cifar::cifar100(&dir.0).unwrap_err().to_string();
    assert!(
        text.contains("train.bin") && text.contains("cifar-100-binary.tar.gz"),
        "{text}"
    );
    let text = svhn::load(&dir.0).unwrap_err().to_string();
    assert!(
        text.contains("train_32x32.mat") && text.contains("housenumbers"),
        "{text}"
    );
    let text = arrays::load(&dir.0).unwrap_err().to_string();
    assert!(
        text.contains("x_train.npy") && text.contains("numpy.save"),
        "{text}"
    );
    let text = folder::load(&dir.0.join("nowhere"), folder::Size::AsStored)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("nowhere") && text.contains("<class>"),
        "{text}"
    );
    let text = "imagenet".parse::<Kind>().unwrap_err().to_string();
    assert!(
        text.contains("imagenet") && text.contains("fashion-mnist"),
        "{text}"
    );
}

// CIFAR.

#[test]
fn cifar_planes_are_interleaved_and_fine_labels_taken() {
    let dir = Scratch::new("cifar");
    let (mut ten, mut hundred, mut planes) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..3u8 {
        let image = noise(3072, u32::from(i));
        ten.extend([&[i + 7][..], &image].concat());
        hundred.extend([&[i, 97 + i][..], &image].concat());
        planes.push(image);
    }
    let a = cifar::read_cifar10(&dir.write("ten.bin", &ten)).unwrap();
    let b = cifar::read_cifar100(&dir.write("hundred.bin.gz", &gzip(&hundred))).unwrap();
    assert_eq!(a.labels(), [7, 8, 9]);
    assert_eq!(b.labels(), [97, 98, 99]);
    assert_eq!(a.samples(), b.samples());
    for (n, plane) in planes.iter().enumerate() {
        let image = a.image(n).unwrap();
        for (y, x, c) in [(0, 0, 0), (0, 1, 2), (5, 30, 1), (31, 31, 2)] {
            assert_eq!(image[(y * 32 + x) * 3 + c], plane[c * 1024 + y * 32 + x]);
        }
    }
    // One as the other: no whole number of records.
    assert!(matches!(
        cifar::read_cifar10(&dir.0.join("hundred.bin.gz")),
        Err(DataError::Length { .. })
    ));
    let cut = dir.write("cut.bin", &ten[..5000]);
    let error = cifar::read_cifar10(&cut).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Length {
                expected: 6146,
                found: 5000,
                ..
            }
        ),
        "{error}"
    );
    ten[3073] = 10;
    let error = cifar::read_cifar10(&dir.write("label.bin", &ten)).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::Label {
                index: 1,
                label: 10,
                ..
            }
        ),
        "{error}"
    );
    assert!(matches!(
        cifar::read_cifar10(&dir.write("empty.bin", &[])),
        Err(DataError::Length { found: 0, .. })
    ));
    // A batch of the official folder must be whole.
    dir.write("data_batch_1.bin", &ten);
    let text = cifar::cifar10(&dir.0).unwrap_err().to_string();
    assert!(text.contains("30730000") && text.contains("9219"), "{text}");
}

// MATLAB 5 and SVHN.

fn mat_element(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [kind.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Short data within the tag itself.
fn mat_small(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = [kind.to_le_bytes(), (data.len() as u16).to_le_bytes()].concat();
    bytes.extend(data);
    bytes.resize(8, 0);
    bytes
}

fn mat_array(name: &str, class: u32, dims: &[u32], values: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
    let flags = [class.to_le_bytes(), [0; 4]].concat();
    let parts = [
        mat_element(6, &flags),
        mat_element(5, &dims),
        mat_small(1, name.as_bytes()),
        mat_element(2, values),
    ];
    mat_element(14, &parts.concat())
}

fn mat_packed(element: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(element).unwrap();
    let packed = encoder.finish().unwrap();
    [
        &15u32.to_le_bytes()[..],
        &(packed.len() as u32).to_le_bytes(),
        &packed,
    ]
    .concat()
}

fn mat_file(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![b' '; 124];
    bytes.extend([0, 1, b'I', b'M']);
    bytes.extend(elements.concat());
    bytes
}

#[test]
fn svhn_is_transposed_and_ten_becomes_zero() {
    let dir = Scratch::new("svhn");
    let n = 4;
    let bytes = noise(3072 * n, 9);
    let x = mat_array("X", 9, &[32, 32, 3, n as u32], &bytes);
    // Labels of class double in byte storage, as MATLAB writes them.
    let y = mat_array("y", 6, &[n as u32, 1], &[1, 10, 9, 5]);
    let plain = svhn::read(&dir.write("plain.mat", &mat_file(&[x.clone(), y.clone()]))).unwrap();
    let packed =
        svhn::read(&dir.write("packed.mat", &mat_file(&[mat_packed(&x), mat_packed(&y)]))).unwrap();
    assert_eq!(plain, packed);
    assert_eq!(plain.labels(), [1, 0, 9, 5]);
    for (i, h, w, c) in [(0, 0, 0, 0), (1, 3, 0, 0), (2, 0, 7, 1), (3, 31, 30, 2)] {
        assert_eq!(
            plain.image(i).unwrap()[(h * 32 + w) * 3 + c],
            bytes[h + 32 * (w + 32 * (c + 3 * i))]
        );
    }
}

#[test]
fn damaged_mat_files_are_refused_wherever_they_are_cut() {
    let dir = Scratch::new("mat-bad");
    let x = mat_array("X", 9, &[32, 32, 3, 2], &noise(6144, 1));
    let y = mat_array("y", 9, &[2, 1], &[1, 2]);
    for good in [
        mat_file(&[x.clone(), y.clone()]),
        mat_file(&[mat_packed(&x), mat_packed(&y)]),
    ] {
        for cut in (0..good.len()).step_by(37) {
            assert!(
                svhn::read(&dir.write("cut.mat", &good[..cut])).is_err(),
                "cut at {cut}"
            );
        }
        for at in (124..good.len()).step_by(61) {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            // Any answer but a panic: a flipped pixel is a valid pixel.
            let _ = svhn::read(&dir.write("flip.mat", &bad));
        }
    }
    let text = svhn::read(&dir.write("no-y.mat", &mat_file(&[x])))
        .unwrap_err()
        .to_string();
    assert!(text.contains("named y") && text.contains("\"X\""), "{text}");
    let text = svhn::read(&dir.write("v73.mat", &[b'H'; 600]))
        .unwrap_err()
        .to_string();
    assert!(text.contains("version 5"), "{text}");
    let bad = mat_file(&[
        mat_array("X", 9, &[32, 32, 3, 1], &noise(3072, 0)),
        mat_array("y", 9, &[1, 1], &[11]),
    ]);
    assert!(matches!(
        svhn::read(&dir.write("eleven.mat", &bad)),
        Err(DataError::Label { label: 11, .. })
    ));
}

#[test]
fn mat_reads_every_numeric_type() {
    let dir = Scratch::new("mat-types");
    let mut values = vec![
        (7u32, 1.5f32.to_le_bytes().to_vec()),
        (9, (-2.25f64).to_le_bytes().to_vec()),
    ];
    values.push((3, (-3i16).to_le_bytes().to_vec()));
    values.push((5, (-70_000i32).to_le_bytes().to_vec()));
    let arrays: Vec<Vec<u8>> = values
        .iter()
        .map(|(kind, data)| {
            let dims = [1u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
            let flags = [6u32.to_le_bytes(), [0; 4]].concat();
            let value = if data.len() <= 4 {
                mat_small(*kind as u16, data)
            } else {
                mat_element(*kind, data)
            };
            let parts = [
                mat_element(6, &flags),
                mat_element(5, &dims),
                mat_element(1, b"a long name"),
                value,
            ];
            mat_element(14, &parts.concat())
        })
        .collect();
    let read = mat::read(&dir.write("types.mat", &mat_file(&arrays)), "").unwrap();
    let numbers: Vec<f64> = read
        .iter()
        .map(|a| match &a.values {
            mat::MatValues::Numbers(n) => n[0],
            mat::MatValues::Bytes(b) => f64::from(b[0]),
        })
        .collect();
    assert_eq!(numbers, [1.5, -2.25, -3.0, -70_000.0]);
    assert_eq!(read[0].name, "a long name");
}

// NumPy.

fn npy_file(major: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(header.len() + 13).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([major, 0]);
    if major == 1 {
        bytes.extend((header.len() as u16).to_le_bytes());
    } else {
        bytes.extend((header.len() as u32).to_le_bytes());
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_orders_types_and_versions() {
    let dir = Scratch::new("npy");
    let c: Vec<f32> = (0..24).map(|v| v as f32 / 3.0).collect();
    let c_bytes: Vec<u8> = c.iter().flat_map(|v| v.to_le_bytes()).collect();
    // Element (i, j, k) of a 2×3×4 array is at i + 2 (j + 3 k) in Fortran order.
    let mut f = [0.0f32; 24];
    for (at, &v) in c.iter().enumerate() {
        let (i, j, k) = (at / 12, at / 4 % 3, at % 4);
        f[i + 2 * (j + 3 * k)] = v;
    }
    let f_bytes: Vec<u8> = f.iter().flat_map(|v| v.to_be_bytes()).collect();
    for version in 1..=3 {
        let a = npy::read(&dir.write(
            "c.npy",
            &npy_file(version, "<f4", false, "(2, 3, 4)", &c_bytes),
        ))
        .unwrap();
        let b = npy::read(&dir.write(
            "f.npy",
            &npy_file(version, ">f4", true, "(2, 3, 4)", &f_bytes),
        ))
        .unwrap();
        assert_eq!(a.values, npy::NpyValues::F32(c.clone()));
        assert_eq!(a, b);
        assert_eq!(a.shape, [2, 3, 4]);
    }
    let scalar = npy::read(&dir.write(
        "s.npy",
        &npy_file(1, "<f8", false, "()", &2.5f64.to_le_bytes()),
    ))
    .unwrap();
    assert_eq!(
        (scalar.shape.len(), scalar.values),
        (0, npy::NpyValues::F64(vec![2.5]))
    );
    let wide: Vec<u8> = [-1i64, 1 << 40]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let wide = npy::read(&dir.write("i.npy", &npy_file(1, "<i8", false, "(2,)", &wide))).unwrap();
    assert_eq!(wide.values, npy::NpyValues::I64(vec![-1, 1 << 40]));
}

#[test]
fn npy_damage() {
    let dir = Scratch::new("npy-bad");
    let good = npy_file(1, "<f8", false, "(3, 2)", &[0; 48]);
    for cut in 0..good.len() {
        assert!(
            npy::read(&dir.write("cut.npy", &good[..cut])).is_err(),
            "cut at {cut}"
        );
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        let _ = npy::read(&dir.write("flip.npy", &bad));
    }
    let text = npy::read(&dir.write("o.npy", &npy_file(1, "|O", false, "(1,)", &[0; 8])))
        .unwrap_err()
        .to_string();
    assert!(text.contains("|O"), "{text}");
    let huge = npy_file(
        1,
        "<f8",
        false,
        "(18446744073709551615, 18446744073709551615)",
        &[],
    );
    assert!(matches!(
        npy::read(&dir.write("huge.npy", &huge)),
        Err(DataError::Length { .. })
    ));
}

#[test]
fn npy_sizes_that_overflow_on_the_way_to_nothing() {
    for shape in [
        "(0, 3, 1099511627776, 1099511627776)",
        "(1099511627776, 1099511627776, 0)",
    ] {
        for fortran in [false, true] {
            let file = npy_file(1, "|u1", fortran, shape, &[]);
            let read = npy::from_bytes(&file, Path::new("x.npy"));
            assert!(matches!(read, Err(DataError::Corrupt { .. })), "{read:?}");
        }
    }
    let none = npy_file(1, "|u1", true, "(0, 3, 4)", &[]);
    let none = npy::from_bytes(&none, Path::new("x.npy")).unwrap();
    assert_eq!(
        (none.shape, none.values),
        (vec![0, 3, 4], npy::NpyValues::U8(vec![]))
    );
}

#[test]
fn a_message_repeats_no_more_of_a_file_than_can_be_read() {
    let shape = format!("({})", "1, ".repeat(5000));
    let cases = [
        npy_file(1, &"x".repeat(9000), false, "(1,)", &[0; 8]),
        npy_file(1, "<f8", false, &shape, &[]),
        npy_file(1, &"\u{1f4c8}".repeat(9000), false, &shape, &[]),
    ];
    for file in cases {
        let error = npy::from_bytes(&file, Path::new("x.npy")).unwrap_err();
        assert!(error.to_string().len() < 2000, "{error}");
    }
}

fn labels_npy(labels: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = labels.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy_file(1, "<i8", false, &format!("({},)", labels.len()), &bytes)
}

#[test]
fn arrays_make_tables_and_images() {
    let dir = Scratch::new("arrays");
    let rows: Vec<f64> = (0..40).map(f64::from).collect();
    let bytes: Vec<u8> = rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    dir.write("x.npy", &npy_file(1, "<f8", false, "(20, 2)", &bytes));
    dir.write(
        "y.npy",
        &labels_npy(&(0..20).map(|i| i % 2).collect::<Vec<_>>()),
    );
    let set = arrays::load(&dir.0).unwrap();
    assert_eq!(
        (set.train.len(), set.test.len(), set.classes.len()),
        (16, 4, 2)
    );
    assert_eq!(set.test.class_counts(2), [2, 2]);
    let mut seen: Vec<f32> = [features(&set.train), features(&set.test)].concat();
    seen.sort_by(f32::total_cmp);
    assert_eq!(seen, rows.iter().map(|&v| v as f32).collect::<Vec<_>>());

    // The same picture with its channels last and first.
    let picture = noise(2 * 4 * 5 * 3, 3);
    let mut planar = vec![0; picture.len()];
    for (at, &v) in picture.iter().enumerate() {
        let (n, y, x, c) = (at / 60, at / 15 % 4, at / 3 % 5, at % 3);
        planar[((n * 3 + c) * 4 + y) * 5 + x] = v;
    }
    let y = dir.write("labels.npy", &labels_npy(&[0, 1]));
    let last = arrays::read(
        &dir.write(
            "l.npy",
            &npy_file(1, "|u1", false, "(2, 4, 5, 3)", &picture),
        ),
        &y,
    )
    .unwrap();
    let first = arrays::read(
        &dir.write("f.npy", &npy_file(2, "|u1", false, "(2, 3, 4, 5)", &planar)),
        &y,
    )
    .unwrap();
    assert_eq!(last, first);
    assert_eq!(pixels(&last), picture);

    let bad = dir.write("bad.npy", &labels_npy(&[0, -2]));
    assert!(matches!(
        arrays::read(&dir.0.join("l.npy"), &bad),
        Err(DataError::Label {
            index: 1,
            label: -2,
            ..
        })
    ));
    let nan: Vec<u8> = [0.0f32, f32::NAN]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let nan = dir.write("nan.npy", &npy_file(1, "<f4", false, "(2, 1)", &nan));
    assert!(matches!(
        arrays::read(&nan, &y),
        Err(DataError::NotFinite {
            index: 1,
            feature: 0,
            ..
        })
    ));
}

// Folders of images.

fn png(path: &Path, height: u32, width: u32, shade: u8, colour: bool) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if colour {
        image::RgbImage::from_fn(width, height, |x, y| image::Rgb([shade, x as u8, y as u8]))
            .save(path)
            .unwrap();
    } else {
        image::GrayImage::from_fn(width, height, |x, _| image::Luma([shade + x as u8]))
            .save(path)
            .unwrap();
    }
}

#[test]
fn folders_are_classes() {
    let dir = Scratch::new("folder");
    for (class, shade) in [("zebra", 10), ("ant", 90)] {
        for i in 0..5 {
            png(
                &dir.0.join(class).join(format!("{i}.png")),
                4,
                6,
                shade + i,
                false,
            );
        }
        dir.write(&format!("{class}/notes.txt"), b"not an image");
    }
    let set = folder::load(&dir.0, folder::Size::AsStored).unwrap();
    assert_eq!(set.classes, ["ant", "zebra"]);
    assert_eq!((set.train.len(), set.test.len()), (8, 2));
    assert_eq!(
        set.shape(),
        Shape::Image {
            height: 4,
            width: 6,
            channels: 1
        }
    );
    for i in 0..8 {
        let shade = set.train.image(i).unwrap()[0];
        assert_eq!(set.train.labels()[i], u32::from(shade < 50));
    }
    // One colour image makes the set a colour set; one of another size needs a size for all.
    png(&dir.0.join("ant/big.png"), 9, 9, 50, true);
    let error = folder::load(&dir.0, folder::Size::AsStored).unwrap_err();
    assert!(
        matches!(error, DataError::Shape { .. }) && error.to_string().contains("big.png"),
        "{error}"
    );
    let set = folder::load(
        &dir.0,
        folder::Size::Scaled {
            height: 5,
            width: 5,
        },
    )
    .unwrap();
    assert_eq!(
        set.shape(),
        Shape::Image {
            height: 5,
            width: 5,
            channels: 3
        }
    );
    dir.write("ant/broken.png", b"\x89PNG\r\n\x1a\n and then nothing");
    let text = folder::load(&dir.0, folder::Size::AsStored)
        .unwrap_err()
        .to_string();
    assert!(text.contains("broken.png"), "{text}");
}

#[test]
fn folders_with_parts() {
    let dir = Scratch::new("folder-parts");
    for (part, shade) in [("train", 1), ("test", 2)] {
        for class in ["a", "b"] {
            let path = dir.0.join(part).join(class).join("0.png");
            png(&path, 3, 3, shade, true);
        }
    }
    let set = folder::load(&dir.0, folder::Size::AsStored).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (2, 2));
    assert_eq!(set.test.image(0).unwrap()[..6], [2, 0, 0, 2, 1, 0]);
    png(&dir.0.join("test/c/0.png"), 3, 3, 1, true);
    assert!(matches!(
        folder::load(&dir.0, folder::Size::AsStored),
        Err(DataError::Missing { .. })
    ));
}

/// Two JPEG files of Pillow, 16×8: the left half (200, 30, 40) and the right (20, 60, 180); all grey 77.
///
/// `im = Image.new('RGB', (16, 8), (200, 30, 40)); im.paste((20, 60, 180), (8, 0, 16, 8))`, saved with
/// `quality=95, subsampling=0`; `Image.new('L', (16, 8), 77)`, saved with `quality=90`.
#[test]
fn jpeg_files_are_decoded() {
    let colour = include_bytes!("../fixtures/two-colours.jpg");
    let grey = include_bytes!("../fixtures/grey.jpg");
    let dir = Scratch::new("folder-jpeg");
    for part in ["train", "test"] {
        dir.write(&format!("{part}/colour/a.jpg"), colour);
        dir.write(&format!("{part}/grey/b.JPEG"), grey);
    }
    let set = folder::load(&dir.0, folder::Size::AsStored).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (2, 2));
    let shape = Shape::Image {
        height: 8,
        width: 16,
        channels: 3,
    };
    assert_eq!(set.shape(), shape);
    // The code is lossy: within 3 levels of what was drawn.
    let near = |pixel: &[u8], wanted: [u8; 3]| {
        let off = pixel.iter().zip(wanted).map(|(a, b)| a.abs_diff(b)).max();
        assert!(off.unwrap() <= 3, "{pixel:?} {wanted:?}");
    };
    let image = set.train.image(0).unwrap();
    for y in 0..8 {
        near(&image[3 * (16 * y)..][..3], [200, 30, 40]);
        near(&image[3 * (16 * y + 15)..][..3], [20, 60, 180]);
    }
    near(&set.train.image(1).unwrap()[..3], [77, 77, 77]);

    dir.write("train/colour/cut.jpg", &colour[..200]);
    let text = folder::load(&dir.0, folder::Size::AsStored)
        .unwrap_err()
        .to_string();
    assert!(text.contains("cut.jpg") && text.contains("JPEG"), "{text}");
}

#[test]
fn unlabeled_images_are_no_class() {
    let dir = Scratch::new("unlabeled");
    for (class, count) in [("cat", 3), ("dog", 2), ("unlabeled", 7)] {
        for i in 0..count {
            png(
                &dir.0.join(class).join(format!("{i}.png")),
                4,
                4,
                10 * i + 1,
                false,
            );
        }
    }
    png(&dir.0.join("unlabeled/deeper/x.png"), 4, 4, 200, false);
    let set = folder::load(&dir.0, folder::Size::AsStored).unwrap();
    assert_eq!(set.classes, ["cat", "dog"]);
    assert_eq!(
        (set.train.len(), set.train.known(), set.test.len()),
        (13, 5, 0)
    );
    assert_eq!(set.train.name(0), "cat/0.png");
    assert_eq!(set.train.name(12), "unlabeled/deeper/x.png");
    assert_eq!(set.train.label(12), None);
    // The same with parts, and with a test part.
    let parts = Scratch::new("unlabeled-parts");
    for place in [
        "train/cat",
        "train/dog",
        "train/unlabeled",
        "test/dog",
        "unlabeled",
    ] {
        png(&parts.0.join(place).join("1.png"), 4, 4, 9, false);
    }
    let set = folder::load(&parts.0, folder::Size::AsStored).unwrap();
    assert_eq!(
        (
            set.classes.len(),
            set.train.len(),
            set.train.known(),
            set.test.len()
        ),
        (2, 4, 2, 1)
    );
    // Without a test part there is none.
    fs::remove_dir_all(parts.0.join("test")).unwrap();
    assert!(
        folder::load(&parts.0, folder::Size::AsStored)
            .unwrap()
            .test
            .is_empty()
    );
}

#[test]
fn a_list_labels_a_heap_of_images() {
    let dir = Scratch::new("list");
    for i in 0..6 {
        png(&dir.0.join(format!("heap/{i}.png")), 4, 4, i + 1, false);
    }
    dir.write(
        "labels.csv",
        b"file,label\nheap/0.png,b\nheap/3.png,\"a, or so\"\n",
    );
    let set = folder::load(&dir.0, folder::Size::AsStored).unwrap();
    assert_eq!(set.classes, ["a, or so", "b"]);
    let u = UNLABELED;
    assert_eq!(set.train.labels(), [1, u, u, 0, u, u]);
    for (text, told) in [
        ("heap/9.png,a\n", "9.png"),
        ("heap/0.png,a\nheap/0.png,b\n", "two different classes"),
        ("heap/0.png\n", "1 fields on line 1"),
    ] {
        dir.write("labels.csv", text.as_bytes());
        let error = folder::load(&dir.0, folder::Size::AsStored)
            .unwrap_err()
            .to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn images_on_the_disk_are_those_in_memory() {
    use folder::{Keep, Size};
    let dir = Scratch::new("kept");
    for (class, shade) in [("a", 10), ("b", 90)] {
        for i in 0..6u8 {
            png(
                &dir.0.join(class).join(format!("{i}.png")),
                5 + u32::from(i),
                9,
                shade + i,
                i % 2 == 0,
            );
        }
    }
    let size = Size::Cropped {
        height: 4,
        width: 4,
    };
    let kept = |keep| folder::load_kept(&dir.0, size, keep).unwrap();
    let (memory, disk) = (kept(Keep::InMemory), kept(Keep::OnDisk));
    assert!(matches!(disk.train.samples(), Samples::Files(_)));
    assert_eq!(
        (memory.train.len(), memory.shape()),
        (disk.train.len(), disk.shape())
    );
    for i in 0..memory.train.len() {
        assert_eq!(
            memory.train.read_image(i).unwrap(),
            disk.train.read_image(i).unwrap()
        );
        assert_eq!(memory.train.name(i), disk.train.name(i));
    }
    for (a, b) in memory
        .normalisation
        .mean
        .iter()
        .zip(&disk.normalisation.mean)
    {
        assert!((a - b).abs() < 1e-6);
    }
    // A file that goes away is told of when it is needed.
    fs::remove_file(dir.0.join("a/0.png")).unwrap();
    let missing = (0..disk.train.len())
        .filter(|&i| disk.train.read_image(i).is_err())
        .count()
        + (0..disk.test.len())
            .filter(|&i| disk.test.read_image(i).is_err())
            .count();
    assert_eq!(missing, 1);
}

#[test]
fn arrays_without_labels_and_in_half_precision() {
    let dir = Scratch::new("halves");
    let array = |kind: &str, shape: &str, bytes: &[u8]| {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.bytes().chain(bytes.iter().copied()));
        file
    };
    // 1, −2, 0.5, 65504 as IEEE halves.
    let halves: Vec<u8> = [0x3c00u16, 0xc000, 0x3800, 0x7bff]
        .iter()
        .flat_map(|h| h.to_le_bytes())
        .collect();
    dir.write("x.npy", &array("<f2", "2, 2", &halves));
    dir.write(
        "y.npy",
        &array("<i8", "2,", &[1i64, -1].map(i64::to_le_bytes).concat()),
    );
    dir.write("x_unlabeled.npy", &array("<f2", "1, 2", &halves[..4]));
    let set = arrays::load(&dir.0).unwrap();
    assert_eq!(features(&set.train), [1.0, -2.0, 0.5, 65504.0, 1.0, -2.0]);
    assert_eq!(set.train.labels(), [1, UNLABELED, UNLABELED]);
    assert_eq!((set.classes.len(), set.test.len()), (2, 0));
    dir.write(
        "y.npy",
        &array("<i8", "2,", &[0i64, 999_999].map(i64::to_le_bytes).concat()),
    );
    let error = arrays::load(&dir.0).unwrap_err().to_string();
    assert!(
        error.contains("label 999999") && error.contains("only 2 different"),
        "{error}"
    );
    // What is mapped is what is read.
    let mapped = npy::MappedArray::open(&dir.0.join("x.npy")).unwrap();
    let mut out = [0.0; 3];
    mapped.read(1, &mut out);
    assert_eq!((mapped.shape(), out), (&[2, 2][..], [-2.0, 0.5, 65504.0]));
    dir.write("wide.npy", &array(">f4", "1,", &[0; 4]));
    assert!(npy::MappedArray::open(&dir.0.join("wide.npy")).is_err());
}
