//! Numbers and lists as bytes: LEB128 numbers, sorted sets as differences.
//!
//! Whatever is decoded may come from anywhere: every length is compared with the bytes that are left before
//! memory is allocated.

use std::fmt;

/// The bytes are not what was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed bytes")
    }
}

/// Appends values to bytes.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn signed(&mut self, number: i64) {
        self.number((number as u64) << 1 ^ (number >> 63) as u64);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A sorted set.
    pub fn set(&mut self, set: &[u32]) {
        self.number(set.len() as u64);
        let mut before = 0;
        for &one in set {
            self.number(u64::from(one - before));
            before = one;
        }
    }

    pub fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|one| write(self, one));
    }
}

/// Takes values from bytes.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length: usize = self.narrow()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    /// A sorted set; equal elements are malformed.
    pub fn set(&mut self) -> Result<Vec<u32>, Malformed> {
        let mut before: Option<u32> = None;
        self.list(|reader| {
            let step: u32 = reader.narrow()?;
            let next = before.map_or(Some(step), |before| before.checked_add(step).filter(|_| step > 0));
            before = Some(next.ok_or(Malformed)?);
            before.ok_or(Malformed)
        })
    }

    /// A list. Each element has at least one byte.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length: usize = self.narrow()?;
        if length > self.0.len() {
            return Err(Malformed);
        }
        (0..length).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let mut writer = Writer::default();
        let numbers = [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX];
        let signed = [0, -1, 1, i64::MIN, i64::MAX];
        let set = [0, 1, 7, u32::MAX];
        writer.list(&numbers, |writer, &number| writer.number(number));
        writer.list(&signed, |writer, &number| writer.signed(number));
        writer.set(&set);
        writer.bytes("naïve".as_bytes());
        let mut reader = Reader(&writer.0);
        assert_eq!(reader.list(Reader::number).unwrap(), numbers);
        assert_eq!(reader.list(Reader::signed).unwrap(), signed);
        assert_eq!(reader.set().unwrap(), set);
        assert_eq!(reader.text().unwrap(), "naïve");
        assert_eq!(reader.number(), Err(Malformed), "nothing is left");
    }

    #[test]
    fn a_length_beyond_the_bytes_is_malformed() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0x7f, 1];
        assert_eq!(Reader(&huge).bytes(), Err(Malformed));
        assert_eq!(Reader(&huge).set(), Err(Malformed));
        assert_eq!(Reader(&[2, 5, 0]).set(), Err(Malformed), "5 twice");
        assert_eq!(Reader(&[0xff; 11]).number(), Err(Malformed), "more than 64 bits");
    }
}
