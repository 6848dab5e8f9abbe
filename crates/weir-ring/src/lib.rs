//! The ring of a recorder: all packets of the last minutes in shared memory, with many writers and readers.
//!
//! [`Writer`]s put packets into segments of the [`Ring`], each into one of its own, with an index of flows.
//! [`Reader`]s, also in other processes, read what is there as the bytes of a pcapng file, while writers go
//! on: a reader that is too slow finds out, and counts what it has lost; it never delays a writer. A
//! [`Spooler`] writes complete segments to files, as they are in memory. [`recorders`] lets other processes
//! find the ring by name.
//!
//! Read `layout.rs` first (the protocol between writers and readers), then `writer.rs` and `reader.rs`.

#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("segments are in the order of bytes of little-endian machines");

#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod key;
mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod piece;
#[cfg(all(test, loom))]
mod protocol_model;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
pub mod recorders;
#[cfg(not(loom))]
mod ring;
#[cfg(not(loom))]
mod spool;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(not(loom))]
mod time_range;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use memory::Pages;
#[cfg(not(loom))]
pub use reader::{Reader, Selection};
#[cfg(not(loom))]
pub use ring::{RING_BYTES_MIN, Ring, RingCounters};
#[cfg(not(loom))]
pub use spool::{Retention, SPOOL_BYTES_MIN, SpoolCounters, SpoolFiles, SpoolParams, Spooler, check_class};
#[cfg(not(loom))]
pub use time_range::{Stretch, TimeRange};
#[cfg(not(loom))]
pub use writer::{DescribeInterface, Writer};
