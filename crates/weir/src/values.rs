//! Values of records: the fields of packets, the parts of a packet's tuple, and the columns of rows, as the words that groups are
//! made of.

use crate::compile::Compiler;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_compile::{FieldKey, PacketValue, TuplePart, ValueOf};
use weir_lang::filter::{Catalog, FieldInfo, Stage};
use weir_packet::{Cell, Column, Timestamp, ValueType};

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

/// The parts of a packet's tuple as fields.
const TUPLE: &[(&str, TuplePart, ValueType, &str)] = &[
    ("src", TuplePart::Source, ValueType::Address, "address of the sender, IPv4 or IPv6"),
    ("sport", TuplePart::SourcePort, ValueType::Unsigned, "port of the sender"),
    ("dst", TuplePart::Destination, ValueType::Address, "address of the receiver, IPv4 or IPv6"),
    ("dport", TuplePart::DestinationPort, ValueType::Unsigned, "port of the receiver"),
    ("proto", TuplePart::Layer, ValueType::Text, "transport protocol"),
];

/// The names that an aggregate may use.
pub(crate) struct Names {
    pub fields: Vec<FieldInfo>,
    pub sources: Vec<Source>,
}

impl Catalog for Names {
    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }
}

fn field(name: &str, aliases: Vec<String>, value_type: ValueType, doc: &str) -> FieldInfo {
    let name = name.to_string();
    let (stage, doc) = (Stage::Packet, doc.to_string());
    FieldInfo { name, aliases, value_type, bits: 0, stage, doc, is_protocol: false, is_frame: false, key: 0 }
}

impl Names {
    /// The fields of packets with one value, and the parts of the tuple.
    pub fn of_packets(compiler: &Compiler) -> Self {
        let catalog = compiler.catalog();
        let is_number = |value_type| {
            !matches!(value_type, ValueType::Text | ValueType::Bytes | ValueType::Texts | ValueType::Numbers)
        };
        let is_value = |index: usize| {
            let is_one =
                matches!(catalog.key(index), FieldKey::Field(..) | FieldKey::Let(..) | FieldKey::Meta(_));
            is_one && is_number(catalog.fields()[index].value_type)
        };
        let of_packets =
            (0..catalog.fields().len().min(usize::from(u16::MAX))).filter(|&index| is_value(index));
        let mut all: Vec<(FieldInfo, Source)> = of_packets
            .map(|index| (catalog.fields()[index].clone(), Source::Packet(ValueOf::Field(index as u16))))
            .collect();
        let tuple = TUPLE.iter().map(|(name, part, value_type, doc)| {
            (field(name, vec![], *value_type, doc), Source::Packet(ValueOf::Tuple(*part)))
        });
        all.extend(tuple);
        let (fields, sources) = all.into_iter().unzip();
        Self { fields, sources }
    }

    /// The columns of a log: with their names, those of the log's fields, and the connection's as `conn.…`.
    pub fn of_rows(log: &str, columns: &[Column], compiler: &Compiler) -> Self {
        let catalog = compiler.catalog();
        let of_column = |(at, column): (usize, &Column)| {
            let mut aliases = vec![format!("{log}.{}", column.name)];
            // A field of sessions may have another name than its column.
            let is_of_column = |known: &&FieldInfo| {
                known.doc == *column.doc
                    && known.name.strip_prefix(log).is_some_and(|rest| rest.starts_with('.'))
            };
            for known in catalog.fields().iter().filter(is_of_column) {
                aliases.push(known.name.clone());
                aliases.extend(known.aliases.iter().cloned());
            }
            (field(&column.name, aliases, column.value_type, &column.doc), Source::Row(at))
        };
        let (fields, sources) = columns.iter().enumerate().map(of_column).unzip();
        Self { fields, sources }
    }
}

/// Number of words of all parts.
pub(crate) fn words_of(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.words).sum()
}

/// The part of this field, whose first word is `word`.
pub(crate) fn part_of(names: &Names, field: usize, word: usize) -> Part {
    let (source, value_type) = (names.sources[field], names.fields[field].value_type);
    let is_layer = source == Source::Packet(ValueOf::Tuple(TuplePart::Layer));
    let words = match value_type {
        // The number of a layer stands for its name.
        _ if is_layer => 1,
        ValueType::Ipv6 | ValueType::Address | ValueType::Text | ValueType::Bytes => 2,
        _ => 1,
    };
    Part { source, value_type, word, words, prefix: None }
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
    is_wide: bool,
}

impl Place {
    pub fn of(part: &Part, values: &[PacketValue]) -> Self {
        let Source::Packet(of) = part.source else { unreachable!("an aggregate of rows has no packets") };
        let value = values.iter().find(|value| value.of == of);
        let bits = u32::from(part.prefix.unwrap_or(128));
        let masks = match part.value_type {
            // Of an address of IPv4, all bits before the address are those of the mapping.
            ValueType::Ipv4 => [0, leading(bits + 32) & 0xffff_ffff],
            ValueType::Ipv6 | ValueType::Address => [leading(bits), leading(bits.saturating_sub(64))],
            _ => [0, u64::MAX],
        };
        // A program without the value: no packet has it.
        let (slot, known, bit) = value.map_or((0, usize::MAX, 0), |value| {
            (usize::from(value.slot), usize::from(value.known), value.bit)
        });
        Self { slot, known, bit, word: part.word, masks, is_wide: part.words == 2 }
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
        let (low, high) = (outs[place.slot], outs[place.slot + 1]);
        match place.is_wide {
            true => {
                words[place.word] = high & place.masks[0] & mask;
                words[place.word + 1] = low & place.masks[1] & mask;
            }
            false => words[place.word] = low & place.masks[1] & mask,
        }
        present |= u64::from(is_known) << number;
    }
    present
}

impl Part {
    /// The value that words of a packet stand for; `layers`: the names of the stack's layers. Texts are no words.
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
