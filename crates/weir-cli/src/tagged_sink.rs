//! Rows on standard output shared by several questions: each row begins with the name of its question.

use std::io;
use weir::packet::{Column, RowSink, Value, ValueType};

/// Puts the name of a question before each of its rows.
pub struct Named {
    /// The question.
    name: String,
    /// The sink of the rows.
    sink: Box<dyn RowSink + Send>,
}

impl Named {
    /// Tags rows of the question `name`, and passes them to `sink`.
    pub fn new(name: &str, sink: Box<dyn RowSink + Send>) -> Self {
        Self { name: name.to_string(), sink }
    }
}

impl RowSink for Named {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let question = Column::new("question", ValueType::Text, "question of the row");
        let all: Vec<Column> = [question].into_iter().chain(columns.iter().cloned()).collect();
        self.sink.begin(&all)
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let name = Value::Text(self.name.as_str().into());
        let all: Vec<Value<'_>> = [name].into_iter().chain(values.iter().map(Value::borrowed)).collect();
        self.sink.row(&all)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.sink.end()
    }
}
