//! Rows as columns: Parquet files and Arrow streams.
//!
//! `batch.rs` converts rows to batches of typed columns for both formats; [`ParquetSink`] and [`ArrowSink`]
//! write them, and [`ArrowMessages`] makes a stream of each batch; [`ArrowBatches`] passes batches to readers
//! in the same process. This is a crate of its own because it has the project's only large dependencies; only
//! `weir-io` and the Python package depend on it.
//!
//! The types of columns:
//!
//! | value | column | why |
//! |---|---|---|
//! | number | uint64 | |
//! | fraction | float64 | |
//! | time | timestamp, nanoseconds, UTC | |
//! | interval | float64, seconds | Parquet has no duration type, and an int64 would not show its unit. pandas, Polars and DuckDB compute with seconds directly, and Zeek's logs use seconds. Exact to the nanosecond up to 104 days |
//! | address, MAC address, text | text | in Arrow: a dictionary, if values are likely to recur |
//! | bytes | binary | |
//! | lists | list of text, list of uint64 | |
//! | absent | null | |
//!
//! Batches are bounded in rows and bytes (`batch::ROWS_MAX`, `batch::BYTES_MAX`), and so are Parquet's row
//! groups.
#![forbid(unsafe_code)]

mod arrow;
mod batch;
mod batches;
mod footed_file;
mod messages;
mod parquet;
#[cfg(test)]
mod tests;

pub use crate::arrow::ArrowSink;
pub use crate::batches::ArrowBatches;
pub use crate::messages::{ArrowMessages, TakeMessage};
pub use crate::parquet::{ParquetSink, complete_parquet};

use std::io::{self, Write};

/// The output.
type Out = Box<dyn Write + Send>;

/// The error for a row or an end before the columns.
fn no_columns() -> io::Error {
    io::Error::other("rows come before their columns")
}
