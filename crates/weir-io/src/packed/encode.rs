//! Columns as bytes.

use super::form::mode;
use std::net::IpAddr;
use weir_packet::{Batch, Cell, ValueType};

/// Appends a number in groups of seven bits, the lowest first; all bytes but the last have their highest bit
/// set (LEB128).
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes after their number.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes of a number.
fn size(number: u64) -> u64 {
    u64::from((70 - (number | 1).leading_zeros()) / 7)
}

/// A difference as a number that is small if the difference is: 0, -1, 1, -2 … become 0, 1, 2, 3 …
fn folded(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

/// Appends the cells of a column: their presence, then the values of those that are present.
pub(super) fn push_column(out: &mut Vec<u8>, batch: &Batch, column: usize, value_type: ValueType) {
    let stored = batch.column(column);
    let absent = if stored.is_none() { batch.rows() } else { 0 };
    let cells = || stored.clone().into_iter().flatten().chain(std::iter::repeat_n(Cell::Absent, absent));
    if cells().all(Cell::is_present) {
        out.push(1);
    } else {
        out.push(0);
        push_bits(out, cells().map(Cell::is_present));
    }
    let present = || cells().filter(|cell| cell.is_present());
    match value_type {
        ValueType::Bool => push_bits(out, present().map(|cell| cell == Cell::Bool(true))),
        ValueType::Unsigned | ValueType::Interval | ValueType::Time => {
            push_numbers(out, || present().map(|cell| std::iter::once(word(cell))), true, |_, _| ());
        }
        ValueType::Numbers => {
            let lists = || {
                present().map(|cell| match cell {
                    Cell::Numbers(numbers) => numbers.iter().copied(),
                    _ => [].iter().copied(),
                })
            };
            push_numbers(out, lists, false, |out, length| push_number(out, length as u64));
        }
        ValueType::Text => present().for_each(|cell| push_text(out, cell)),
        _ => present().for_each(|cell| push_value(out, cell)),
    }
}

/// Whether a column of this type stores the cell. Columns of text store all values.
pub(super) fn is_stored(cell: Cell<'_>, value_type: ValueType) -> bool {
    match value_type {
        // Text that is no UTF-8 comes as bytes.
        ValueType::Text => true,
        ValueType::Bool => matches!(cell, Cell::Absent | Cell::Bool(_)),
        ValueType::Unsigned => matches!(cell, Cell::Absent | Cell::Unsigned(_)),
        ValueType::Fraction => matches!(cell, Cell::Absent | Cell::Fraction(_)),
        ValueType::Time => matches!(cell, Cell::Absent | Cell::Time(_)),
        ValueType::Interval => matches!(cell, Cell::Absent | Cell::Interval(_)),
        ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address => {
            matches!(cell, Cell::Absent | Cell::Address(_))
        }
        ValueType::Mac => matches!(cell, Cell::Absent | Cell::Mac(_)),
        ValueType::Bytes => matches!(cell, Cell::Absent | Cell::Text(_) | Cell::Bytes(_)),
        ValueType::Texts => matches!(cell, Cell::Absent | Cell::Texts(_)),
        ValueType::Numbers => matches!(cell, Cell::Absent | Cell::Numbers(_)),
    }
}

fn word(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Unsigned(number) | Cell::Interval(number) => number,
        Cell::Time(time) => time.0 as u64,
        _ => 0,
    }
}

fn push_bits(out: &mut Vec<u8>, bits: impl Iterator<Item = bool>) {
    let mut byte = 0;
    let mut count = 0;
    for bit in bits {
        byte |= u8::from(bit) << (count % 8);
        count += 1;
        if count % 8 == 0 {
            out.push(byte);
            byte = 0;
        }
    }
    if count % 8 != 0 {
        out.push(byte);
    }
}

/// Appends lists of numbers in the shorter mode. `continues`: the first number of a list differs from the
/// last one of the list before; otherwise from 0.
fn push_numbers<L, N>(out: &mut Vec<u8>, lists: L, continues: bool, begin: impl Fn(&mut Vec<u8>, usize))
where
    L: Fn() -> N,
    N: Iterator<Item: Iterator<Item = u64> + Clone>,
{
    let (mut plain, mut delta, mut before) = (0, 0, 0_u64);
    for list in lists() {
        before = if continues { before } else { 0 };
        for number in list {
            plain += size(number);
            delta += size(folded(number.wrapping_sub(before)));
            before = number;
        }
    }
    let is_delta = delta < plain;
    out.push(if is_delta { mode::DELTA } else { mode::PLAIN });
    before = 0;
    for list in lists() {
        begin(out, list.clone().count());
        before = if continues { before } else { 0 };
        for number in list {
            push_number(out, if is_delta { folded(number.wrapping_sub(before)) } else { number });
            before = number;
        }
    }
}

/// Appends a value as text. Text that is no UTF-8 comes as bytes.
fn push_text(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Text(_) | Cell::Bytes(_) => push_value(out, cell),
        cell => {
            let mut text = String::new();
            cell.append_to(&mut text);
            push_bytes(out, text.as_bytes());
        }
    }
}

fn push_value(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Fraction(fraction) => out.extend_from_slice(&fraction.to_bits().to_le_bytes()),
        Cell::Address(IpAddr::V4(address)) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        Cell::Address(IpAddr::V6(address)) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
        Cell::Mac(mac) => out.extend_from_slice(&mac),
        Cell::Text(text) => push_bytes(out, text.as_bytes()),
        Cell::Bytes(bytes) => push_bytes(out, bytes),
        Cell::Texts(texts) => {
            push_number(out, texts.len() as u64);
            texts.iter().for_each(|text| push_bytes(out, text.as_bytes()));
        }
        Cell::Absent
        | Cell::Bool(_)
        | Cell::Unsigned(_)
        | Cell::Time(_)
        | Cell::Interval(_)
        | Cell::Numbers(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_bytes() {
        for number in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX])
        {
            let mut out = vec![];
            push_number(&mut out, number);
            assert_eq!(out.len() as u64, size(number), "{number}");
        }
        let differences = [0, -1, 1, -2, 2, i64::MAX, i64::MIN];
        let folded: Vec<u64> = differences.into_iter().map(|difference| folded(difference as u64)).collect();
        assert_eq!(folded, [0, 1, 2, 3, 4, u64::MAX - 1, u64::MAX]);
    }
}
