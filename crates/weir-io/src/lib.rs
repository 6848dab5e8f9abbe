//! Where packets come from and where answers go.
//!
//! [`source`] reads capture files (pcap in all its dialects, pcapng; plain, gzip, zstd or lz4) as
//! bursts of packets that lie in shared blocks. [`sink`] writes rows (a table for a terminal, JSON
//! lines, CSV, Parquet …) and packets (pcap, pcapng). Nothing in here knows what a protocol is: that is the
//! engine's and the language's.
//!
//! Read [`source::CaptureReader`] first, then `source/window.rs` (how bytes come into blocks), then
//! `source/pcap.rs` (how packets are found in them).
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as weir_io;

pub mod sink;
pub mod source;

pub use sink::{
    CaptureFormat, CaptureWriter, Format, Options, Partitions, PcapWriter, PcapngWriter, json_text,
};
pub use source::{
    Attended, CaptureReader, Description, Findings, Following, Found, Interface, MemoryPacket, MemorySource,
    TimeResolution,
};
