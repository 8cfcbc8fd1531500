//! The library's refusals as Python exceptions, in the same words.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

create_exception!(
    earthmover_ot,
    TransportError,
    PyValueError,
    "A question that has no answer. All refusals are subclasses of it, and of ValueError."
);
create_exception!(
    earthmover_ot,
    ShapeError,
    TransportError,
    "Arrays that are empty, or do not fit each other."
);
create_exception!(
    earthmover_ot,
    MassError,
    TransportError,
    "Masses that are negative or no numbers, do not add up, or ask for more than there is."
);
create_exception!(
    earthmover_ot,
    CostError,
    TransportError,
    "Costs or points that are NaN, or too large to calculate with."
);
create_exception!(
    earthmover_ot,
    InfeasibleError,
    TransportError,
    "Forbidden pairs or bounds that leave no way for some of the mass."
);
create_exception!(
    earthmover_ot,
    OptionError,
    TransportError,
    "An option or a start outside its range."
);

/// The exception for what the solvers refuse.
pub(crate) fn refused(error: earthmover::Error) -> PyErr {
    use earthmover::Error as E;
    let words = error.to_string();
    match error {
        E::Empty { .. } | E::TooLarge { .. } | E::Length { .. } | E::Index { .. } => {
            ShapeError::new_err(words)
        }
        E::Repeated { .. } | E::Starts { .. } | E::Duplicate { .. } => ShapeError::new_err(words),
        E::Mass { .. } | E::MassRange { .. } | E::NoMass { .. } => MassError::new_err(words),
        E::Unbalanced { .. } | E::MinMass { .. } => MassError::new_err(words),
        E::Penalised { .. } => OptionError::new_err(words),
        E::Cost { .. } | E::TooDear { .. } | E::TooFar { .. } => CostError::new_err(words),
        E::SlackCost { .. } | E::Point { .. } | E::Gainful { .. } => CostError::new_err(words),
        E::Blocked { .. } | E::Infeasible { .. } => InfeasibleError::new_err(words),
        E::Option { .. } | E::Start { .. } | E::NoGradient => OptionError::new_err(words),
        E::Backend { .. } => PyRuntimeError::new_err(words),
        _ => TransportError::new_err(words),
    }
}

/// The exception for what label allocation refuses.
pub(crate) fn allocation(error: earthmover_ssl::Error) -> PyErr {
    use earthmover_ssl::Error as E;
    let words = error.to_string();
    match error {
        E::Transport(error) => refused(error),
        E::Io { .. } => PyOSError::new_err(words),
        E::Length { .. } | E::Index { .. } | E::Repeated { .. } => ShapeError::new_err(words),
        E::Classes { .. } | E::NoExamples => ShapeError::new_err(words),
        E::Option { .. } | E::Bound { .. } | E::LowerBound { .. } => OptionError::new_err(words),
        _ => TransportError::new_err(words),
    }
}
