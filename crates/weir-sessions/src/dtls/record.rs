//! Records of DTLS (RFC 6347 §4.1, RFC 9147 §4) and the fragments of handshake messages in them (RFC 6347 §4.2.2).

use crate::wire::Reader;

/// Content types (RFC 8446 §5.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Its content type; of an encrypted one of DTLS 1.3 that of application data.
    pub(super) content: u8,
    /// How often its sender has changed keys: 0 is in clear. Of DTLS 1.3 the last two bits.
    pub(super) epoch: u16,
    /// What it holds.
    pub(super) body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes the next record off a datagram; `None` where what is there is none.
    pub(super) fn next(datagram: &mut &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let content = reader.u8()?;
        // The short header of DTLS 1.3 (RFC 9147 §4): 001 and flags. Nothing behind it is read.
        if content >> 5 == 1 {
            let body = std::mem::take(datagram);
            return Some(Self { content: APPLICATION_DATA, epoch: (content & 3).into(), body });
        }
        // 1.0 and 1.2; the last is that of OpenSSL before there was a standard.
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

/// A part of a handshake message, or the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    /// Type of the message.
    pub(super) kind: u8,
    /// Length of the whole message, bytes.
    pub(super) length: usize,
    /// Its number among its sender's messages.
    pub(super) sequence: u16,
    /// Where the part belongs.
    pub(super) offset: usize,
    /// The part.
    pub(super) bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Takes the next one off the content of a handshake record in clear; `None` where it is cut, or more than
    /// its message.
    pub(super) fn next(reader: &mut Reader<'a>) -> Option<Self> {
        let (kind, length, sequence) = (reader.u8()?, reader.u24()? as usize, reader.u16()?);
        let offset = reader.u24()? as usize;
        let bytes = reader.vector24()?;
        (offset + bytes.len() <= length).then_some(Self { kind, length, sequence, offset, bytes })
    }

    /// Whether it is the whole message.
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
            22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 7, 8, // in clear
            0x2e, 1, 2, 3, // of DTLS 1.3
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
