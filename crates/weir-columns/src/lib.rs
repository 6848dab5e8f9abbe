//! Rows as columns: Parquet files and Arrow streams.
//!
//! `batch.rs` turns rows into batches of typed columns, the same for both; [`ParquetSink`] and [`ArrowSink`] write
//! them. A crate of its own, as it holds the only dependencies that are large; nothing but `weir-io` knows it.
//!
//! What a column becomes:
//!
//! | value | column | why |
//! |---|---|---|
//! | number | uint64 | |
//! | fraction | float64 | |
//! | time | timestamp, nanoseconds, UTC | |
//! | interval | float64, seconds | Parquet has no duration, and of an int64 nobody sees the unit: pandas, Polars and DuckDB calculate with seconds at once, and they are what Zeek's logs have. Exact to the nanosecond up to 104 days |
//! | address, MAC address, text | text | of Arrow: a dictionary, where values are likely to come again |
//! | bytes | binary | |
//! | lists | list of text, list of uint64 | |
//! | absent | null | |
//!
//! Batches are bounded in rows and bytes (`batch::ROWS_MAX`, `batch::BYTES_MAX`), and so are Parquet's row groups.
#![forbid(unsafe_code)]

mod arrow;
mod batch;
mod parquet;
#[cfg(test)]
mod tests;

pub use crate::arrow::ArrowSink;
pub use crate::parquet::ParquetSink;

use std::io::{self, Write};

/// What is written to.
type Out = Box<dyn Write + Send>;

/// A row or an end that comes before the columns.
fn no_columns() -> io::Error {
    io::Error::other("rows come before their columns")
}
