//! Batches of rows as Arrow's arrays.

use crate::no_columns;
use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, ListBuilder, StringBuilder,
    StringDictionaryBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use weir_packet::{Batch, Cell, Column, Row, ValueType};

/// Maximum number of rows of a batch.
pub const ROWS_MAX: usize = 8192;

/// Size limit of a batch in bytes: the row that reaches it ends the batch.
pub const BYTES_MAX: usize = 4 << 20;

/// Bytes that a value needs at least, and an absent one too.
const NULL_BYTES: usize = 8;

/// The time zone of all times.
const ZONE: &str = "UTC";

/// Nanoseconds per second.
const SECOND_NS: f64 = 1e9;

/// Text columns with mostly distinct values, for which a dictionary saves nothing. This is a list rather than
/// a decision by the data, so that a column has the same type in every file.
const HARDLY_TWICE: &[&str] =
    &["uid", "community_id", "info", "history", "sha256", "msg_id", "in_reply_to", "first_received"];

/// Collects rows as arrays.
pub struct Arrays {
    schema: SchemaRef,
    columns: Vec<Builder>,
    names: Vec<String>,
    rows: usize,
    bytes: usize,
    bytes_max: usize,
    /// A buffer for conversion to text, kept for reuse.
    text: String,
}

enum Builder {
    Bool(BooleanBuilder),
    Unsigned(UInt64Builder),
    Fraction(Float64Builder),
    Time(TimestampNanosecondBuilder),
    Interval(Float64Builder),
    Text(StringBuilder),
    Dictionary(StringDictionaryBuilder<Int32Type>),
    Bytes(BinaryBuilder),
    Texts(ListBuilder<StringBuilder>),
    Numbers(ListBuilder<UInt64Builder>),
}

impl Arrays {
    /// An empty collection with these columns; `about` is the schema's metadata. With `dictionaries`, text
    /// columns with recurring values are dictionaries.
    pub fn new(columns: &[Column], about: HashMap<String, String>, dictionaries: bool) -> Self {
        let builders: Vec<_> = columns.iter().map(|column| Builder::new(column, dictionaries)).collect();
        let field = |(column, builder): (&Column, &Builder)| {
            Field::new(column.name.as_ref(), builder.data_type(), true)
        };
        let fields: Vec<_> = columns.iter().zip(&builders).map(field).collect();
        let schema = Arc::new(Schema::new(fields).with_metadata(about));
        let names = columns.iter().map(|column| column.name.to_string()).collect();
        Self {
            schema,
            columns: builders,
            names,
            rows: 0,
            bytes: 0,
            bytes_max: BYTES_MAX,
            text: String::new(),
        }
    }

    /// With another limit of bytes than [`BYTES_MAX`].
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the first of these rows of a batch, as many as there is room for, and removes them from `rows`.
    /// Returns whether the collection is full.
    ///
    /// # Errors
    /// If a value does not fit its column's type, which is a bug in the code that made the row.
    pub fn push(&mut self, batch: &Batch, rows: &mut Range<usize>) -> io::Result<bool> {
        if rows.start < rows.end && batch.columns() != self.columns.len() {
            return Err(no_columns());
        }
        // A few rows at a time, so that long values exceed the bound by little.
        const TOGETHER: usize = 64;
        const TOGETHER_BYTES: usize = 1 << 16;
        let each = batch.bytes() / batch.rows().max(1) + 1;
        let together = TOGETHER.min(TOGETHER_BYTES / each).max(1);
        while rows.start < rows.end && !self.is_full() {
            let count = rows.len().min(together).min(ROWS_MAX - self.rows);
            for row in rows.start..rows.start + count {
                self.push_row(batch.row(row))?;
            }
            rows.start += count;
        }
        Ok(self.is_full())
    }

    /// Adds a row. Nulls are added before the next value of their column, and at the end: a row costs its own
    /// values, however many columns there are.
    fn push_row(&mut self, row: Row<'_>) -> io::Result<()> {
        self.bytes += self.columns.len() * NULL_BYTES;
        for (index, cell) in row.present() {
            let column = &mut self.columns[index];
            column.pad(self.rows);
            let Some(bytes) = column.push(cell, &mut self.text) else {
                let (name, kind) = (&self.names[index], column.data_type());
                return Err(io::Error::other(format!("column `{name}` is {kind}, and not {cell:?}")));
            };
            self.bytes += bytes - NULL_BYTES;
        }
        self.rows += 1;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS_MAX || self.bytes >= self.bytes_max
    }

    /// The rows so far as arrays, if there are any. Leaves the collection empty.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        let rows = self.rows;
        (self.rows, self.bytes) = (0, 0);
        self.columns.iter_mut().for_each(|column| column.pad(rows));
        let arrays = self.columns.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map(Some)
    }
}

/// The metadata of a file: the name of its log, and the meaning of each column.
pub fn about(columns: &[Column], path: &str) -> impl Iterator<Item = (String, String)> {
    let log = Some(("weir.log".to_string(), path.to_string())).filter(|_| !path.is_empty());
    let docs = columns.iter().map(|column| (format!("weir.doc.{}", column.name), column.doc.to_string()));
    log.into_iter().chain(docs)
}

impl Builder {
    fn new(column: &Column, dictionaries: bool) -> Self {
        let comes_again = dictionaries && !HARDLY_TWICE.contains(&column.name.as_ref());
        match column.value_type {
            ValueType::Bool => Self::Bool(BooleanBuilder::new()),
            ValueType::Unsigned => Self::Unsigned(UInt64Builder::new()),
            ValueType::Fraction => Self::Fraction(Float64Builder::new()),
            ValueType::Time => Self::Time(TimestampNanosecondBuilder::new().with_timezone(ZONE)),
            ValueType::Interval => Self::Interval(Float64Builder::new()),
            ValueType::Bytes => Self::Bytes(BinaryBuilder::new()),
            ValueType::Texts => Self::Texts(ListBuilder::new(StringBuilder::new())),
            ValueType::Numbers => Self::Numbers(ListBuilder::new(UInt64Builder::new())),
            ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address | ValueType::Mac | ValueType::Text => {
                match comes_again {
                    true => Self::Dictionary(StringDictionaryBuilder::new()),
                    false => Self::Text(StringBuilder::new()),
                }
            }
        }
    }

    fn data_type(&self) -> DataType {
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        match self {
            Self::Bool(_) => DataType::Boolean,
            Self::Unsigned(_) => DataType::UInt64,
            Self::Fraction(_) | Self::Interval(_) => DataType::Float64,
            Self::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
            Self::Text(_) => DataType::Utf8,
            Self::Dictionary(_) => DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
            Self::Bytes(_) => DataType::Binary,
            Self::Texts(_) => list(DataType::Utf8),
            Self::Numbers(_) => list(DataType::UInt64),
        }
    }

    /// Adds a value and returns the bytes it may need, at least [`NULL_BYTES`]; `None` if its type differs. A
    /// text column accepts every type.
    fn push(&mut self, value: Cell<'_>, scratch: &mut String) -> Option<usize> {
        match (self, value) {
            (Self::Bool(column), Cell::Bool(v)) => column.append_value(v),
            (Self::Unsigned(column), Cell::Unsigned(v)) => column.append_value(v),
            (Self::Fraction(column), Cell::Fraction(v)) => column.append_value(v),
            (Self::Time(column), Cell::Time(v)) => column.append_value(v.0),
            (Self::Interval(column), Cell::Interval(ns)) => column.append_value(ns as f64 / SECOND_NS),
            (Self::Bytes(column), Cell::Bytes(v)) => {
                column.append_value(v);
                return Some(8 + v.len());
            }
            (Self::Texts(column), Cell::Texts(v)) => {
                column.append_value(v.iter().map(Some));
                return Some(v.iter().map(|text| 8 + text.len()).sum::<usize>() + 8);
            }
            (Self::Numbers(column), Cell::Numbers(v)) => {
                column.append_value(v.iter().copied().map(Some));
                return Some(8 * v.len() + 8);
            }
            (Self::Text(column), value) => {
                return Some(as_text(value, scratch, |text| column.append_value(text)));
            }
            // There are at most as many keys as rows, which fit the key type.
            (Self::Dictionary(column), value) => {
                return Some(as_text(value, scratch, |text| column.append_value(text)));
            }
            _ => return None,
        }
        Some(NULL_BYTES)
    }

    /// Adds nulls, up to this number of values.
    fn pad(&mut self, rows: usize) {
        let nulls = rows - self.len();
        if nulls == 0 {
            return;
        }
        match self {
            Self::Bool(column) => column.append_nulls(nulls),
            Self::Unsigned(column) => column.append_nulls(nulls),
            Self::Fraction(column) | Self::Interval(column) => column.append_nulls(nulls),
            Self::Time(column) => column.append_nulls(nulls),
            Self::Text(column) => column.append_nulls(nulls),
            Self::Dictionary(column) => column.append_nulls(nulls),
            Self::Bytes(column) => column.append_nulls(nulls),
            Self::Texts(column) => column.append_nulls(nulls),
            Self::Numbers(column) => column.append_nulls(nulls),
        }
    }

    /// Number of values.
    fn len(&self) -> usize {
        match self {
            Self::Bool(column) => column.len(),
            Self::Unsigned(column) => column.len(),
            Self::Fraction(column) | Self::Interval(column) => column.len(),
            Self::Time(column) => column.len(),
            Self::Text(column) => column.len(),
            Self::Dictionary(column) => column.len(),
            Self::Bytes(column) => column.len(),
            Self::Texts(column) => column.len(),
            Self::Numbers(column) => column.len(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Unsigned(column) => Arc::new(column.finish()),
            Self::Fraction(column) | Self::Interval(column) => Arc::new(column.finish()),
            Self::Time(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
            Self::Dictionary(column) => Arc::new(column.finish()),
            Self::Bytes(column) => Arc::new(column.finish()),
            Self::Texts(column) => Arc::new(column.finish()),
            Self::Numbers(column) => Arc::new(column.finish()),
        }
    }
}

/// Passes a value as text to `push` and returns the bytes it may need.
fn as_text(value: Cell<'_>, scratch: &mut String, mut push: impl FnMut(&str)) -> usize {
    if let Cell::Text(text) = value {
        push(text);
        return 8 + text.len();
    }
    scratch.clear();
    value.append_to(scratch);
    push(scratch);
    8 + scratch.len()
}
