//! Answers written down and read back.
//!
//! What is kept is what the answer is made of: the costs (or points), the masses and what becomes of them, potentials and, of an exact plan,
//! its entries. Everything else follows from these, as it did before. Python's own arrays carry the numbers.

use earthmover::{Cost, Entry, Marginals, Penalty, Potentials, Real, Reference, Slack, Status};
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Matrix, indices, matrix, vector};
use crate::cost::{Data, Lent};
use crate::errors::refused;
use crate::plan;
use crate::solution::{Keeps, Kept, Solution};
use crate::solve::{Clouds, clouds, reference};
use crate::sparse::Pairs;

/// What a cost is made of: a kind or a metric, and arrays.
pub(crate) type Written<'py> = (&'static str, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

type Array<'py> = Bound<'py, PyAny>;

/// The masses and what becomes of them: rows, columns, slack, penalties of both sides, reference.
type Masses<'py> = (Array<'py>, Array<'py>, [f64; 5], [(String, f64); 2], String);

/// What was found: potentials of rows, columns and slack; entries; ε, status, iterations.
type Found<'py> = (
    Array<'py>,
    Array<'py>,
    [f64; 2],
    (Array<'py>, Array<'py>, Array<'py>),
    f64,
    String,
    usize,
);

/// All of an answer.
pub(crate) type State<'py> = (
    (String, Array<'py>, Option<Array<'py>>),
    Masses<'py>,
    Found<'py>,
);

fn array<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    shape: [usize; 2],
) -> PyResult<Bound<'py, PyAny>> {
    numbers.into_pyarray(py).call_method1("reshape", (shape,))
}

pub(crate) fn write<'py, T: Real + Element>(
    py: Python<'py>,
    data: &Data<T>,
) -> PyResult<Written<'py>> {
    Ok(match data {
        Data::Matrix(matrix) => ("matrix", array(py, matrix.to_vec(), matrix.shape())?, None),
        Data::Points {
            rows,
            cols,
            dimension,
            metric,
        } => {
            let cloud = |points: &[T]| {
                let shape = [points.len() / (*dimension).max(1), *dimension];
                array(py, points.to_vec(), shape)
            };
            (metric.name, cloud(rows)?, Some(cloud(cols)?))
        }
        Data::Pairs(pairs) => {
            let (rows, cols) = (pairs.rows(), pairs.cols());
            let (mut starts, mut columns, mut costs) = (vec![0], Vec::new(), Vec::new());
            if let Some(pairs) = pairs.pairs() {
                for row in 0..rows {
                    let (named, of) = pairs.row(row);
                    columns.extend(named.iter().map(|&col| i64::from(col)));
                    costs.extend_from_slice(of);
                    starts.push(columns.len() as i64);
                }
            }
            let lists = (
                starts.into_pyarray(py),
                columns.into_pyarray(py),
                costs.into_pyarray(py),
            );
            let whole = (rows, cols, lists.0, lists.1, lists.2).into_pyobject(py)?;
            ("pairs", whole.into_any(), None)
        }
        Data::Grid { sides, .. } => {
            let sides: Vec<i64> = sides.iter().map(|side| *side as i64).collect();
            ("grid", sides.into_pyarray(py).into_any(), None)
        }
    })
}

fn penalty_written(penalty: Penalty) -> (String, f64) {
    let kind = match penalty {
        Penalty::Kl(_) => "kl",
        Penalty::Tv(_) => "tv",
        _ => "exact",
    };
    (kind.to_owned(), penalty.strength())
}

fn penalty_read((kind, tau): &(String, f64)) -> Penalty {
    match kind.as_str() {
        "kl" => Penalty::Kl(*tau),
        "tv" => Penalty::Tv(*tau),
        _ => Penalty::Exact,
    }
}

pub(crate) fn state<'py>(py: Python<'py>, solution: &Solution) -> PyResult<State<'py>> {
    let kept = solution.kept();
    // A matrix that has changed since is not what the answer is about.
    let (potentials, entries) = solution.with_costs(py, |answer| {
        let entries = match answer.epsilon() {
            0.0 => answer.entries(0.0),
            _ => Vec::new(),
        };
        (answer.potentials().clone(), entries)
    })?;
    let (kind, first, second) = kept.written(py)?;
    let list = |numbers: &[f64]| PyArray1::from_slice(py, numbers).into_any();
    let (m, answer) = (kept.marginals(), kept.answer());
    let slack = m.slack();
    let masses = (
        list(m.rows()),
        list(m.cols()),
        [
            slack.row,
            slack.col,
            slack.row_cost,
            slack.col_cost,
            slack.corner_cost,
        ],
        [
            penalty_written(m.row_penalty()),
            penalty_written(m.col_penalty()),
        ],
        match m.reference() {
            Reference::Product => "product",
            Reference::Counting => "counting",
        }
        .to_owned(),
    );
    let (rows, cols, mass) = plan::columns(py, &entries);
    let found = (
        list(&potentials.rows),
        list(&potentials.cols),
        [potentials.slack_row, potentials.slack_col],
        (rows.into_any(), cols.into_any(), mass.into_any()),
        answer.epsilon(),
        answer.status().to_string(),
        answer.iterations(),
    );
    Ok(((kind.to_owned(), first, second), masses, found))
}

fn marginals(written: Masses<'_>) -> PyResult<Marginals> {
    let (a, b, [row, col, row_cost, col_cost, corner_cost], [of_rows, of_cols], name) = written;
    let (a, b) = (vector("a", &a)?.values, vector("b", &b)?.values);
    let penalties = (penalty_read(&of_rows), penalty_read(&of_cols));
    let made = if penalties == (Penalty::Exact, Penalty::Exact) {
        let mut slack = Slack::new(row, col);
        (slack.row_cost, slack.col_cost, slack.corner_cost) = (row_cost, col_cost, corner_cost);
        Marginals::with_slack(&a, &b, slack)
    } else {
        Marginals::relaxed(&a, &b, penalties.0, penalties.1)
    };
    let reference = reference(&name)?;
    Ok(made.map_err(refused)?.with_reference(reference))
}

fn status(name: &str) -> PyResult<Status> {
    let all = [
        Status::Converged,
        Status::IterationLimit,
        Status::Stalled,
        Status::Stopped,
    ];
    let found = all.into_iter().find(|s| s.to_string() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("{name:?} is not how a solver ends")))
}

/// The answer again.
pub(crate) fn restored(py: Python<'_>, state: State<'_>) -> PyResult<Solution> {
    let ((kind, first, second), masses, found) = state;
    let marginals = marginals(masses)?;
    let (f, g, [slack_row, slack_col], (rows, cols, mass), epsilon, ended, iterations) = found;
    let potentials = Potentials::new(vector("f", &f)?.values, vector("g", &g)?.values)
        .slack(slack_row, slack_col);
    let (rows, cols) = (indices("rows", &rows)?, indices("columns", &cols)?);
    let mass = vector("masses", &mass)?.values;
    let entries: Vec<Entry> = rows
        .into_iter()
        .zip(cols)
        .zip(mass)
        .map(|((row, col), mass)| Entry { row, col, mass })
        .collect();
    let answer = Restored {
        potentials,
        epsilon,
        entries,
        status: status(&ended)?,
        iterations,
    };
    let kept = match (kind.as_str(), second) {
        ("grid", _) => {
            let sides = indices("sides", &first)?;
            let grid = earthmover::Grid::unit(&sides).map_err(refused)?;
            answer.kept(py, Data::grid(&grid), marginals)
        }
        ("pairs", _) => {
            let (rows, cols, starts, columns, costs): (
                usize,
                usize,
                Array<'_>,
                Array<'_>,
                Array<'_>,
            ) = first.extract()?;
            match Pairs::new((rows, cols), &starts, &columns, &costs)? {
                Pairs::Single(pairs) => answer.kept(py, Data::Pairs(pairs), marginals),
                Pairs::Double(pairs) => answer.kept(py, Data::Pairs(pairs), marginals),
            }
        }
        ("matrix", _) => match matrix("cost", &first)? {
            // An array that came out of a pickle is nobody else's.
            Matrix::Single(cost) => answer.kept(py, Data::Matrix(owned(&cost)), marginals),
            Matrix::Double(cost) => answer.kept(py, Data::Matrix(owned(&cost)), marginals),
        },
        (metric, Some(second)) => match clouds(&first, &second)? {
            Clouds::Single(x, y) => answer.kept(py, Data::points(&x, &y, metric)?, marginals),
            Clouds::Double(x, y) => answer.kept(py, Data::points(&x, &y, metric)?, marginals),
        },
        (kind, None) => {
            return Err(PyValueError::new_err(format!(
                "{kind:?} is not what a cost is made of"
            )));
        }
    };
    Ok(Solution::new(kept?))
}

fn owned<T: Real>(cost: &Lent<T>) -> Lent<T> {
    Lent::owned(cost.to_vec(), cost.shape())
}

struct Restored {
    potentials: Potentials,
    epsilon: f64,
    entries: Vec<Entry>,
    status: Status,
    iterations: usize,
}

impl Restored {
    fn kept<T: Keeps>(
        self,
        py: Python<'_>,
        data: Data<T>,
        marginals: Marginals,
    ) -> PyResult<Box<dyn Kept>> {
        py.detach(|| {
            T::keep(data, marginals, &|problem| {
                earthmover::Solution::restored(
                    problem,
                    self.potentials.clone(),
                    self.epsilon,
                    &self.entries,
                    self.status,
                    self.iterations,
                )
            })
        })
        .map_err(refused)
    }
}
