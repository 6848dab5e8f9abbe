//! Parquet, Arrow and packed rows. A crate of its own implements the first two, because of their
//! dependencies. The module `packed` implements the last, with a reader.

use super::{Options, Out, Written};
use crate::packed::PackedSink;
use std::fs::File;
use weir_columns::{ArrowMessages, ArrowSink, ParquetSink, TakeMessage};
use weir_packet::RowSink;

pub use weir_columns::complete_parquet;

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

/// Packed rows.
pub(super) fn packed(out: Out, options: &Options) -> PackedSink<Out> {
    PackedSink::new(out, options.path)
}

/// A sink that makes complete Arrow streams of at most `bytes_max` bytes, unless a single row has more, and
/// gives each of them to `take`, with the number of its rows. `path`: the name of the log, or empty. `first`:
/// the name and the text of a column in front.
pub fn arrow_messages(
    path: &str,
    first: (&str, &str),
    bytes_max: usize,
    take: TakeMessage,
) -> Box<dyn RowSink + Send> {
    Box::new(ArrowMessages::new(path, first, bytes_max, take))
}
