//! The types that all crates of Weir share: packets and bursts, link types, drop reasons, sets of indices,
//! and the trait of a packet source.
//!
//! This crate has no dependencies and does no input or output; sources are in `weir-io`, the data path is in
//! `weir-engine`.
#![forbid(unsafe_code)]

mod batch;
mod bit_set;
mod block;
pub mod bpf;
mod cell;
mod copies;
mod direction;
mod drop;
mod extras;
mod fixed_set;
mod header_rules;
mod headers;
mod kernel_filter;
mod link;
mod readable;
mod record;
mod sink;
mod source;
mod time;

pub use batch::{Batch, Row, RowWriter};
pub use bit_set::BitSet;
pub use block::{BURST_PACKETS_MAX, Block, BlockPool, Burst, PacketMemory, PacketMeta, Retention, offset_in};
pub use bpf::BpfInstruction;
pub use cell::{Cell, Span, Texts};
pub use copies::{COPIES_WITHIN_NS, Copies};
pub use direction::Direction;
pub use drop::{DropReason, Drops};
pub use extras::{ChecksumState, Extras, PacketDirection, PacketExtra, VlanTag};
pub use fixed_set::FixedSet;
pub use header_rules::{HeaderClass, HeaderPattern, HeaderRules, IpVersion, Masked, Transport};
pub use headers::{Header, HeaderCondition, HeaderPair, HeaderPart, HeaderTerm, HeaderTerms, PacketHeaders};
pub use kernel_filter::{KernelFilter, KernelFilters, KernelFlows, flow_entry};
pub use link::LinkType;
pub use readable::{is_hidden, printable, readable};
pub use record::{Column, Value, ValueType};
pub use sink::RowSink;
pub use source::{DatagramStats, Poll, Source, SourceError, SourceErrorKind, SourcePlace, SourceStats};
pub use time::Timestamp;
