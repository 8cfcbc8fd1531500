//! Python's arrays, read where they lie.
//!
//! Single and double precision in any layout are used as they are. What offers itself as an array (lists, pandas, tensors on the
//! CPU) is asked for one; integers and half precision become floats, which loses nothing. All else is refused in words.

use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use earthmover::Real;

use crate::cost::Lent;
use crate::errors::ShapeError;

/// A matrix of either precision.
pub(crate) enum Matrix {
    Single(Lent<f32>),
    Double(Lent<f64>),
}

/// Numbers of a vector, in double precision whatever they came in.
pub(crate) struct Vector {
    pub(crate) values: Vec<f64>,
    /// Whether they came in single precision, and are rounded to it.
    pub(crate) single: bool,
}

/// A scalar that arrays hold and solvers calculate in.
pub(crate) trait Scalar: Real + Element {}
impl Scalar for f32 {}
impl Scalar for f64 {}

fn attribute<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = cell.get_or_try_init(py, || {
        PyResult::Ok(py.import("numpy")?.getattr(name)?.unbind())
    })?;
    Ok(found.bind(py))
}

/// What the object is as an array of floats.
pub(crate) fn floats<'py>(
    what: &str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asarray = attribute(py, &ASARRAY, "asarray")?;
    let array = asarray.call1((object,)).map_err(|error| {
        // A tensor that wants gradients, or lies on another device, says so; a ragged list, too.
        let reason = error.value(py);
        PyTypeError::new_err(format!("{what} cannot be read as an array: {reason}"))
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    let dtype = array.dtype();
    let fits = match (dtype.kind(), dtype.itemsize()) {
        (b'f', 4 | 8) if dtype.byteorder() != b'>' && array.is_aligned() => return Ok(array),
        (b'f', 4 | 2) => Some("float32"),
        (b'f', 8) | (b'i' | b'u' | b'b', _) => Some("float64"),
        _ => None,
    };
    let Some(fits) = fits else {
        return Err(PyTypeError::new_err(format!(
            "{what} must be float32 or float64 (or integers, which become float64), not {dtype}"
        )));
    };
    let array = array.call_method1("astype", (fits,))?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

fn lend<'py, T: Scalar>(array: &Bound<'py, PyArray2<T>>) -> PyResult<Lent<T>> {
    let size = size_of::<T>() as isize;
    let steps = [array.strides()[0], array.strides()[1]];
    if !array.is_aligned() || steps.iter().any(|s| s % size != 0) {
        // A field of records, say: no step of whole numbers leads from one to the next.
        let copy = array.call_method0("copy")?.cast_into::<PyArray2<T>>()?;
        return lend(&copy);
    }
    let [rows, cols] = [array.shape()[0], array.shape()[1]];
    let steps = [steps[0] / size, steps[1] / size];
    // SAFETY: the array is kept with the pointer; its entries lie at these steps from its first.
    Ok(unsafe {
        Lent::new(
            array.data(),
            [rows, cols],
            steps,
            array.as_any().clone().unbind(),
        )
    })
}

/// A matrix.
pub(crate) fn matrix(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    if let Ok(array) = object.cast::<PyArray2<f64>>() {
        return Ok(Matrix::Double(lend(array)?));
    }
    if let Ok(array) = object.cast::<PyArray2<f32>>() {
        return Ok(Matrix::Single(lend(array)?));
    }
    let array = floats(what, object)?;
    let found = array.shape().to_vec();
    match array.as_any().cast::<PyArray2<f64>>() {
        Ok(array) => Ok(Matrix::Double(lend(array)?)),
        Err(_) => match array.as_any().cast::<PyArray2<f32>>() {
            Ok(array) => Ok(Matrix::Single(lend(array)?)),
            Err(_) => Err(dimensions(what, 2, &found)),
        },
    }
}

/// A matrix in double precision.
pub(crate) fn double_matrix(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Lent<f64>> {
    Ok(match matrix(what, object)? {
        Matrix::Single(m) => m.widened(),
        Matrix::Double(m) => m,
    })
}

/// Numbers for each line of a plan: one each, or as many as an array of two axes has columns.
pub(crate) struct Columns {
    /// Row-major.
    pub(crate) values: Vec<f64>,
    /// Numbers of a line.
    pub(crate) width: usize,
    is_list: bool,
}

impl Columns {
    pub(crate) fn read(
        what: &str,
        object: &Bound<'_, PyAny>,
        lines: usize,
        of: &str,
    ) -> PyResult<Self> {
        let array = floats(what, object)?;
        let is_list = array.ndim() == 1;
        let (values, found, width) = if is_list {
            let values = vector(what, array.as_any())?.values;
            let found = values.len();
            (values, found, 1)
        } else {
            let numbers = double_matrix(what, array.as_any())?;
            let [found, width] = numbers.shape();
            (numbers.to_vec(), found, width)
        };
        if found != lines {
            return Err(ShapeError::new_err(format!(
                "{what} has {found} rows; there are {lines} {of}"
            )));
        }
        Ok(Self {
            values,
            width,
            is_list,
        })
    }

    /// Numbers for other lines in the same form.
    pub(crate) fn shaped<'py>(
        &self,
        py: Python<'py>,
        numbers: Vec<f64>,
        lines: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let numbers = numbers.into_pyarray(py);
        if self.is_list {
            return Ok(numbers.into_any());
        }
        Ok(numbers.reshape([lines, self.width])?.into_any())
    }
}

/// A vector that may be left out.
pub(crate) fn optional_vector(
    what: &str,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Vector>> {
    let given = object.filter(|o| !o.is_none());
    given.map(|o| vector(what, o)).transpose()
}

fn dimensions(what: &str, expected: usize, found: &[usize]) -> PyErr {
    ShapeError::new_err(format!(
        "{what} must have {expected} dimension{}, not the shape {found:?}",
        if expected == 1 { "" } else { "s" }
    ))
}

fn copied<T: Scalar>(array: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<f64>> {
    let array = array.try_readonly().map_err(|_| borrowed())?;
    Ok(array.as_array().iter().map(|x| x.widen()).collect())
}

fn borrowed() -> PyErr {
    PyRuntimeError::new_err("an array is being written to by somebody else")
}

/// A vector, copied.
pub(crate) fn vector(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Vector> {
    let read = |object: &Bound<'_, PyAny>| -> PyResult<Option<Vector>> {
        if let Ok(array) = object.cast::<PyArray1<f64>>() {
            let values = copied(array)?;
            return Ok(Some(Vector {
                values,
                single: false,
            }));
        }
        if let Ok(array) = object.cast::<PyArray1<f32>>() {
            let values = copied(array)?;
            return Ok(Some(Vector {
                values,
                single: true,
            }));
        }
        Ok(None)
    };
    if let Some(vector) = read(object)? {
        return Ok(vector);
    }
    let array = floats(what, object)?;
    read(array.as_any())?.ok_or_else(|| dimensions(what, 1, array.shape()))
}

/// Whole numbers that count or point, copied.
pub(crate) fn indices(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let array = attribute(py, &ASARRAY, "asarray")?.call1((object,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    let refused = || {
        let found = array.dtype();
        PyTypeError::new_err(format!("{what} must be a list of integers, not {found}"))
    };
    if array.len() == 0 {
        return Ok(Vec::new());
    }
    if !matches!(array.dtype().kind(), b'i' | b'u') {
        return Err(refused());
    }
    let array = array.call_method1("astype", ("int64",))?;
    let array = array
        .cast::<PyArray1<i64>>()
        .map_err(|_| dimensions(what, 1, &[]))?;
    let array = array.try_readonly().map_err(|_| borrowed())?;
    array
        .as_array()
        .iter()
        .map(|&i| {
            usize::try_from(i).map_err(|_| {
                ShapeError::new_err(format!("{what}: {i} is negative; indices count from zero"))
            })
        })
        .collect()
}
