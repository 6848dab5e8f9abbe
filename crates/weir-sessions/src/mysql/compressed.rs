//! The compressed protocol, which follows the login if both sides support it. Its packets carry packets of
//! the plain protocol, which may begin and end anywhere in them. A packet has three bytes of length, a
//! sequence number, three bytes of uncompressed length (0: not compressed), then zlib data.

use flate2::{Decompress, FlushDecompress, Status};

/// Length of the header.
const HEADER_BYTES: usize = 7;

/// Maximum number of bytes decompressed at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// State of one direction. Compressed bytes are not buffered, except in zlib's state.
#[derive(Default)]
pub(super) struct Unpacker {
    header: Vec<u8>,
    /// Remaining compressed bytes of the packet.
    packed_bytes: u32,
    /// Remaining uncompressed bytes of the packet; `None`: it is not compressed.
    unpacked_bytes: Option<u32>,
    zlib: Option<Box<Decompress>>,
    piece: Vec<u8>,
    /// No byte of the packet has been returned yet.
    is_new: bool,
    is_wrong: bool,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").field("packed_bytes", &self.packed_bytes).finish_non_exhaustive()
    }
}

/// The result of decompression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpacked<'a> {
    /// Bytes of the plain protocol; whether they are the first of their compressed packet.
    Bytes(&'a [u8], bool),
    /// More bytes are needed.
    More,
    /// The data is invalid.
    Wrong,
}

impl Unpacker {
    /// Takes bytes off the front of `bytes`, and decompresses the next piece.
    pub(super) fn next<'s, 'b: 's>(&'s mut self, bytes: &mut &'b [u8]) -> Unpacked<'s> {
        if self.is_wrong {
            return Unpacked::Wrong;
        }
        while self.packed_bytes == 0 {
            let missing = HEADER_BYTES - self.header.len();
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            self.header.extend_from_slice(head);
            *bytes = rest;
            let [a, b, c, _, d, e, f] = self.header[..] else { return Unpacked::More };
            self.header.clear();
            self.is_new = true;
            self.packed_bytes = u32::from_le_bytes([a, b, c, 0]);
            self.unpacked_bytes = Some(u32::from_le_bytes([d, e, f, 0])).filter(|length| *length > 0);
            if self.unpacked_bytes.is_some() {
                self.zlib.get_or_insert_with(|| Box::new(Decompress::new(true))).reset(true);
            }
        }
        if bytes.is_empty() {
            return Unpacked::More;
        }
        let is_new = std::mem::take(&mut self.is_new);
        let at_hand = bytes.len().min(self.packed_bytes as usize);
        let (packed, rest) = bytes.split_at(at_hand);
        let (Some(wanted), Some(zlib)) = (&mut self.unpacked_bytes, &mut self.zlib) else {
            self.packed_bytes -= at_hand as u32;
            *bytes = rest;
            return Unpacked::Bytes(packed, is_new);
        };
        // Bounds the output by the announced length; one byte more would prove the length wrong.
        self.piece.resize(PIECE_BYTES.min(*wanted as usize + 1), 0);
        let before = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress(packed, &mut self.piece, FlushDecompress::None);
        let (taken, made) = (zlib.total_in() - before.0, zlib.total_out() - before.1);
        self.packed_bytes -= taken as u32;
        *bytes = &bytes[taken as usize..];
        let is_right = match status {
            Ok(Status::StreamEnd) => made == u64::from(*wanted) && self.packed_bytes == 0,
            // Without progress the caller's loop would never end.
            Ok(_) => made <= u64::from(*wanted) && (taken, made) != (0, 0) && self.packed_bytes > 0,
            Err(_) => false,
        };
        self.is_wrong = !is_right;
        // Return the output before the error, so that the result does not depend on segmentation.
        let made = made.min((*wanted).into()) as u32;
        if self.is_wrong && made == 0 {
            return Unpacked::Wrong;
        }
        *wanted -= made;
        Unpacked::Bytes(&self.piece[..made as usize], is_new)
    }
}

/// Builds a packet of the compressed protocol.
#[cfg(test)]
pub(super) fn packed(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    let packed = encoder.finish().expect("memory");
    let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes()[..3].to_vec();
    [length(&packed), vec![0], length(content), packed].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decompresses pieces of this size; returns the output, and whether all of it was valid.
    fn unpacked(bytes: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::with_capacity(1 << 20);
        let before = weir_memory::live_bytes();
        let mut unpacker = Unpacker::default();
        for mut piece in bytes.chunks(size) {
            loop {
                match unpacker.next(&mut piece) {
                    Unpacked::Bytes(bytes, _) => out.extend_from_slice(bytes),
                    Unpacked::More => break,
                    Unpacked::Wrong => return (out, false),
                }
            }
            assert!(weir_memory::live_bytes() - before < 64 * 1024);
        }
        (out, true)
    }

    #[test]
    fn what_was_packed_comes_out_in_pieces_of_any_size() {
        let text = b"select weir ".repeat(3000);
        let talk = [packed(&text), b"\x05\0\0\x01\0\0\0plain".to_vec(), packed(b"end")].concat();
        let expected = [&text[..], b"plain", b"end"].concat();
        for size in [1, 3, 7, 100, talk.len()] {
            assert_eq!(unpacked(&talk, size), (expected.clone(), true), "{size}");
        }
    }

    #[test]
    fn what_lies_about_its_length_is_wrong() {
        let right = packed(&[7; 100]);
        for (at, value) in [(4, 99), (4, 101), (0, right[0] - 1), (0, right[0] + 1), (7, 0xff)] {
            let mut wrong = [&right[..], &[0; 9]].concat();
            wrong[at] = value;
            assert!(!unpacked(&wrong, 1000).1, "byte {at} is {value}");
        }
    }
}
