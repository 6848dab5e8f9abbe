//! JSON lines: one object per row, with the fields, numbers and times of Zeek's JSON logs.
//!
//! Absent values are omitted. Times and intervals are numbers of seconds with six decimals; addresses and
//! hexadecimal bytes are strings; lists are arrays.

use super::human::push_local;
use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink, Value, is_hidden};

pub(super) struct JsonLines {
    rows: Rows,
    /// The columns' names in their JSON form: `"name":`.
    keys: Vec<Vec<u8>>,
    is_local: bool,
}

impl JsonLines {
    pub fn new(out: Out, options: &Options) -> Self {
        Self { rows: Rows::new(out), keys: Vec::new(), is_local: options.local }
    }
}

impl RowSink for JsonLines {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.keys = columns
            .iter()
            .map(|column| {
                let mut key = Vec::new();
                push_string(&mut key, &column.name);
                key.push(b':');
                key
            })
            .collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        debug_assert!(rows.is_empty() || batch.columns() == self.keys.len());
        for index in rows {
            push_row(&mut self.rows.bytes, &self.keys, batch.row(index), self.is_local);
            self.rows.end_row()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rows.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.rows.flush()
    }
}

fn push_row(line: &mut Vec<u8>, keys: &[Vec<u8>], row: Row<'_>, is_local: bool) {
    let mut before = b'{';
    row.for_each_present(|column, cell| {
        let Some(key) = keys.get(column) else { return };
        line.push(before);
        line.extend_from_slice(key);
        match cell {
            Cell::Time(time) if is_local => quoted(line, |line| push_local(line, time)),
            cell => push_value(line, cell),
        }
        before = b',';
    });
    if before == b'{' {
        line.push(b'{');
    }
    line.extend_from_slice(b"}\n");
}

/// A value in its JSON form.
pub fn json_text(value: &Value<'_>) -> String {
    let mut line = vec![];
    push_value(&mut line, value.into());
    String::from_utf8_lossy(&line).into_owned()
}

pub(super) fn push_value(line: &mut Vec<u8>, value: Cell<'_>) {
    match value {
        Cell::Absent => line.extend_from_slice(b"null"),
        Cell::Bool(v) => push_bool(line, v),
        Cell::Unsigned(v) => push_number(line, v),
        Cell::Fraction(v) => push_fraction(line, v),
        Cell::Time(v) => push_time(line, v),
        Cell::Interval(ns) => push_seconds(line, ns),
        Cell::Address(v) => quoted(line, |line| push_address(line, v)),
        Cell::Mac(v) => quoted(line, |line| push_mac(line, v)),
        Cell::Text(v) => push_string(line, v),
        Cell::Bytes(v) => quoted(line, |line| push_hex(line, v)),
        Cell::Texts(v) => push_list(line, v.iter(), push_string),
        Cell::Numbers(v) => push_list(line, v.iter(), |line, number| push_number(line, *number)),
    }
}

/// Writes quotes around text that needs no escaping.
pub(super) fn quoted(line: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
    line.push(b'"');
    push(line);
    line.push(b'"');
}

pub(super) fn push_list<T>(
    line: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    push: impl Fn(&mut Vec<u8>, T),
) {
    line.push(b'[');
    join(line, items, push);
    line.push(b']');
}

/// A JSON string (RFC 8259, section 7). Beyond JSON's rules, DEL and all other [hidden](is_hidden) characters
/// are escaped: the text comes from the network, and the line may be printed on a terminal.
pub(super) fn push_string(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    let mut at = 0;
    while at < bytes.len() {
        if let Some(eight) = bytes[at..].first_chunk()
            && are_plain(u64::from_le_bytes(*eight))
        {
            at += 8;
            continue;
        }
        let byte = bytes[at];
        if (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\' {
            at += 1;
            continue;
        }
        let letter = text[at..].chars().next().unwrap_or_default();
        let next = at + letter.len_utf8();
        if matches!(letter, '"' | '\\') || is_hidden(letter) {
            line.extend_from_slice(&bytes[plain..at]);
            push_escaped(line, letter);
            plain = next;
        }
        at = next;
    }
    line.extend_from_slice(&bytes[plain..]);
    line.push(b'"');
}

/// Whether eight bytes are ASCII that a JSON string has as it is.
fn are_plain(eight: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, byte: u8| word.wrapping_sub(ONES * u64::from(byte)) & !word;
    let equal = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    (eight | below(eight, b' ') | equal(0x7f) | equal(b'"') | equal(b'\\')) & HIGH == 0
}

/// A character in its escaped form.
fn push_escaped(line: &mut Vec<u8>, letter: char) {
    match letter {
        '"' => line.extend_from_slice(b"\\\""),
        '\\' => line.extend_from_slice(b"\\\\"),
        '\n' => line.extend_from_slice(b"\\n"),
        '\r' => line.extend_from_slice(b"\\r"),
        '\t' => line.extend_from_slice(b"\\t"),
        // A character beyond U+FFFF is two numbers in JSON.
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                line.extend_from_slice(b"\\u");
                push_hex(line, &unit.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::are_plain;

    #[test]
    fn eight_bytes_are_plain_if_each_of_them_is() {
        let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
        for byte in 0..=u8::MAX {
            for beside in [b'a', b' ', b'~', b'!', b'#', b'[', b']'] {
                for at in 0..8 {
                    let mut eight = [beside; 8];
                    eight[at] = byte;
                    assert_eq!(are_plain(u64::from_le_bytes(eight)), is_plain(byte), "{eight:02x?}");
                }
            }
        }
    }
}
