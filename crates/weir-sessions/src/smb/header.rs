//! Frames of messages (RFC 1002 §4.3.1, MS-SMB2 §2.1), headers of SMB 2 (§2.2.1), and [`Seek`], which finds
//! the next message after a gap.

use crate::frames::Head;

/// Length of a frame's head, bytes: a type, and a length of three bytes.
pub(super) const FRAME_BYTES: usize = 4;

/// Length of an SMB 2 header, bytes.
pub(super) const HEADER_BYTES: usize = 64;

/// Maximum number of compounded messages read of one frame (§3.2.4.1.4).
const COMPOUNDED_MAX: usize = 64;

/// First bytes of an SMB 2 header: protocol id and structure size.
pub(super) const MARK: &[u8] = b"\xfeSMB\x40\0";

/// Measures a frame, its head included.
pub(super) fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [0 | 0x81..=0x85, a, b, c, ..] => {
            Head::Bytes(FRAME_BYTES as u64 + u64::from(u32::from_be_bytes([0, *a, *b, *c])))
        }
        [] | [0 | 0x81..=0x85, ..] => Head::Short,
        _ => Head::Wrong,
    }
}

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// One or more SMB 2 messages.
    Two(&'a [u8]),
    /// An SMB 1 message.
    One(&'a [u8]),
    /// An encrypted message (§2.2.41).
    Encrypted,
    /// A compressed message (§2.2.42).
    Compressed,
    /// NetBIOS session messages, and unknown ones.
    Other,
}

/// Classifies the contents of a frame.
pub(super) fn kind(frame: &[u8]) -> Kind<'_> {
    match frame.split_at_checked(FRAME_BYTES) {
        Some(([0, ..], message @ [0xfe, b'S', b'M', b'B', ..])) => Kind::Two(message),
        Some(([0, ..], message @ [0xff, b'S', b'M', b'B', ..])) => Kind::One(message),
        Some(([0, ..], [0xfd, b'S', b'M', b'B', ..])) => Kind::Encrypted,
        Some(([0, ..], [0xfc, b'S', b'M', b'B', ..])) => Kind::Compressed,
        _ => Kind::Other,
    }
}

/// Commands (§2.2.1.2).
pub(super) mod command {
    pub(in super::super) const NEGOTIATE: u16 = 0;
    pub(in super::super) const SESSION_SETUP: u16 = 1;
    pub(in super::super) const TREE_CONNECT: u16 = 3;
    pub(in super::super) const CREATE: u16 = 5;
    pub(in super::super) const CLOSE: u16 = 6;
    pub(in super::super) const READ: u16 = 8;
    pub(in super::super) const WRITE: u16 = 9;
    pub(in super::super) const IOCTL: u16 = 11;
    pub(in super::super) const QUERY_DIRECTORY: u16 = 14;
    pub(in super::super) const SET_INFO: u16 = 17;
}

/// An SMB 2 message: its header, and the bytes that contain it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) command: u16,
    pub(super) is_response: bool,
    pub(super) status: u32,
    pub(super) number: u64,
    /// Tree id of the share; `None` in asynchronous responses.
    pub(super) tree: Option<u32>,
    /// Session id.
    pub(super) session: u64,
    /// Whether another message follows in the frame.
    pub(super) is_followed: bool,
    /// All bytes, header included; offsets in bodies count from here.
    pub(super) bytes: &'a [u8],
}

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let flags = read_u32(header, 16)?;
        Some(Self {
            command: read_u16(header, 12)?,
            is_response: flags & 1 != 0,
            status: read_u32(header, 8)?,
            number: read_u64(header, 24)?,
            tree: if flags & 2 == 0 { read_u32(header, 36) } else { None },
            session: read_u64(header, 40)?,
            is_followed: read_u32(header, 20)? != 0,
            bytes,
        })
    }

    /// The bytes after the header.
    pub(super) fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }
}

/// The messages of a frame, up to the end of the captured bytes.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        let next = read_u32(bytes, 20).filter(|next| *next >= HEADER_BYTES as u32);
        let at = next.and_then(|next| usize::try_from(next).ok());
        rest = at.and_then(|at| bytes.get(at..));
        Message::parse(&bytes[..at.unwrap_or(bytes.len()).min(bytes.len())])
    })
    .take(COMPOUNDED_MAX)
}

/// Reads a little-endian number.
pub(super) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|number| u16::from_le_bytes(*number))
}

/// Reads a little-endian number.
pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

/// Reads a little-endian number.
pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|number| u64::from_le_bytes(*number))
}

/// Searches a stream, delivered in slices of any size, for a frame with an SMB 2 message.
#[derive(Debug, Default)]
pub(super) struct Seek {
    /// The last bytes seen, fewer than [`SOUGHT_BYTES`].
    kept: Vec<u8>,
}

/// Length of the pattern, bytes: frame head and mark.
const SOUGHT_BYTES: usize = FRAME_BYTES + MARK.len();

impl Seek {
    /// Searches the next bytes. If found, returns the frame's bytes from earlier slices, and the frame's
    /// offset in `bytes`.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
        // First search across the border of the slices.
        let border = self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(SOUGHT_BYTES - 1)]);
        if let Some(at) = position(&self.kept).filter(|at| *at < border) {
            let mut before = std::mem::take(&mut self.kept);
            before.truncate(border);
            return Some((before.split_off(at), 0));
        }
        if let Some(at) = position(bytes) {
            self.kept = Vec::new();
            return Some((Vec::new(), at));
        }
        if bytes.len() >= SOUGHT_BYTES {
            self.kept.clear();
            self.kept.extend_from_slice(&bytes[bytes.len() - (SOUGHT_BYTES - 1)..]);
        } else {
            let excess = self.kept.len().saturating_sub(SOUGHT_BYTES - 1);
            self.kept.drain(..excess);
        }
        None
    }
}

fn position(bytes: &[u8]) -> Option<usize> {
    let is_it = |mark: &usize| {
        let head = mark.checked_sub(FRAME_BYTES).map(|at| &bytes[at..*mark]);
        matches!(head, Some([0, a, b, c]) if u32::from_be_bytes([0, *a, *b, *c]) >= HEADER_BYTES as u32)
    };
    memchr::memmem::find_iter(bytes, MARK).find(is_it).map(|mark| mark - FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_in_any_pieces() {
        let stream = b"\xfeSMB\x40\0\0\0\0\0\xfeSMB\x40\0\0\0\x01\0\xfeSMB\x40\0rest";
        for size in 1..stream.len() {
            let mut seek = Seek::default();
            let mut at = 0;
            let found = stream.chunks(size).find_map(|piece| {
                let found = seek.find(piece).map(|(before, behind)| at + behind - before.len());
                at += piece.len();
                found
            });
            assert_eq!(found, Some(16), "in pieces of {size}");
        }
    }

    #[test]
    fn messages_stand_one_behind_the_other() {
        let mut first = [0; HEADER_BYTES + 8];
        first[20] = first.len() as u8;
        let bytes = [&first[..], &[0; HEADER_BYTES + 3]].concat();
        assert_eq!(messages(&bytes).map(|message| message.body().len()).collect::<Vec<_>>(), [8, 3]);
        assert_eq!(messages(&bytes[..HEADER_BYTES + 70]).count(), 1);
        // An offset into the message itself ends the list.
        first[20] = 8;
        assert_eq!(messages(&first).count(), 1);
    }
}
