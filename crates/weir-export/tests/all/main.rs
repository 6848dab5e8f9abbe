//! Requests for collectors of metrics. One program, so that the crate is linked once.

#[cfg(feature = "otlp")]
mod otlp;
