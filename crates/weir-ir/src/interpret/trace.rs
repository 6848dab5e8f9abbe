//! Traces one packet through a graph, to explain why it matched or not.

use super::Interpreter;
use super::run::Record;
use crate::abi::{
    Continuation, FlowRecord, Host, Program, Resume, SEQ_ORDERED, SEQ_QUEUED, SeqInsert, SeqInserted, Step,
};
use crate::graph::{Block, SequenceDecl, Table, Value};
use std::fmt;
use weir_packet::{Direction, DropReason, PacketMeta};

/// Maximum number of lookups in a trace: more than any stack of layers has.
const LOOKUPS_MAX: usize = 16;

/// A step of a packet's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceStep {
    /// A block was entered.
    Block(Block),
    /// Bytes were loaded.
    Load {
        /// The resulting value.
        value: Value,
        /// The buffer.
        buf: Value,
        /// Offset in the buffer, displacement included.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
        /// The loaded number.
        word: u64,
    },
    /// The presence of bytes was checked.
    Check {
        /// The buffer.
        buf: Value,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
        /// The buffer's length.
        length: u32,
        /// Whether all bytes were present.
        passes: bool,
    },
    /// A flow was looked up; the trace continues with a new flow.
    Lookup {
        /// The table.
        table: Table,
        /// The key.
        key: Vec<u64>,
    },
    /// The program reported values ([`Op::Note`](crate::graph::Op::Note)).
    Note {
        /// What is reported.
        what: u32,
        /// The values.
        values: Vec<u64>,
    },
    /// The program restarted the lookup. The trace ends.
    Restart,
    /// The packet ended.
    Done {
        /// One bit for every satisfied term.
        terms: u64,
        /// Why the packet could not be parsed to its end, if so.
        reason: Option<DropReason>,
    },
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceStep::Block(block) => write!(f, "{block}"),
            TraceStep::Load { value, buf, offset, bytes, word } => {
                let digits = *bytes as usize * 2;
                write!(f, "    {value} = {word} (0x{word:0digits$x}), {bytes} bytes of {buf} at {offset}")
            }
            TraceStep::Check { buf, offset, bytes, length, passes } => {
                let verdict = if *passes { "passes" } else { "fails" };
                write!(f, "    {bytes} bytes at {offset} of {buf}, which has {length}: {verdict}")
            }
            TraceStep::Lookup { table, key } => write!(f, "    lookup {table} {key:?}"),
            TraceStep::Note { what, values } => write!(f, "    note {what} {values:?}"),
            TraceStep::Restart => write!(f, "    restart"),
            TraceStep::Done { terms, reason: None } => write!(f, "    done, terms {terms:#b}"),
            TraceStep::Done { terms, reason: Some(reason) } => {
                write!(f, "    done, terms {terms:#b}: {}", reason.label())
            }
        }
    }
}

impl Interpreter {
    /// Traces one packet as the first of a run: every lookup creates a flow with the packet's sender as
    /// originator, and all bytes are in order except later fragments of a datagram.
    pub fn trace(&self, packet: &PacketMeta, frame: &[u8]) -> Vec<TraceStep> {
        self.trace_into(packet, frame, &mut Continuation::default())
    }

    /// As [`trace`](Self::trace); afterwards `k` holds the packet's record and terms.
    pub fn trace_into(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Vec<TraceStep> {
        let mut steps = vec![];
        let mut step = self.start(packet, Record::Frame(frame), k, Some(&mut steps));
        for id in 0..LOOKUPS_MAX {
            if step != Step::Lookup {
                break;
            }
            let mut data = vec![0; self.layout().size(Table(k.table))];
            let flow = FlowRecord { id: id as u32, data: &mut data };
            let mut host = FirstPacket { sequences: &self.graph().sequences };
            let at = Resume { packet, frame, flow, direction: Direction::Originator, is_new: true };
            step = self.go_on(&mut host, at, k, Some(&mut steps));
        }
        steps
    }
}

/// A host in its initial state that stores nothing.
struct FirstPacket<'a> {
    sequences: &'a [SequenceDecl],
}

impl Host for FirstPacket<'_> {
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted {
        // The later pieces of a sequence that starts at 0 (a datagram) are not in order.
        let is_first = offer.at == 0 || self.sequences[offer.sequence.index()].from_first;
        SeqInserted { status: if is_first { SEQ_ORDERED } else { SEQ_QUEUED }, skip_bytes: 0 }
    }
}
