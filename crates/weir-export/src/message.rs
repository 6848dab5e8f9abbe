//! What a queue stores: messages for a peer.

use std::sync::Arc;

/// A message in the form of its protocol, without what depends on the connection: IPFIX adds a header when
/// the message is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number of rows in the message.
    pub rows: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What a peer needs before this message, such as the templates of IPFIX: the same for all messages of a
    /// run. A spool also has messages of earlier runs, which may need something else.
    pub context: Arc<[u8]>,
}

/// Messages that a queue did not accept, or gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals {
    /// Number of messages.
    pub messages: u64,
    /// Number of rows in these messages.
    pub rows: u64,
}
