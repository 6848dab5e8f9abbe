//! Handshake messages (RFC 8446 §4), extracted from the contents of records. A record may hold several
//! messages, and a message may span many records.
//!
//! A message inside one slice is passed on without copying. Otherwise its bytes are collected until it is
//! complete, at most [`MESSAGE_BYTES_MAX`]. Messages that the parser does not use are skipped.

use std::borrow::Cow;

/// Longest message kept, bytes. Certificate chains of real servers stay below a quarter of it.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// HandshakeType ClientHello.
pub(crate) const CLIENT_HELLO: u8 = 1;
/// HandshakeType ServerHello.
pub(crate) const SERVER_HELLO: u8 = 2;
/// HandshakeType Certificate.
pub(crate) const CERTIFICATE: u8 = 11;
/// HandshakeType ServerKeyExchange (RFC 5246 §7.4.3).
pub(crate) const SERVER_KEY_EXCHANGE: u8 = 12;
/// HandshakeType ClientKeyExchange (RFC 5246 §7.4.7).
pub(crate) const CLIENT_KEY_EXCHANGE: u8 = 16;

/// Body of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// Complete.
    Whole(Cow<'a, [u8]>),
    /// Skipped: the parser does not use this type.
    Unread,
    /// Skipped: longer than [`MESSAGE_BYTES_MAX`].
    Oversize,
}

/// A handshake message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// HandshakeType.
    pub(super) kind: u8,
    /// The bytes after the header of four bytes.
    pub(super) body: Body<'a>,
}

/// State of one direction's handshake messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    header: [u8; 4],
    header_bytes: usize,
    /// Missing bytes of the current message.
    left_bytes: usize,
    /// Whether the current message is kept.
    keeping: bool,
    kept: Vec<u8>,
}

impl Messages {
    /// Takes the next message off the front of `bytes`, the contents of consecutive handshake records. `None`
    /// if more bytes are needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Message<'a>> {
        if self.header_bytes < self.header.len() {
            self.fill_header(bytes)?;
            let [kind, length @ ..] = self.header;
            self.left_bytes = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            self.keeping = is_read(kind) && self.left_bytes <= MESSAGE_BYTES_MAX;
            if is_read(kind) && !self.keeping {
                // Report it now: an oversize hello ends the parser, so its bytes need not be awaited.
                return Some(Message { kind, body: Body::Oversize });
            }
        }
        let (head, tail) = bytes.split_at(bytes.len().min(self.left_bytes));
        *bytes = tail;
        self.left_bytes -= head.len();
        if self.left_bytes > 0 {
            if self.keeping {
                self.kept.extend_from_slice(head);
            }
            return None;
        }
        self.header_bytes = 0;
        let kind = self.header[0];
        if !self.keeping {
            // An oversize message has already been reported.
            return if is_read(kind) { self.next(bytes) } else { Some(Message { kind, body: Body::Unread }) };
        }
        let body = if self.kept.is_empty() {
            Cow::Borrowed(head)
        } else {
            self.kept.extend_from_slice(head);
            Cow::Owned(std::mem::take(&mut self.kept))
        };
        Some(Message { kind, body: Body::Whole(body) })
    }

    /// Handles a loss of `length_bytes` bytes. Returns whether all of them lie in a skipped message.
    #[must_use]
    pub(super) fn skip(&mut self, length_bytes: u64) -> bool {
        let open = self.header_bytes == self.header.len() && !self.keeping;
        match usize::try_from(length_bytes) {
            // Strictly less: the last byte of a message must be seen, so that its end is reported.
            Ok(length) if open && length < self.left_bytes => {
                self.left_bytes -= length;
                true
            }
            _ => false,
        }
    }

    fn fill_header(&mut self, bytes: &mut &[u8]) -> Option<()> {
        while self.header_bytes < self.header.len() {
            let (byte, tail) = bytes.split_first()?;
            *bytes = tail;
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
        }
        Some(())
    }
}

/// Whether the parser uses messages of this type.
pub(crate) fn is_read(kind: u8) -> bool {
    matches!(kind, CLIENT_HELLO | SERVER_HELLO | CERTIFICATE | SERVER_KEY_EXCHANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(kind: u8, body: &[u8]) -> Message<'_> {
        Message { kind, body: Body::Whole(Cow::Borrowed(body)) }
    }

    #[test]
    fn several_messages_in_one_slice_are_borrowed() {
        let mut messages = Messages::default();
        let mut bytes = &[2, 0, 0, 1, 9, 14, 0, 0, 0, 12, 0, 0, 2, 5, 6][..];
        assert_eq!(messages.next(&mut bytes), Some(whole(SERVER_HELLO, &[9])));
        assert_eq!(messages.next(&mut bytes), Some(Message { kind: 14, body: Body::Unread }));
        assert_eq!(messages.next(&mut bytes), Some(whole(SERVER_KEY_EXCHANGE, &[5, 6])));
        assert_eq!(messages.next(&mut bytes), None);
    }

    #[test]
    fn a_message_in_pieces_is_kept_until_whole() {
        let mut messages = Messages::default();
        for byte in [1, 0, 0, 2, 7] {
            assert_eq!(messages.next(&mut &[byte][..]), None);
        }
        assert_eq!(messages.next(&mut &[8][..]), Some(whole(CLIENT_HELLO, &[7, 8])));
    }

    #[test]
    fn an_oversize_message_is_said_once_and_passed_over() {
        let mut messages = Messages::default();
        let length = MESSAGE_BYTES_MAX as u32 + 1;
        let [_, a, b, c] = length.to_be_bytes();
        let mut bytes = &[11, a, b, c][..];
        assert_eq!(messages.next(&mut bytes), Some(Message { kind: CERTIFICATE, body: Body::Oversize }));
        let mut rest = vec![0; length as usize];
        rest.extend([2, 0, 0, 1, 9]);
        assert_eq!(messages.next(&mut &rest[..]), Some(whole(SERVER_HELLO, &[9])));
    }

    #[test]
    fn a_gap_is_borne_in_what_is_passed_over() {
        let mut messages = Messages::default();
        assert!(!messages.skip(1), "between messages");
        assert_eq!(messages.next(&mut &[4, 0, 0, 9, 1][..]), None);
        assert!(!messages.skip(8), "up to its end");
        assert!(messages.skip(7));
        assert_eq!(messages.next(&mut &[1][..]), Some(Message { kind: 4, body: Body::Unread }));
        assert_eq!(messages.next(&mut &[1, 0, 0, 9, 1][..]), None);
        assert!(!messages.skip(1), "in what is kept");
    }
}
