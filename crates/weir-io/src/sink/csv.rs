//! Comma-separated values (RFC 4180), with a header line; lines end with a single newline, as Unix tools
//! expect.
//!
//! An absent value is empty, and an empty text is `""`. List elements are joined by commas, within quotes; a
//! comma inside an element is `\x2c`, as in Zeek's logs. Control characters and invisible ones are escaped in
//! the same form, so that a line is a row and cannot control a terminal. Text that a spreadsheet would
//! execute as a formula is unchanged, because the file is for programs, unless
//! [`csv_safe`](Options::csv_safe) is set: then it begins with an apostrophe.

use super::human::push_local;
use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink};

pub(super) struct Csv {
    rows: Rows,
    /// A buffer for joined lists, kept for reuse.
    joined: String,
    is_safe: bool,
    /// A comma, or a tab.
    separator: u8,
    is_local: bool,
}

impl Csv {
    pub fn new(out: Out, options: &Options) -> Self {
        Self::separated(out, options, b',')
    }

    /// With tabs in place of commas. Tabs in values are escaped, as all control characters are.
    pub fn with_tabs(out: Out, options: &Options) -> Self {
        Self::separated(out, options, b'\t')
    }

    fn separated(out: Out, options: &Options, separator: u8) -> Self {
        let &Options { csv_safe: is_safe, local: is_local, .. } = options;
        Self { rows: Rows::new(out), joined: String::new(), is_safe, separator, is_local }
    }
}

impl RowSink for Csv {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                self.rows.bytes.push(self.separator);
            }
            push_field(&mut self.rows.bytes, &column.name, self.is_safe);
        }
        self.rows.bytes.push(b'\n');
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

impl Csv {
    fn push_row(&mut self, row: Row<'_>) {
        let line = &mut self.rows.bytes;
        let mut commas = 0;
        for (column, value) in row.present() {
            push_separators(line, self.separator, column - commas);
            commas = column;
            match value {
                Cell::Absent => {}
                Cell::Bool(v) => push_bool(line, v),
                Cell::Unsigned(v) => push_number(line, v),
                Cell::Fraction(v) => push_fraction(line, v),
                Cell::Time(v) if self.is_local => push_local(line, v),
                Cell::Time(v) => push_time(line, v),
                Cell::Interval(ns) => push_seconds(line, ns),
                Cell::Address(v) => push_address(line, v),
                Cell::Mac(v) => push_mac(line, v),
                Cell::Text(v) => push_field(line, v, self.is_safe),
                Cell::Bytes(v) => push_hex(line, v),
                Cell::Texts(v) => {
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
                    push_field(line, &self.joined, self.is_safe);
                }
                Cell::Numbers(v) => push_numbers(line, v),
            }
        }
        push_separators(line, self.separator, row.len().saturating_sub(commas + 1));
        line.push(b'\n');
    }
}

/// Of absent values, a row has only the separators: hundreds, if it is of one log of many.
fn push_separators(line: &mut Vec<u8>, separator: u8, count: usize) {
    line.resize(line.len() + count, separator);
}

fn push_numbers(line: &mut Vec<u8>, numbers: &[u64]) {
    let quote = numbers.len() > 1;
    if quote {
        line.push(b'"');
    }
    join(line, numbers.iter(), |line, number| push_number(line, *number));
    if quote {
        line.push(b'"');
    }
}

/// Characters with which a formula begins, also in the full width of East Asian texts.
const FORMULAS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// A field, quoted if necessary. Safe: not a formula.
fn push_field(line: &mut Vec<u8>, text: &str, is_safe: bool) {
    let is_formula = is_safe && text.trim_start().starts_with(FORMULAS);
    // Line ends are escaped.
    let is_quoted = text.is_empty() || text.contains([',', '"']);
    if is_quoted {
        line.push(b'"');
    }
    if is_formula {
        line.push(b'\'');
    }
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            line.extend_from_slice(b"\"\"");
        }
        push_visible(line, part);
    }
    if is_quoted {
        line.push(b'"');
    }
}
