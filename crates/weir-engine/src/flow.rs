//! A flow as subscribers see it: its key, its times, and the program's variables by name.

use crate::flow_ref::FlowRef;
use crate::oddities::Oddity;
pub use crate::recognised::Recognised;
use crate::row_account::RowAccount;
use crate::table::{FlowId, Header, OwnedHeader};
use crate::tunnels::Tunnel;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_ir::abi::{Layout, Program};
use weir_ir::engine_var::VarName;
use weir_ir::graph::{Graph, Table, VarKind};
use weir_ir::key::{KeyEnds, KeyLayout};
use weir_packet::{Direction, Timestamp};

/// Why a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// No packet arrived within the time-out of its state.
    Idle,
    /// Its state machine reached its final state.
    Closed,
    /// A new flow with the same key began.
    Restart,
    /// The table was full, and the flow was nearest to its time-out.
    Shed,
    /// The capture ended.
    EndOfCapture,
}

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port, or the number that its layer uses in place of one.
    pub port: u32,
}

/// A view of a flow, valid during the call that receives it.
#[derive(Clone, Copy)]
pub struct FlowView<'a> {
    /// The graph that declares its variables.
    pub graph: &'a Graph,
    /// The layout of the variables.
    pub layout: &'a Layout,
    /// Its table.
    pub table: Table,
    /// Its number in the table.
    pub id: FlowId,
    /// Key and times.
    pub header: &'a Header,
    /// Its variables.
    pub data: &'a [u8],
    /// The session protocols recognised in the flow; known only when the flow has ended or is reported, or a
    /// session is delivered.
    pub recognised: Recognised,
    /// The connections around the flow (tunnels), outermost first; known only when the flow has ended.
    pub outer: &'a [(Table, OwnedHeader)],
    /// The layers by which the flow carries other connections; known only when the flow has ended or is
    /// reported, and a question asks.
    pub tunnels: &'a [Tunnel],
    /// What was odd about it; known only when it has ended, and a question asks.
    pub odd: &'a [Oddity],
    /// What rows of its sessions are paid with; known only when a session is delivered.
    pub rows: Option<&'a RowAccount>,
}

impl std::fmt::Debug for FlowView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.table_name(), self.endpoints())
    }
}

impl<'a> FlowView<'a> {
    /// A live flow: recognised protocols and outer connections are not known yet.
    pub(crate) fn new(
        program: &'a dyn Program,
        FlowRef { table, id, .. }: FlowRef,
        header: &'a Header,
        data: &'a [u8],
    ) -> Self {
        let (graph, layout) = (program.graph(), program.layout());
        let recognised = Recognised::default();
        Self {
            graph,
            layout,
            table,
            id,
            header,
            data,
            recognised,
            outer: &[],
            tunnels: &[],
            odd: &[],
            rows: None,
        }
    }

    /// The name of the flow while it is live.
    pub fn flow_ref(&self) -> FlowRef {
        FlowRef::new(self.table, self.id)
    }

    /// The name of its layer.
    pub fn table_name(&self) -> &'a str {
        &self.graph.tables[self.table.index()].name
    }

    /// The layout of its key.
    pub fn key_layout(&self) -> &'a KeyLayout {
        &self.graph.tables[self.table.index()].key
    }

    /// The endpoints of originator and responder.
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        endpoints(self.key_layout().ends(), self.header)
    }

    /// Time of its first packet.
    pub fn first_time(&self) -> Timestamp {
        Timestamp(self.header.first_time)
    }

    /// Time of its last packet.
    pub fn last_time(&self) -> Timestamp {
        Timestamp(self.header.last_time)
    }

    /// The value of a number of the flow's layer. `responder` selects the side, and is ignored for variables
    /// without sides.
    pub fn number(&self, name: &str, responder: bool) -> Option<u64> {
        Some(self.number_at(NumberPlace::of(self.graph, self.layout, self.table, name)?, responder))
    }

    /// The value of a number at a known place.
    pub fn number_at(&self, place: NumberPlace, responder: bool) -> u64 {
        let at = place.at + if responder { place.stride } else { 0 };
        read_number(self.data, at, place.bits)
    }

    /// The letters of the flow's history, whose variable
    /// ([`EngineVar::History`](weir_ir::engine_var::EngineVar)) is at this offset.
    pub fn history_at(&self, at: usize) -> Option<&'a [u8]> {
        let count = usize::from(*self.data.get(at)?);
        self.data.get(at + 1..at + 1 + count)
    }
}

/// The place of a number in the records of a table: looked up by name once, then read often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberPlace {
    at: usize,
    /// Offset from the originator's to the responder's number; 0 without sides.
    stride: usize,
    bits: u8,
}

impl NumberPlace {
    /// The offset and the bits of the originator's number (side 0), or the responder's.
    pub(crate) fn of_side(&self, side: usize) -> (usize, u8) {
        (self.at + side * self.stride, self.bits)
    }

    /// The place of a number: a variable of a layer by its name, or an [`EngineVar`]. `None` if the program
    /// does not keep it.
    pub fn of<N: ?Sized>(graph: &Graph, layout: &Layout, table: Table, name: &N) -> Option<Self>
    where
        VarName: PartialEq<N>,
    {
        let var = graph.find_var(table, name)?;
        let declared = &graph.vars[var.index()];
        let VarKind::Bits(bits) = declared.kind else { return None };
        let stride = if declared.each_side { layout.stride(table) } else { 0 };
        Some(Self { at: layout.offset(var), stride, bits })
    }
}

/// Reads a variable of 8, 16, 32 or 64 bits.
pub(crate) fn read_number(data: &[u8], at: usize, bits: u8) -> u64 {
    let mut word = [0; 8];
    let bytes = usize::from(bits / 8);
    word[..bytes].copy_from_slice(&data[at..at + bytes]);
    u64::from_le_bytes(word)
}

/// Writes a variable of 8, 16, 32 or 64 bits.
pub(crate) fn write_number(data: &mut [u8], at: usize, bits: u8, value: u64) {
    let bytes = usize::from(bits / 8);
    data[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Originator and responder of a flow, read from its key. Addresses and ports that the key lacks are 0.
pub fn endpoints(ends: &KeyEnds, header: &Header) -> (Endpoint, Endpoint) {
    let [originator, responder] = Direction::BOTH.map(|direction| {
        let side = key_side(header, direction);
        let [high, low] = ends.address(side, header.key());
        Endpoint { address: address(high, low), port: ends.port(side, header.key()) }
    });
    (originator, responder)
}

/// The port of the originator or the responder.
pub(crate) fn port(ends: &KeyEnds, header: &Header, direction: Direction) -> u32 {
    ends.port(key_side(header, direction), header.key())
}

/// The side of the key (0 or 1) that belongs to the originator or the responder.
fn key_side(header: &Header, direction: Direction) -> usize {
    usize::from(header.swap != direction.is_responder())
}

/// The address to which one direction of a flow sends.
pub(crate) fn receiver(ends: &KeyEnds, header: &Header, direction: Direction) -> IpAddr {
    let [high, low] = ends.address(key_side(header, direction.other()), header.key());
    address(high, low)
}

/// An address from the words of a key, where IPv4 addresses are mapped into IPv6.
pub fn address(high: u64, low: u64) -> IpAddr {
    if high == 0 && low >> 32 == 0xffff {
        return IpAddr::V4(Ipv4Addr::from(low as u32));
    }
    IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)))
}
