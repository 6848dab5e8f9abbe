//! Comma-separated values (RFC 4180), with a header line; lines end with a single newline, as Unix tools
//! expect.
//!
//! An absent value is empty, and an empty text is `""`. List elements are joined by commas, within quotes; a
//! comma inside an element is `\x2c`, as in Zeek's logs. Control characters and text that a spreadsheet would
//! treat as a formula are unchanged, because the file is for programs.

use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use weir_packet::{Column, RowSink, Value};

pub(super) struct Csv {
    rows: Rows,
    /// A buffer for joined lists, kept for reuse.
    joined: String,
}

impl Csv {
    pub fn new(out: Out, _: &Options) -> Self {
        Self { rows: Rows::new(out), joined: String::new() }
    }
}

impl RowSink for Csv {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                self.rows.bytes.push(b',');
            }
            push_field(&mut self.rows.bytes, &column.name);
        }
        self.rows.bytes.push(b'\n');
        self.rows.end_row()
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let line = &mut self.rows.bytes;
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                line.push(b',');
            }
            match value {
                Value::Absent => {}
                Value::Bool(v) => push_bool(line, *v),
                Value::Unsigned(v) => push_number(line, *v),
                Value::Fraction(v) => push_fraction(line, *v),
                Value::Time(v) => push_time(line, *v),
                Value::Interval(ns) => push_seconds(line, *ns),
                Value::Address(v) => push_address(line, *v),
                Value::Mac(v) => push_mac(line, *v),
                Value::Text(v) => push_field(line, v),
                Value::Bytes(v) => push_hex(line, v),
                Value::Texts(v) => {
                    self.joined.clear();
                    for (index, text) in v.iter().enumerate() {
                        if index > 0 {
                            self.joined.push(',');
                        }
                        for (n, part) in text.split(',').enumerate() {
                            self.joined.push_str(if n > 0 { "\\x2c" } else { "" });
                            self.joined.push_str(part);
                        }
                    }
                    push_field(line, &self.joined);
                }
                Value::Numbers(v) => push_numbers(line, v),
            }
        }
        line.push(b'\n');
        self.rows.end_row()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rows.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.rows.flush()
    }
}

fn push_numbers(line: &mut Vec<u8>, numbers: &[u64]) {
    let quote = numbers.len() > 1;
    if quote {
        line.push(b'"');
    }
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        push_number(line, *number);
    }
    if quote {
        line.push(b'"');
    }
}

/// A field, quoted if necessary.
fn push_field(line: &mut Vec<u8>, text: &str) {
    let special = |b: u8| matches!(b, b',' | b'"' | b'\r' | b'\n');
    if !text.is_empty() && !text.bytes().any(special) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for &byte in text.as_bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}
