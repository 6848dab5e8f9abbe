//! Protocols whose sessions announce connections of other protocols, as calls of SIP announce those of RTP.

use std::net::SocketAddr;

/// How the rows of a protocol name the session that announced their connection.
#[derive(Debug)]
pub struct Announcement {
    /// The name of the protocol whose sessions announce connections: SIP.
    pub by: &'static str,
    /// The columns of its rows that list the ends of announced connections.
    pub ends: &'static [&'static str],
    /// Reads an end from a text of these columns: 192.0.2.7:4000 from `audio 192.0.2.7:4000`.
    pub end: fn(&str) -> Option<SocketAddr>,
    /// The column of its rows whose text names the session: `call_id`.
    pub name: &'static str,
    /// The name of the protocol of the announced connections: RTP.
    pub of: &'static str,
    /// The column of the rows of the announced connections that takes the name.
    pub column: &'static str,
}
