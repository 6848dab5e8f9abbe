//! Rows on standard output shared by several questions: each row begins with the name of its question.

use std::io;
use std::ops::Range;
use weir::packet::{Batch, Cell, Column, RowSink, ValueType};

/// Puts the name of a question before each of its rows.
pub struct Named {
    /// The question.
    name: String,
    /// The sink of the rows.
    sink: Box<dyn RowSink + Send>,
    /// The rows with their names.
    tagged: Batch,
}

impl Named {
    /// Tags rows of the question `name`, and passes them to `sink`.
    pub fn new(name: &str, sink: Box<dyn RowSink + Send>) -> Self {
        Self { name: name.to_string(), sink, tagged: Batch::default() }
    }
}

impl RowSink for Named {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let question = Column::new("question", ValueType::Text, "question of the row");
        let all: Vec<Column> = [question].into_iter().chain(columns.iter().cloned()).collect();
        self.tagged = Batch::new(all.len());
        self.sink.begin(&all)
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        self.tagged.clear();
        for index in rows {
            self.tagged.add_around(&[Cell::Text(&self.name)], batch.row(index), &[]);
        }
        self.sink.batch(&self.tagged)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.sink.end()
    }
}
