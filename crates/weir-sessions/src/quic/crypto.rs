//! Frames of Initial packets (RFC 9000 §12.4), and the stream that their CRYPTO frames make (§19.6). CRYPTO
//! frames arrive in any order, repeatedly and in small fragments.

use super::header::read_varint;
use crate::pieces::Pieces;
use crate::wire::Reader;

/// Maximum number of handshake bytes kept of each side.
pub const CRYPTO_BYTES_MAX: usize = 64 * 1024;

/// A frame that the parser uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// CRYPTO: offset in the handshake stream, and bytes.
    Crypto(u64, &'a [u8]),
    /// CONNECTION_CLOSE with an error code.
    Close(u64),
}

/// The CRYPTO and CONNECTION_CLOSE frames of a packet, up to the first malformed frame.
pub(super) fn frames(payload: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut reader = Reader::new(payload);
    std::iter::from_fn(move || {
        loop {
            match read_varint(&mut reader)? {
                0 => skip_padding(&mut reader),
                1 => {}
                kind @ 2..=3 => skip_ack(&mut reader, kind == 3)?,
                6 => {
                    let (offset, length) = (read_varint(&mut reader)?, read_varint(&mut reader)?);
                    return Some(Frame::Crypto(offset, reader.take(usize::try_from(length).ok()?)?));
                }
                0x1c | 0x1d => return Some(Frame::Close(read_varint(&mut reader)?)),
                _ => return None,
            }
        }
    })
}

/// Skips a run of PADDING frames at once: most of an Initial is padding.
fn skip_padding(reader: &mut Reader<'_>) {
    let zeros = reader.rest().iter().take_while(|byte| **byte == 0).count();
    let _ = reader.take(zeros);
}

fn skip_ack(reader: &mut Reader<'_>, has_congestion: bool) -> Option<()> {
    read_varint(reader)?; // largest acknowledged
    read_varint(reader)?; // delay
    let ranges = read_varint(reader)?;
    read_varint(reader)?; // the first range
    for _ in 0..ranges {
        read_varint(reader)?;
        read_varint(reader)?;
    }
    for _ in 0..if has_congestion { 3 } else { 0 } {
        read_varint(reader)?;
    }
    Some(())
}

/// Assembles the handshake messages of one side.
#[derive(Debug, Default)]
pub(super) struct CryptoStream {
    pieces: Pieces,
    /// Offset of the next message.
    taken: usize,
}

impl CryptoStream {
    /// Adds bytes at `offset`. Returns whether they were kept.
    #[must_use]
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8]) -> bool {
        usize::try_from(offset).is_ok_and(|offset| self.pieces.insert(offset, bytes, CRYPTO_BYTES_MAX))
    }

    /// The next handshake message (RFC 8446 §4): type and body. `None` until it is complete.
    pub(super) fn next_message(&mut self) -> Option<(u8, &[u8])> {
        let mut reader = Reader::new(self.pieces.whole().get(self.taken..)?);
        let (kind, body) = (reader.u8()?, reader.vector24()?);
        self.taken += 4 + body.len();
        Some((kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_say_nothing_are_passed_over() {
        let payload = [
            0, 0, 1, // padding, ping
            2, 9, 0, 1, 0, 3, 4, // an acknowledgement with one more range
            3, 9, 0, 0, 0, 1, 1, 1, // an acknowledgement with ECN counts
            6, 5, 2, b'h', b'i', // CRYPTO bytes at offset 5
            0x1c, 0x41, 0x28, 0, 0, // CONNECTION_CLOSE with error 0x128
        ];
        let all: Vec<_> = frames(&payload).take(2).collect();
        assert_eq!(all, [Frame::Crypto(5, b"hi"), Frame::Close(0x128)]);
        assert_eq!(frames(&[6, 0, 9, 1]).count(), 0, "cut");
        assert_eq!(frames(&[2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]).count(), 0);
        assert_eq!(frames(&[0x20, 6, 0, 0]).count(), 0, "a frame that Initials have not");
    }

    #[test]
    fn splinters_in_any_order_become_a_message() {
        let message = [1, 0, 0, 5, 10, 11, 12, 13, 14, 2, 0, 0, 0];
        let mut stream = CryptoStream::default();
        for (from, to) in [(8, 13), (2, 4), (6, 9), (2, 5), (0, 2)] {
            assert!(stream.insert(from as u64, &message[from..to]));
            assert_eq!(stream.next_message(), None);
        }
        assert!(stream.insert(5, &message[5..6]));
        assert_eq!(stream.next_message(), Some((1, &[10, 11, 12, 13, 14][..])));
        assert_eq!(stream.next_message(), Some((2, &[][..])));
        assert_eq!(stream.next_message(), None);
    }
}
