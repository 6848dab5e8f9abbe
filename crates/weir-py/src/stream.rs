//! The rows of a question for Python: as Arrow's C stream
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>), and as tuples.

use crate::mistakes::{of_captures, of_unread, tell, to_python};
use crate::queues::{End, Queues, Received};
use crate::start::Start;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_questions::by_name::{Level, Message};

/// How often a reader that waits looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// What the end of a capture is that could not be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// An exception after the rows. Readers of Arrow drop the rows then.
    Raise,
    /// A warning after the rows.
    Warn,
    /// The end of the rows. The exception is in [`Stream::failure`].
    Keep,
}

impl Damage {
    /// The one with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn of(name: &str) -> PyResult<Self> {
        match name {
            "raise" => Ok(Self::Raise),
            "warn" => Ok(Self::Warn),
            "keep" => Ok(Self::Keep),
            _ => Err(PyValueError::new_err(format!("damaged={name:?}: there are \"raise\" and \"warn\""))),
        }
    }
}

/// The rows of one question of a run. The rows can be read once.
#[pyclass(module = "weir._weir", frozen)]
pub struct Stream {
    reader: Arc<Reader>,
}

/// Reads a queue. The queue is closed when its last owner goes.
struct Reader {
    index: usize,
    schema: SchemaRef,
    names: Arc<Vec<String>>,
    queues: Arc<Queues>,
    start: Arc<Start>,
    damage: Damage,
    /// The exception that readers of Arrow received as a text, or did not receive.
    failure: Mutex<Option<PyErr>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.queues.close(self.index);
    }
}

impl Stream {
    /// The stream of the question with this index.
    pub fn new(
        index: usize,
        schema: SchemaRef,
        names: Arc<Vec<String>>,
        damage: Damage,
        queues: Arc<Queues>,
        start: Arc<Start>,
    ) -> Self {
        let failure = Mutex::default();
        Self { reader: Arc::new(Reader { index, schema, names, queues, start, damage, failure }) }
    }
}

#[pymethods]
impl Stream {
    /// The stream as a capsule. Its batches are no longer in this object.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore the request: the consumer casts.
        drop(requested_schema);
        let batches = Batches(Arc::clone(&self.reader));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    /// The schema as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.reader.schema);
        let schema = schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The next rows as tuples; `None` at the end. With `at_most` seconds, an empty list if there are none
    /// within that time.
    #[pyo3(signature = (at_most=None))]
    fn rows<'py>(&self, py: Python<'py>, at_most: Option<f64>) -> PyResult<Option<Bound<'py, PyList>>> {
        match self.reader.next(py, at_most)? {
            Next::Batch(batch) => Ok(Some(to_rows(py, &batch)?)),
            Next::Late => Ok(Some(PyList::empty(py))),
            Next::End => Ok(None),
        }
    }

    /// Ends the stream early; the run ends with the last of its streams.
    fn close(&self) {
        self.reader.queues.close(self.reader.index);
    }

    /// The bytes that were read of the input, and those of the whole input if known.
    #[getter]
    fn progress(&self) -> (u64, Option<u64>) {
        self.reader.queues.progress()
    }

    /// The exception in place of which a reader of Arrow has raised its own, or that was kept, if there is
    /// one.
    #[getter]
    fn failure(&self, py: Python<'_>) -> Option<PyErr> {
        let failure = self.reader.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(|error| error.clone_ref(py))
    }
}

enum Next {
    Batch(RecordBatch),
    /// There is no batch within the time.
    Late,
    End,
}

impl Reader {
    /// The next batch. Waits without the interpreter's lock. A signal ends the run, and is the error.
    fn next(&self, py: Python<'_>, at_most: Option<f64>) -> PyResult<Next> {
        self.start.run(&self.queues)?;
        let limit = at_most.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let mut waited = Duration::ZERO;
        loop {
            let patience = limit.map_or(SIGNALS, |limit| SIGNALS.min(limit.saturating_sub(waited)));
            let received = py.detach(|| self.queues.receive(self.index, patience));
            for message in self.queues.take_messages() {
                // A program may turn warnings into exceptions.
                if let Err(raised) = tell(py, &message) {
                    self.queues.close(self.index);
                    return Err(raised);
                }
            }
            match received {
                Received::Batch(batch) => return Ok(Next::Batch(batch)),
                Received::End(end) => return self.end(py, &end),
                Received::Closed => return Ok(Next::End),
                Received::Nothing => {}
            }
            waited += patience;
            if let Err(signal) = py.check_signals() {
                self.queues.close(self.index);
                self.queues.ender.end();
                return Err(signal);
            }
            if limit.is_some_and(|limit| waited >= limit) {
                return Ok(Next::Late);
            }
        }
    }

    fn end(&self, py: Python<'_>, end: &End) -> PyResult<Next> {
        match end {
            End::Done(ended) if ended.errors.is_empty() => Ok(Next::End),
            End::Done(ended) => self.damaged(py, &ended.errors),
            End::Refused(mistake) => Err(to_python(py, mistake)),
            End::Unread(index) => {
                let (unread, own) = (&self.names[*index], &self.names[self.index]);
                let message = format!(
                    "the rows of `{unread}` wait to be read while those of `{own}` are read, and there is no room for more: read the \
                     streams in turn (`batches()`), each in a thread, or give more room (`queue_bytes`)"
                );
                Err(of_unread(py, &message))
            }
            End::Panicked => Err(PyRuntimeError::new_err("the engine has panicked; this is a bug of Weir")),
        }
    }

    /// The end of captures that could not be read to their end.
    fn damaged(&self, py: Python<'_>, errors: &[String]) -> PyResult<Next> {
        match self.damage {
            Damage::Raise => return Err(of_captures(py, errors)),
            Damage::Keep => self.fail(py, &of_captures(py, errors)),
            Damage::Warn => {
                for text in errors {
                    tell(py, &Message::of(text, Level::Warning))?;
                }
            }
        }
        Ok(Next::End)
    }

    /// Keeps an exception.
    fn fail(&self, py: Python<'_>, error: &PyErr) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone_ref(py));
    }
}

/// The batches of a stream, for readers of Arrow. Whether these hold the interpreter's lock is not known.
struct Batches(Arc<Reader>);

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| {
            self.0.next(py, None).map_err(|error| {
                // The reader raises an error of its own, with this text. A signal is raised again, for
                // whoever called the reader.
                if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
                    let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                }
                self.0.fail(py, &error);
                ArrowError::ExternalError(error.value(py).to_string().into())
            })
        });
        match next {
            Ok(Next::Batch(batch)) => Some(Ok(batch)),
            Ok(Next::Late | Next::End) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }
}

/// The rows of a batch as tuples.
fn to_rows<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyList>> {
    let columns: Vec<Vec<Bound<'py, PyAny>>> =
        batch.columns().iter().map(|column| values(py, column)).collect::<PyResult<_>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let mut rows = Vec::with_capacity(batch.num_rows());
    for _ in 0..batch.num_rows() {
        rows.push(PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())?);
    }
    PyList::new(py, rows)
}

/// The values of a column as objects of Python; times as integers, nanoseconds since 1970.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let each = |value: &dyn Fn(usize) -> PyResult<Bound<'py, PyAny>>| {
        let or_none = |row| if column.is_null(row) { Ok(py.None().into_bound(py)) } else { value(row) };
        (0..column.len()).map(or_none).collect()
    };
    match column.data_type() {
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            each(&|row| array.value(row).into_bound_py_any(py))
        }
        DataType::UInt64 => {
            let array = column.as_primitive::<UInt64Type>();
            each(&|row| array.value(row).into_bound_py_any(py))
        }
        DataType::Float64 => {
            let array = column.as_primitive::<Float64Type>();
            each(&|row| array.value(row).into_bound_py_any(py))
        }
        DataType::Timestamp(..) => {
            let array = column.as_primitive::<TimestampNanosecondType>();
            each(&|row| array.value(row).into_bound_py_any(py))
        }
        DataType::Boolean => {
            let array = column.as_boolean();
            each(&|row| array.value(row).into_bound_py_any(py))
        }
        DataType::Binary => {
            let array = column.as_binary::<i32>();
            each(&|row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::List(_) => {
            let array = column.as_list::<i32>();
            each(&|row| Ok(PyList::new(py, values(py, &array.value(row))?)?.into_any()))
        }
        other => Err(PyTypeError::new_err(format!(
            "a column is {other}, which has no rows; this is a bug of Weir"
        ))),
    }
}
