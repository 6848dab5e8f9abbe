//! A resolved question: the engine's questions, and how rows are made of their items.

use super::make::Rows;
use crate::metrics::Series;
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use weir::packet::{Column, RowSink};
use weir::{ColumnMask, Question};

/// A resolved question.
pub struct Resolved {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The name of the log of the rows.
    pub log: &'static str,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// The columns that a table shows unless others are requested. Empty: all columns.
    pub brief: Vec<Cow<'static, str>>,
    /// Turns items into rows.
    pub rows: Box<dyn Rows>,
    /// The names of columns that are shown only if they are named.
    pub on_request: &'static [&'static str],
    /// Takes the work for columns that are not shown out of the questions. `None`: all columns are computed.
    pub show_columns: Option<ShowColumns>,
    /// The rows as metrics.
    pub series: Option<Arc<Series>>,
    /// How answers are counted.
    pub counted: Counted,
    /// Makes a sink for the question's own line format.
    pub lines: Option<MakeLines>,
    /// A line for the report of counters.
    pub note: Option<String>,
    /// The run reports the bytes that its streams lack.
    pub lost_bytes: bool,
    /// The rows obey the `limit` of the question themselves, which is no number of rows.
    pub has_own_limit: bool,
}

/// Receives the questions for the engine, and the columns of rows that are needed afterwards.
pub type ShowColumns = Box<dyn FnOnce(&mut [Question], ColumnMask)>;

/// Makes a sink that writes lines, with or without colours.
pub type MakeLines = Box<dyn FnOnce(Box<dyn Write + Send>, bool) -> Box<dyn RowSink + Send> + Send>;

/// How answers are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The engine's number of matches for the first question; no items are delivered.
    Matched,
    /// The number of rows.
    Rows,
}

impl Resolved {
    /// A question whose rows are counted.
    pub fn new(
        questions: Vec<Question>,
        log: &'static str,
        columns: Vec<Column>,
        rows: impl Rows + 'static,
    ) -> Self {
        let rows = Box::new(rows);
        let (counted, brief) = (Counted::Rows, vec![]);
        let (lines, note, series, show_columns) = (None, None, None, None);
        let (lost_bytes, has_own_limit) = (false, false);
        Self {
            questions,
            log,
            columns,
            brief,
            rows,
            on_request: &[],
            show_columns,
            series,
            counted,
            lines,
            note,
            lost_bytes,
            has_own_limit,
        }
    }

    /// Computes only the columns that are shown, and `others`, which rows are made of, too.
    pub fn with_shown_columns(self, others: ColumnMask) -> Self {
        let show = move |questions: &mut [Question], shown: ColumnMask| {
            questions.iter_mut().for_each(|question| question.show_columns(shown.with(others)));
        };
        Self { show_columns: Some(Box::new(show)), ..self }
    }

    /// Sets the columns of a table.
    pub fn with_brief(self, names: &[&'static str]) -> Self {
        Self { brief: names.iter().map(|name| Cow::Borrowed(*name)).collect(), ..self }
    }
}
