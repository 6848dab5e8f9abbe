//! Rows of TLS handshakes, with the names of Zeek's `ssl.log`
//! (<https://docs.zeek.org/en/master/logs/ssl.html>) and fingerprints.

use crate::flow_id;
use std::borrow::Cow;
use weir_engine::flow::FlowView;
use weir_packet::{Column, Value, ValueType};
use weir_sessions::tls::TlsHandshake;

/// Columns of a row.
pub const COLUMNS: &[Column] = &[
    Column::new("ts", ValueType::Time, "time of the connection's first packet"),
    Column::new("uid", ValueType::Text, "identifier of the connection, as in its record"),
    Column::new("id.orig_h", ValueType::Address, "originator's address"),
    Column::new("id.orig_p", ValueType::Unsigned, "originator's port"),
    Column::new("id.resp_h", ValueType::Address, "responder's address"),
    Column::new("id.resp_p", ValueType::Unsigned, "responder's port"),
    Column::new("version", ValueType::Text, "version that the server chose"),
    Column::new("cipher", ValueType::Text, "cipher suite that the server chose"),
    Column::new("curve", ValueType::Text, "group of the key exchange"),
    Column::new("server_name", ValueType::Text, "name that the client asked for"),
    Column::new("resumed", ValueType::Bool, "an earlier session was resumed"),
    Column::new("last_alert", ValueType::Text, "last alert seen in clear"),
    Column::new("next_protocol", ValueType::Text, "application protocol that the server chose"),
    Column::new("established", ValueType::Bool, "the handshake was completed"),
    Column::new("ssl_history", ValueType::Text, "messages seen, a letter each"),
    Column::new("subject", ValueType::Text, "subject of the server's certificate"),
    Column::new("issuer", ValueType::Text, "issuer of the server's certificate"),
    Column::new("client_subject", ValueType::Text, "subject of the client's certificate"),
    Column::new("client_issuer", ValueType::Text, "issuer of the client's certificate"),
    Column::new("sni_matches_cert", ValueType::Bool, "the name asked for is one of the certificate's"),
    Column::new("ja3", ValueType::Text, "JA3 of the client"),
    Column::new("ja3s", ValueType::Text, "JA3S of the server"),
    Column::new("ja4", ValueType::Text, "JA4 of the client"),
    Column::new("client_random", ValueType::Bytes, "the client's random"),
];

/// The values of a handshake's row.
pub fn values(flow: &FlowView<'_>, tls: &TlsHandshake) -> Vec<Value<'static>> {
    let text = |t: Option<Cow<'_, str>>| t.map_or(Value::Absent, |t| Value::Text(Cow::Owned(t.into_owned())));
    let plain = |t: Option<&str>| text(t.map(Cow::Borrowed));
    let (orig, resp) = flow.endpoints();
    let server = tls.server_certificate();
    let client = tls.client_certificate();
    vec![
        Value::Time(flow.first_time()),
        Value::Text(flow_id::uid(flow.graph, flow.table, flow.header).into()),
        Value::Address(orig.address),
        Value::Unsigned(u64::from(orig.port)),
        Value::Address(resp.address),
        Value::Unsigned(u64::from(resp.port)),
        text(tls.version_name()),
        text(tls.cipher_name()),
        text(tls.group_name()),
        plain(tls.server_name()),
        Value::Bool(tls.is_resumed),
        text(tls.alert_name()),
        plain(tls.next_protocol()),
        Value::Bool(tls.is_established),
        plain(Some(&tls.history).filter(|h| !h.is_empty()).map(String::as_str)),
        plain(server.map(|c| c.subject.as_str())),
        plain(server.map(|c| c.issuer.as_str())),
        plain(client.map(|c| c.subject.as_str())),
        plain(client.map(|c| c.issuer.as_str())),
        tls.does_name_match_certificate().map_or(Value::Absent, Value::Bool),
        plain(tls.ja3().as_deref()),
        plain(tls.ja3s().as_deref()),
        plain(tls.ja4().as_deref()),
        tls.client_hello.as_ref().map_or(Value::Absent, |h| Value::Bytes(h.random.to_vec().into())),
    ]
}
