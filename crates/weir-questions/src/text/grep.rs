//! Prints matches as grep does: endpoints, offset and text, with colours on a terminal.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use weir::packet::{Batch, Cell, Column, Row, RowSink};

/// Prints rows of `weir match`, one line each.
pub struct Grep {
    out: BufWriter<Box<dyn Write + Send>>,
    color: bool,
    /// Indices of the columns shown, in the order of [`SHOWN`].
    places: Vec<usize>,
}

/// Columns of a line, in its order.
const SHOWN: [&str; 9] = ["src_h", "src_p", "dst_h", "dst_p", "proto", "offset", "before", "match", "after"];
/// Number of these columns that identify the stream. Rows of streams have no others.
const ENDS: usize = 5;

impl Grep {
    /// A printer.
    pub fn new(out: Box<dyn Write + Send>, color: bool) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, out), color, places: vec![] }
    }
}

impl RowSink for Grep {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let place = |name: &&str| columns.iter().position(|column| column.name == *name);
        self.places = SHOWN.iter().filter_map(place).collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, mut rows: Range<usize>) -> io::Result<()> {
        rows.try_for_each(|index| self.write_row(batch.row(index)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Grep {
    fn write_row(&mut self, row: Row<'_>) -> io::Result<()> {
        let shown: Vec<String> = self.places.iter().map(|&place| text(row.cell(place))).collect();
        let Some(([src, src_port, dst, dst_port, proto], what)) = shown.split_first_chunk::<ENDS>() else {
            return Err(io::Error::other("these are no matches"));
        };
        let ends = format!("{} > {} {proto}", end(src, src_port), end(dst, dst_port));
        // Colours of GNU grep: names magenta, numbers green, matches bold red.
        let line = match (what, self.color) {
            ([offset, before, found, after], true) => format!(
                "\x1b[35m{ends}\x1b[36m:\x1b[32m{offset}\x1b[36m:\x1b[m{before}\x1b[1;31m{found}\x1b[m{after}\n"
            ),
            ([offset, before, found, after], false) => format!("{ends}:{offset}:{before}{found}{after}\n"),
            (_, true) => format!("\x1b[35m{ends}\x1b[m\n"),
            (_, false) => format!("{ends}\n"),
        };
        // A whole line, so that the buffer holds whole lines.
        self.out.write_all(line.as_bytes())
    }
}

fn end(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.to_string(),
        Cell::Address(address) => address.to_string(),
        Cell::Unsigned(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Bytes as printable ASCII; others as `\r`, `\n`, `\t` or `\xNN`, so that they cannot control the terminal.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\'' | b'"' => text.push(char::from(byte)),
            _ => text.extend(std::ascii::escape_default(byte).map(char::from)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_is_escaped() {
        assert_eq!(escaped(b"GET '/'\r\n\"\x1b[2J\xff\\"), "GET '/'\\r\\n\"\\x1b[2J\\xff\\\\");
    }
}
