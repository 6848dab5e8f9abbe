//! The command: as users run it, on links, with brokers and collectors, with scripts, and under attack. One
//! program, so that the crate is linked once.

mod cli;
#[cfg(feature = "kafka")]
mod kafka;
pub(crate) mod links;
mod memory;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "lua")]
mod scripts;
