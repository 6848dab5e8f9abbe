//! Records of DTLS (RFC 6347 §4.1, RFC 9147 §4) and the fragments of handshake messages in them (RFC 6347
//! §4.2.2).

use crate::wire::Reader;

/// Content types (RFC 8446 §5.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Content type; application data for all encrypted records of DTLS 1.3.
    pub(super) content: u8,
    /// Number of key changes by the sender; 0: unencrypted. In DTLS 1.3, only its last two bits.
    pub(super) epoch: u16,
    /// Contents.
    pub(super) body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes the next record off a datagram; `None` if the bytes are no record.
    pub(super) fn next(datagram: &mut &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let content = reader.u8()?;
        // The unified header of DTLS 1.3 (RFC 9147 §4): 001 and flags. Its length is optional, so the rest of
        // the datagram is taken as one record.
        if content >> 5 == 1 {
            let body = std::mem::take(datagram);
            return Some(Self { content: APPLICATION_DATA, epoch: (content & 3).into(), body });
        }
        // DTLS 1.0 and 1.2; 0x0100 is OpenSSL's version from before the standard.
        let version = reader.u16().filter(|version| matches!(version, 0xfeff | 0xfefd | 0x0100))?;
        let epoch = reader.u16()?;
        reader.array::<6>()?; // sequence number
        let body = reader.vector16()?;
        if !(CHANGE_CIPHER_SPEC..=26).contains(&content) || (version == 0x0100 && content > HANDSHAKE + 1) {
            return None;
        }
        *datagram = reader.rest();
        Some(Self { content, epoch, body })
    }
}

/// A fragment of a handshake message, or a complete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    /// Message type.
    pub(super) kind: u8,
    /// Length of the complete message.
    pub(super) length: usize,
    /// Message number, counted by the sender.
    pub(super) sequence: u16,
    /// Offset of the fragment in the message.
    pub(super) offset: usize,
    /// Bytes of the fragment.
    pub(super) bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Takes the next fragment off an unencrypted handshake record; `None` if it is truncated, or exceeds its
    /// message.
    pub(super) fn next(reader: &mut Reader<'a>) -> Option<Self> {
        let (kind, length, sequence) = (reader.u8()?, reader.u24()? as usize, reader.u16()?);
        let offset = reader.u24()? as usize;
        let bytes = reader.vector24()?;
        (offset + bytes.len() <= length).then_some(Self { kind, length, sequence, offset, bytes })
    }

    /// Whether the fragment is the complete message.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() == self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_one_by_one() {
        let mut datagram = &[
            22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 7, 8, // unencrypted
            0x2e, 1, 2, 3, // encrypted, DTLS 1.3
        ][..];
        assert_eq!(Record::next(&mut datagram), Some(Record { content: 22, epoch: 0, body: &[7, 8] }));
        assert_eq!(Record::next(&mut datagram).map(|record| (record.content, record.epoch)), Some((23, 2)));
        assert_eq!(Record::next(&mut datagram), None);
    }

    #[test]
    fn what_is_no_record_is_none() {
        for mut datagram in [
            &[22, 3, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0][..],
            &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
            &[0, 1, 0, 0],
            &[80, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        ] {
            assert_eq!(Record::next(&mut datagram), None);
        }
    }

    #[test]
    fn a_fragment_lies_within_its_message() {
        let bytes = [1, 0, 0, 9, 0, 5, 0, 0, 7, 0, 0, 2, 0xaa, 0xbb];
        let fragment = Fragment::next(&mut Reader::new(&bytes)).expect("whole");
        assert_eq!((fragment.kind, fragment.length, fragment.sequence, fragment.offset), (1, 9, 5, 7));
        assert!(!fragment.is_whole());
        let beyond = [1, 0, 0, 8, 0, 5, 0, 0, 7, 0, 0, 2, 0xaa, 0xbb];
        assert_eq!(Fragment::next(&mut Reader::new(&beyond)), None);
    }
}
