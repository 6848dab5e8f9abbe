//! Packet sources and output sinks.
//!
//! [`source`] reads capture files (pcap in all its dialects, pcapng; plain, gzip, zstd or lz4) as bursts of
//! packets in shared blocks. [`sink`] writes rows (a table for a terminal, JSON lines, CSV, Parquet …) and
//! packets (pcap, pcapng); [`outlet`] is the thread of an output. [`packed`] writes and reads rows in a
//! compact binary form. [`tcp`] are captures over TCP connections, [`udp`] packets over UDP. This crate
//! knows no protocols: those belong to the engine and the language.
//!
//! Read [`source::CaptureReader`] first, then `source/window.rs` (reading bytes into blocks), then
//! `source/pcap.rs` (finding packets in them).
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as weir_io;

pub mod outlet;
pub mod packed;
pub mod sink;
pub mod source;
mod sync;
pub mod tcp;

pub use outlet::{Outlet, Patience};
pub use sink::human;
pub use sink::{
    CaptureClients, CaptureFormat, CaptureWriter, ClientEvent, ClientLoss, Compressed, Compression, Format,
    Options, Partitions, PcapWriter, PcapngWriter, WholeFile, WriteCapture, Written, complete_parquet,
    file_time, json_text,
};
pub use source::{
    Attended, CaptureReader, Description, Findings, Following, Found, Interface, Listening, Mark,
    MemoryPacket, MemorySource, TimeResolution, first_time,
};
/// The ring of a recorder.
pub use weir_ring as ring;
/// Packets over UDP.
pub use weir_udp as udp;
