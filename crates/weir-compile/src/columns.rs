//! The columns of a connection's record, with the names and meanings of Zeek's `conn.log`
//! (<https://docs.zeek.org/en/master/logs/conn.html>): filters refer to them, and producers of records fill
//! them in. After them come the columns of the events `on end` of the stack's connections.

use crate::events::{StackEvent, events};
use crate::whole::whole_of;
use weir_lang::model::{Layer, Stack};
use weir_packet::{Column, ValueType};

/// Columns of the record, in Zeek's order.
pub const CONNECTION_COLUMNS: &[Column] = &[
    Column::new("ts", ValueType::Time, "time of the first packet"),
    Column::new("uid", ValueType::Text, "identifier of the connection"),
    Column::new("id.orig_h", ValueType::Address, "originator's address"),
    Column::new("id.orig_p", ValueType::Unsigned, "originator's port; type of an ICMP message"),
    Column::new("id.resp_h", ValueType::Address, "responder's address"),
    Column::new("id.resp_p", ValueType::Unsigned, "responder's port; code of an ICMP message"),
    Column::new("proto", ValueType::Text, "transport protocol"),
    Column::new("service", ValueType::Text, "application protocol, recognised from the bytes"),
    Column::new("duration", ValueType::Interval, "time from the first packet to the last"),
    Column::new("orig_bytes", ValueType::Unsigned, "payload bytes that the originator sent"),
    Column::new("resp_bytes", ValueType::Unsigned, "payload bytes that the responder sent"),
    Column::new("conn_state", ValueType::Text, "state of the connection, as in Zeek's conn.log"),
    Column::new(
        "local_orig",
        ValueType::Bool,
        "whether the originator's address is one of a private network",
    ),
    Column::new("local_resp", ValueType::Bool, "whether the responder's address is one of a private network"),
    Column::new("missed_bytes", ValueType::Unsigned, "payload bytes missing in the capture"),
    Column::new("history", ValueType::Text, "one letter per kind of event, upper case for the originator's"),
    Column::new("orig_pkts", ValueType::Unsigned, "packets that the originator sent"),
    Column::new("orig_ip_bytes", ValueType::Unsigned, "IP bytes that the originator sent"),
    Column::new("resp_pkts", ValueType::Unsigned, "packets that the responder sent"),
    Column::new("resp_ip_bytes", ValueType::Unsigned, "IP bytes that the responder sent"),
    Column::new(
        "tunnel_parents",
        ValueType::Texts,
        "identifiers of the enclosing connections, outermost first",
    ),
    Column::new("ip_proto", ValueType::Unsigned, "number of the transport protocol in IP's header"),
    Column::new("community_id", ValueType::Text, "Community ID, version 1"),
    Column::new("vlan", ValueType::Unsigned, "VLAN identifier, the outer one, of the first packet"),
    Column::new("inner_vlan", ValueType::Unsigned, "VLAN identifier of the inner tag (802.1ad)"),
    Column::new(
        "other_vlan",
        ValueType::Unsigned,
        "VLAN identifier of the direction other than the first packet's, if its packets have another one (TCP)",
    ),
];

/// A column of a connection's record that comes from events `on end`.
#[derive(Debug, Clone)]
pub struct EndColumn {
    /// Name, type and description.
    pub column: Column,
    /// The columns that it consists of, at most one per layer: number of the event among [`events`] of the
    /// stack, and place in the event's columns. A connection belongs to one layer, so at most one of them has
    /// a value.
    pub of: Vec<(usize, usize)>,
}

/// The columns after [`CONNECTION_COLUMNS`] in the records of a stack's connections, in the order of layers
/// and events.
///
/// Columns of different layers with the same name and type are one column. A name that is taken otherwise (by
/// a column of every record, by a column of another type, or in the same layer) is preceded by the name of
/// the layer, or, if that is taken, too, of the event.
pub fn end_columns(stack: &Stack) -> Vec<EndColumn> {
    let mut all: Vec<EndColumn> = vec![];
    let all_events = events(stack);
    for (number, event) in all_events.iter().enumerate().filter(|(_, event)| is_of_connection(stack, event)) {
        let prefix = &stack.layers[usize::from(event.layer.0)].protocol.filter_name;
        for (place, (name, value_type)) in event.columns.iter().enumerate() {
            let names = [name.clone(), format!("{prefix}.{name}"), format!("{}.{name}", event.name)];
            for name in names {
                let is_layers = |(other, _): &(usize, usize)| all_events[*other].layer == event.layer;
                let known = all.iter().position(|known| known.column.name == name);
                match known {
                    None if CONNECTION_COLUMNS.iter().all(|column| column.name != name) => {
                        let doc = format!("of {}: {}", event.name, event.doc);
                        let doc = doc.trim_end_matches([':', ' ']).to_string();
                        let column = Column { name: name.into(), value_type: *value_type, doc: doc.into() };
                        all.push(EndColumn { column, of: vec![(number, place)] });
                    }
                    Some(at)
                        if all[at].column.value_type == *value_type && !all[at].of.iter().any(is_layers) =>
                    {
                        all[at].of.push((number, place));
                    }
                    _ => continue,
                }
                break;
            }
        }
    }
    all
}

/// All columns of the records of a stack's connections.
pub fn connection_columns(stack: &Stack) -> Vec<Column> {
    let at_end = end_columns(stack).into_iter().map(|end| end.column);
    CONNECTION_COLUMNS.iter().cloned().chain(at_end).collect()
}

/// Whether the event reports the end of connections, which have records: of instances with two sides that are
/// not parts of other connections.
fn is_of_connection(stack: &Stack, event: &StackEvent) -> bool {
    let layer = &stack.layers[usize::from(event.layer.0)];
    event.is_end && is_two_sided(layer) && whole_of(stack, event.layer).is_none()
}

pub(crate) fn is_two_sided(layer: &Layer) -> bool {
    layer.protocol.instance.as_ref().is_some_and(|instance| !instance.destination.is_empty())
}
