//! Protocols that arrange connections of other protocols: the messages of a SIP call state the addresses and
//! ports between which the call's RTP streams will be sent.

use std::net::SocketAddr;

/// Where the rows of an arranging protocol (SIP) state the addresses and ports, and where the rows of the
/// arranged protocol (RTP) have the name of the session that did so (the call).
#[derive(Debug)]
pub struct Announcement {
    /// The name of the arranging protocol: `sip`.
    pub by: &'static str,
    /// The columns of its rows that list addresses and ports, one column for each side of the session.
    pub ends: &'static [&'static str],
    /// Reads address and port from a text of these columns: 192.0.2.7:4000 from `audio 192.0.2.7:4000`.
    pub end: fn(&str) -> Option<SocketAddr>,
    /// The column of its rows that names the session: `call_id`.
    pub name: &'static str,
    /// The name of the arranged protocol: `rtp`.
    pub of: &'static str,
    /// The column of the arranged protocol's rows into which that name is written: `call_id`.
    pub column: &'static str,
}
