//! Exchanges whose messages are in several connections: the client asks all hosts, and the server answers
//! one.

/// A protocol whose exchanges may be in two connections. The rows of both are joined to one.
#[derive(Debug)]
pub struct Join {
    /// The name of the protocol.
    pub protocol: &'static str,
    /// The columns that identify an exchange.
    pub by: &'static [&'static str],
    /// The column that lists the types of the messages.
    pub messages: &'static str,
    /// The place of a type of message in an exchange. `None`: a message without an answer, or an unknown one.
    pub place: fn(&str) -> Option<Place>,
}

/// The place of a message in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The client sends it, and waits for an answer.
    pub is_request: bool,
    /// Messages with a lower number come before it.
    pub step: u8,
}
