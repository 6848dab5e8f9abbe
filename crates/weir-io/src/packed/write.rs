//! The writer.

use super::encode::{is_stored, push_bytes, push_column, push_number};
use super::form::{COLUMNS, ELEMENTS_MAX, END, MAGIC, ROWS, ROWS_MAX, TYPES, VERSION, WRITTEN_BYTES};
use std::io::{self, Write};
use std::net::IpAddr;
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink};

/// The size of a cell in the limit of a block, without its text or list. Absent cells have this size, too, so
/// the limit also bounds the number of cells of a block.
const CELL_BYTES: usize = 9;

/// Writes packed rows. Each write to the output is a whole block, so that a file is readable up to its last
/// block at any time.
pub struct PackedSink<W> {
    out: W,
    columns: Vec<Column>,
    batch: Batch,
    /// Bytes that the rows of `batch` count for.
    bytes: usize,
    block: Vec<u8>,
    column: Vec<u8>,
    log: String,
}

impl<W> std::fmt::Debug for PackedSink<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedSink").field("rows", &self.batch.rows()).finish_non_exhaustive()
    }
}

impl<W: Write> PackedSink<W> {
    /// Writes to `out`, which needs no buffering; `log` is the name of the log, or empty.
    pub fn new(out: W, log: &str) -> Self {
        let (columns, batch) = (vec![], Batch::default());
        Self { out, columns, batch, bytes: 0, block: vec![], column: vec![], log: log.to_string() }
    }

    /// Writes what is in `block`: its kind, its length, its bytes, and the checksum of all of these.
    fn write_block(&mut self, kind: u8, before: &[u8]) -> io::Result<()> {
        let mut bytes = before.to_vec();
        let start = bytes.len();
        bytes.push(kind);
        push_bytes(&mut bytes, &self.block);
        let checksum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        self.block.clear();
        self.out.write_all(&bytes)
    }

    /// Checks that readers accept a row. Returns the bytes that the row counts for.
    fn check(&self, row: Row<'_>) -> io::Result<usize> {
        let (mut elements, mut bytes) = (0, self.columns.len() * CELL_BYTES);
        for (at, cell) in row.present() {
            let Some(column) = self.columns.get(at) else { break };
            elements += match cell {
                Cell::Numbers(numbers) => numbers.len(),
                Cell::Texts(texts) => texts.len(),
                _ => 0,
            };
            bytes += data_bytes(cell);
            if !is_stored(cell, column.value_type) {
                let name = &column.name;
                return Err(io::Error::other(format!(
                    "a value of the column `{name}` has another type: {cell:?}"
                )));
            }
        }
        if elements > ELEMENTS_MAX {
            return Err(io::Error::other(format!(
                "the lists of a row have more than {ELEMENTS_MAX} elements"
            )));
        }
        Ok(bytes)
    }

    fn write_rows(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        push_number(&mut self.block, self.batch.rows() as u64);
        for (at, column) in self.columns.iter().enumerate() {
            self.column.clear();
            push_column(&mut self.column, &self.batch, at, column.value_type);
            push_bytes(&mut self.block, &self.column);
        }
        // Also after an error, so that rows are not written twice.
        self.batch.clear();
        self.bytes = 0;
        self.write_block(ROWS, &[])
    }
}

impl<W: Write> RowSink for PackedSink<W> {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        push_bytes(&mut self.block, self.log.as_bytes());
        push_number(&mut self.block, columns.len() as u64);
        for column in columns {
            let number = TYPES.iter().find(|(_, known)| *known == column.value_type);
            let number = number.ok_or_else(|| io::Error::other("a type without a number"))?;
            self.block.push(number.0);
            push_bytes(&mut self.block, column.name.as_bytes());
            push_bytes(&mut self.block, column.doc.as_bytes());
        }
        self.columns = columns.to_vec();
        self.batch = Batch::new(columns.len());
        let mut head = MAGIC.to_vec();
        head.push(VERSION);
        self.write_block(COLUMNS, &head)
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for row in rows {
            self.bytes += self.check(batch.row(row))?;
            self.batch.extend(batch, row..row + 1, None);
            if self.bytes >= WRITTEN_BYTES || self.batch.rows() >= ROWS_MAX {
                self.write_rows()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_rows()?;
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.write_rows()?;
        self.write_block(END, &[])?;
        self.out.flush()
    }
}

/// Bytes of a cell beyond [`CELL_BYTES`].
fn data_bytes(cell: Cell<'_>) -> usize {
    match cell {
        Cell::Address(IpAddr::V6(_)) => 16,
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
        Cell::Texts(texts) => texts.iter().map(|text| 8 + text.len()).sum(),
        Cell::Numbers(numbers) => 8 * numbers.len(),
        _ => 0,
    }
}
