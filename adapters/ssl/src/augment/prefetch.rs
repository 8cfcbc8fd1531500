//! Batches ahead of whoever consumes them.
//!
//! One thread makes what step t, t + 1, … need and waits whenever `depth` results are ready and unread, so
//! at most `depth` + 1 of them exist beside the one in use. What is made depends on the step number alone; a
//! run with a prefetcher is the run without one.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Results of `produce(first)`, `produce(first + 1)`, … in order, made on a thread of their own.
///
/// The sequence ends when `produce` answers `None` or panics. Dropping it stops the thread and waits for
/// the one result that may be in the making.
///
/// # Examples
/// ```
/// use earthmover_ssl::augment::Prefetch;
///
/// let squares = Prefetch::spawn(3, 2, |step| Some(step * step))?;
/// assert_eq!(squares.take(3).collect::<Vec<_>>(), [9, 16, 25]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Prefetch<T> {
    ready: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Prefetch<T> {
    /// Starts with step `first` and keeps up to `depth` results ready (at least one).
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        first: u64,
        depth: usize,
        mut produce: impl FnMut(u64) -> Option<T> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (send, ready) = sync_channel(depth.max(1));
        let work = move || {
            let mut step = first;
            while let Some(result) = produce(step) {
                // Nobody is left to read: the consumer is gone, and so may this thread be.
                if send.send(result).is_err() {
                    break;
                }
                step += 1;
            }
        };
        let thread = std::thread::Builder::new()
            .name("prefetch".to_owned())
            .spawn(work)?;
        Ok(Self {
            ready: Some(ready),
            thread: Some(thread),
        })
    }
}

impl<T> Iterator for Prefetch<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.ready.as_ref()?.recv().ok()
    }
}

impl<T> Drop for Prefetch<T> {
    fn drop(&mut self) {
        // The receiver first: a producer that waits for room wakes with an error.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
