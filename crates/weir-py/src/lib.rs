//! The native part of the Python package `weir`: runs of the engine, and their rows as Arrow streams.
//!
//! `run.rs` checks the questions of a run, and `start.rs` answers them on a thread; `queues.rs` holds the
//! batches between that thread and those who read; `stream.rs` reads them, as Arrow's C stream or as rows of
//! Python. What users see is Python: `python/weir/`. The meaning of questions and options is that of the
//! command (`weir_questions::by_name`): nothing here knows a type of questions or an option.
//!
//! `lake.rs` divides captures among tasks, for Spark.
//!
//! The engine's thread never holds the interpreter's lock, and readers release the lock while they wait.
#![forbid(unsafe_code)]

mod lake;
mod mistakes;
mod pipes;
mod queues;
mod run;
mod start;
mod stream;

use mistakes::to_python;
use pyo3::prelude::*;
use std::io::Write as _;
use weir_packet::Value;
use weir_questions::by_name::{self, Level, Listener};

/// The engine's account of memory sees what parsers allocate.
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);

/// The module `weir._weir`.
#[pymodule]
mod _weir {
    #[pymodule_export]
    use super::lake::{lake_about, lake_index, lake_plan};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::{fields, filter_fields, kinds, version};

    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::print_messages();
        Ok(())
    }
}

/// Messages that belong to no run, such as those about stacks, go to standard error.
fn print_messages() {
    let print = |message: by_name::Message| {
        if matches!(message.level(), Level::Error | Level::Warning) {
            let _ = writeln!(std::io::stderr(), "{}", message.line(false));
        }
    };
    Listener::new(print).of_process();
}

/// All types of questions: the name, what the rows are, the names of the options, and whether the rows are
/// those of a log.
#[pyfunction]
fn kinds() -> Vec<(&'static str, String, Vec<&'static str>, bool)> {
    by_name::kinds().into_iter().map(|kind| (kind.name, kind.about, kind.options, kind.is_log)).collect()
}

/// The version of Weir.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A field: name, type, other names, meaning.
type FieldRow = (String, String, Vec<String>, String);

/// The fields of filters.
#[pyfunction]
fn fields(py: Python<'_>, stacks: Vec<String>, words: &str) -> PyResult<Vec<FieldRow>> {
    let (_, rows) = by_name::fields(&stacks, words).map_err(|wrong| to_python(py, &wrong))?;
    let text =
        |value: &Value<'_>| if let Value::Text(text) = value { text.to_string() } else { String::new() };
    let row = |values: Vec<Value<'_>>| {
        let others = if let Some(Value::Texts(all)) = values.get(2) { all.to_vec() } else { vec![] };
        (text(&values[0]), text(&values[1]), others, text(&values[3]))
    };
    Ok(rows.iter().map(|one| row(one.values())).collect())
}

/// The columns of a type of questions, each with the fields of filters that have its values, and the
/// protocols that carry such rows.
#[pyfunction]
fn filter_fields(py: Python<'_>, kind: &str) -> Vec<(String, Vec<String>, Vec<String>)> {
    let found = py.detach(|| by_name::filter_fields(kind));
    found.into_iter().map(|one| (one.column, one.fields, one.carriers)).collect()
}
