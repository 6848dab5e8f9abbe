//! A table for terminals, with units that people read.
//!
//! The first rows determine the column widths; every further row is written immediately, so memory does not
//! depend on the number of rows. If the columns do not fit, times lose their date if all have the same; then
//! texts are cut with `…`; then columns are omitted from the right, with a note in the header. JSON has
//! everything.
//!
//! Text comes from the network and may be hostile: control characters, escape sequences and characters that
//! change the writing direction are shown as escapes, and never sent to the terminal.

use super::human::{push_bytes, push_duration, push_moment};
use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink, ValueType, printable};

/// Number of rows that determine the widths.
const SAMPLE_ROWS: usize = 200;
/// Maximum width of a column, in terminal columns.
const COLUMN_WIDTH_MAX: usize = 60;
/// Minimum width of a narrowed text column.
const TEXT_WIDTH_MIN: usize = 12;
/// Bytes of a date, and of the blank behind the date.
const DATE: usize = 11;
/// Blanks between two columns.
const GAP: usize = 2;

pub(super) struct Table {
    rows: Rows,
    options: Options,
    columns: Vec<Shape>,
    /// The number of columns that fit.
    shown: usize,
    /// The first rows, until the widths are fixed.
    sample: Vec<Cells>,
    /// The date of all times so far, which is left out because the terminal is narrow; with the blank behind
    /// the date.
    date: Option<String>,
    /// The widths are fixed, and the header is written.
    is_settled: bool,
    /// The row being written.
    cells: Cells,
}

/// A column of the table.
struct Shape {
    /// The title.
    name: String,
    /// The values are numbers of bytes.
    counts_bytes: bool,
    width: usize,
    value_type: ValueType,
    right: bool,
    /// Whether values may be cut: a cut number would be wrong.
    may_narrow: bool,
}

/// The texts of a row, concatenated.
#[derive(Default)]
struct Cells {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    fn write(&mut self, row: Row<'_>, columns: &[Shape], options: &Options) {
        self.text.clear();
        self.ends.clear();
        for (index, value) in row.iter().enumerate() {
            match value {
                Cell::Unsigned(bytes) if columns.get(index).is_some_and(|column| column.counts_bytes) => {
                    push_bytes(&mut self.text, bytes);
                }
                Cell::Time(time) => push_moment(&mut self.text, time, options.local, options.precise),
                value => push_cell(&mut self.text, value),
            }
            self.ends.push(self.text.len());
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| std::str::from_utf8(&self.text[start..end]).unwrap_or_default())
    }
}

impl Table {
    pub fn new(out: Out, options: &Options) -> Self {
        Self {
            rows: Rows::new(out),
            options: *options,
            columns: Vec::new(),
            shown: 0,
            sample: Vec::new(),
            date: None,
            is_settled: false,
            cells: Cells::default(),
        }
    }

    /// Fixes the widths, and writes the header and the waiting rows.
    fn settle(&mut self) -> io::Result<()> {
        for row in &self.sample {
            for (column, cell) in self.columns.iter_mut().zip(row.iter()) {
                column.width = column.width.max(width_of(cell).min(COLUMN_WIDTH_MAX));
            }
        }
        self.fit();
        self.write_header();
        self.is_settled = true;
        for row in std::mem::take(&mut self.sample) {
            self.write_row(&row);
            self.rows.end_row()?;
        }
        Ok(())
    }

    /// Fits the columns to the terminal: narrows the widest text repeatedly, then omits columns from the
    /// right.
    fn fit(&mut self) {
        self.shown = self.columns.len();
        let Some(terminal) = self.options.width else { return };
        if total_width(&self.columns) > terminal {
            self.leave_out_date();
        }
        while total_width(&self.columns) > terminal {
            let widest = self.columns.iter_mut().filter(|c| c.may_narrow).max_by_key(|c| c.width);
            match widest {
                Some(column) if column.width > TEXT_WIDTH_MIN.max(column.name.len()) => column.width -= 1,
                _ => break,
            }
        }
        let all = self.columns.len();
        while self.shown > 1 {
            let note = note_of(all - self.shown);
            let note_width = if note.is_empty() { 0 } else { GAP + width_of(&note) };
            if total_width(&self.columns[..self.shown]) + note_width <= terminal {
                break;
            }
            self.shown -= 1;
        }
    }

    /// If all times have the same date, shows the times of day.
    fn leave_out_date(&mut self) {
        let is_time = |column: &Shape| column.value_type == ValueType::Time;
        let rows = self.sample.iter().map(|row| self.columns.iter().zip(row.iter()));
        let times = rows.flatten().filter(|(column, cell)| is_time(column) && *cell != "-");
        let mut dates = times.map(|(_, cell)| cell.get(..DATE).unwrap_or_default());
        let Some(date) = dates.next().filter(|date| dates.all(|other| other == *date)) else { return };
        let date = date.to_string();
        // The year is left out of the title, as it mostly is known.
        let day = date.get(5..DATE - 1).unwrap_or_default();
        for column in self.columns.iter_mut().filter(|column| is_time(column)) {
            column.name = column
                .name
                .replace(" (UTC)", &format!(" (UTC {day})"))
                .replace(" (local)", &format!(" (local {day})"));
            column.width = column.width.saturating_sub(DATE).max(width_of(&column.name));
        }
        self.date = Some(date);
    }

    fn write_header(&mut self) {
        let line = &mut self.rows.bytes;
        if self.options.color {
            line.extend_from_slice(b"\x1b[1m");
        }
        let note = note_of(self.columns.len() - self.shown);
        for (index, column) in self.columns[..self.shown].iter().enumerate() {
            let last = index + 1 == self.shown && note.is_empty();
            push_padded(line, &column.name, column, index > 0, last, None);
        }
        if !note.is_empty() {
            line.extend_from_slice(&[b' '; GAP]);
            line.extend_from_slice(note.as_bytes());
        }
        if self.options.color {
            line.extend_from_slice(b"\x1b[0m");
        }
        line.push(b'\n');
    }

    fn write_row(&mut self, cells: &Cells) {
        let line = &mut self.rows.bytes;
        for (index, (column, cell)) in self.columns[..self.shown].iter().zip(cells.iter()).enumerate() {
            // Values are cut only to fit a terminal; numbers are never cut.
            let limit = self.options.width.filter(|_| column.may_narrow).map(|_| column.width);
            let date = self.date.as_deref().filter(|_| column.value_type == ValueType::Time);
            let cell = date.and_then(|date| cell.strip_prefix(date)).unwrap_or(cell);
            push_padded(line, cell, column, index > 0, index + 1 == self.shown, limit);
        }
        line.push(b'\n');
    }
}

impl RowSink for Table {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.columns = columns
            .iter()
            .map(|column| {
                let mut name = Vec::new();
                push_shown(&mut name, &column.name);
                if column.value_type == ValueType::Time {
                    name.extend_from_slice(if self.options.local { b" (local)" } else { b" (UTC)" });
                }
                let name = String::from_utf8(name).unwrap_or_default();
                Shape {
                    width: width_of(&name),
                    name,
                    counts_bytes: column.counts_bytes(),
                    value_type: column.value_type,
                    right: matches!(
                        column.value_type,
                        ValueType::Unsigned | ValueType::Fraction | ValueType::Interval
                    ),
                    may_narrow: matches!(
                        column.value_type,
                        ValueType::Text | ValueType::Texts | ValueType::Numbers | ValueType::Bytes
                    ),
                }
            })
            .collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            let mut cells = std::mem::take(&mut self.cells);
            cells.write(batch.row(index), &self.columns, &self.options);
            if self.is_settled {
                self.write_row(&cells);
                self.cells = cells;
                self.rows.end_row()?;
                continue;
            }
            self.sample.push(cells);
            if self.sample.len() == SAMPLE_ROWS {
                self.settle()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.is_settled {
            if self.sample.is_empty() {
                return Ok(());
            }
            for column in &mut self.columns {
                column.width = column.width.max(typical_width(column.value_type, &self.options));
            }
            self.settle()?;
        }
        self.rows.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        if !self.is_settled {
            self.settle()?;
        }
        self.rows.flush()
    }
}

fn total_width(columns: &[Shape]) -> usize {
    columns.iter().map(|c| c.width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

/// The header's note about omitted columns.
fn note_of(left_out: usize) -> String {
    if left_out == 0 { String::new() } else { format!("(+{left_out} more)") }
}

/// The typical width of a type's values, for tables that begin before their rows are known.
fn typical_width(value_type: ValueType, options: &Options) -> usize {
    match value_type {
        ValueType::Time => 23 + if options.precise { 3 } else { 0 } + if options.local { 6 } else { 0 },
        ValueType::Mac => 17,
        ValueType::Ipv4 | ValueType::Address => 15,
        ValueType::Ipv6 | ValueType::Text | ValueType::Texts | ValueType::Bytes => 24,
        ValueType::Interval | ValueType::Fraction => 10,
        ValueType::Unsigned | ValueType::Numbers => 6,
        ValueType::Bool => 5,
    }
}

fn push_cell(line: &mut Vec<u8>, value: Cell<'_>) {
    match value {
        Cell::Absent => line.push(b'-'),
        Cell::Bool(v) => push_bool(line, v),
        Cell::Unsigned(v) => push_number(line, v),
        Cell::Fraction(v) => push_fraction(line, v),
        Cell::Time(v) => push_date(line, v),
        // The other formats keep full precision.
        Cell::Interval(ns) => push_duration(line, ns),
        Cell::Address(v) => push_address(line, v),
        Cell::Mac(v) => push_mac(line, v),
        Cell::Text(v) => push_shown(line, v),
        Cell::Bytes(v) => push_hex(line, v),
        Cell::Texts(v) => {
            for (index, text) in v.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                push_shown(line, text);
            }
        }
        Cell::Numbers(v) => {
            for (index, number) in v.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                push_number(line, *number);
            }
        }
    }
}

/// Text in printable form: characters that a terminal would interpret are written as escapes.
fn push_shown(line: &mut Vec<u8>, text: &str) {
    line.extend_from_slice(printable(text, &[]).as_bytes());
}

/// A cell, cut to `limit` terminal columns and padded to its column's width.
fn push_padded(line: &mut Vec<u8>, cell: &str, column: &Shape, gap: bool, last: bool, limit: Option<usize>) {
    if gap {
        line.extend_from_slice(&[b' '; GAP]);
    }
    let mut width = width_of(cell);
    let (kept, cut) = match limit {
        Some(limit) if width > limit => {
            let (kept, kept_width) = head_of(cell, limit.saturating_sub(1));
            width = kept_width + 1;
            (kept, "…")
        }
        _ => (cell, ""),
    };
    let padding = column.width.saturating_sub(width);
    if column.right {
        line.resize(line.len() + padding, b' ');
    }
    line.extend_from_slice(kept.as_bytes());
    line.extend_from_slice(cut.as_bytes());
    // No trailing blanks: they would wrap in a narrower terminal.
    if !column.right && !last {
        line.resize(line.len() + padding, b' ');
    }
}

/// The longest prefix of `text` that is at most `width` wide, and its width.
fn head_of(text: &str, width: usize) -> (&str, usize) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        let next = used + char_width(c);
        if next > width {
            return (&text[..at], used);
        }
        used = next;
    }
    (text, used)
}

/// The width of `text` in terminal columns.
fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char_width).sum() }
}

/// The width of a character in terminal columns: two for wide East Asian characters and pictographs, none for
/// combining marks. The ranges are coarse: an error only affects alignment.
fn char_width(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xa960..=0xa97f | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
