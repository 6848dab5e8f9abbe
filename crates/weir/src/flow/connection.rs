//! The record of a connection, with the names and meanings of Zeek's `conn.log`
//! (<https://docs.zeek.org/en/master/logs/conn.html>).

use super::id;
use super::places::Places;
use super::record::{Record, ip_proto};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
pub use weir_compile::CONNECTION_COLUMNS as COLUMNS;
use weir_engine::flow::FlowView;
pub use weir_ir::key::Hosts;
use weir_packet::{Column, Timestamp, Value};

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
    /// VLAN identifier of the direction other than the first packet's, if its packets have another one.
    pub other_vlan: Option<u64>,
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
            other_vlan: record.other_vlan(),
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
        id::community_id(ends.0, ends.1, self.ip_proto().unwrap_or(0))
    }
}
