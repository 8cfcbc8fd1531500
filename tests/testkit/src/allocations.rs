//! An allocator that remembers the peak.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts what is allocated and remembers the peak.
///
/// ```
/// use earthmover_testkit::{Counting, peak};
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting;
/// assert!(peak(|| drop(Vec::<u8>::with_capacity(1000))) >= 1000);
/// ```
#[derive(Debug)]
pub struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), SeqCst) + layout.size();
        PEAK.fetch_max(now, SeqCst);
        // SAFETY: the caller's promise about `layout` is the one asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: `pointer` came from `System.alloc` with this `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Most bytes in use during `work`, beyond those in use before; [`Counting`] must be the global allocator. The counters are the process's: one call at
/// a time.
pub fn peak(work: impl FnOnce()) -> usize {
    let before = NOW.load(SeqCst);
    PEAK.store(before, SeqCst);
    work();
    PEAK.load(SeqCst) - before
}
