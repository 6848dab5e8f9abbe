//! The record layer (RFC 8446 §5.1, RFC 5246 §6.2.1): cuts one direction's bytes into records.
//!
//! Nothing is copied but a header that is split over two slices (five bytes at most): the content of a record
//! is handed on as slices of what came in, so that a whole message inside one slice is parsed where it lies.
//! The first record of a direction may be of SSLv2 (draft-hickman-netscape-ssl-00 §1.1), known by its top bit.

/// Content type of ChangeCipherSpec records (RFC 5246 §6.2.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
/// Content type of alerts.
pub(super) const ALERT: u8 = 21;
/// Content type of handshake messages.
pub(super) const HANDSHAKE: u8 = 22;
/// Content type of application data, and of all that is encrypted in TLS 1.3.
pub(super) const APPLICATION_DATA: u8 = 23;
/// Content type of heartbeats (RFC 6520 §3).
pub(super) const HEARTBEAT: u8 = 24;
/// Our name for an SSLv2 record, which has no content type; no record of TLS has it.
pub(super) const SSLV2: u8 = 128;

/// Longest content of a record, bytes: 2¹⁴ and what encryption may add (RFC 5246 §6.2.3).
pub(super) const RECORD_BYTES_MAX: u16 = (1 << 14) + 2048;

/// What comes out of a record, in order: its header, then its content in one or several slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A record begins.
    Header {
        /// The content type: one of the constants above.
        content: u8,
        /// Length of the content, bytes.
        length_bytes: u16,
    },
    /// The next bytes of the record's content; never empty.
    Content {
        /// The content type, as in the header.
        content: u8,
        /// The bytes.
        bytes: &'a [u8],
        /// Whether the record ends with them.
        last: bool,
    },
}

/// The bytes are not records of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotARecord;

/// Where one direction stands in its records.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; 5],
    header_bytes: usize,
    /// Content type of the record that is open.
    content: u8,
    /// Bytes of the open record's content that are still to come; 0 between records.
    content_left_bytes: u16,
    /// Whether a whole header has been read: SSLv2 is looked for in the first only.
    begun: bool,
}

impl Records {
    /// Takes the next piece off the front of `bytes`; `None` where more bytes are needed.
    ///
    /// # Errors
    /// [`NotARecord`] where a header has an unknown type, version or length.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Result<Piece<'a>, NotARecord>> {
        if self.content_left_bytes > 0 { self.content(bytes).map(Ok) } else { self.header(bytes) }
    }

    /// Takes note that the next `length_bytes` bytes are missing. `Some(content)` is the type of the record
    /// within which they all lie; `None` means that nobody knows where the next record begins.
    pub(super) fn skip(&mut self, length_bytes: u64) -> Option<u8> {
        let length = u16::try_from(length_bytes).ok().filter(|length| *length <= self.content_left_bytes)?;
        self.content_left_bytes -= length;
        Some(self.content)
    }

    fn content<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        if bytes.is_empty() {
            return None;
        }
        let take = bytes.len().min(self.content_left_bytes.into());
        let (head, tail) = bytes.split_at(take);
        *bytes = tail;
        // `take` is no more than what is left, a `u16`.
        self.content_left_bytes -= take as u16;
        Some(Piece::Content { content: self.content, bytes: head, last: self.content_left_bytes == 0 })
    }

    fn header<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Result<Piece<'a>, NotARecord>> {
        loop {
            if self.header_bytes >= 2 && self.header_bytes == self.header_length_bytes() {
                break;
            }
            let (byte, tail) = bytes.split_first()?;
            *bytes = tail;
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
        }
        self.header_bytes = 0;
        let [content, major, minor, high, low] = self.header;
        let (content, length_bytes) = if self.is_sslv2() {
            (SSLV2, u16::from_be_bytes([content & 0x7f, major]))
        } else {
            if !is_header(content, major, minor, high, low) {
                return Some(Err(NotARecord));
            }
            (content, u16::from_be_bytes([high, low]))
        };
        self.begun = true;
        self.content = content;
        self.content_left_bytes = length_bytes;
        Some(Ok(Piece::Header { content, length_bytes }))
    }

    fn is_sslv2(&self) -> bool {
        !self.begun && self.header[0] & 0x80 != 0
    }

    fn header_length_bytes(&self) -> usize {
        if self.is_sslv2() { 2 } else { 5 }
    }
}

/// Whether these five bytes can be the header of a record of SSLv3 or TLS. Versions of the drafts of TLS 1.3
/// never stood here; 3.4 is let through since some stacks write it.
pub(super) fn is_header(content: u8, major: u8, minor: u8, high: u8, low: u8) -> bool {
    (CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&content)
        && major == 3
        && minor <= 4
        && u16::from_be_bytes([high, low]) <= RECORD_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces<'a>(records: &mut Records, mut bytes: &'a [u8]) -> Vec<Piece<'a>> {
        std::iter::from_fn(|| records.next(&mut bytes)).map(|piece| piece.expect("records")).collect()
    }

    #[test]
    fn a_whole_record_is_one_slice() {
        let mut records = Records::default();
        assert_eq!(
            pieces(&mut records, &[22, 3, 1, 0, 2, 7, 8]),
            [
                Piece::Header { content: HANDSHAKE, length_bytes: 2 },
                Piece::Content { content: HANDSHAKE, bytes: &[7, 8], last: true }
            ]
        );
    }

    #[test]
    fn a_record_in_single_bytes_is_the_same_record() {
        let mut records = Records::default();
        let mut content = Vec::new();
        for byte in [22, 3, 1, 0, 2, 7, 8, 23, 3, 3, 0, 0] {
            for piece in pieces(&mut records, &[byte]) {
                if let Piece::Content { bytes, .. } = piece {
                    content.extend_from_slice(bytes);
                }
            }
        }
        assert_eq!(content, [7, 8]);
    }

    #[test]
    fn an_empty_record_has_a_header_only() {
        let mut records = Records::default();
        assert_eq!(
            pieces(&mut records, &[23, 3, 3, 0, 0]),
            [Piece::Header { content: APPLICATION_DATA, length_bytes: 0 }]
        );
    }

    #[test]
    fn sslv2_is_the_first_record_or_none() {
        let mut records = Records::default();
        assert_eq!(pieces(&mut records, &[0x80, 1])[0], Piece::Header { content: SSLV2, length_bytes: 1 });
        assert_eq!(pieces(&mut records, &[1]).len(), 1);
        assert_eq!(records.next(&mut &[0x80, 1, 0, 0, 0][..]), Some(Err(NotARecord)));
    }

    #[test]
    fn what_is_no_header_is_said_so() {
        for bytes in [[b'H', b'T', b'T', b'P', b'/'], [22, 2, 0, 0, 5], [22, 3, 1, 0xff, 0xff]] {
            assert_eq!(Records::default().next(&mut &bytes[..]), Some(Err(NotARecord)));
        }
    }

    #[test]
    fn a_gap_is_skipped_inside_a_record_only() {
        let mut records = Records::default();
        pieces(&mut records, &[23, 3, 3, 0, 9, 1, 2]);
        assert_eq!(records.skip(8), None);
        assert_eq!(records.skip(7), Some(APPLICATION_DATA));
        assert_eq!(records.skip(1), None);
        assert_eq!(pieces(&mut records, &[23, 3, 3, 0, 0]).len(), 1);
    }
}
