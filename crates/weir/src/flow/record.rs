//! A view of a connection's record, from which objects ([`Connection`](crate::Connection)) and rows are made.
//! A row has only the values that its question shows: identifiers, for example, are costly.

use super::conn_state::{conn_state, icmp_code};
use super::id;
use super::locality::is_local;
use super::places::Places;
use std::borrow::Cow;
use std::net::IpAddr;
use weir_compile::CONNECTION_COLUMNS as COLUMNS;
use weir_engine::end_event::EndValue;
use weir_engine::flow::{Endpoint, FlowView, NumberPlace};
use weir_ir::key::Hosts;
use weir_packet::{Cell, RowWriter, Texts, Timestamp, ValueType};

/// Maximum number of application protocols that a record names.
const SERVICES_MAX: usize = 16;

/// Columns of a log, by their indexes. Columns from 128 on are always in it. The default is all columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMask(u128);

impl Default for ColumnMask {
    fn default() -> Self {
        Self::ALL
    }
}

impl ColumnMask {
    /// All columns.
    pub const ALL: Self = Self(u128::MAX);

    /// No column, of the first 128.
    pub const NONE: Self = Self(0);

    /// Whether the column with this index is in the mask.
    pub fn contains(self, column: usize) -> bool {
        column >= 128 || self.0 >> column & 1 != 0
    }

    /// The columns of both masks.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<usize> for ColumnMask {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        Self(columns.into_iter().filter(|&column| column < 128).fold(0, |mask, column| mask | 1 << column))
    }
}

/// The record of a connection, read from the flow's variables.
pub(crate) struct Record<'a> {
    flow: &'a FlowView<'a>,
    places: &'a Places,
    ends: (Endpoint, Endpoint),
}

impl<'a> Record<'a> {
    /// The record of a flow; `places` are those of its table.
    pub fn of(flow: &'a FlowView<'a>, places: &'a Places) -> Self {
        Self { flow, places, ends: flow.endpoints() }
    }

    /// Writes a row: the columns of records, and after these the columns of events `on end`. Columns that are
    /// not `shown` are absent.
    pub fn write(&self, shown: ColumnMask, row: &mut RowWriter<'_>) {
        for column in 0..COLUMNS.len() + self.places.end_columns.len() {
            match shown.contains(column) {
                true => self.write_column(column, row),
                false => row.push(Cell::Absent),
            }
        }
    }

    /// Writes the value of a column.
    pub fn write_column(&self, column: usize, row: &mut RowWriter<'_>) {
        let number = |number: Option<u64>| number.map_or(Cell::Absent, Cell::Unsigned);
        let (orig, resp) = (self.ends.0.address, self.ends.1.address);
        let has_addresses = self.hosts() == Hosts::Addresses;
        let cell = match column {
            0 => Cell::Time(self.flow.first_time()),
            1 => {
                return row.text_with(|text| {
                    id::push_uid(self.flow.graph, self.flow.table, self.flow.header, text)
                });
            }
            2 => id::host(self.hosts(), orig),
            3 => Cell::Unsigned(self.ports()[0].into()),
            4 => id::host(self.hosts(), resp),
            5 => Cell::Unsigned(self.ports()[1].into()),
            6 => Cell::Text(&self.places.proto),
            7 if self.flow.recognised.is_empty() && self.flow.tunnels.is_empty() => Cell::Absent,
            7 => return self.write_services(row),
            8 => self.duration_ns().map_or(Cell::Absent, Cell::Interval),
            9 => number(self.bytes().map(|[orig, _]| orig)),
            10 => number(self.bytes().map(|[_, resp]| resp)),
            11 => Cell::Text(self.conn_state()),
            12 if has_addresses => Cell::Bool(is_local(orig)),
            13 if has_addresses => Cell::Bool(is_local(resp)),
            14 => Cell::Unsigned(self.missed_bytes()),
            15 if !self.history().is_empty() => Cell::Text(self.history()),
            16 => Cell::Unsigned(self.packets()[0]),
            17 => Cell::Unsigned(self.ip_bytes()[0]),
            18 => Cell::Unsigned(self.packets()[1]),
            19 => Cell::Unsigned(self.ip_bytes()[1]),
            20 if !self.flow.outer.is_empty() => {
                return row.push(Cell::Texts(Texts::Whole(&self.tunnel_parents())));
            }
            21 => number(self.ip_proto().map(u64::from)),
            22 if has_addresses => {
                let [orig_p, resp_p] = self.ports().map(|port| port as u16);
                let proto = self.ip_proto().unwrap_or(0);
                let push =
                    |text: &mut String| id::push_community_id((orig, orig_p), (resp, resp_p), proto, text);
                return row.text_with(push);
            }
            23 => number(self.vlan()),
            24 => number(self.inner_vlan()),
            25 => number(self.other_vlan()),
            12..=25 => Cell::Absent,
            _ => self.at_end(column - COLUMNS.len()),
        };
        row.push(cell);
    }

    fn both(&self, place: Option<NumberPlace>) -> [u64; 2] {
        place.map_or([0; 2], |place| [false, true].map(|responder| self.flow.number_at(place, responder)))
    }

    fn first(&self, place: Option<NumberPlace>) -> u64 {
        place.map_or(0, |place| self.flow.number_at(place, false))
    }

    /// The identifier.
    pub fn uid(&self) -> String {
        id::uid(self.flow.graph, self.flow.table, self.flow.header)
    }

    /// Time of the first packet.
    pub fn first_time(&self) -> Timestamp {
        self.flow.first_time()
    }

    /// The kind of addresses.
    pub fn hosts(&self) -> Hosts {
        self.flow.key_layout().ends().hosts
    }

    /// The addresses of originator and responder.
    pub fn addresses(&self) -> [IpAddr; 2] {
        [self.ends.0.address, self.ends.1.address]
    }

    /// The name of the transport protocol.
    pub fn proto(&self) -> Cow<'static, str> {
        self.places.proto.clone()
    }

    /// The ports of originator and responder; type and code of an ICMP message.
    pub fn ports(&self) -> [u32; 2] {
        match &*self.places.proto {
            "icmp" => {
                let code = self.first(self.places.icmp_code);
                [self.first(self.places.icmp_type) as u32, icmp_code(self.flow, code)]
            }
            _ => [self.ends.0.port, self.ends.1.port],
        }
    }

    /// Zeek's names of the recognised protocols, and of the tunnels that the connection is.
    fn services(&self) -> ([&'a str; SERVICES_MAX], usize) {
        let (mut names, mut count): ([&'a str; SERVICES_MAX], _) = ([""; SERVICES_MAX], 0);
        let sessions = &self.places.sessions;
        let recognised = self.flow.recognised.indices().flat_map(|number| sessions.services(number));
        let recognised = recognised.map(|name| -> &'a str { name });
        let tunnels = self.flow.tunnels.iter().map(|tunnel| self.places.tunnels.service(tunnel));
        for name in recognised.chain(tunnels) {
            // An upgrade from HTTP to HTTP counts as one service.
            if count < SERVICES_MAX && !names[..count].contains(&name) {
                names[count] = name;
                count += 1;
            }
        }
        (names, count)
    }

    fn write_services(&self, row: &mut RowWriter<'_>) {
        match self.services() {
            (_, 0) => row.push(Cell::Absent),
            (names, count) => row.text_with(|text| {
                for (index, name) in names[..count].iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    text.push_str(name);
                }
            }),
        }
    }

    /// The names of the recognised protocols and of tunnels, joined by commas.
    pub fn service(&self) -> Option<Cow<'static, str>> {
        let mut recognised = self.flow.recognised.indices();
        if let (Some(number), None) = (recognised.next(), recognised.next())
            && self.flow.tunnels.is_empty()
        {
            let mut names = self.places.sessions.services(number);
            if let (Some(name), None) = (names.next(), names.next()) {
                return Some(name.into());
            }
        }
        match self.services() {
            (_, 0) => None,
            (names, count) => Some(names[..count].join(",").into()),
        }
    }

    /// From the first packet to the last; `None` if the packets have equal times.
    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.flow.last_time().since_ns(self.flow.first_time())).filter(|&duration| duration > 0)
    }

    /// Payload bytes of both sides, if there is a duration.
    pub fn bytes(&self) -> Option<[u64; 2]> {
        self.duration_ns().map(|_| self.all_bytes())
    }

    fn all_bytes(&self) -> [u64; 2] {
        [false, true].map(|responder| self.places.bytes(self.flow, responder))
    }

    /// Zeek's summary of the connection.
    pub fn conn_state(&self) -> &'static str {
        let (endpoints, packets) = (self.both(self.places.endpoint), self.packets());
        conn_state(&self.places.proto, endpoints, packets, || self.all_bytes(), self.history())
    }

    /// Payload bytes missing in the capture.
    pub fn missed_bytes(&self) -> u64 {
        self.both(self.places.missing_bytes).iter().sum()
    }

    /// Events of the connection, a letter each. The letters are ASCII.
    pub fn history(&self) -> &'a str {
        let letters = self.places.history.and_then(|at| self.flow.history_at(at));
        std::str::from_utf8(letters.unwrap_or_default()).unwrap_or_default()
    }

    /// Packets of each direction.
    pub fn packets(&self) -> [u64; 2] {
        self.both(self.places.packets)
    }

    /// Bytes of IP datagrams of each direction.
    pub fn ip_bytes(&self) -> [u64; 2] {
        self.both(self.places.ip_bytes)
    }

    /// Identifiers of the connections around it.
    pub fn tunnel_parents(&self) -> Vec<String> {
        let outer = self.flow.outer.iter();
        outer.map(|(table, header)| id::uid(self.flow.graph, *table, header)).collect()
    }

    /// Number of the transport protocol in the IP header.
    fn ip_proto(&self) -> Option<u8> {
        ip_proto(&self.places.proto, self.ends.0.address)
    }

    /// VLAN identifier of the first packet, if tagged.
    pub fn vlan(&self) -> Option<u64> {
        Some(self.first(self.places.vlan)).filter(|&vlan| vlan != 0)
    }

    /// VLAN identifier of the inner tag, if there is one.
    pub fn inner_vlan(&self) -> Option<u64> {
        Some(self.first(self.places.inner_vlan)).filter(|&vlan| vlan != 0)
    }

    /// VLAN identifier of the direction other than the first packet's, if its packets have another one.
    pub fn other_vlan(&self) -> Option<u64> {
        Some(self.first(self.places.other_vlan)).filter(|&vlan| vlan != 0)
    }

    /// The value of a column of events `on end`.
    pub fn at_end(&self, column: usize) -> Cell<'a> {
        let places = self.places;
        let Some(declared) = places.end_columns.get(column) else { return Cell::Absent };
        match places.at_end.get(column).and_then(Option::as_ref).map(|place| place.read(self.flow)) {
            None | Some(EndValue::Absent) => Cell::Absent,
            Some(EndValue::Name(name)) => Cell::Text(name),
            Some(EndValue::Number(number)) => match declared.value_type {
                ValueType::Time => Cell::Time(Timestamp(number as i64)),
                ValueType::Interval => Cell::Interval(number),
                _ => Cell::Unsigned(number),
            },
        }
    }
}

/// Number of a transport protocol in the IP header; `None` for a user-defined protocol.
pub(crate) fn ip_proto(proto: &str, address: IpAddr) -> Option<u8> {
    match (proto, address) {
        ("tcp", _) => Some(6),
        ("udp", _) => Some(17),
        ("udplite", _) => Some(136),
        ("sctp", _) => Some(132),
        ("icmp", IpAddr::V6(_)) => Some(58),
        ("icmp", IpAddr::V4(_)) => Some(1),
        _ => None,
    }
}
