//! The chunked transfer coding (RFC 9112 §7.1): finds the data and the end of the body. Of the body, only the
//! size of the first chunk is kept: a body that does not begin with a size is not chunked, whatever its head
//! says.
//!
//! As for browsers and libhtp, blanks and empty lines may precede a size, and control bytes may follow it.

use memchr::memchr;

/// A piece of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk<'a> {
    /// Content; never empty.
    Data(&'a [u8]),
    /// The end of the body, after its trailers.
    End,
    /// The bytes violate the coding.
    Broken,
}

/// Maximum bytes up to the end of the first size.
const FIRST_BYTES_MAX: usize = 30;

/// The bytes that were read as the size of the first chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FirstBytes {
    bytes: [u8; FIRST_BYTES_MAX],
    length: u8,
}

impl FirstBytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Keeps the first bytes only.
    pub(super) fn truncate(&mut self, length_bytes: u64) {
        self.length = u64::from(self.length).min(length_bytes) as u8;
    }

    /// Keeps a byte; returns whether there is room.
    fn push(&mut self, byte: u8) -> bool {
        let place = self.bytes.get_mut(usize::from(self.length));
        let has_room = place.is_some();
        if let Some(place) = place {
            *place = byte;
            self.length += 1;
        }
        has_room
    }
}

/// State of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunked {
    place: Place,
    /// Present up to the end of the first size.
    first: Option<FirstBytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the digits of a chunk size.
    Size {
        value: u64,
        digits: u8,
    },
    /// After the digits: a chunk extension (§7.1.1), or nothing.
    Extension {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// In the line end after the data.
    DataEnd,
    Trailers(EmptyLine),
}

impl Default for Chunked {
    fn default() -> Self {
        Self { place: Place::BEFORE_SIZE, first: Some(FirstBytes::default()) }
    }
}

impl Place {
    const BEFORE_SIZE: Self = Self::Size { value: 0, digits: 0 };
}

impl Chunked {
    /// Takes the next piece off the front of `bytes`; `None` if more bytes are needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Chunk<'a>> {
        loop {
            match &mut self.place {
                Place::Size { value, digits } => {
                    let (byte, tail) = bytes.split_first()?;
                    match (char::from(*byte).to_digit(16), byte) {
                        (Some(digit), _) if *value >> 60 == 0 => {
                            *value = *value << 4 | u64::from(digit);
                            *digits = digits.saturating_add(1);
                        }
                        (None, b'\r' | b'\n' | b' ' | b'\t' | 0x0b | 0x0c) if *digits == 0 => {}
                        (None, b';' | ..=b' ' | 0x7f) if *digits > 0 => {
                            self.place = Place::Extension { size: *value };
                            self.first = None;
                            continue;
                        }
                        _ => return Some(Chunk::Broken),
                    }
                    if self.first.as_mut().is_some_and(|first| !first.push(*byte)) {
                        return Some(Chunk::Broken);
                    }
                    *bytes = tail;
                }
                Place::Extension { size } => {
                    let Some(newline) = memchr(b'\n', bytes) else {
                        *bytes = &[];
                        return None;
                    };
                    *bytes = &bytes[newline + 1..];
                    self.place = match *size {
                        0 => Place::Trailers(EmptyLine::at_line_start()),
                        left => Place::Data { left },
                    };
                }
                Place::Data { left: 0 } => self.place = Place::DataEnd,
                Place::Data { left } => {
                    let take = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    if take == 0 {
                        return None;
                    }
                    let (data, tail) = bytes.split_at(take);
                    *bytes = tail;
                    *left -= take as u64;
                    return Some(Chunk::Data(data));
                }
                Place::DataEnd => {
                    let (byte, tail) = bytes.split_first()?;
                    match byte {
                        b'\n' => self.place = Place::BEFORE_SIZE,
                        b'\r' => {}
                        _ => return Some(Chunk::Broken),
                    }
                    *bytes = tail;
                }
                Place::Trailers(empty_line) => {
                    return empty_line.skip(bytes).then_some(Chunk::End);
                }
            }
        }
    }

    /// The bytes so far, if the size of the first chunk is not complete.
    pub(super) fn first(&self) -> Option<FirstBytes> {
        self.first
    }

    /// Skips missing bytes; returns whether all of them belong to the data of one chunk.
    pub(super) fn skip(&mut self, length_bytes: u64) -> bool {
        match &mut self.place {
            Place::Data { left } if *left >= length_bytes => {
                *left -= length_bytes;
                true
            }
            _ => false,
        }
    }
}

/// Finds the empty line at the end of trailers, or of a head that is too long to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EmptyLine {
    /// No byte except CRs since the last line end.
    is_line_empty: bool,
}

impl EmptyLine {
    pub(super) fn at_line_start() -> Self {
        Self { is_line_empty: true }
    }

    /// Skips up to the end of the empty line; returns whether it was found.
    pub(super) fn skip(&mut self, bytes: &mut &[u8]) -> bool {
        loop {
            if self.is_line_empty {
                match bytes.split_first() {
                    None => return false,
                    Some((b'\n', tail)) => {
                        *bytes = tail;
                        return true;
                    }
                    Some((b'\r', tail)) => *bytes = tail,
                    Some(_) => self.is_line_empty = false,
                }
            } else {
                let Some(newline) = memchr(b'\n', bytes) else {
                    *bytes = &[];
                    return false;
                };
                *bytes = &bytes[newline + 1..];
                self.is_line_empty = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a body given in pieces, and the rest of the last piece after its end.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut chunked, mut data) = (Chunked::default(), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while let Some(chunk) = chunked.next(&mut rest) {
                match chunk {
                    Chunk::Data(bytes) => data.extend_from_slice(bytes),
                    Chunk::End => return (data, Some(rest.to_vec())),
                    Chunk::Broken => return (data, None),
                }
            }
        }
        (data, None)
    }

    #[test]
    fn chunks_make_a_body_however_they_are_cut() {
        let body = b"4;x=\"y\"\r\nWiki\r\n5 \r\npedia\r\n00\r\nExpires: 0\r\nA: b\r\n\r\nrest";
        assert_eq!(read(&[body]), (b"Wikipedia".to_vec(), Some(b"rest".to_vec())));
        let single: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(read(&single), (b"Wikipedia".to_vec(), Some(vec![])));
    }

    #[test]
    fn bare_line_feeds_will_do() {
        assert_eq!(read(&[b"a\n0123456789\n0\n\n"]), (b"0123456789".to_vec(), Some(vec![])));
    }

    #[test]
    fn what_is_no_size_breaks_it() {
        for body in ["x\r\n", "\r\n", "10000000000000000\r\n", "1\r\nabc", "-1\r\n", "1x\r\n", "5\u{80}\r\n"]
        {
            assert_eq!(read(&[body.as_bytes()]).1, None, "{body:?}");
        }
    }

    #[test]
    fn blanks_around_sizes_will_do() {
        for body in ["\r\n\n\r \x0b3\r\nabc\r\n\r\n0\r\n\r\n", "3\0\r\nabc\r\n0\x0c\r\n\r\n"] {
            assert_eq!(read(&[body.as_bytes()]), (b"abc".to_vec(), Some(vec![])), "{body:?}");
        }
    }

    #[test]
    fn what_was_read_as_the_first_size_is_known() {
        for (body, first) in [("abc:", Some("abc")), ("\nx", Some("\n")), ("x", Some("")), ("1\r\na?", None)]
        {
            let mut chunked = Chunked::default();
            let mut rest = body.as_bytes();
            while !matches!(chunked.next(&mut rest), Some(Chunk::Broken)) {}
            let found = chunked.first();
            assert_eq!(found.as_ref().map(FirstBytes::as_slice), first.map(str::as_bytes), "{body:?}");
        }
        let (blanks, mut chunked) = (" ".repeat(100), Chunked::default());
        assert_eq!(chunked.next(&mut blanks.as_bytes()), Some(Chunk::Broken));
        assert_eq!(chunked.first().expect("kept").as_slice(), " ".repeat(FIRST_BYTES_MAX).as_bytes());
    }

    #[test]
    fn a_gap_is_borne_in_data_only() {
        let mut chunked = Chunked::default();
        assert!(!chunked.skip(1));
        assert_eq!(chunked.next(&mut &b"9\r\nab"[..]), Some(Chunk::Data(b"ab")));
        assert!(!chunked.skip(8) && chunked.skip(7));
        assert_eq!(chunked.next(&mut &b"\r\n0\r\n\r\n"[..]), Some(Chunk::End));
    }
}
