//! Places of the numbers of connections' records in the variables of flows.

use super::end_places::EndPlaces;
use super::tunnel_names::TunnelNames;
use std::borrow::Cow;
use std::sync::Arc;
use weir_compile::{CONNECTION_COLUMNS as COLUMNS, RecordVar};
use weir_engine::end_event::EndColumn;
use weir_engine::flow::{FlowView, NumberPlace};
use weir_ir::abi::Layout;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Table};
use weir_packet::Column;
use weir_sessions::SessionRegistry;

/// Places of a record's numbers in the flows of one table, and the session protocols that the record may
/// name.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) sessions: Arc<SessionRegistry>,
    pub(crate) tunnels: TunnelNames,
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
    pub(crate) other_vlan: Option<NumberPlace>,
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
        (sessions, tunnels): (&Arc<SessionRegistry>, &TunnelNames),
        ends: &EndPlaces,
    ) -> Self {
        let place = |var: RecordVar| NumberPlace::of(graph, layout, table, var.name());
        let engine = |var: EngineVar| NumberPlace::of(graph, layout, table, &var);
        Self {
            sessions: Arc::clone(sessions),
            tunnels: tunnels.clone(),
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
            other_vlan: place(RecordVar::OtherVlan),
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

    /// Payload bytes of a direction for rows. If the sequence is declared with a FIN, its numbers count
    /// bytes; otherwise the protocol's own count is used, if it counts bytes.
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
