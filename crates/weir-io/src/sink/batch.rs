//! Rows that are kept in order to be written later, by another thread.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use weir_packet::{Timestamp, Value};

/// Rows of values, copied. Texts and bytes of all rows share one buffer each, so that a row needs no memory of its own.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// The values of all rows, one row after the other.
    cells: Vec<Cell>,
    /// Number of values of a row.
    width: usize,
    rows: usize,
    text: String,
    data: Vec<u8>,
    texts: Vec<String>,
    texts_bytes: usize,
    numbers: Vec<u64>,
}

/// A value; ranges are places in the buffers of the batch.
#[derive(Debug, Clone)]
enum Cell {
    Absent,
    Bool(bool),
    Unsigned(u64),
    Fraction(f64),
    Time(Timestamp),
    Interval(u64),
    Address(IpAddr),
    Mac([u8; 6]),
    Text(Range<usize>),
    Bytes(Range<usize>),
    Texts(Range<usize>),
    Numbers(Range<usize>),
}

impl RowBatch {
    /// An empty batch, with room for as many values and bytes of text as `like` has.
    pub fn like(like: &RowBatch) -> Self {
        Self {
            cells: Vec::with_capacity(like.cells.len()),
            text: String::with_capacity(like.text.len()),
            ..Self::default()
        }
    }

    /// Copies a row. All rows of a batch have the same number of values, at least one.
    pub fn push(&mut self, values: &[Value<'_>]) {
        self.width = values.len();
        self.rows += 1;
        for value in values {
            let cell = self.cell(value);
            self.cells.push(cell);
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Memory of the rows, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.cells)
            + self.text.len()
            + self.data.len()
            + self.texts_bytes
            + size_of_val(&*self.numbers)
    }

    /// Passes each row to `row`, in their order.
    ///
    /// # Errors
    /// The first error of `row`, which then receives no more rows.
    pub fn each(&self, row: &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>) -> io::Result<()> {
        let mut values = Vec::with_capacity(self.width);
        for cells in self.cells.chunks(self.width.max(1)) {
            values.clear();
            values.extend(cells.iter().map(|cell| self.value(cell)));
            row(&values)?;
        }
        Ok(())
    }

    fn cell(&mut self, value: &Value<'_>) -> Cell {
        match value {
            Value::Absent => Cell::Absent,
            Value::Bool(v) => Cell::Bool(*v),
            Value::Unsigned(v) => Cell::Unsigned(*v),
            Value::Fraction(v) => Cell::Fraction(*v),
            Value::Time(v) => Cell::Time(*v),
            Value::Interval(v) => Cell::Interval(*v),
            Value::Address(v) => Cell::Address(*v),
            Value::Mac(v) => Cell::Mac(*v),
            Value::Text(v) => {
                let start = self.text.len();
                self.text.push_str(v);
                Cell::Text(start..self.text.len())
            }
            Value::Bytes(v) => {
                let start = self.data.len();
                self.data.extend_from_slice(v);
                Cell::Bytes(start..self.data.len())
            }
            Value::Texts(v) => {
                let start = self.texts.len();
                self.texts.extend_from_slice(v);
                self.texts_bytes += v.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
                Cell::Texts(start..self.texts.len())
            }
            Value::Numbers(v) => {
                let start = self.numbers.len();
                self.numbers.extend_from_slice(v);
                Cell::Numbers(start..self.numbers.len())
            }
        }
    }

    fn value(&self, cell: &Cell) -> Value<'_> {
        match cell {
            Cell::Absent => Value::Absent,
            Cell::Bool(v) => Value::Bool(*v),
            Cell::Unsigned(v) => Value::Unsigned(*v),
            Cell::Fraction(v) => Value::Fraction(*v),
            Cell::Time(v) => Value::Time(*v),
            Cell::Interval(v) => Value::Interval(*v),
            Cell::Address(v) => Value::Address(*v),
            Cell::Mac(v) => Value::Mac(*v),
            Cell::Text(v) => Value::Text(self.text[v.clone()].into()),
            Cell::Bytes(v) => Value::Bytes(self.data[v.clone()].into()),
            Cell::Texts(v) => Value::Texts(self.texts[v.clone()].into()),
            Cell::Numbers(v) => Value::Numbers(self.numbers[v.clone()].into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_copied() {
        let first = [
            Value::Absent,
            Value::Bool(true),
            Value::Unsigned(u64::MAX),
            Value::Fraction(-0.5),
            Value::Time(Timestamp(-1)),
            Value::Interval(7),
            Value::Address("fe80::1".parse().unwrap()),
            Value::Mac([1, 2, 3, 4, 5, 6]),
            Value::Text("é\0".into()),
            Value::Bytes(vec![0xff, 0].into()),
            Value::Texts(vec!["a".to_string(), String::new()].into()),
            Value::Numbers(vec![1, 2].into()),
        ];
        let mut second = first.clone();
        second.reverse();
        let third = vec![Value::Text("".into()); first.len()];
        let rows = [first.to_vec(), second.to_vec(), third];
        let mut batch = RowBatch::default();
        assert!(batch.is_empty());
        rows.iter().for_each(|row| batch.push(row));
        let mut read = vec![];
        batch
            .each(&mut |row| {
                read.push(row.iter().cloned().map(Value::into_owned).collect::<Vec<_>>());
                Ok(())
            })
            .unwrap();
        assert_eq!(read, rows);
        assert_eq!(batch.rows(), 3);
        assert!(batch.bytes() > 36 * size_of::<Cell>() && batch.bytes() < 36 * size_of::<Cell>() + 200);
    }

    #[test]
    fn an_error_ends_the_rows() {
        let mut batch = RowBatch::default();
        (0..3).for_each(|number| batch.push(&[Value::Unsigned(number)]));
        let mut taken = 0;
        let ended = batch.each(&mut |_| {
            taken += 1;
            if taken == 2 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        });
        assert_eq!((ended.unwrap_err().kind(), taken), (io::ErrorKind::BrokenPipe, 2));
    }
}
