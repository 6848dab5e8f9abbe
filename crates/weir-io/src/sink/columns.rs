//! Parquet and Arrow. A separate crate implements them, which isolates their dependencies.

use super::{Options, Out, Written};
use std::fs::File;
use weir_columns::{ArrowSink, ParquetSink};

pub(super) use weir_columns::complete_parquet;

/// Parquet. Rows cannot be written individually.
pub(super) fn parquet(out: Out, options: &Options) -> ParquetSink {
    ParquetSink::new(out, options.path)
}

/// Parquet in a regular file, whose data `written` counts.
pub(super) fn parquet_file(file: File, options: &Options, written: &Written) -> ParquetSink {
    ParquetSink::in_file(file, options.path, written.counter())
}

/// An Arrow stream.
pub(super) fn arrow(out: Out, options: &Options) -> ArrowSink {
    ArrowSink::new(out, options.path)
}
