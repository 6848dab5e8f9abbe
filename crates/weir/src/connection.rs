//! The record of a connection, with the names and meanings of Zeek's `conn.log`
//! (<https://docs.zeek.org/en/master/logs/conn.html>).

use crate::end_places::EndPlaces;
use crate::flow_id;
use crate::record::{Record, ip_proto};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
pub use weir_compile::CONNECTION_COLUMNS as COLUMNS;
use weir_compile::RecordVar;
use weir_engine::end_event::EndColumn;
use weir_engine::flow::{FlowView, NumberPlace};
use weir_ir::abi::Layout;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Table};
pub use weir_ir::key::Hosts;
use weir_packet::{Column, Timestamp, Value};
use weir_sessions::SessionRegistry;

/// The record of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Time of the first packet.
    pub ts: Timestamp,
    /// Identifier, unique in the run and the same in every run.
    pub uid: String,
    /// The kind of `orig_h` and `resp_h`; in some layers they are not IP addresses.
    pub hosts: Hosts,
    /// Originator.
    pub orig_h: IpAddr,
    /// Originator's port; an ICMP message's type.
    pub orig_p: u32,
    /// Responder.
    pub resp_h: IpAddr,
    /// Responder's port; an ICMP message's code.
    pub resp_p: u32,
    /// `tcp`, `udp`, `icmp`.
    pub proto: Cow<'static, str>,
    /// Application protocols, as recognised from the bytes: `smtp,ssl` if one followed the other.
    pub service: Option<Cow<'static, str>>,
    /// From the first packet to the last, nanoseconds; absent for a single packet.
    pub duration_ns: Option<u64>,
    /// Payload bytes sent by the originator and the responder; for TCP from sequence numbers.
    pub bytes: Option<[u64; 2]>,
    /// Zeek's summary of the connection: `SF`, `S0`, `REJ` …
    pub conn_state: &'static str,
    /// Payload bytes missing in the capture.
    pub missed_bytes: u64,
    /// Events of the connection, a letter each; upper case for the originator.
    pub history: String,
    /// Packets of each direction.
    pub packets: [u64; 2],
    /// Bytes of IP datagrams of each direction.
    pub ip_bytes: [u64; 2],
    /// Identifiers of the connections around it (tunnels), outermost first.
    pub tunnel_parents: Vec<String>,
    /// VLAN identifier of the first packet, if tagged: the outer one.
    pub vlan: Option<u64>,
    /// VLAN identifier of the inner tag, if there is one.
    pub inner_vlan: Option<u64>,
    /// The columns of events `on end`.
    pub at_end: EndValues,
}

/// The values of a connection's columns that the protocols' texts declare, with events `on end`.
#[derive(Debug, Clone, Default)]
pub struct EndValues {
    columns: Arc<[Column]>,
    values: Vec<Value<'static>>,
}

impl EndValues {
    /// The columns of the stack, of whatever layer: those after [`COLUMNS`] in rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values, in the order of the columns; absent for columns that the connection's layer does not have.
    pub fn values(&self) -> &[Value<'static>] {
        &self.values
    }

    /// The value of the column with this name. `None` if there is no such column.
    pub fn value(&self, name: &str) -> Option<&Value<'static>> {
        let at = self.columns.iter().position(|column| column.name == name)?;
        self.values.get(at)
    }
}

impl PartialEq for EndValues {
    fn eq(&self, other: &Self) -> bool {
        let names = |all: &Self| all.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        self.values == other.values && names(self) == names(other)
    }
}

/// Places of a record's numbers in the flows of one table, and the session protocols that the record may name.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) sessions: Arc<SessionRegistry>,
    pub(crate) packets: Option<NumberPlace>,
    pub(crate) ip_bytes: Option<NumberPlace>,
    bytes: Option<NumberPlace>,
    pub(crate) endpoint: Option<NumberPlace>,
    high: Option<NumberPlace>,
    has_fin: Option<NumberPlace>,
    pub(crate) missing_bytes: Option<NumberPlace>,
    refused: Option<NumberPlace>,
    outside: Option<NumberPlace>,
    pub(crate) icmp_type: Option<NumberPlace>,
    pub(crate) icmp_code: Option<NumberPlace>,
    pub(crate) vlan: Option<NumberPlace>,
    pub(crate) inner_vlan: Option<NumberPlace>,
    pub(crate) end_columns: Arc<[Column]>,
    /// By column of `end_columns`: its place, if the flows have the column.
    pub(crate) at_end: Vec<Option<EndColumn>>,
    /// The name of the transport protocol in records.
    pub(crate) proto: Cow<'static, str>,
    /// Where the history is.
    pub(crate) history: Option<usize>,
}

impl Places {
    /// Looks up the places by name.
    pub fn of(
        graph: &Graph,
        layout: &Layout,
        table: Table,
        sessions: &Arc<SessionRegistry>,
        ends: &EndPlaces,
    ) -> Self {
        let place = |var: RecordVar| NumberPlace::of(graph, layout, table, var.name());
        let engine = |var: EngineVar| NumberPlace::of(graph, layout, table, &var);
        Self {
            sessions: Arc::clone(sessions),
            packets: place(RecordVar::Packets),
            ip_bytes: place(RecordVar::IpBytes),
            bytes: place(RecordVar::Bytes),
            endpoint: place(RecordVar::Endpoint),
            high: engine(EngineVar::SeqHigh),
            has_fin: place(RecordVar::HasFin),
            missing_bytes: engine(EngineVar::SeqMissing),
            refused: place(RecordVar::RefusedBytes),
            outside: place(RecordVar::OutsideBytes),
            icmp_type: place(RecordVar::IcmpType),
            icmp_code: place(RecordVar::IcmpCode),
            vlan: place(RecordVar::Vlan),
            inner_vlan: place(RecordVar::InnerVlan),
            end_columns: Arc::clone(&ends.columns),
            at_end: ends.of_records(graph, layout, table),
            proto: proto_name(&graph.tables[table.index()].name),
            history: graph.find_var(table, &EngineVar::History).map(|var| layout.offset(var)),
        }
    }
}

impl Places {
    /// Number of columns of a record.
    pub fn columns(&self) -> usize {
        COLUMNS.len() + self.end_columns.len()
    }

    /// Packets of a direction, and bytes of its payload up to the last byte seen.
    pub fn volume(&self, flow: &FlowView<'_>, responder: bool) -> (u64, u64) {
        let number = |place: Option<NumberPlace>| place.map_or(0, |p| flow.number_at(p, responder));
        let bytes = match self.high {
            Some(_) => number(self.high),
            None => number(self.bytes).saturating_sub(self.refused_bytes(flow, responder)),
        };
        (number(self.packets), bytes)
    }

    /// Payload bytes of a direction for rows. If the sequence is declared with a FIN, its numbers count bytes;
    /// otherwise the protocol's own count is used, if it counts bytes.
    pub(crate) fn bytes(&self, flow: &FlowView<'_>, responder: bool) -> u64 {
        match self.bytes {
            Some(place) if self.has_fin.is_none() => {
                flow.number_at(place, responder).saturating_sub(self.refused_bytes(flow, responder))
            }
            _ => self.volume(flow, responder).1,
        }
    }

    /// Bytes of a direction's payload that the receiver rejects.
    pub fn refused_bytes(&self, flow: &FlowView<'_>, responder: bool) -> u64 {
        self.refused.map_or(0, |place| flow.number_at(place, responder))
    }

    /// Bytes of a direction's payload that its layer found outside of the connection.
    pub fn outside_bytes(&self, flow: &FlowView<'_>, responder: bool) -> u64 {
        self.outside.map_or(0, |place| flow.number_at(place, responder))
    }
}

impl Connection {
    /// Reads the record from a flow's variables; `places` are those of its table.
    pub(crate) fn read(flow: &FlowView<'_>, places: &Places) -> Self {
        let record = Record::of(flow, places);
        let ([orig_h, resp_h], [orig_p, resp_p]) = (record.addresses(), record.ports());
        let at_end = (0..places.end_columns.len()).map(|column| record.at_end(column).value().into_owned());
        Self {
            ts: record.first_time(),
            uid: record.uid(),
            hosts: record.hosts(),
            orig_h,
            orig_p,
            resp_h,
            resp_p,
            proto: record.proto(),
            service: record.service(),
            duration_ns: record.duration_ns(),
            bytes: record.bytes(),
            conn_state: record.conn_state(),
            missed_bytes: record.missed_bytes(),
            history: record.history().to_string(),
            packets: record.packets(),
            ip_bytes: record.ip_bytes(),
            tunnel_parents: record.tunnel_parents(),
            vlan: record.vlan(),
            inner_vlan: record.inner_vlan(),
            at_end: EndValues { columns: Arc::clone(&places.end_columns), values: at_end.collect() },
        }
    }

    /// Number of the transport protocol in the IP header; `None` for a user-defined protocol.
    pub fn ip_proto(&self) -> Option<u8> {
        ip_proto(&self.proto, self.orig_h)
    }

    /// The Community ID of the connection.
    pub fn community_id(&self) -> String {
        let ends = ((self.orig_h, self.orig_p as u16), (self.resp_h, self.resp_p as u16));
        flow_id::community_id(ends.0, ends.1, self.ip_proto().unwrap_or(0))
    }
}

/// The name of a layer as Zeek writes protocols: one name for both versions of ICMP.
pub(crate) fn proto_name(table: &str) -> Cow<'static, str> {
    match table {
        "tcp" => "tcp".into(),
        "udp" => "udp".into(),
        "icmp" | "icmpv6" => "icmp".into(),
        // A user-defined protocol keeps its own name.
        other => other.to_string().into(),
    }
}

/// Zeek's responder "port" for ICMP: the type of the reply if there is one, else the code.
pub(crate) fn icmp_code(flow: &FlowView<'_>, code: u64) -> u32 {
    let request = flow.number("type", false).unwrap_or(0);
    let v6 = flow.endpoints().0.address.is_ipv6();
    let reply = match (v6, request) {
        (false, 8) | (true, 129) => Some(if v6 { 128 } else { 0 }),
        (false, 0) => Some(8),
        (false, 13) => Some(14),
        (false, 14) => Some(13),
        (false, 15) => Some(16),
        (false, 17) => Some(18),
        (false, 10) => Some(9),
        (true, 128) => Some(129),
        (true, 133) => Some(134),
        (true, 134) => Some(133),
        (true, 135) => Some(136),
        (true, 136) => Some(135),
        _ => None,
    };
    reply.unwrap_or(code as u32)
}

/// States of a TCP endpoint, as `tcp.weir` numbers them.
mod endpoint {
    pub const INACTIVE: u64 = 0;
    pub const SYN_SENT: u64 = 1;
    pub const SYN_ACK_SENT: u64 = 2;
    pub const PARTIAL: u64 = 3;
    pub const ESTABLISHED: u64 = 4;
    pub const CLOSED: u64 = 5;
    pub const RESET: u64 = 6;
}

/// The values of `conn_state`.
pub(crate) const CONN_STATES: &[&str] =
    &["S0", "S1", "SF", "REJ", "S2", "S3", "RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR", "OTH"];

/// Zeek's `conn_state`.
pub(crate) fn conn_state(
    proto: &str,
    endpoints: [u64; 2],
    packets: [u64; 2],
    bytes: impl FnOnce() -> [u64; 2],
    history: &str,
) -> &'static str {
    use endpoint::{CLOSED, ESTABLISHED, INACTIVE, PARTIAL, RESET, SYN_ACK_SENT, SYN_SENT};
    if proto == "udp" {
        return match (packets[0] > 0, packets[1] > 0) {
            (true, true) => "SF",
            (true, false) => "S0",
            (false, true) => "SHR",
            (false, false) => "OTH",
        };
    }
    if proto != "tcp" {
        return "OTH";
    }
    let [orig, resp] = endpoints;
    let inactive = |e: u64| e == INACTIVE || e == PARTIAL;
    if resp == RESET {
        let refused = orig == RESET && bytes() == [0, 0];
        return match orig {
            SYN_SENT | SYN_ACK_SENT => "REJ",
            _ if refused => "REJ",
            o if inactive(o) => "RSTRH",
            _ => "RSTR",
        };
    }
    if orig == RESET {
        let until_reset = history.split_once('R').map_or("", |(before, _)| before);
        let only_syn = until_reset.starts_with('S') && !until_reset.contains(['H', 'A', 'F', 'G', 'I', 'Q']);
        return match inactive(resp) {
            true if only_syn => "RSTOS0",
            true => "OTH",
            false => "RSTO",
        };
    }
    match (orig, resp) {
        (CLOSED, CLOSED) => "SF",
        (CLOSED, r) => {
            if inactive(r) {
                "SH"
            } else {
                "S2"
            }
        }
        (o, CLOSED) => {
            if inactive(o) {
                "SHR"
            } else {
                "S3"
            }
        }
        (SYN_SENT, INACTIVE) => "S0",
        (ESTABLISHED, ESTABLISHED) => "S1",
        _ => "OTH",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn states_are_those_that_filters_are_told_of() {
        let numbers = || endpoint::INACTIVE..=endpoint::RESET;
        let mut met = BTreeSet::new();
        for (orig, resp) in numbers().flat_map(|orig| numbers().map(move |resp| (orig, resp))) {
            for history in ["SR", "ShAR", "DdR"] {
                met.insert(conn_state("tcp", [orig, resp], [1, 1], || [0, 0], history));
                met.insert(conn_state("tcp", [orig, resp], [1, 1], || [1, 1], history));
            }
        }
        for packets in [[1, 1], [1, 0], [0, 1], [0, 0]] {
            met.insert(conn_state("udp", [0, 0], packets, || [0, 0], ""));
        }
        met.insert(conn_state("icmp", [0, 0], [1, 1], || [0, 0], ""));
        assert_eq!(met, CONN_STATES.iter().copied().collect());
    }
}
