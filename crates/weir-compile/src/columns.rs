//! The columns of a connection's record, with the names and meanings of Zeek's `conn.log`
//! (<https://docs.zeek.org/en/master/logs/conn.html>): filters refer to them, and producers of records fill them in.

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
];
