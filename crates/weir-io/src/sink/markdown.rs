//! A table of Markdown, as GitHub's (GFM, section 4.10), for reports and tickets.
//!
//! Text of the traffic is text and nothing else: what Markdown or HTML could read as a sign, a link or an
//! address is in a code span. Absent values are empty; elements of lists are joined by `, `.

use super::human::push_moment;
use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink, ValueType};

pub(super) struct Markdown {
    rows: Rows,
    is_local: bool,
    is_precise: bool,
}

impl Markdown {
    pub fn new(out: Out, options: &Options) -> Self {
        Self { rows: Rows::new(out), is_local: options.local, is_precise: options.precise }
    }

    fn push_row(&mut self, row: Row<'_>) {
        let line = &mut self.rows.bytes;
        for cell in row.iter() {
            line.extend_from_slice(b"| ");
            match cell {
                Cell::Absent => {}
                Cell::Bool(v) => push_bool(line, v),
                Cell::Unsigned(v) => push_number(line, v),
                Cell::Fraction(v) => push_fraction(line, v),
                Cell::Time(v) => push_moment(line, v, self.is_local, self.is_precise),
                Cell::Interval(ns) => push_seconds(line, ns),
                Cell::Address(v) => push_address(line, v),
                Cell::Mac(v) => push_mac(line, v),
                Cell::Text(v) => push_text(line, v),
                Cell::Bytes(v) => push_hex(line, v),
                Cell::Texts(v) => {
                    for (index, text) in v.iter().enumerate() {
                        line.extend_from_slice(if index > 0 { b", " } else { b"" });
                        push_text(line, text);
                    }
                }
                Cell::Numbers(v) => {
                    for (index, number) in v.iter().enumerate() {
                        line.extend_from_slice(if index > 0 { b", " } else { b"" });
                        push_number(line, *number);
                    }
                }
            }
            line.push(b' ');
        }
        line.extend_from_slice(b"|\n");
    }
}

impl RowSink for Markdown {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let line = &mut self.rows.bytes;
        for column in columns {
            line.extend_from_slice(b"| ");
            push_text(line, &column.name);
            line.push(b' ');
        }
        line.extend_from_slice(b"|\n");
        for column in columns {
            let is_number =
                matches!(column.value_type, ValueType::Unsigned | ValueType::Fraction | ValueType::Interval);
            line.extend_from_slice(if is_number { b"|--:" } else { b"|---" });
        }
        line.extend_from_slice(b"|\n");
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

/// Backquotes in a row that a fence may have: readers bound the fences that they see.
const FENCE_MAX: usize = 8;

/// Text as it is, or in a code span.
fn push_text(line: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        return line.extend_from_slice(text.as_bytes());
    }
    // The fence is longer than any in the text.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let is_fenced = longest < FENCE_MAX;
    let fence = "`".repeat(if is_fenced { longest + 1 } else { 1 });
    line.extend_from_slice(fence.as_bytes());
    // A backquote at either end, and a span of spaces alone.
    line.push(b' ');
    for piece in text.split_inclusive(['|', '`']) {
        let (part, sign) = match piece.chars().last() {
            Some(sign @ ('|' | '`')) => (&piece[..piece.len() - 1], Some(sign)),
            _ => (piece, None),
        };
        push_visible(line, part);
        line.extend_from_slice(match sign {
            Some('|') => b"\\|",
            Some(_) if is_fenced => b"`",
            Some(_) => b"\\x60",
            None => b"",
        });
    }
    line.push(b' ');
    line.extend_from_slice(fence.as_bytes());
}

/// Whether a reader of Markdown shows a text as it is. Some websites read more than Markdown has: they make
/// links of addresses, of numbers of issues (`GH-1`) and of commits, and emoji of words (`:x:`).
fn is_plain(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | ',' | '-' | '/' | '_');
    let is_link = text.contains("www.") || text.contains("GH-") || text.contains("gh-");
    let is_commit = |word: &str| word.len() >= 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Inside of a word, `_` emphasises nothing.
    let is_outside = |word: &str| word.starts_with('_') || word.ends_with('_');
    let is_sign = |word: &str| is_outside(word) || is_commit(word);
    text.chars().all(is_letter)
        && !is_link
        && !text.starts_with(['-', '.', ' '])
        && !text.ends_with(' ')
        && !text.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_sign)
}
