//! What a question is given: [`Item`], the data in it, and its [`Shape`].

use crate::connection::Connection;
use crate::flow_id;
use crate::format_packet::Path;
use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use weir_engine::flow::FlowView;
use weir_packet::{PacketMeta, Timestamp, Value};
use weir_sessions::{PartLog, ProtocolSet, Session};

/// Something that a question was given.
#[derive(Debug)]
pub enum Item {
    /// A packet, with its path word and what its layers show (empty unless lines are needed).
    Packet {
        /// What the capture says of it.
        meta: PacketMeta,
        /// Its bytes, where the question asks for frames.
        frame: Vec<u8>,
        /// What pcapng says of it, where the question asks for that: see
        /// [`PacketExtra::annotations`](weir_packet::PacketExtra::annotations).
        options: Vec<u8>,
        /// Its layers; none unless needed.
        path: Path,
        /// What its layers show.
        line: String,
    },
    /// A connection that is over.
    Connection(Box<Connection>),
    /// A row of a session, or of a part of one, with the index of the session's protocol.
    Session(usize, Vec<Value<'static>>),
    /// A session as it is, and its connection.
    Whole(Box<Flow>, Arc<dyn Session>),
    /// What is kept of a connection by a type of its own, and its record so far.
    Tracked {
        /// The record.
        connection: Box<Connection>,
        /// A [`Tracked`](crate::Tracked).
        state: Arc<dyn Any + Send + Sync>,
        /// The connection is over.
        is_over: bool,
    },
    /// A row of an event.
    Event(Vec<Value<'static>>),
    /// Bytes of a stream, and its connection.
    Bytes(Box<Flow>, Arc<Bytes>),
    /// A row that a handler of streams emitted.
    Stream(Vec<Value<'static>>),
    /// Nothing waits to be read, and what was found until now was handed out: who collects what it was given may hand
    /// that on. Every question is told so where its source is [idle](weir_packet::Poll::Idle).
    Pause,
}

/// What rows hold, per question: settled before the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Packets are only counted.
    pub count_only: bool,
    /// Packets come with their bytes.
    pub frames: bool,
    /// Packets come with their options, as pcapng has them.
    pub options: bool,
    /// Packets come with their line.
    pub lines: bool,
    /// Sessions come as they are, and not as rows.
    pub whole: bool,
    /// Rows are of the sessions of these protocols, whatever else is asked for to find them in. `None`: of all
    /// that are asked for.
    pub rows: Option<ProtocolSet>,
    /// In place of sessions their parts come, a row each, as this log has them.
    pub parts: Option<&'static PartLog>,
    /// Rows of sessions end with what carries them, `tcp`, where they don't say it themselves:
    /// [`Log::with_carrier`](crate::Log::with_carrier).
    pub carrier: bool,
}

/// Which connection something belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its identifier, the same in every run.
    pub uid: String,
    /// The layer that carries it: `tcp`, `udp`.
    pub proto: Cow<'static, str>,
    /// The originator's address and port.
    pub orig: (IpAddr, u32),
    /// The responder's.
    pub resp: (IpAddr, u32),
    /// Time of its first packet.
    pub ts: Timestamp,
}

impl Flow {
    pub(crate) fn of(flow: &FlowView<'_>) -> Self {
        let (orig, resp) = flow.endpoints();
        Self {
            uid: flow_id::uid(flow.graph, flow.table, flow.header),
            proto: crate::connection::proto_name(flow.table_name()),
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

/// Bytes of a stream in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The originator sent them.
    pub is_orig: bool,
    /// Where in the stream the first of them lies; what is missing counts.
    pub offset: u64,
    /// Bytes that are missing just before them.
    pub gap_bytes: u64,
    /// Time of the packet with which their turn came.
    pub time: Timestamp,
    /// The bytes.
    pub bytes: Vec<u8>,
}
