//! [`PlainText`]: HTTP/1 as a person reads it, with bodies decoded, for `weir follow --decode`.
//!
//! Heads stay as they were sent; of bodies, chunks are joined (RFC 9112 §7.1) and content codings decoded.
//! Bytes that are not HTTP/1 stay as they are. The parser of [`http1`](super::http1) finds the bodies, and
//! fills the [`view`](super::view).

use super::http1::Http1;
use super::view::View;
use crate::{Data, Direction, Progress};
use weir_packet::Timestamp;

/// The decoded view of one connection.
#[derive(Debug)]
pub struct PlainText {
    parser: Option<Box<Http1>>,
    cut: u64,
}

impl Default for PlainText {
    fn default() -> Self {
        Self { parser: Some(Box::new(Http1::with_view())), cut: 0 }
    }
}

impl PlainText {
    /// The view of the next bytes of one direction: possibly fewer bytes, or more, at most 256 for each byte
    /// and 64 KiB for each body.
    pub fn take(&mut self, from: Direction, bytes: &[u8]) -> Vec<u8> {
        let Some(parser) = &mut self.parser else { return bytes.to_vec() };
        let data = Data { from, time: Timestamp(0), bytes, is_datagram: false };
        let progress = parser.parse(&data, &mut vec![]);
        let mut shown = parser.take_shown();
        // Another protocol follows, or none was found.
        let rest_bytes = match progress {
            Progress::HandOver { rest_bytes } => rest_bytes,
            Progress::Done => 0,
            _ => return shown,
        };
        shown.extend_from_slice(&bytes[bytes.len() - rest_bytes.min(bytes.len())..]);
        self.end();
        shown
    }

    /// Takes note of missing bytes of one direction.
    pub fn gap(&mut self, from: Direction, length_bytes: u64) {
        if let Some(parser) = &mut self.parser
            && !matches!(parser.gap(from, length_bytes, &mut vec![]), Progress::Wanted)
        {
            self.end();
        }
    }

    /// Ends decoding: further bytes are shown as sent.
    pub fn end(&mut self) {
        self.cut = self.cut();
        self.parser = None;
    }

    /// Whether decoding has ended.
    pub fn is_over(&self) -> bool {
        self.parser.is_none()
    }

    /// Number of bodies that the bound on decoded bytes cut.
    pub fn cut(&self) -> u64 {
        self.cut + self.parser.as_ref().map_or(0, |parser| parser.view().map_or(0, View::cut))
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        let of = |parser: &Http1| size_of::<Http1>() + parser.held_bytes();
        size_of::<Self>() + self.parser.as_deref().map_or(0, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::{DECODED_BYTES_FREE, DECODED_PER_BYTE_MAX};
    use Direction::{Originator, Responder};
    use std::io::Write;

    fn view(pieces: &[(Direction, &[u8])], piece_bytes: usize) -> [String; 2] {
        let (mut plain, mut shown) = (PlainText::default(), [vec![], vec![]]);
        for (from, bytes) in pieces {
            for bytes in bytes.chunks(piece_bytes) {
                shown[*from as usize].extend(plain.take(*from, bytes));
            }
        }
        shown.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn chunks_are_joined_and_codings_decoded_however_they_are_cut() {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packed.write_all(b"hello, hello, hello").expect("memory");
        let packed = packed.finish().expect("memory");
        let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (one, two) = packed.split_at(7);
        let chunk = |bytes: &[u8]| [format!("{:x};a=b\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        let answer = [&head[..], &chunk(one), &chunk(two), b"0\r\nTrailer: x\r\n\r\n"].concat();
        let last = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend";
        let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let said = [get, &get[..]].concat();
        let all = [&answer[..], last].concat();
        for piece_bytes in [1, 5, 4096] {
            let [asked, shown] = view(&[(Originator, &said), (Responder, &all)], piece_bytes);
            assert_eq!(asked.as_bytes(), said);
            let expected = [&head[..], b"hello, hello, hello", last].concat();
            assert_eq!(shown, String::from_utf8_lossy(&expected), "in pieces of {piece_bytes}");
        }
    }

    #[test]
    fn bytes_of_other_protocols_stay_as_they_are() {
        let switch = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
        let switched = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n\x81\x05hello";
        let [asked, shown] = view(&[(Originator, switch), (Responder, switched)], 9);
        assert_eq!((asked.as_bytes(), shown), (&switch[..], String::from_utf8_lossy(switched).into_owned()));
        let mail = b"220 mail.example ESMTP\r\n250 ok\r\n";
        let [asked, shown] = view(&[(Responder, mail), (Originator, b"EHLO a\r\nQUIT\r\n")], 5);
        assert_eq!((asked.as_str(), shown.as_bytes()), ("EHLO a\r\nQUIT\r\n", &mail[..]));
    }

    #[test]
    fn a_bomb_is_cut() {
        let mut bomb = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        bomb.write_all(&vec![b'x'; 8 << 20]).expect("memory");
        let bomb = bomb.finish().expect("memory");
        let mut plain = PlainText::default();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
        plain.take(Originator, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        plain.take(Responder, head.as_bytes());
        let shown = plain.take(Responder, &bomb).len() as u64;
        assert_eq!((shown, plain.cut()), (bomb.len() as u64 * DECODED_PER_BYTE_MAX + DECODED_BYTES_FREE, 1));
    }
}
