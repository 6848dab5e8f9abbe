//! The record layer (RFC 8446 §5.1, RFC 5246 §6.2.1): splits one direction's bytes into records.
//!
//! Only a header that is split over two slices (at most five bytes) is copied. The content of a record is
//! passed on as slices of the input, so that a message inside one slice is parsed in place. The first record
//! of a direction may be SSLv2 (draft-hickman-netscape-ssl-00 §1.1), recognised by its top bit.

/// Content type of ChangeCipherSpec records (RFC 5246 §6.2.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
/// Content type of alerts.
pub(super) const ALERT: u8 = 21;
/// Content type of handshake messages.
pub(super) const HANDSHAKE: u8 = 22;
/// Content type of application data, and of all encrypted records of TLS 1.3.
pub(super) const APPLICATION_DATA: u8 = 23;
/// Content type of heartbeats (RFC 6520 §3).
pub(super) const HEARTBEAT: u8 = 24;
/// Our pseudo content type of SSLv2 records, which have none; TLS does not use this value.
pub(super) const SSLV2: u8 = 128;

/// Longest content of a record, bytes: 2¹⁴, and the overhead of encryption (RFC 5246 §6.2.3).
pub(super) const RECORD_BYTES_MAX: u16 = (1 << 14) + 2048;

/// Pieces of a record, in order: its header, then its content in one or several slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Start of a record.
    Header {
        /// Content type: one of the constants above.
        content: u8,
        /// Length of the content, bytes.
        length_bytes: u16,
    },
    /// Next bytes of the record's content; never empty.
    Content {
        /// Content type, as in the header.
        content: u8,
        /// Bytes.
        bytes: &'a [u8],
        /// Whether these are the record's last bytes.
        last: bool,
    },
}

/// The bytes are not TLS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotARecord;

/// State of one direction's records.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; 5],
    header_bytes: usize,
    /// Content type of the current record.
    content: u8,
    /// Missing content bytes of the current record; 0 between records.
    content_left_bytes: u16,
    /// Whether a complete header has been read: only the first may be SSLv2.
    begun: bool,
}

impl Records {
    /// Takes the next piece off the front of `bytes`. `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`NotARecord`] if a header has an unknown type, version or length.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Result<Piece<'a>, NotARecord>> {
        if self.content_left_bytes > 0 { self.content(bytes).map(Ok) } else { self.header(bytes) }
    }

    /// Handles a loss of `length_bytes` bytes. `Some(content)` is the type of the record that contains all of
    /// them; `None` means that the start of the next record is unknown.
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
        // `take` is at most `content_left_bytes`, a `u16`.
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

/// Whether these five bytes can be a record header of SSLv3 or TLS. Drafts of TLS 1.3 never used their
/// versions here; 3.4 is accepted because some stacks send it.
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
