//! A stand-in for libFuzzer on any toolchain: replays every kept input, then mutates them for a while.
//!
//! ```text
//! replay [TARGET …] [--seconds N | --executions N] [--seed N] [--keep-going]
//! replay --make-seeds                        writes the first inputs into corpus/
//! replay TARGET --input FILE …               runs these files only
//! ```
//!
//! A panic, an allocation beyond the target's limit or ten seconds in one input end the run: the input is kept in
//! `artifacts/<target>/`, its path printed. With `--keep-going` panics are only counted, one input kept for each
//! place that panics.
//!
//! Seconds are the process's time on a processor, so that a busy machine is not a find; where that cannot be had they are the
//! clock's. Executions so far are printed once a minute, and all of them at the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use earthmover_fuzz::mutate::mutate;
use earthmover_fuzz::{LONGEST, OUTCOME, TARGETS, Target, clean};
use earthmover_testkit::Rng;

/// Longest that one input may keep a processor busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest that it may take by the clock, busy or not: an input that waits for something is a find too.
const DEADLOCK: Duration = Duration::from_secs(1800);
/// Between two lines that say how far a run has come.
const REPORT: Duration = Duration::from_secs(60);
/// Most mutations that others start from.
const POOL: usize = 400;

/// What is being run, for whoever has to save it.
static CURRENT: Mutex<(&str, Vec<u8>)> = Mutex::new(("", Vec::new()));
/// Which input of the process it is, from 1; 0 between inputs.
static RUNNING: AtomicU64 = AtomicU64::new(0);
/// Inputs run so far.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

/// The system's allocator, for requests that are not absurd.
struct Limited;

// SAFETY: every call is handed on as it came, or ends the process.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        within(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        within(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        within(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static MEMORY: Limited = Limited;

fn within(size: usize) {
    if size > LIMIT.load(Ordering::Relaxed) {
        LIMIT.store(usize::MAX, Ordering::Relaxed);
        eprintln!("an allocation of {size} bytes");
        save("memory");
        std::process::exit(1);
    }
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Keeps the input at hand.
fn save(why: &str) -> PathBuf {
    let (target, input) = CURRENT.lock().map(|c| c.clone()).unwrap_or_default();
    let folder = home().join("artifacts").join(target);
    let sum = earthmover_testkit::fnv1a(&input);
    let path = folder.join(format!("{why}-{sum:016x}"));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, &input));
    match written {
        Ok(()) => eprintln!("{target}: input kept in {}", path.display()),
        Err(error) => eprintln!("{target}: {error}; the input is {input:?}"),
    }
    path
}

/// The time that this process has spent on processors, all threads together.
fn busy(start: Instant) -> Duration {
    // proc(5): the name in brackets may hold anything; behind it, user and system time are fields 12 and 13, in hundredths.
    let told = fs::read_to_string("/proc/self/stat").ok();
    let fields = told.as_deref().and_then(|s| s.rsplit_once(')'));
    let ticks = fields.and_then(|(_, rest)| {
        let mut fields = rest.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<u64>().ok();
        Some(next()? + next()?)
    });
    ticks.map_or_else(|| start.elapsed(), |t| Duration::from_millis(10 * t))
}

/// Ends the process at an input that does not end; says now and then how far it has come.
fn watch(start: Instant) {
    let mut last = (0, Duration::ZERO, Instant::now());
    let mut reported = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let (running, now) = (RUNNING.load(Ordering::Relaxed), busy(start));
        if running == 0 || running != last.0 {
            last = (running, now, Instant::now());
        }
        if now.saturating_sub(last.1) > PATIENCE || last.2.elapsed() > DEADLOCK {
            let waited = last.2.elapsed().as_secs();
            let busy = now.saturating_sub(last.1).as_secs();
            eprintln!("no end after {busy} s of a processor, {waited} s by the clock");
            save("slow");
            std::process::exit(1);
        }
        if reported.elapsed() > REPORT {
            reported = Instant::now();
            let executions = EXECUTIONS.load(Ordering::Relaxed);
            println!("{executions} executions in {} s of a processor", now.as_secs());
        }
    }
}

struct Options {
    targets: Vec<Target>,
    inputs: Vec<PathBuf>,
    seconds: f64,
    executions: u64,
    seed: u64,
    keep_going: bool,
    make_seeds: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        targets: Vec::new(),
        inputs: Vec::new(),
        seconds: 0.0,
        executions: u64::MAX,
        seed: 1,
        keep_going: false,
        make_seeds: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let wrong = |e: &dyn std::fmt::Display| format!("{word}: {e}");
        match word.as_str() {
            "--seconds" => options.seconds = value()?.parse().map_err(|e| wrong(&e))?,
            "--executions" => {
                options.executions = value()?.parse().map_err(|e| wrong(&e))?;
                options.seconds = f64::INFINITY;
            }
            "--seed" => options.seed = value()?.parse().map_err(|e| wrong(&e))?,
            "--input" => options.inputs.push(value()?.into()),
            "--keep-going" => options.keep_going = true,
            "--make-seeds" => options.make_seeds = true,
            name => match TARGETS.iter().find(|t| t.name == name) {
                Some(target) => options.targets.push(*target),
                None => {
                    let known: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
                    return Err(format!("no target {name}; there are {}", known.join(", ")));
                }
            },
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.to_vec();
    }
    Ok(options)
}

/// Runs of one target, and the places that panicked.
struct Session {
    target: Target,
    start: Instant,
    executions: u64,
    finds: BTreeMap<String, u64>,
}

impl Session {
    /// Whether the target held.
    fn run(&mut self, input: &[u8]) -> bool {
        if let Ok(mut current) = CURRENT.lock() {
            current.0 = self.target.name;
            current.1.clear();
            current.1.extend_from_slice(input);
        }
        let count = EXECUTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        RUNNING.store(count, Ordering::Relaxed);
        LIMIT.store(self.target.largest_allocation, Ordering::Relaxed);
        OUTCOME.store(0, Ordering::Relaxed);
        let held = panic::catch_unwind(|| (self.target.run)(input)).is_ok();
        LIMIT.store(usize::MAX, Ordering::Relaxed);
        RUNNING.store(0, Ordering::Relaxed);
        self.executions += 1;
        if !held {
            let place = PLACE.lock().map(|p| p.clone()).unwrap_or_default();
            let count = self.finds.entry(place.clone()).or_default();
            *count += 1;
            if *count == 1 {
                eprintln!("{place}");
                save("panic");
            }
        }
        held
    }
}

fn corpus(target: &Target) -> Vec<PathBuf> {
    let folder = home().join("corpus").join(target.name);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn explore(session: &mut Session, mut pool: Vec<Vec<u8>>, options: &Options) {
    let mut draw = Rng(options.seed);
    let since = busy(session.start);
    let mut late = false;
    // The time is asked for now and then only: that is a file to read.
    let mut done = |session: &Session| {
        if session.executions.is_multiple_of(64) {
            let spent = busy(session.start).saturating_sub(since);
            late = spent.as_secs_f64() >= options.seconds;
        }
        late || options.seconds == 0.0 || session.executions >= options.executions
    };
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let kept = pool.len();
    let mut seen = BTreeSet::new();
    while !done(session) {
        // Half the time from an input of the corpus: what was found may be far from anything valid.
        let among = if draw.below(2) == 0 { kept } else { pool.len() };
        let (one, other) = (draw.below(among), draw.below(pool.len()));
        let input = mutate(&pool[one], &pool[other], LONGEST, &mut draw);
        let held = session.run(&input);
        if !held && !options.keep_going {
            return;
        }
        // Worth keeping is what came to something new: another message, mostly.
        if held && seen.len() < POOL && seen.insert(OUTCOME.load(Ordering::Relaxed)) {
            pool.push(input);
        }
    }
}

fn run(target: Target, start: Instant, options: &Options) -> bool {
    let mut session = Session {
        target,
        start,
        executions: 0,
        finds: BTreeMap::new(),
    };
    let before = busy(start);
    let files = if options.inputs.is_empty() {
        corpus(&target)
    } else {
        options.inputs.clone()
    };
    let mut pool = Vec::new();
    for path in &files {
        match fs::read(path) {
            Ok(input) if session.run(&input) => pool.push(input),
            Ok(_) => eprintln!("{}: {} fails", target.name, path.display()),
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
    let whole = pool.len() == files.len();
    if options.inputs.is_empty() && (whole || options.keep_going) {
        explore(&mut session, pool, options);
    }
    println!(
        "{:<12} {} kept inputs, {} executions in {:.0} s, {} places that panic",
        target.name,
        files.len(),
        session.executions,
        busy(start).saturating_sub(before).as_secs_f64(),
        session.finds.len()
    );
    whole && session.finds.is_empty()
}

fn make_seeds(targets: &[Target]) -> std::io::Result<()> {
    for target in targets {
        let folder = home().join("corpus").join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if options.make_seeds {
        if let Err(error) = make_seeds(&options.targets) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    panic::set_hook(Box::new(|info| {
        if let Ok(mut place) = PLACE.lock() {
            let at = info.location().map(ToString::to_string).unwrap_or_default();
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let message = text.unwrap_or_default();
            // Asserts of one target share a line or two; their first words tell them apart.
            let words = message.split([':', '{']).next().unwrap_or_default();
            let words = words.trim_matches(|c: char| c.is_ascii_digit() || "-.e ".contains(c));
            *place = format!("{at} {words}");
            if !PLACE_ONLY.load(Ordering::Relaxed) {
                eprintln!("{at}: {message}");
            }
        }
    }));
    PLACE_ONLY.store(options.keep_going, Ordering::Relaxed);
    let start = Instant::now();
    std::thread::spawn(move || watch(start));
    let mut held = true;
    for &target in &options.targets {
        held &= run(target, start, &options);
    }
    clean();
    if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// With many panics expected, only new ones are worth a line.
static PLACE_ONLY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
