//! The key of a packet as bytes: the key of a table of flows.
//!
//! Numbers have as many bytes as they need. Addresses of either version have 4 bytes if all of the key are of
//! IPv4: such keys are in a table of their own. The last bytes say which fields the packet has.

use crate::ask::group_key::GroupKey;
use crate::ask::key_ends::KeyEnds;
use crate::ask::names::Names;
use crate::rows::values::{Part, Source, words_of};
use weir_compile::{TuplePart, ValueOf};
use weir_lang::aggregate::Key;
use weir_lang::diag::Diagnostics;
use weir_packet::{Cell, ValueType};

/// A field of a key.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// Its name, as stated, without a prefix.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Its first byte.
    pub offset: usize,
    /// Number of bytes: 1, 2, 4, 8, or 16 for an address of IPv6 or of either version, in network order.
    /// Other values are little-endian numbers.
    pub bytes: usize,
    /// The value is the index of a [layer](super::TaskValues::layers).
    pub is_layer: bool,
    part: Part,
}

/// The layout of keys of one length.
#[derive(Debug, Clone)]
pub struct KeyTable {
    /// The fields, in the order in which they are stated.
    pub fields: Vec<KeyField>,
    /// The first byte of the number with a bit for each field that the packet has.
    pub known_offset: usize,
    /// Bytes of that number: 1, 2, 4 or 8.
    pub known_bytes: usize,
}

impl KeyTable {
    fn of(names: &[(String, Part, u32)], is_v4: bool) -> Self {
        let mut fields: Vec<KeyField> = names
            .iter()
            .map(|(name, part, bits)| {
                let is_layer = part.source == Source::Packet(ValueOf::Tuple(TuplePart::Layer));
                let bytes = match (part.value_type, is_layer) {
                    (_, true) => 2,
                    (ValueType::Address, _) if is_v4 => 4,
                    (ValueType::Address | ValueType::Ipv6, _) => 16,
                    (ValueType::Ipv4, _) => 4,
                    (ValueType::Bool, _) => 1,
                    (ValueType::Unsigned, _) => match bits {
                        1..=8 => 1,
                        9..=16 => 2,
                        17..=32 => 4,
                        _ => 8,
                    },
                    _ => 8,
                };
                let (value_type, part) = (part.value_type, part.clone());
                KeyField { name: name.clone(), value_type, offset: 0, bytes, is_layer, part }
            })
            .collect();
        // The widest come first, so that each begins at a multiple of its size.
        let mut order: Vec<usize> = (0..fields.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(fields[*at].bytes));
        let mut offset = 0;
        for at in order {
            fields[at].offset = offset;
            offset += fields[at].bytes;
        }
        let known_bytes = fields.len().div_ceil(8).next_power_of_two().max(1);
        let known_offset = offset.next_multiple_of(known_bytes);
        Self { fields, known_offset, known_bytes }
    }

    /// Bytes of a key.
    pub fn bytes(&self) -> usize {
        self.known_offset + self.known_bytes
    }

    /// The value of a field; `layers`: the names of the stack's layers.
    pub fn cell<'a>(&self, field: usize, key: &[u8], layers: &'a [String]) -> Cell<'a> {
        let number = |offset: usize, bytes: usize| {
            let mut word = [0; 8];
            let from = key.get(offset..offset + bytes).unwrap_or_default();
            word[..from.len()].copy_from_slice(from);
            u64::from_le_bytes(word)
        };
        let Some(field_at) = self.fields.get(field) else { return Cell::Absent };
        if number(self.known_offset, self.known_bytes) >> field & 1 == 0 {
            return Cell::Absent;
        }
        let KeyField { offset, bytes, part, .. } = field_at;
        match (bytes, part.words) {
            (16, _) => {
                let bytes = key.get(*offset..*offset + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
                let address = u128::from_be_bytes(bytes.unwrap_or_default());
                part.cell(&[(address >> 64) as u64, address as u64], layers)
            }
            (_, 2) => part.cell(&[0, MAPPED | number(*offset, 4)], layers),
            (bytes, _) => part.cell(&[number(*offset, *bytes)], layers),
        }
    }
}

/// The word before the address of IPv4 among addresses of both versions.
const MAPPED: u64 = 0xffff << 32;

/// The key of packets, as bytes.
#[derive(Debug, Clone)]
pub struct KeyLayout {
    /// One layout, or that of IPv4 and that of other keys.
    tables: Vec<KeyTable>,
    parts: Vec<Part>,
    /// The ends of a connection, if the key is the same for both directions.
    ends: Option<KeyEnds>,
}

impl KeyLayout {
    pub(super) fn of(names: &Names, text: &str) -> Result<Self, Diagnostics> {
        let GroupKey { keys, parts, ends, .. } = GroupKey::of(names, text)?;
        let named: Vec<(String, Part, u32)> = keys
            .iter()
            .zip(&parts)
            .map(|(key, part)| (name_of(key), part.clone(), names.fields[key.field].bits))
            .collect();
        let has_both = parts.iter().any(|part| part.value_type == ValueType::Address);
        let mut tables = vec![KeyTable::of(&named, false)];
        if has_both {
            tables.insert(0, KeyTable::of(&named, true));
        }
        Ok(Self { tables, parts, ends })
    }

    /// The layouts of keys. A key of IPv4 is in the first one, if there are two.
    pub fn tables(&self) -> &[KeyTable] {
        &self.tables
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    pub(super) fn words(&self) -> usize {
        words_of(&self.parts)
    }

    pub(super) fn has_parts(&self) -> usize {
        self.parts.len()
    }

    /// Writes the key of a packet with these words, of which it has the parts `known`. Returns the index of
    /// the layout, and whether the ends were exchanged. `None`: the key has ends, and the
    /// packet has no field of the key.
    pub(super) fn write(
        &self,
        words: &mut [u64],
        mut known: u64,
        key: &mut Vec<u8>,
    ) -> Option<(usize, bool)> {
        if self.ends.is_some() && known == 0 {
            return None;
        }
        let is_swapped = self.ends.as_ref().is_some_and(|ends| ends.order(words, &mut known));
        let is_v4 = |(number, part): (usize, &Part)| {
            let is_absent = part.value_type != ValueType::Address || known >> number & 1 == 0;
            is_absent || (words[part.word] == 0 && words[part.word + 1] >> 32 == MAPPED >> 32)
        };
        let is_wide = self.tables.len() > 1 && !self.parts.iter().enumerate().all(is_v4);
        let table = usize::from(is_wide);
        let layout = &self.tables[table];
        key.clear();
        key.resize(layout.bytes(), 0);
        for (field, part) in layout.fields.iter().zip(&self.parts) {
            let to = &mut key[field.offset..field.offset + field.bytes];
            if field.bytes == 16 {
                to[..8].copy_from_slice(&words[part.word].to_be_bytes());
                to[8..].copy_from_slice(&words[part.word + 1].to_be_bytes());
            } else {
                let low = words[part.word + part.words - 1];
                to.copy_from_slice(&low.to_le_bytes()[..field.bytes]);
            }
        }
        key[layout.known_offset..].copy_from_slice(&known.to_le_bytes()[..layout.known_bytes]);
        Some((table, is_swapped))
    }
}

/// The name of a field: without a prefix of addresses.
pub(super) fn name_of(key: &Key) -> String {
    key.name.split('/').next().unwrap_or_default().to_string()
}
