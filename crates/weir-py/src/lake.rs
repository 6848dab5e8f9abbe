//! Captures divided among tasks (`weir_lake`): indices, plans, and the packets of a task. Python says where
//! captures are stored.

use crate::mistakes::{of_captures, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{self, Read};
use std::time::Duration;
use weir_lake::{
    Capture, Division, Fault, Files, Identity, Index, OpenCapture, Task, TaskSource, Window, build_index,
    plan,
};
use weir_packet::{Burst, Poll, Source, SourceError, Timestamp};
use weir_questions::by_name::{Ended, Ender, Listener, Mistake, Questions, TakeRows, input, settings};

/// The bytes of the index of a capture: of a file by its name, or of a binary file object. `identity`: its
/// bytes, its time of change, a number of the settings, and the size of chunks. `options` (JSON) are those of
/// the input.
#[pyfunction]
pub fn lake_index<'py>(
    py: Python<'py>,
    name: &str,
    object: Option<Py<PyAny>>,
    identity: (u64, u64, u64, u64),
    options: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let (size_bytes, stamp, settings_number, chunk_bytes) = identity;
    let identity = Identity { size_bytes, stamp, settings: settings_number, chunk_bytes };
    let made = py.detach(|| {
        let (compiler, options) = settings(&input(vec![], vec![], options)?)?;
        let reader: io::Result<Box<dyn Read + Send>> = match object {
            Some(object) => Ok(Box::new(Object(object))),
            None => Files.open(name, 0, None),
        };
        let reader = reader.map_err(|error| Fault::Io(format!("{name}: {error}")));
        let index = reader.and_then(|reader| build_index(name, reader, identity, &compiler, &options));
        Ok(index.map(|index| index.encode()))
    });
    match made.map_err(|wrong| to_python(py, &wrong))? {
        Ok(index) => Ok(PyBytes::new(py, &index)),
        Err(Fault::Settings(why)) => Err(to_python(py, &Mistake::new(why))),
        Err(Fault::Io(why)) => Err(of_captures(py, &[why])),
    }
}

type About = ((u64, u64, u64, u64), u64, u32, usize, u64, Option<(i64, i64)>, Option<String>);

/// What an index says: its identity; packets, interfaces, chunks, bytes; the earliest and the latest time;
/// damage. `None` if the bytes are no index of this version.
#[pyfunction]
pub fn lake_about(index: &[u8]) -> Option<About> {
    let index = Index::decode(index).ok()?;
    let Identity { size_bytes, stamp, settings, chunk_bytes } = index.identity;
    let times = index.times();
    let identity = (size_bytes, stamp, settings, chunk_bytes);
    Some((identity, index.packets, index.interfaces, index.chunks.len(), size_bytes, times, index.error))
}

/// The bytes of each task that reads the captures with these names and indices. `window`: captures that were
/// read before, and the seconds between the times at which pairs are closed.
#[pyfunction]
pub fn lake_plan<'py>(
    py: Python<'py>,
    captures: Vec<(String, Vec<u8>)>,
    options: &str,
    tasks: usize,
    window: Option<(usize, f64)>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let planned = py.detach(|| {
        let (compiler, options) = settings(&input(vec![], vec![], options)?)?;
        let decoded: Result<Vec<Index>, _> = captures.iter().map(|(_, index)| Index::decode(index)).collect();
        let indices = decoded.map_err(|_| Mistake::new("an index is damaged: remove it"))?;
        let captures: Vec<Capture<'_>> =
            captures.iter().zip(&indices).map(|((name, _), index)| Capture { name, index }).collect();
        let window = window.map(|(history, cut)| {
            let cut = Duration::try_from_secs_f64(cut).unwrap_or(Duration::MAX);
            Window { history, cut }
        });
        let longest = weir_lake::longest_timeout(&compiler, &options);
        let tasks = plan(&captures, &Division { tasks, longest, window });
        Ok(tasks.iter().map(Task::encode).collect::<Vec<_>>())
    });
    let planned: Vec<Vec<u8>> = planned.map_err(|wrong: Mistake| to_python(py, &wrong))?;
    Ok(planned.iter().map(|task| PyBytes::new(py, task)).collect())
}

/// A part of captures: the packets of a task.
pub struct Part {
    source: TaskSource,
    first_time: Option<Timestamp>,
    errors: Vec<String>,
}

impl Part {
    /// The part that the bytes of a task describe. `opener` opens captures; `None`: they are files. `options`
    /// (JSON) are those of the input.
    pub fn new(task: &[u8], opener: Option<Py<PyAny>>, options: &str) -> Result<Self, Mistake> {
        let (compiler, options) = settings(&input(vec![], vec![], options)?)?;
        let pairs = weir_lake::host_pairs(&compiler, &options).map_err(Mistake::new)?;
        let mut task =
            Task::decode(task).map_err(|_| Mistake::new("the task is of another version of Weir"))?;
        let (first_time, errors) = (task.first_time.map(Timestamp), std::mem::take(&mut task.errors));
        let opener: Box<dyn OpenCapture> = match opener {
            Some(opener) => Box::new(Opener(opener)),
            None => Box::new(Files),
        };
        Ok(Self { source: TaskSource::new(task, opener, pairs), first_time, errors })
    }

    /// The time of the first packet of all captures.
    pub fn first_time(&self) -> Option<Timestamp> {
        self.first_time
    }

    /// Answers questions about the part.
    pub fn run(
        self,
        questions: Questions,
        takers: Vec<Box<dyn TakeRows>>,
        ender: &Ender,
        listener: Listener,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Ended, Mistake> {
        let source = Ending { source: self.source, ender: ender.clone() };
        let mut ended = questions.run_over(takers, source, ender, listener, progress)?;
        ended.errors.extend(self.errors);
        Ok(ended)
    }
}

/// A source that ends early when nobody reads the rows.
struct Ending {
    source: TaskSource,
    ender: Ender,
}

impl Source for Ending {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        if self.ender.has_ended() {
            burst.clear();
            return Ok(Poll::End);
        }
        self.source.poll(burst)
    }

    fn clock(&self) -> Option<Timestamp> {
        self.source.clock()
    }
}

/// An object of Python with a method `open(name, start, bytes)`.
struct Opener(Py<PyAny>);

impl OpenCapture for Opener {
    fn open(&mut self, name: &str, start: u64, bytes: Option<u64>) -> io::Result<Box<dyn Read + Send>> {
        let opened = Python::attach(|py| self.0.call_method1(py, "open", (name, start, bytes)));
        Ok(Box::new(Object(opened.map_err(io::Error::other)?)))
    }
}

/// A binary file object.
struct Object(Py<PyAny>);

impl Read for Object {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let read = self.0.bind(py).call_method1("read", (out.len(),))?;
            let bytes: &[u8] = read.extract().map_err(PyErr::from)?;
            let there = out.get_mut(..bytes.len());
            let there =
                there.ok_or_else(|| PyValueError::new_err("read() returned more than was asked for"))?;
            there.copy_from_slice(bytes);
            Ok(bytes.len())
        })
        .map_err(|error: PyErr| io::Error::other(error))
    }
}
