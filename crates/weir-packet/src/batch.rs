//! Rows as columns of cells: [`Batch`].

mod merged;

use self::merged::{MergedRows, Stored};
use crate::cell::{Cell, Span, Texts};
use crate::{Timestamp, Value};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Rows, stored by column. A cell is a word, with its kind; what does not fit into a word is in a buffer of
/// the column. No row and no value has memory of its own.
///
/// Each column has room for 4 GiB of texts, and for 4 GiB of bytes. A text beyond that is stored as an empty
/// text. Batches stay far below: their owners pass them on at some tens of kilobytes
/// ([`bytes`](Self::bytes)).
///
/// Rows of several logs need the columns of all of them, and each has cells in few
/// ([`add_to`](Self::add_to)). The cells of other columns take no memory, and copying such a row does not
/// visit them.
#[derive(Clone, Default)]
pub struct Batch {
    /// By column; none if the rows are merged.
    columns: Vec<Cells>,
    rows: usize,
    /// The rows, if they have cells in different columns.
    merged: Option<Box<MergedRows>>,
}

/// The cells of a column.
#[derive(Debug, Clone, Default)]
struct Cells {
    kinds: Vec<Kind>,
    words: Vec<u64>,
    text: String,
    data: Vec<u8>,
    texts: Vec<Span>,
    numbers: Vec<u64>,
}

/// What a cell's word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Absent,
    Bool,
    Unsigned,
    /// The bits of the number.
    Fraction,
    Time,
    Interval,
    Ipv4,
    /// Begins at this byte of `data`.
    Ipv6,
    Mac,
    /// A place in `text`.
    Text,
    /// A place in `data`.
    Bytes,
    /// A place in `texts`.
    Texts,
    /// A place in `numbers`.
    Numbers,
}

/// A row of a batch.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    batch: &'a Batch,
    index: usize,
}

/// Writes the cells of a row, from the first column to the last. Columns without a cell are absent.
#[derive(Debug)]
pub struct RowWriter<'a> {
    batch: &'a mut Batch,
    column: usize,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Batch {
    /// An empty batch with this number of columns.
    pub fn new(columns: usize) -> Self {
        Self { columns: vec![Cells::default(); columns], rows: 0, merged: None }
    }

    /// An empty batch with the columns of `like`, and room for as many values and bytes.
    pub fn like(like: &Batch) -> Self {
        let columns = like.columns.iter().map(|column| Cells {
            kinds: Vec::with_capacity(column.kinds.len()),
            words: Vec::with_capacity(column.words.len()),
            text: String::with_capacity(column.text.len()),
            ..Cells::default()
        });
        let merged = like.merged.as_ref().map(|merged| Box::new(MergedRows::like(merged)));
        Self { columns: columns.collect(), rows: 0, merged }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.merged.as_ref().map_or(self.rows, |merged| merged.rows())
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.merged.as_ref().map_or(self.columns.len(), |merged| merged.width)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Memory of the rows, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.merged {
            Some(merged) => merged.bytes(),
            None => self.columns.iter().map(Cells::bytes).sum(),
        }
    }

    /// Removes all rows; their memory stays for others.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Cells::clear);
        self.rows = 0;
        self.merged.iter_mut().for_each(|merged| merged.clear());
    }

    /// Removes and returns the last row, as a batch of its own. `None` if there is none, or if rows have
    /// cells in different columns.
    pub fn take_last(&mut self) -> Option<Batch> {
        let last = self.rows.checked_sub(1).filter(|_| self.merged.is_none())?;
        let mut taken = Batch::new(self.columns.len());
        taken.extend(self, last..self.rows, None);
        self.columns.iter_mut().for_each(Cells::remove_last);
        self.rows = last;
        Some(taken)
    }

    /// The length of the last row as JSON, in bytes; an estimate, within a few percent. `names`: by column,
    /// the bytes of its name. 0 if there is no row, or if rows have cells in different columns.
    pub fn last_row_json_bytes(&self, names: &[usize]) -> usize {
        self.columns.iter().zip(names).map(|(cells, name)| cells.last_json_bytes(*name)).sum()
    }

    /// Begins another row. The row is complete once the writer is dropped.
    pub fn add(&mut self) -> RowWriter<'_> {
        if self.merged.is_none() {
            return RowWriter { batch: self, column: 0 };
        }
        let all: Vec<usize> = (0..self.columns()).collect();
        self.merge(0).add(&all)
    }

    /// Begins another row, which has cells in these columns only. They ascend, and the writer's cells are
    /// theirs, in this order. Costs a comparison of the columns, once per kind of row that the batch has.
    pub fn add_to(&mut self, columns: &[usize]) -> RowWriter<'_> {
        debug_assert!(columns.is_sorted());
        self.merge(0).add(columns)
    }

    /// Adds a row: these cells, those of another row, and further ones.
    pub fn add_around(&mut self, before: &[Cell<'_>], row: Row<'_>, after: &[Cell<'_>]) {
        let stored = row.batch.stored(row.index);
        let mut writer = match stored.columns {
            Some(columns) => {
                let moved = columns.iter().map(|column| before.len() + column);
                let after = (0..after.len()).map(|at| before.len() + row.len() + at);
                let columns: Vec<usize> = (0..before.len()).chain(moved).chain(after).collect();
                self.add_to(&columns)
            }
            None => self.add(),
        };
        before.iter().for_each(|cell| writer.push(*cell));
        stored.iter().for_each(|(_, cell)| writer.push(cell));
        after.iter().for_each(|cell| writer.push(*cell));
    }

    /// Lets the rows have cells in different columns. `width`: the number of columns, if there are none.
    fn merge(&mut self, width: usize) -> &mut MergedRows {
        if self.merged.is_none() && self.columns.is_empty() {
            self.merged = Some(Box::new(MergedRows::new(width)));
        }
        let (columns, rows) = (&mut self.columns, &mut self.rows);
        self.merged.get_or_insert_with(|| {
            let (columns, rows) = (std::mem::take(columns), std::mem::take(rows));
            Box::new(MergedRows::of(Batch { columns, rows, merged: None }))
        })
    }

    /// Copies a row of values. The first row of an empty batch without columns decides about the number of
    /// columns.
    pub fn push(&mut self, values: &[Value<'_>]) {
        if self.columns.is_empty() {
            self.columns.resize_with(values.len(), Cells::default);
        }
        let mut row = self.add();
        values.iter().for_each(|value| row.push(value.into()));
    }

    /// Copies rows of another batch: its columns with these indexes, in this order; `None`: all of them.
    pub fn extend(&mut self, other: &Batch, rows: Range<usize>, columns: Option<&[usize]>) {
        let rows = rows.start.min(other.rows())..rows.end.min(other.rows());
        let width = columns.map_or(other.columns(), <[usize]>::len);
        if let Some(from) = &other.merged {
            return self.merge(width).extend_merged(from, rows, columns);
        }
        if let Some(merged) = &mut self.merged {
            let all: Vec<usize> = (0..merged.width).collect();
            return merged.extend(&all, other, rows, columns);
        }
        if self.columns.is_empty() {
            self.columns.resize_with(width, Cells::default);
        }
        for (at, cells) in self.columns.iter_mut().enumerate() {
            let from = columns.map_or(Some(at), |columns| columns.get(at).copied());
            match from.and_then(|from| other.columns.get(from)) {
                Some(from) => cells.extend(from, rows.clone()),
                None => rows.clone().for_each(|_| cells.set(Kind::Absent, 0)),
            }
        }
        self.rows += rows.len();
    }

    /// The row with this index.
    pub fn row(&self, index: usize) -> Row<'_> {
        Row { batch: self, index }
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.rows()).map(|index| self.row(index))
    }

    /// The cells of a column, in the order of the rows; `None` if no row has a cell in the column.
    pub fn column(&self, column: usize) -> Option<impl Iterator<Item = Cell<'_>> + Clone> {
        let merged = self.merged.as_ref().map(|merged| merged.column(column));
        let whole = if merged.is_none() { self.columns.get(column) } else { None };
        let whole = whole.map(|cells| (0..self.rows).map(|row| cells.get(row)));
        let merged = merged.flatten();
        (whole.is_some() || merged.is_some())
            .then(|| whole.into_iter().flatten().chain(merged.into_iter().flatten()))
    }

    #[inline]
    fn stored(&self, row: usize) -> Stored<'_> {
        match &self.merged {
            Some(merged) => merged.stored(row),
            None => Stored { columns: None, cells: &self.columns, row },
        }
    }

    /// The cell of a row and a column; absent beyond the last ones.
    #[inline]
    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        self.stored(row).cell(column)
    }
}

impl<'a> Row<'a> {
    /// The cell of a column; absent beyond the last one.
    #[inline]
    pub fn cell(self, column: usize) -> Cell<'a> {
        self.batch.cell(self.index, column)
    }

    /// Number of columns.
    pub fn len(self) -> usize {
        self.batch.columns()
    }

    /// Whether there are no columns.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// All cells, in the order of the columns.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Cell<'a>> {
        let Stored { columns, cells, row } = self.batch.stored(self.index);
        let mut next = 0;
        (0..self.len()).map(move |column| {
            if columns.is_some_and(|columns| columns.get(next) != Some(&column)) {
                return Cell::Absent;
            }
            next += 1;
            cells.get(next - 1).map_or(Cell::Absent, |cells| cells.get(row))
        })
    }

    /// The cells that are not absent, with the indexes of their columns, which ascend. Visits only columns
    /// that rows of this kind have cells in.
    #[inline]
    pub fn present(self) -> impl Iterator<Item = (usize, Cell<'a>)> {
        self.batch.stored(self.index).iter().filter(|(_, cell)| cell.is_present())
    }

    /// Calls `each` with the column and the value of each [present](Self::present) cell. Writers of rows use
    /// this loop, because the compiler makes faster code of it than of the iterator.
    #[inline]
    pub fn for_each_present(self, mut each: impl FnMut(usize, Cell<'a>)) {
        let Stored { columns, cells, row } = self.batch.stored(self.index);
        for (at, cells) in cells.iter().enumerate() {
            let cell = cells.get(row);
            if cell.is_present() {
                each(columns.map_or(at, |columns| columns[at]), cell);
            }
        }
    }

    /// The columns that rows of this kind have cells in, ascending; `None`: all.
    pub fn columns(self) -> Option<&'a [usize]> {
        self.batch.stored(self.index).columns
    }

    /// The values of the row, with borrowed data.
    pub fn values(self) -> Vec<Value<'a>> {
        self.iter().map(Cell::value).collect()
    }
}

impl RowWriter<'_> {
    /// Writes the next cell. Cells beyond the last column are left out.
    #[inline]
    pub fn push(&mut self, cell: Cell<'_>) {
        if let Some(cells) = self.batch.columns.get_mut(self.column) {
            cells.push(cell);
        }
        self.column += 1;
    }

    /// Writes the next cell: the text that `write` appends.
    #[inline]
    pub fn text_with(&mut self, write: impl FnOnce(&mut String)) {
        if let Some(cells) = self.batch.columns.get_mut(self.column) {
            let start = cells.text.len();
            write(&mut cells.text);
            cells.end_text(start);
        }
        self.column += 1;
    }

    /// Writes all cells of a row of another batch.
    pub fn extend(&mut self, row: Row<'_>) {
        row.iter().for_each(|cell| self.push(cell));
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        for cells in self.batch.columns.iter_mut().skip(self.column) {
            cells.set(Kind::Absent, 0);
        }
        self.batch.rows += 1;
    }
}

impl Cells {
    fn bytes(&self) -> usize {
        let cells = size_of_val(&*self.words) + size_of_val(&*self.kinds);
        let lists = size_of_val(&*self.texts) + size_of_val(&*self.numbers);
        cells + lists + self.text.len() + self.data.len()
    }

    fn clear(&mut self) {
        self.kinds.clear();
        self.words.clear();
        self.text.clear();
        self.data.clear();
        self.texts.clear();
        self.numbers.clear();
    }

    /// The length of the last cell as JSON with its name, which has `name` bytes; 0 if the cell is absent.
    #[inline]
    fn last_json_bytes(&self, name: usize) -> usize {
        let (Some(&kind), Some(&word)) = (self.kinds.last(), self.words.last()) else { return 0 };
        // Quotes, colon and comma.
        let around = name + 4;
        let length = word as u32 as usize;
        let own = match kind {
            Kind::Absent => return 0,
            Kind::Bool => 5,
            Kind::Unsigned => digits(word),
            Kind::Fraction => 8,
            Kind::Time => 20,
            Kind::Interval => 10 + digits(word / 1_000_000_000),
            Kind::Ipv4 => 15,
            Kind::Ipv6 => 30,
            Kind::Mac => 19,
            Kind::Bytes => 2 + 2 * length,
            Kind::Text | Kind::Texts | Kind::Numbers => return around + self.list_json_bytes(kind, word),
        };
        around + own
    }

    fn list_json_bytes(&self, kind: Kind, word: u64) -> usize {
        let place = Span { start: (word >> 32) as u32, length: word as u32 };
        let range = place.start as usize..place.start as usize + place.length as usize;
        match kind {
            Kind::Text => text_json_bytes(place.of_text(&self.text)),
            Kind::Texts => {
                let texts = self.texts.get(range).unwrap_or_default();
                2 + texts.iter().map(|text| 1 + text_json_bytes(text.of_text(&self.text))).sum::<usize>()
            }
            _ => {
                let numbers = self.numbers.get(range).unwrap_or_default();
                2 + numbers.iter().map(|number| 1 + digits(*number)).sum::<usize>()
            }
        }
    }

    fn remove_last(&mut self) {
        let (Some(kind), Some(word)) = (self.kinds.pop(), self.words.pop()) else { return };
        let start = (word >> 32) as usize;
        match kind {
            Kind::Text => self.text.truncate(start),
            Kind::Ipv6 | Kind::Bytes => self.data.truncate(start),
            Kind::Numbers => self.numbers.truncate(start),
            Kind::Texts => {
                let text = self.texts.get(start).map_or(self.text.len(), |first| first.start as usize);
                self.text.truncate(text);
                self.texts.truncate(start);
            }
            _ => {}
        }
    }

    #[inline]
    fn set(&mut self, kind: Kind, word: u64) {
        self.kinds.push(kind);
        self.words.push(word);
    }

    #[inline]
    fn push(&mut self, cell: Cell<'_>) {
        match cell {
            Cell::Absent => self.set(Kind::Absent, 0),
            Cell::Bool(v) => self.set(Kind::Bool, u64::from(v)),
            Cell::Unsigned(v) => self.set(Kind::Unsigned, v),
            Cell::Fraction(v) => self.set(Kind::Fraction, v.to_bits()),
            Cell::Time(v) => self.set(Kind::Time, v.0 as u64),
            Cell::Interval(v) => self.set(Kind::Interval, v),
            Cell::Address(IpAddr::V4(v)) => self.set(Kind::Ipv4, u64::from(v.to_bits())),
            Cell::Address(IpAddr::V6(v)) => {
                let start = self.data.len();
                self.data.extend_from_slice(&v.octets());
                self.end_place(Kind::Ipv6, start, self.data.len());
            }
            Cell::Mac([a, b, c, d, e, f]) => {
                self.set(Kind::Mac, u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
            }
            Cell::Text(v) => {
                let start = self.text.len();
                self.text.push_str(v);
                self.end_text(start);
            }
            Cell::Bytes(v) => {
                let start = self.data.len();
                self.data.extend_from_slice(v);
                self.end_place(Kind::Bytes, start, self.data.len());
            }
            Cell::Texts(v) => self.push_texts(v),
            Cell::Numbers(v) => {
                let start = self.numbers.len();
                self.numbers.extend_from_slice(v);
                self.end_place(Kind::Numbers, start, self.numbers.len());
            }
        }
    }

    fn push_texts(&mut self, texts: Texts<'_>) {
        let start = self.texts.len();
        for text in texts.iter() {
            let at = self.text.len();
            self.text.push_str(text);
            let span = span(at, self.text.len()).unwrap_or(Span { start: 0, length: 0 });
            self.texts.push(span);
        }
        self.end_place(Kind::Texts, start, self.texts.len());
    }

    #[inline]
    fn end_text(&mut self, start: usize) {
        self.end_place(Kind::Text, start, self.text.len());
    }

    #[inline]
    fn end_place(&mut self, kind: Kind, start: usize, end: usize) {
        let place = span(start, end).unwrap_or(Span { start: 0, length: 0 });
        self.set(kind, u64::from(place.start) << 32 | u64::from(place.length));
    }

    fn extend(&mut self, from: &Cells, rows: Range<usize>) {
        let is_plain = from.text.is_empty() && from.data.is_empty() && from.texts.is_empty();
        if is_plain && from.numbers.is_empty() {
            self.kinds.extend_from_slice(&from.kinds[rows.clone()]);
            self.words.extend_from_slice(&from.words[rows]);
            return;
        }
        let is_text = from.data.is_empty() && from.texts.is_empty() && from.numbers.is_empty();
        if !is_text || !self.extend_texts(from, rows.clone()) {
            rows.for_each(|row| self.push(from.get(row)));
        }
    }

    /// Copies rows of a column without other buffers than the text: the texts of consecutive rows follow each
    /// other. Returns `false`, and copies nothing, if there is no room.
    fn extend_texts(&mut self, from: &Cells, rows: Range<usize>) -> bool {
        let (kinds, words) = (&from.kinds[rows.clone()], &from.words[rows]);
        let mut places =
            kinds.iter().zip(words).filter(|(kind, _)| **kind == Kind::Text).map(|(_, word)| *word);
        let (first, last) = (places.next(), places.next_back());
        let start = first.map_or(0, |word| (word >> 32) as usize);
        let end = last.or(first).map_or(0, |word| (word >> 32) as usize + (word & 0xffff_ffff) as usize);
        let (Some(text), true) = (from.text.get(start..end), u32::try_from(self.text.len() + end).is_ok())
        else {
            return false;
        };
        let moved = (self.text.len() as u64).wrapping_sub(start as u64) << 32;
        self.text.push_str(text);
        self.kinds.extend_from_slice(kinds);
        let moved_word = |(kind, word): (&Kind, &u64)| match kind {
            Kind::Text => word.wrapping_add(moved),
            _ => *word,
        };
        self.words.extend(kinds.iter().zip(words).map(moved_word));
        true
    }

    #[inline]
    fn get(&self, row: usize) -> Cell<'_> {
        let (Some(&kind), Some(&word)) = (self.kinds.get(row), self.words.get(row)) else {
            return Cell::Absent;
        };
        let place = Span { start: (word >> 32) as u32, length: word as u32 };
        let range = place.start as usize..place.start as usize + place.length as usize;
        match kind {
            Kind::Absent => Cell::Absent,
            Kind::Bool => Cell::Bool(word != 0),
            Kind::Unsigned => Cell::Unsigned(word),
            Kind::Fraction => Cell::Fraction(f64::from_bits(word)),
            Kind::Time => Cell::Time(Timestamp(word as i64)),
            Kind::Interval => Cell::Interval(word),
            Kind::Ipv4 => Cell::Address(Ipv4Addr::from_bits(word as u32).into()),
            Kind::Ipv6 => {
                let octets: [u8; 16] = place.of_bytes(&self.data).try_into().unwrap_or_default();
                Cell::Address(Ipv6Addr::from(octets).into())
            }
            Kind::Mac => {
                let [_, _, mac @ ..] = word.to_be_bytes();
                Cell::Mac(mac)
            }
            Kind::Text => Cell::Text(place.of_text(&self.text)),
            Kind::Bytes => Cell::Bytes(place.of_bytes(&self.data)),
            Kind::Texts => Cell::Texts(Texts::Within(self.texts.get(range).unwrap_or_default(), &self.text)),
            Kind::Numbers => Cell::Numbers(self.numbers.get(range).unwrap_or_default()),
        }
    }
}

/// The length of a text as JSON. A control character becomes six bytes.
fn text_json_bytes(text: &str) -> usize {
    2 + text.len()
        + if has_control(text.as_bytes()) { 5 * text.bytes().filter(|byte| *byte < b' ').count() } else { 0 }
}

/// Whether a byte is below the space; looks at eight of them at a time.
fn has_control(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks::<8>();
    let below = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word.wrapping_sub(ONES * 0x20) & !word & (ONES * 0x80)
    };
    words.iter().fold(0, |all, word| all | below(word)) != 0 || rest.iter().any(|byte| *byte < b' ')
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn span(start: usize, end: usize) -> Option<Span> {
    let _: u32 = end.try_into().ok()?;
    Some(Span { start: start.try_into().ok()?, length: (end - start).try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<Value<'static>> {
        vec![
            Value::Absent,
            Value::Bool(true),
            Value::Unsigned(u64::MAX),
            Value::Fraction(-0.5),
            Value::Time(Timestamp(-1)),
            Value::Interval(7),
            Value::Address("10.1.2.3".parse().unwrap()),
            Value::Address("fe80::1".parse().unwrap()),
            Value::Mac([1, 2, 3, 4, 5, 6]),
            Value::Text("é\0".into()),
            Value::Bytes(vec![0xff, 0].into()),
            Value::Texts(vec!["a".to_string(), String::new()].into()),
            Value::Numbers(vec![1, 2].into()),
        ]
    }

    fn read(batch: &Batch) -> Vec<Vec<Value<'_>>> {
        batch.iter().map(Row::values).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_copied() {
        let first = values();
        let mut second = first.clone();
        second.reverse();
        let third = vec![Value::Text("".into()); first.len()];
        let rows = [first, second, third];
        let mut batch = Batch::default();
        assert!(batch.is_empty());
        rows.iter().for_each(|row| batch.push(row));
        assert_eq!(read(&batch), rows);
        assert_eq!((batch.rows(), batch.columns()), (3, 13));
        let cells = 3 * 13 * 9;
        assert!(batch.bytes() > cells && batch.bytes() < cells + 200, "{}", batch.bytes());
        batch.clear();
        assert!(batch.is_empty() && batch.bytes() == 0 && batch.columns() == 13);
    }

    #[test]
    fn rows_of_other_batches_are_copied_with_the_columns_that_are_wanted() {
        let mut from = Batch::default();
        (0..3).for_each(|_| from.push(&values()));
        let mut to = Batch::new(3);
        to.extend(&from, 1..3, Some(&[9, 2, 11]));
        to.extend(&from, 2..9, Some(&[9, 99]));
        let row = |third: Value<'static>, second| vec![Value::Text("é\0".into()), second, third];
        let whole = row(values()[11].clone(), Value::Unsigned(u64::MAX));
        assert_eq!(read(&to), [whole.clone(), whole, row(Value::Absent, Value::Absent)]);
        let mut all = Batch::default();
        all.extend(&from, 0..2, None);
        assert_eq!(read(&all), [values(), values()]);
    }

    #[test]
    fn the_length_of_a_row_as_json_is_known_in_advance() {
        let mut batch = Batch::default();
        assert_eq!(batch.last_row_json_bytes(&[]), 0);
        batch.push(&values());
        // The names have two bytes; an absent cell has none. {"ab":true, … "ab":18446744073709551615, …
        let own = [5, 20, 8, 20, 11, 15, 30, 19, 2 + 3 + 5, 2 + 4, 2 + (1 + 3) + (1 + 2), 2 + 2 + 2];
        let all: usize = own.iter().map(|bytes| 2 + 4 + bytes).sum();
        assert_eq!(batch.last_row_json_bytes(&[2; 13]), all);
        batch.push(&[Value::Unsigned(0)]);
        assert_eq!(batch.last_row_json_bytes(&[2; 13]), 2 + 4 + 1);
        for (text, control) in
            [("", 0), ("\u{1f}", 1), ("abcdefg\n", 1), ("ab\0defgh\n\u{7f}é", 2), ("éééééééé \u{20}", 0)]
        {
            assert_eq!(text_json_bytes(text), 2 + text.len() + 5 * control, "{text:?}");
        }
    }

    #[test]
    fn the_last_row_is_taken_back() {
        let mut batch = Batch::default();
        assert!(batch.take_last().is_none());
        let mut reversed = values();
        reversed.reverse();
        let rows = [values(), reversed, values()];
        rows.iter().for_each(|row| batch.push(row));
        let mut bytes = vec![];
        for row in rows.iter().rev() {
            bytes.push(batch.bytes());
            let taken = batch.take_last().expect("there is one");
            assert_eq!(read(&taken), std::slice::from_ref(row));
        }
        assert_eq!((batch.rows(), batch.bytes()), (0, 0));
        for row in &rows {
            batch.push(row);
            assert_eq!(Some(batch.bytes()), bytes.pop());
        }
        assert_eq!(read(&batch), rows);
    }

    #[test]
    fn consecutive_texts_are_copied_together() {
        let mut from = Batch::new(1);
        for text in [None, Some("ab"), Some(""), None, Some("c"), Some("def"), None] {
            from.add().push(text.map_or(Cell::Absent, Cell::Text));
        }
        for start in 0..from.rows() {
            for end in start..=from.rows() {
                let (mut to, mut one) = (Batch::new(1), Batch::new(1));
                to.add().push(Cell::Text("xyz"));
                one.add().push(Cell::Text("xyz"));
                to.extend(&from, start..end, None);
                (start..end).for_each(|row| one.add().push(from.cell(row, 0)));
                assert_eq!(read(&to), read(&one), "{start} to {end}");
            }
        }
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let mut batch = Batch::new(3);
        batch.add().push(Cell::Unsigned(1));
        let mut row = batch.add();
        row.text_with(|text| text.push_str("ab"));
        row.text_with(|_| {});
        row.push(Cell::Bool(true));
        row.push(Cell::Bool(false));
        drop(row);
        let (absent, text) = (|| Value::Absent, |text: &'static str| Value::Text(text.into()));
        assert_eq!(
            read(&batch),
            [[Value::Unsigned(1), absent(), absent()], [text("ab"), text(""), Value::Bool(true)]]
        );
        assert_eq!(batch.cell(9, 0), Cell::Absent);
        assert_eq!(batch.cell(0, 9), Cell::Absent);
    }

    #[test]
    fn merged_rows_are_read_as_whole_rows() {
        let (absent, number) = (|| Value::Absent, Value::Unsigned);
        let mut merged = Batch::new(4);
        merged.add_to(&[0, 3]).push(Cell::Unsigned(1));
        let mut row = merged.add_to(&[1, 2]);
        row.push(Cell::Unsigned(2));
        row.push(Cell::Unsigned(3));
        drop(row);
        merged.add().push(Cell::Unsigned(4));
        let rows = [
            vec![number(1), absent(), absent(), absent()],
            vec![absent(), number(2), number(3), absent()],
            vec![number(4), absent(), absent(), absent()],
        ];
        assert_eq!(read(&merged), rows);
        assert_eq!(merged.row(1).present().map(|(at, _)| at).collect::<Vec<_>>(), [1, 2]);
        let mut copy = Batch::default();
        copy.push(&rows[0]);
        copy.extend(&merged, 0..3, None);
        assert_eq!(read(&copy)[1..], rows);
        let mut chosen = Batch::default();
        chosen.extend(&merged, 1..9, Some(&[2, 0]));
        assert_eq!(read(&chosen), [[number(3), absent()], [absent(), number(4)]]);
        let mut around = Batch::new(6);
        around.add_around(&[Cell::Bool(true)], merged.row(1), &[Cell::Bool(false)]);
        let whole = [Value::Bool(true), absent(), number(2), number(3), absent(), Value::Bool(false)];
        assert_eq!(read(&around), [whole]);
        merged.clear();
        assert!(merged.is_empty() && merged.columns() == 4 && merged.bytes() == 0);
    }

    #[test]
    fn cells_are_written_as_text() {
        let texts: Vec<String> = values()
            .iter()
            .map(|value| {
                let mut text = String::new();
                Cell::from(value).append_to(&mut text);
                text
            })
            .collect();
        let expected = [
            "",
            "true",
            "18446744073709551615",
            "-0.500000",
            "-0.000000001",
            "0.000000007",
            "10.1.2.3",
            "fe80::1",
            "01:02:03:04:05:06",
            "é\0",
            "ff00",
            "a,",
            "1,2",
        ];
        assert_eq!(texts, expected);
    }
}
