//! Session protocols by their names in rules.

use weir::sessions::http::HttpExchange;
use weir::sessions::ssh::SshHandshake;
use weir::sessions::tls::TlsHandshake;
use weir::sessions::{ProtocolSet, Session, SessionRegistry};

/// A protocol in rules, and the protocols of Weir that it stands for.
const NAMES: &[(&str, &[&str])] = &[
    ("http", &["http"]),
    ("http1", &["http"]),
    ("http2", &["http"]),
    ("krb5", &["kerberos"]),
    ("postgresql", &["postgresql"]),
    ("pgsql", &["postgresql"]),
    ("bittorrent-dht", &["bittorrent"]),
    ("ftp-data", &["ftp"]),
    ("ssl", &["tls"]),
    ("dcerpc", &["smb"]),
    // Files are parts of these sessions.
    ("file", &["http", "smtp", "smb"]),
];

/// The protocol in rules of a connection that has none of the protocols that rules are about.
pub const FAILED: &str = "failed";

/// The protocols of Weir behind a name in rules; empty if there is none.
pub fn protocols_of(name: &str, registry: &SessionRegistry) -> ProtocolSet {
    if name == FAILED {
        return (0..registry.protocols().len()).collect();
    }
    let of = NAMES.iter().find(|(known, _)| *known == name).map(|(_, of)| *of);
    let mut set = ProtocolSet::EMPTY;
    for name in of.unwrap_or(&[name]) {
        if let Some(number) = registry.number_of(name) {
            set.insert(number);
        }
    }
    set
}

/// The name in rules of a protocol of Weir.
pub fn name_of(protocol: &'static str) -> &'static str {
    match protocol {
        "kerberos" => "krb5",
        "postgresql" => "pgsql",
        other => other,
    }
}

/// Whether what follows a session is encrypted.
pub fn begins_encryption(session: &dyn Session) -> bool {
    let any = session.as_any();
    any.is::<SshHandshake>()
        || any.downcast_ref::<TlsHandshake>().is_some_and(|handshake| handshake.is_established)
}

/// Whether a connection with the protocol `app` is one of the rule's protocol `wanted`.
pub fn is(app: &str, wanted: &str) -> bool {
    match wanted {
        "http" => matches!(app, "http" | "http2"),
        "http1" => app == "http",
        "ssl" => app == "tls",
        wanted => app == wanted,
    }
}

/// The name in rules of the protocol of a session: versions of HTTP are protocols of their own.
pub fn of_session(name: &'static str, session: &dyn Session) -> &'static str {
    match session.as_any().downcast_ref::<HttpExchange>() {
        Some(exchange) if exchange.stream_id.is_some() => "http2",
        _ => name,
    }
}

/// The protocol of a field of sessions, from its name.
pub fn protocol_of_field(field: &'static str) -> &'static str {
    match field {
        "urilen" => "http",
        _ if field.starts_with("file") => "file",
        _ if field.starts_with("ssl_") || field.starts_with("tls") => "tls",
        _ if field.starts_with("krb5") => "krb5",
        _ if field.starts_with("ftp") => "ftp",
        _ if field.starts_with("nfs") => "nfs",
        _ => {
            const NAMES: &[&str] = &[
                "dns", "snmp", "dcerpc", "ntp", "mqtt", "rfb", "http2", "ldap", "smb", "sip", "modbus",
                "dhcp", "ike", "ssh", "quic",
            ];
            let name = field.split(['.', '_']).next().unwrap_or_default();
            NAMES.iter().find(|known| **known == name).copied().unwrap_or("")
        }
    }
}
