//! Values of records: the fields of packets, the parts of a packet's tuple, and the columns of rows, as the
//! words that groups are made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_compile::{PacketValue, TuplePart, ValueList, ValueOf};
use weir_packet::{Cell, RowWriter, Timestamp, ValueType};

/// A value of records.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub source: Source,
    pub value_type: ValueType,
    /// The first of its words.
    pub word: usize,
    pub words: usize,
    /// Number of leading bits of an address.
    pub prefix: Option<u8>,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Packet(ValueOf),
    /// The column with this index.
    Row(usize),
}

/// The values of packets that a program has to compute for these parts.
///
/// # Errors
/// If they are more than a program has room for.
pub(crate) fn value_list<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Result<ValueList, String> {
    let mut values = ValueList::default();
    for part in parts {
        if let Source::Packet(of) = part.source
            && !values.add(of)
        {
            return Err(format!("a question uses at most {} fields of packets", ValueList::MAX));
        }
    }
    Ok(values)
}

/// Writes the value of a part of a key: of an address with a prefix, both as text.
pub(crate) fn write_key(prefix: Option<u8>, cell: Cell<'_>, to: &mut RowWriter<'_>) {
    match (prefix, cell) {
        (Some(bits), Cell::Address(address)) => {
            let bits = if address.is_ipv4() { bits.min(32) } else { bits };
            to.text_with(|text| text.push_str(&format!("{address}/{bits}")));
        }
        (_, cell) => to.push(cell),
    }
}

/// The type of a column with a part of a key.
pub(crate) fn key_type(prefix: Option<u8>, value_type: ValueType) -> ValueType {
    if prefix.is_some() { ValueType::Text } else { value_type }
}

/// Number of words of all parts.
pub(crate) fn words_of(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.words).sum()
}

/// The place of a part in the packet's record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    slot: usize,
    known: usize,
    bit: u8,
    word: usize,
    /// The bits of the value: of the high word, if the value has two words, and of the low word.
    masks: [u64; 2],
    /// The same of an address of IPv4 among addresses of both versions.
    masks_v4: [u64; 2],
    is_wide: bool,
}

impl Place {
    pub fn of(part: &Part, values: &[PacketValue]) -> Self {
        let Source::Packet(of) = part.source else { unreachable!("rows have no packets") };
        let value = values.iter().find(|value| value.of == of);
        let bits = u32::from(part.prefix.unwrap_or(128));
        let v6 = [leading(bits), leading(bits.saturating_sub(64))];
        // Of an address of IPv4, all bits before the address are those of the mapping.
        let v4 = [u64::MAX, leading(bits + 32)];
        let (masks, masks_v4) = match part.value_type {
            ValueType::Ipv4 => ([0, v4[1] & 0xffff_ffff], v4),
            ValueType::Ipv6 => (v6, v6),
            ValueType::Address => (v6, v4),
            _ => ([0, u64::MAX], v4),
        };
        // A program without the value: no packet has it.
        let (slot, known, bit) = value.map_or((0, usize::MAX, 0), |value| {
            (usize::from(value.slot), usize::from(value.known), value.bit)
        });
        Self { slot, known, bit, word: part.word, masks, masks_v4, is_wide: part.words == 2 }
    }
}

/// A word whose first bits are set.
fn leading(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..64 => u64::MAX << (64 - bits),
        _ => u64::MAX,
    }
}

/// Writes the words of all parts. Returns a bit for each part that the packet has.
#[inline]
pub(crate) fn fill(places: &[Place], words: &mut [u64], outs: &[u64]) -> u64 {
    let mut present = 0;
    for (number, place) in places.iter().enumerate() {
        let is_known = outs.get(place.known).is_some_and(|known| known >> place.bit & 1 != 0);
        let mask = if is_known { u64::MAX } else { 0 };
        let word = |slot: usize| outs.get(slot).copied().unwrap_or(0);
        let (low, high) = (word(place.slot), word(place.slot + 1));
        match place.is_wide {
            true => {
                let is_v4 = high == 0 && low >> 32 == 0xffff;
                let masks = if is_v4 { place.masks_v4 } else { place.masks };
                words[place.word] = high & masks[0] & mask;
                words[place.word + 1] = low & masks[1] & mask;
            }
            false => words[place.word] = low & place.masks[1] & mask,
        }
        present |= u64::from(is_known) << number;
    }
    present
}

impl Part {
    /// The value that words of a packet stand for; `layers`: the names of the stack's layers. Texts are no
    /// words.
    pub fn cell<'a>(&self, words: &[u64], layers: &'a [String]) -> Cell<'a> {
        let low = words.last().copied().unwrap_or(0);
        if self.source == Source::Packet(ValueOf::Tuple(TuplePart::Layer)) {
            return layers.get(low as usize).map_or(Cell::Absent, |name| Cell::Text(name));
        }
        match self.value_type {
            ValueType::Bool => Cell::Bool(low != 0),
            ValueType::Fraction => Cell::Fraction(f64::from_bits(low)),
            ValueType::Time => Cell::Time(Timestamp(low as i64)),
            ValueType::Interval => Cell::Interval(low),
            ValueType::Ipv4 => Cell::Address(Ipv4Addr::from_bits(low as u32).into()),
            ValueType::Ipv6 | ValueType::Address => {
                let address = Ipv6Addr::from_bits(u128::from(words[0]) << 64 | u128::from(low));
                Cell::Address(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
            }
            ValueType::Mac => {
                let [_, _, mac @ ..] = low.to_be_bytes();
                Cell::Mac(mac)
            }
            _ => Cell::Unsigned(low),
        }
    }
}
