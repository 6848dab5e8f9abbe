//! The items that a question receives: [`Item`], and the data in it.

use super::pipeline_part::PipelinePart;
use crate::flow::connection::Connection;
use crate::flow::id;
use crate::rows::format_packet::Path;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use weir_engine::flow::FlowView;
use weir_packet::{Batch, PacketMeta, Row, Timestamp};
use weir_sessions::Session;

/// An item that a question receives.
#[derive(Debug)]
pub enum Item<'a> {
    /// Rows: of sessions or their parts, of events, of what handlers of streams emit; of packets and
    /// connections, if the question asks for [rows of them](crate::Shape::as_rows).
    Rows(Rows<'a>),
    /// A packet, with its layers.
    Packet {
        /// The metadata of the packet.
        meta: PacketMeta,
        /// The captured bytes, if the question asks for frames.
        frame: Vec<u8>,
        /// The packet's pcapng options, if the question asks for them: see
        /// [`PacketExtra::annotations`](weir_packet::PacketExtra::annotations).
        options: Vec<u8>,
        /// The layers; none unless requested.
        path: Path,
        /// The number of the packet's key; 0 unless the question has a [key](crate::PacketKey).
        key: u64,
    },
    /// The record of a connection that has ended.
    Connection(Box<Connection>),
    /// A part of a session, with its row, the only one of the batch, and the index of the session's protocol.
    Part(usize, Batch, Box<dyn Session>),
    /// What a worker's part of a pipeline passed on: of an aggregate of packets, too.
    Pipeline(Box<PipelinePart>),
    /// A session object, and its connection.
    Whole(Box<Flow>, Arc<dyn Session>),
    /// User-defined state of a connection, and the connection's record so far.
    Tracked {
        /// The record.
        connection: Box<Connection>,
        /// A [`Tracked`](crate::Tracked).
        state: Arc<dyn Any + Send + Sync>,
        /// The connection has ended.
        is_over: bool,
    },
    /// In-order bytes of a stream, and its connection.
    Bytes(Box<Flow>, Arc<Bytes>),
    /// No packet waits to be read, and all results so far have been delivered: a receiver that collects items
    /// may pass them on. Every question receives this when its source is [idle](weir_packet::Poll::Idle).
    Pause,
}

/// Consecutive rows of a question.
#[derive(Clone)]
pub struct Rows<'a> {
    /// The index of the protocol whose sessions the rows are; 0 for other rows.
    pub protocol: usize,
    /// The rows and others.
    pub batch: &'a Batch,
    /// For each row of the batch: the number of the packet that completed the session, or that closed its
    /// connection. `None` if no packet did: the connection was idle, was replaced or shed, or the capture
    /// ended. Empty for rows of packets.
    pub packets: &'a [Option<u64>],
    /// The indexes of the rows in the batch.
    pub range: Range<usize>,
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({}, ", self.protocol)?;
        f.debug_list().entries(self.iter()).finish()?;
        write!(f, ")")
    }
}

impl<'a> Rows<'a> {
    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let batch = self.batch;
        self.range.clone().map(move |index| batch.row(index))
    }
}

/// The identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its identifier, the same in every run.
    pub uid: String,
    /// The layer that carries it: `tcp`, `udp`.
    pub proto: Cow<'static, str>,
    /// The originator's address and port.
    pub orig: (IpAddr, u32),
    /// The responder's address and port.
    pub resp: (IpAddr, u32),
    /// Time of its first packet.
    pub ts: Timestamp,
}

impl Flow {
    pub(crate) fn of(flow: &FlowView<'_>) -> Self {
        let (orig, resp) = flow.endpoints();
        Self {
            uid: id::uid(flow.graph, flow.table, flow.header),
            proto: crate::flow::places::proto_name(flow.table_name()),
            orig: (orig.address, orig.port),
            resp: (resp.address, resp.port),
            ts: flow.first_time(),
        }
    }

    pub(crate) fn of_record(record: &Connection) -> Self {
        Self {
            uid: record.uid.clone(),
            proto: record.proto.clone(),
            orig: (record.orig_h, record.orig_p),
            resp: (record.resp_h, record.resp_p),
            ts: record.ts,
        }
    }
}

/// In-order bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The originator sent the bytes.
    pub is_orig: bool,
    /// Offset of the first byte in the stream, where missing bytes are included.
    pub offset: u64,
    /// Bytes missing just before the first one.
    pub gap_bytes: u64,
    /// Time of the packet with which the bytes became in order.
    pub time: Timestamp,
    /// The bytes.
    pub bytes: Vec<u8>,
}
