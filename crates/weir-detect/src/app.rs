//! Session protocols by their names in rules.

use weir::sessions::http::HttpExchange;
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

/// The protocols of Weir behind a name in rules; empty if there is none.
pub fn protocols_of(name: &str, registry: &SessionRegistry) -> ProtocolSet {
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
