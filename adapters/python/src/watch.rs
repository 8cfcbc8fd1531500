//! How Python watches a solve: a callback of its own, and Ctrl-C.
//!
//! A solver reports now and then. Then the interpreter is asked whether a signal has come, at most every so often because it has to be
//! waited for; what a handler or the callback raises stops the solve and is raised again by the call that solved.

use core::ops::ControlFlow;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use earthmover::Progress;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Time between two questions whether a signal has come.
const EVERY: Duration = Duration::from_millis(50);

/// Watches over one call.
#[derive(Clone)]
pub(crate) struct Watch(Arc<Inner>);

struct Inner {
    callback: Option<Py<PyAny>>,
    began: Instant,
    /// When a signal was last asked for, in nanoseconds since it began.
    asked: AtomicU64,
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self(Arc::new(Inner {
            callback,
            began: Instant::now(),
            asked: AtomicU64::new(0),
            raised: Mutex::new(None),
        }))
    }

    /// What a solver calls.
    pub(crate) fn look(&self, progress: &Progress) -> ControlFlow<()> {
        let inner = &*self.0;
        let now = inner.began.elapsed().as_nanos() as u64;
        let since = now.saturating_sub(inner.asked.load(Ordering::Relaxed));
        let due = u128::from(since) >= EVERY.as_nanos();
        if !due && inner.callback.is_none() {
            return ControlFlow::Continue(());
        }
        if due {
            inner.asked.store(now, Ordering::Relaxed);
        }
        let asked = Python::attach(|py| {
            py.check_signals()?;
            match &inner.callback {
                None => Ok(false),
                Some(callback) => report(callback.bind(py), progress),
            }
        });
        match asked {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => ControlFlow::Break(()),
            Err(error) => {
                *inner.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// What was raised on the way, if anything was.
    pub(crate) fn raised(&self) -> PyResult<()> {
        let mut raised = self.0.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take().map_or(Ok(()), Err)
    }
}

/// Calls Python's callback; whether it wants to stop.
fn report(callback: &Bound<'_, PyAny>, progress: &Progress) -> PyResult<bool> {
    let told = PyDict::new(callback.py());
    told.set_item("iteration", progress.iteration)?;
    told.set_item("violation", progress.violation)?;
    told.set_item("epsilon", progress.epsilon)?;
    told.set_item("done", progress.done)?;
    told.set_item("gap", progress.gap)?;
    let said = callback.call1((told,))?;
    // `False` stops; `None`, which a function without a return gives, does not.
    Ok(!said.is_none() && !said.is_truthy()?)
}
