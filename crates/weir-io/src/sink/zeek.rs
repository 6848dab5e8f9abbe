//! Tab-separated values in the format of Zeek's logs: a header with fields and types, `-` for absent values,
//! `(empty)` for empty ones, `T` and `F`, lists joined by commas
//! (<https://docs.zeek.org/en/master/log-formats.html>).
//!
//! `#open` and `#close` are omitted: they depend on the machine's clock, and the same question must yield the
//! same bytes.

use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink, ValueType, is_hidden};

pub(super) struct Zeek {
    rows: Rows,
    path: &'static str,
    /// Columns whose lists of numbers are durations.
    intervals: Vec<bool>,
}

impl Zeek {
    pub fn new(out: Out, options: &Options) -> Self {
        Self { rows: Rows::new(out), path: options.path, intervals: vec![] }
    }
}

/// Numbers of seconds, which are intervals in Zeek.
const INTERVALS: &str = "vector[interval]";

/// Columns whose Zeek type is more specific than Weir's, or another kind of list.
const TYPES: &[(&str, &str)] = &[
    ("proto", "enum"),
    ("direction", "enum"),
    ("tags", "set[enum]"),
    ("proxied", "set[string]"),
    ("analyzers", "set[string]"),
    ("tunnel_parents", "set[string]"),
    ("san.ip", "vector[addr]"),
    ("rcptto", "set[string]"),
    ("to", "set[string]"),
    ("cc", "set[string]"),
    ("TTLs", INTERVALS),
];

/// Zeek's name of a column's type.
fn type_name(column: &Column) -> &'static str {
    if let Some((_, known)) = TYPES.iter().find(|(name, _)| *name == column.name) {
        return known;
    }
    match column.value_type {
        ValueType::Bool => "bool",
        ValueType::Unsigned if column.name.ends_with("_p") => "port",
        ValueType::Unsigned => "count",
        ValueType::Fraction => "double",
        ValueType::Time => "time",
        ValueType::Interval => "interval",
        ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address => "addr",
        ValueType::Mac | ValueType::Text | ValueType::Bytes => "string",
        ValueType::Texts => "vector[string]",
        ValueType::Numbers => "vector[count]",
    }
}

impl RowSink for Zeek {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        if columns.iter().any(|column| column.name == "_path") {
            return Err(io::Error::other(
                "a Zeek log has rows of one kind, and these rows are of several: `weir zeek -r FILE -d \
                 DIR` writes one file per log, --format json writes all rows with their `_path`",
            ));
        }
        let line = &mut self.rows.bytes;
        line.extend_from_slice(
            b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n",
        );
        let path = if self.path.is_empty() { "-" } else { self.path };
        line.extend_from_slice(format!("#path\t{path}\n#fields").as_bytes());
        for column in columns {
            line.push(b'\t');
            line.extend_from_slice(column.name.as_bytes());
        }
        line.extend_from_slice(b"\n#types");
        for column in columns {
            line.push(b'\t');
            line.extend_from_slice(type_name(column).as_bytes());
        }
        line.push(b'\n');
        self.intervals = columns.iter().map(|column| type_name(column) == INTERVALS).collect();
        self.rows.end_row()
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            self.push_row(batch.row(index));
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

impl Zeek {
    fn push_row(&mut self, row: Row<'_>) {
        let line = &mut self.rows.bytes;
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                line.push(b'\t');
            }
            match value {
                Cell::Numbers(seconds) if self.intervals[index] && !seconds.is_empty() => {
                    join(line, seconds.iter(), |line, seconds| {
                        push_seconds(line, seconds.saturating_mul(1_000_000_000))
                    });
                }
                value => push_value(line, value),
            }
        }
        line.push(b'\n');
    }
}

fn push_value(line: &mut Vec<u8>, value: Cell<'_>) {
    match value {
        Cell::Absent => line.push(b'-'),
        Cell::Bool(v) => line.push(if v { b'T' } else { b'F' }),
        Cell::Unsigned(v) => push_number(line, v),
        Cell::Fraction(v) => push_fraction(line, v),
        Cell::Time(v) => push_time(line, v),
        Cell::Interval(ns) => push_seconds(line, ns),
        Cell::Address(v) => push_address(line, v),
        Cell::Mac(v) => push_mac(line, v),
        Cell::Text(v) => push_text(line, v, false),
        Cell::Bytes([]) => line.extend_from_slice(b"(empty)"),
        Cell::Bytes(v) => push_hex(line, v),
        Cell::Texts(v) if v.is_empty() => line.extend_from_slice(b"(empty)"),
        Cell::Numbers([]) => line.extend_from_slice(b"(empty)"),
        Cell::Texts(v) => join(line, v.iter(), |line, text| push_text(line, text, true)),
        Cell::Numbers(v) => join(line, v.iter(), |line, number| push_number(line, *number)),
    }
}

/// Text. Characters with a meaning in the format or for a terminal are escaped, byte by byte, as `\x09`.
/// Invalid UTF-8 bytes are already escaped in this form and stay unchanged.
fn push_text(line: &mut Vec<u8>, text: &str, in_list: bool) {
    match text {
        "" => return line.extend_from_slice(b"(empty)"),
        "-" => return line.extend_from_slice(b"\\x2d"),
        "(empty)" => return line.extend_from_slice(b"\\x28empty)"),
        _ => {}
    }
    let bytes = text.as_bytes();
    // The end of the last hidden character.
    let mut hidden_to = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\\' if is_byte(&bytes[at..]) => line.push(byte),
            0..0x20 | 0x7f | b'\\' => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            b',' if in_list => line.extend_from_slice(b"\\x2c"),
            // The first byte of a character that is not ASCII.
            0xc2.. if text[at..].starts_with(is_hidden) => {
                hidden_to = at + text[at..].chars().next().map_or(1, char::len_utf8);
                push_escapes(line, &[byte]);
            }
            _ if at < hidden_to => push_escapes(line, &[byte]),
            _ => line.push(byte),
        }
    }
}

/// Whether the text begins with an escaped byte: `\xe9`.
fn is_byte(text: &[u8]) -> bool {
    matches!(text, [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}
