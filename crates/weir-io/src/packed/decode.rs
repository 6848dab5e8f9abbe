//! Bytes as columns. Every length is checked before memory is taken for it.

use super::form::mode;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_packet::{Cell, RowWriter, Texts, Timestamp, ValueType};

/// What is wrong with a block.
pub(super) type Wrong = &'static str;

const SHORT: Wrong = "a value ends after the block";

/// The bytes of a block that are not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        Ok(self.array::<1>()?[0])
    }

    /// A number in groups of seven bits.
    pub(super) fn number(&mut self) -> Result<u64, Wrong> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    /// The number of elements that follow, each of at least one byte.
    pub(super) fn count(&mut self) -> Result<usize, Wrong> {
        let count = self.number()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len()).ok_or(SHORT)
    }

    /// Bytes after their number.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let count = self.count()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Wrong> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text is no UTF-8")
    }
}

/// Room for lists, and the number of elements that the lists of a block may still have.
#[derive(Debug)]
pub(super) struct Lists {
    pub numbers: Vec<u64>,
    pub texts: Vec<String>,
    pub elements: usize,
}

/// The values of a column, in the order of the rows.
#[derive(Debug)]
pub(super) struct Column<'a> {
    value_type: ValueType,
    /// Bits of the rows that have a value; `None`: all.
    present: Option<&'a [u8]>,
    /// Bits of the values, of flags.
    flags: &'a [u8],
    bytes: Bytes<'a>,
    is_delta: bool,
    /// The number before, for differences.
    before: u64,
    row: usize,
    /// The number of values so far.
    values: usize,
}

fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0)
}

impl<'a> Column<'a> {
    /// The values of these bytes.
    pub(super) fn new(bytes: &'a [u8], value_type: ValueType, rows: usize) -> Result<Self, Wrong> {
        let mut bytes = Bytes(bytes);
        let present = match bytes.byte()? {
            0 => Some(bytes.take(rows.div_ceil(8))?),
            1 => None,
            _ => return Err("the presence of values is neither 0 nor 1"),
        };
        let values = present.map_or(rows, |bits| (0..rows).filter(|row| bit(bits, *row)).count());
        let flags = if value_type == ValueType::Bool { bytes.take(values.div_ceil(8))? } else { &[] };
        let has_mode = matches!(
            value_type,
            ValueType::Unsigned | ValueType::Interval | ValueType::Time | ValueType::Numbers
        );
        let mode = if has_mode { bytes.byte()? } else { mode::PLAIN };
        if mode != mode::PLAIN && mode != mode::DELTA {
            return Err("the mode of numbers is neither 0 nor 1");
        }
        let is_delta = mode == mode::DELTA;
        Ok(Self { value_type, present, flags, bytes, is_delta, before: 0, row: 0, values: 0 })
    }

    fn number(&mut self) -> Result<u64, Wrong> {
        let number = self.bytes.number()?;
        if self.is_delta {
            let difference = number >> 1 ^ (number & 1).wrapping_neg();
            self.before = self.before.wrapping_add(difference);
            return Ok(self.before);
        }
        Ok(number)
    }

    /// The number of elements of a list. `elements`: how many further elements the block may have.
    fn list(&mut self, elements: &mut usize) -> Result<usize, Wrong> {
        let count = self.bytes.count()?;
        *elements = elements.checked_sub(count).ok_or("the lists have too many elements")?;
        Ok(count)
    }

    /// Writes the value of the next row.
    pub(super) fn write(&mut self, row: &mut RowWriter<'_>, lists: &mut Lists) -> Result<(), Wrong> {
        let Lists { numbers, texts, elements } = lists;
        let at = self.row;
        self.row += 1;
        if self.present.is_some_and(|bits| !bit(bits, at)) {
            row.push(Cell::Absent);
            return Ok(());
        }
        self.values += 1;
        row.push(match self.value_type {
            ValueType::Bool => Cell::Bool(bit(self.flags, self.values - 1)),
            ValueType::Unsigned => Cell::Unsigned(self.number()?),
            ValueType::Interval => Cell::Interval(self.number()?),
            ValueType::Time => Cell::Time(Timestamp(self.number()? as i64)),
            ValueType::Fraction => Cell::Fraction(f64::from_bits(u64::from_le_bytes(self.bytes.array()?))),
            ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address => {
                Cell::Address(match self.bytes.byte()? {
                    4 => IpAddr::from(Ipv4Addr::from(self.bytes.array::<4>()?)),
                    6 => IpAddr::from(Ipv6Addr::from(self.bytes.array::<16>()?)),
                    _ => return Err("the version of an address is neither 4 nor 6"),
                })
            }
            ValueType::Mac => Cell::Mac(self.bytes.array()?),
            ValueType::Text => {
                let bytes = self.bytes.bytes()?;
                std::str::from_utf8(bytes).map_or(Cell::Bytes(bytes), Cell::Text)
            }
            ValueType::Bytes => Cell::Bytes(self.bytes.bytes()?),
            ValueType::Texts => {
                texts.clear();
                for _ in 0..self.list(elements)? {
                    texts.push(self.bytes.text()?.to_string());
                }
                Cell::Texts(Texts::Whole(texts))
            }
            ValueType::Numbers => {
                numbers.clear();
                self.before = 0;
                for _ in 0..self.list(elements)? {
                    let number = self.number()?;
                    numbers.push(number);
                }
                Cell::Numbers(numbers)
            }
        });
        Ok(())
    }

    /// Checks that all bytes were values.
    pub(super) fn end(&self) -> Result<(), Wrong> {
        if self.bytes.0.is_empty() { Ok(()) } else { Err("bytes follow the last value of a column") }
    }
}
