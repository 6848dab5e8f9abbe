//! Parquet and Arrow. A separate crate implements them, which isolates their dependencies.

use super::{Options, Out};
use weir_columns::{ArrowSink, ParquetSink};

/// Parquet. Rows cannot be written individually.
pub(super) fn parquet(out: Out, options: &Options) -> ParquetSink {
    ParquetSink::new(out, options.path)
}

/// An Arrow stream.
pub(super) fn arrow(out: Out, options: &Options) -> ArrowSink {
    ArrowSink::new(out, options.path)
}
