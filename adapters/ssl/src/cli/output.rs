//! The one way this program prints: lines for people, or, with `--json`, one object a line for programs.
//!
//! `ssl_train … | head` closes the pipe while there is more to say. `println!` panics then; [`say!`] ends the program
//! without a word, with the code that a shell gives to programs which a closed pipe ends. What goes to the standard
//! error ([`remark!`]) is a courtesy: where it cannot be written there is nobody to tell.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by `--json`: lines for people are left out.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on objects only.
pub(crate) fn speak_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Whether programs are listening.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// An object for programs; nothing where people are listening.
pub(crate) fn emit(value: &serde_json::Value) {
    if is_json() {
        put(format_args!("{value}"));
    }
}

/// 128 + the number of SIGPIPE.
const PIPE_CLOSED: i32 = 141;

/// A line of the standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*)) };
}

/// A line of the standard error.
macro_rules! remark {
    ($($text:tt)*) => { $crate::cli::output::aside(format_args!($($text)*)) };
}

pub(crate) use {remark, say};

pub(crate) fn line(text: Arguments<'_>) {
    if !is_json() {
        put(text);
    }
}

fn put(text: Arguments<'_>) {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(PIPE_CLOSED),
        Err(error) => {
            remark!("error: cannot write to the standard output: {error}");
            exit(1)
        }
    }
}

pub(crate) fn aside(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
