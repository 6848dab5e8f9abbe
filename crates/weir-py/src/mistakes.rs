//! Mistakes of questions as exceptions of Python, whose classes are in `python/weir/_errors.py`.

use pyo3::prelude::*;
use weir_questions::by_name::{Level, Message, Mistake};

/// The exception for a mistake: `FilterError` if a place is marked, `WeirError` otherwise.
pub fn to_python(py: Python<'_>, mistake: &Mistake) -> PyErr {
    let marks: Vec<_> = mistake
        .marks
        .iter()
        .map(|mark| (mark.code, mark.message.as_str(), mark.span, mark.text.as_str(), mark.help.as_deref()))
        .collect();
    raise(py, "_mistake", (mistake.text.as_str(), marks))
}

/// The exception for captures that could not be read to their end.
pub fn of_captures(py: Python<'_>, errors: &[String]) -> PyErr {
    raise(py, "_capture_error", (errors.to_vec(),))
}

/// The exception for questions whose rows are not read while another question's are waited for.
pub fn of_unread(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "_mistake", (message, Vec::<u8>::new()))
}

/// Passes on a message of a run: a warning as `WeirWarning`, another one to the logger `weir`.
///
/// # Errors
/// The program turns warnings into exceptions.
pub fn tell(py: Python<'_>, message: &Message) -> PyResult<()> {
    let tell = py.import("weir._errors")?.getattr("_tell")?;
    tell.call1((message.text(), matches!(message.level(), Level::Error | Level::Warning))).map(drop)
}

fn raise<'py>(py: Python<'py>, make: &str, values: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py.import("weir._errors").and_then(|errors| errors.getattr(make)?.call1(values));
    made.map_or_else(|error| error, PyErr::from_value)
}
