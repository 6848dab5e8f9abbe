//! A run: questions over an input, answered on a thread of its own.

use crate::lake::Part;
use crate::mistakes::to_python;
use crate::pipes::Pipes;
use crate::queues::Queues;
use crate::start::{Packets, Start};
use crate::stream::{Damage, Stream};
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use weir_columns::ArrowBatches;
use weir_questions::by_name::{Mistake, Question, Questions, input};

/// Questions over an input, checked. A run can be started once.
#[pyclass(module = "weir._weir", frozen)]
pub struct Run {
    /// `None`: started, or explained.
    questions: Mutex<Option<(Questions, Packets)>>,
    schemas: Vec<SchemaRef>,
    names: Vec<String>,
    columns: Vec<Columns>,
}

/// The name, type and meaning of each column.
type Columns = Vec<(String, String, String)>;

#[pymethods]
impl Run {
    /// Checks `questions`, each with its name, type and options (JSON), over captures or interfaces with
    /// options (JSON). `pipes` are those captures that threads of Python fill. With `task`, and what opens
    /// captures: over the packets of this task.
    #[new]
    #[pyo3(signature = (read, interfaces, options, questions, pipes, task=None))]
    fn new(
        py: Python<'_>,
        read: Vec<OsString>,
        interfaces: Vec<String>,
        options: &str,
        questions: Vec<(String, String, String)>,
        pipes: Vec<PathBuf>,
        task: Option<(Vec<u8>, Option<Py<PyAny>>)>,
    ) -> PyResult<Self> {
        let pipes = Pipes(pipes);
        let names = questions.iter().map(|(name, ..)| name.clone()).collect();
        let is_part = task.is_some();
        let part = task.map(|(task, opener)| py.detach(|| Part::new(&task, opener, options))).transpose();
        let part = part.map_err(|wrong| to_python(py, &wrong))?;
        let first_time = part.as_ref().map(Part::first_time);
        let checked = py.detach(|| {
            let input = input(read, interfaces, options)?;
            let stated = questions.iter().map(|(name, kind, options)| {
                let question = Question::of(name, kind, options)?;
                Ok::<_, Mistake>(if is_part { question.with_repeated() } else { question })
            });
            let stated = stated.collect::<Result<_, _>>()?;
            match first_time {
                Some(first_time) => Questions::of_source(&input, first_time, stated),
                None => Questions::of(&input, stated),
            }
        });
        let checked = checked.map_err(|wrong| to_python(py, &wrong))?;
        let batches = checked.columns().zip(checked.logs());
        let schemas = batches.map(|(columns, log)| ArrowBatches::new(columns, log).schema()).collect();
        let about = |column: &weir_packet::Column| {
            let value_type = format!("{:?}", column.value_type).to_lowercase();
            (column.name.to_string(), value_type, column.doc.to_string())
        };
        let columns = checked.columns().map(|columns| columns.iter().map(about).collect()).collect();
        let packets = part.map_or(Packets::Input(pipes), |part| Packets::Part(Box::new(part)));
        Ok(Self { questions: Mutex::new(Some((checked, packets))), schemas, names, columns })
    }

    /// The columns of each question's rows: name, type, meaning.
    #[getter]
    fn columns(&self) -> Vec<Columns> {
        self.columns.clone()
    }

    /// How the questions are evaluated, as text.
    fn explain(&self, py: Python<'_>, stage: Option<&str>) -> PyResult<String> {
        let (questions, _) = self.take()?;
        py.detach(|| questions.explain(stage)).map_err(|wrong| to_python(py, &wrong))
    }

    /// The streams of the questions, with queues of at most `bytes_max` bytes each. The run begins when the
    /// first stream is read. `damage` is what the end of a damaged capture is: `raise`, `warn` or `keep`.
    fn streams(&self, bytes_max: usize, damage: &str) -> PyResult<Vec<Stream>> {
        let damage = Damage::of(damage)?;
        let (questions, packets) = self.take()?;
        let queues = Arc::new(Queues::new(self.schemas.iter().map(|_| bytes_max)));
        let start = Arc::new(Start::new(questions, packets));
        let names = Arc::new(self.names.clone());
        let stream = |(index, schema): (usize, &SchemaRef)| {
            let (queues, start, names) = (Arc::clone(&queues), Arc::clone(&start), Arc::clone(&names));
            Stream::new(index, Arc::clone(schema), names, damage, queues, start)
        };
        Ok(self.schemas.iter().enumerate().map(stream).collect())
    }
}

impl Run {
    fn take(&self) -> PyResult<(Questions, Packets)> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.take().ok_or_else(|| PyRuntimeError::new_err("a run can be started once"))
    }
}
