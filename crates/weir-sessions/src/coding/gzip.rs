//! One member of gzip (RFC 1952 §2.3): a header, deflate, and a trailer.
//!
//! The header is read here, and not by zlib, because browsers read more than zlib accepts: reserved flags,
//! and a wrong checksum of the header. A wrong trailer is found once all of the content has been decoded.

use super::step::{Step, step_inflate};
use flate2::{Crc, Decompress};

const HAS_HEADER_CHECK: u8 = 0x02;
const HAS_EXTRA: u8 = 0x04;
const HAS_NAME: u8 = 0x08;
const HAS_COMMENT: u8 = 0x10;

/// Decodes one member.
pub(crate) struct Member {
    place: Place,
    flags: u8,
    inflate: Decompress,
    check: Crc,
}

/// Where in the member the next byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the ten bytes at the beginning.
    Fixed(usize),
    /// In the length of the extra field: bytes read, and the length so far.
    ExtraLength(u8, u16),
    Extra(u16),
    Name,
    Comment,
    /// In the checksum of the header: bytes left.
    HeaderCheck(u8),
    Data,
    /// Bytes read of the trailer, and their value.
    Trailer(u8, u64),
    Over,
}

impl Member {
    pub(super) fn new() -> Box<Self> {
        let (inflate, check) = (Decompress::new(false), Crc::new());
        Box::new(Self { place: Place::Fixed(0), flags: 0, inflate, check })
    }

    /// Whether the trailer has been read.
    pub(super) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Decodes bytes into the buffer, up to the end of the member.
    pub(super) fn step(&mut self, input: &[u8], buffer: &mut [u8]) -> Step {
        let mut read = 0;
        while self.place != Place::Data {
            let (false, Some(byte)) = (self.is_over(), input.get(read)) else { return Step::moved(read, 0) };
            read += 1;
            match self.take(*byte) {
                Some(place) => self.place = place,
                None => return Step { read, written: 0, is_wrong: true, is_over: false },
            }
        }
        let step = step_inflate(&mut self.inflate, &input[read..], buffer);
        self.check.update(&buffer[..step.written]);
        if step.is_over {
            self.place = Place::Trailer(0, 0);
        }
        Step { read: read + step.read, ..step }
    }

    /// The place behind a byte of the header or the trailer; `None`: the byte is wrong.
    fn take(&mut self, byte: u8) -> Option<Place> {
        Some(match self.place {
            Place::Fixed(at) => {
                if [0x1f, 0x8b, 8].get(at).is_some_and(|expected| *expected != byte) {
                    return None;
                }
                if at == 3 {
                    self.flags = byte;
                }
                if at < 9 { Place::Fixed(at + 1) } else { self.after(0) }
            }
            Place::ExtraLength(0, _) => Place::ExtraLength(1, u16::from(byte)),
            Place::ExtraLength(_, low) => match low | u16::from(byte) << 8 {
                0 => self.after(HAS_EXTRA),
                length => Place::Extra(length),
            },
            Place::Extra(1) => self.after(HAS_EXTRA),
            Place::Extra(left) => Place::Extra(left - 1),
            Place::Name if byte == 0 => self.after(HAS_NAME),
            Place::Comment if byte == 0 => self.after(HAS_COMMENT),
            Place::HeaderCheck(2) => Place::HeaderCheck(1),
            Place::HeaderCheck(_) => Place::Data,
            Place::Trailer(7, value) => {
                let value = value | u64::from(byte) << 56;
                let expected = u64::from(self.check.amount()) << 32 | u64::from(self.check.sum());
                return (value == expected).then_some(Place::Over);
            }
            Place::Trailer(at, value) => Place::Trailer(at + 1, value | u64::from(byte) << (8 * at)),
            place @ (Place::Name | Place::Comment | Place::Data | Place::Over) => place,
        })
    }

    /// The place behind a part of the header, in the order of the parts.
    fn after(&self, part: u8) -> Place {
        let parts = [
            (HAS_EXTRA, Place::ExtraLength(0, 0)),
            (HAS_NAME, Place::Name),
            (HAS_COMMENT, Place::Comment),
            (HAS_HEADER_CHECK, Place::HeaderCheck(2)),
        ];
        let behind = parts.iter().position(|(flag, _)| *flag == part).map_or(0, |index| index + 1);
        let next = parts[behind..].iter().find(|(flag, _)| self.flags & flag != 0);
        next.map_or(Place::Data, |(_, place)| *place)
    }
}
