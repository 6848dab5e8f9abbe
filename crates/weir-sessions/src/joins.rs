//! Protocols whose clients ask many hosts at once, as those of DHCP do. The answer comes from one host, so an
//! exchange has two connections: one with the requests, one with the answers.

/// How the rows of such a protocol are joined: one row for the requests and one for the answers become one
/// row of the exchange.
#[derive(Debug)]
pub struct Join {
    /// The name of the protocol.
    pub protocol: &'static str,
    /// The columns whose values both rows of an exchange share, and no other exchange has at the time.
    pub by: &'static [&'static str],
    /// The column that lists the types of the messages: SOLICIT, ADVERTISE.
    pub messages: &'static str,
    /// Returns where in an exchange a message of this type belongs. Returns `None` for an unknown type, and
    /// for a type that has no answer: such messages have a row of their own.
    pub place: fn(&str) -> Option<Place>,
}

/// How rows of the parts of a whole become one row, as those of the ranges of a download do.
#[derive(Debug)]
pub struct Sum {
    /// The name of the log of parts of sessions.
    pub log: &'static str,
    /// The column with the same value in all rows of a whole.
    pub by: &'static str,
    /// The column with the number of parts. Rows without the value are whole.
    pub parts: &'static str,
    /// The column with the size of the whole, in bytes.
    pub whole: &'static str,
    /// The columns whose values are added.
    pub added: &'static [&'static str],
}

/// The name of the column that lists the connections of a joined row.
pub const UIDS: &str = "uids";

/// Where in an exchange a type of message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// `true`: the client sends the message. `false`: the server answers with the message.
    pub is_request: bool,
    /// A message with a lower number is sent earlier: 0 for DISCOVER, 1 for OFFER.
    pub step: u8,
}
