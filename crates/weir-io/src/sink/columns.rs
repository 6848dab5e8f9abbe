//! Parquet and Arrow, which a crate of their own writes: it isolates what they depend on.

use super::{Options, Out};
use weir_columns::{ArrowSink, ParquetSink};

/// Parquet; a row cannot be handed on at once there.
pub(super) fn parquet(out: Out, options: &Options) -> ParquetSink {
    ParquetSink::new(out, options.path)
}

/// An Arrow stream.
pub(super) fn arrow(out: Out, options: &Options) -> ArrowSink {
    ArrowSink::new(out, options.path)
}
