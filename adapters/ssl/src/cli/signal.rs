//! Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::remark;

/// Set by Ctrl-C; whatever takes long looks at it.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C asks for a clean stop, the second ends at once.
pub(crate) fn listen() {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        remark!("\nstopping after this step; once more to end at once");
    };
    // Not being able to listen is no reason not to work.
    let _ = ctrlc::set_handler(handler);
}
