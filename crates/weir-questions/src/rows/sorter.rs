//! Sorts rows in bounded memory: rows beyond the bound are sorted in parts, which are written to temporary
//! files and merged.

use crate::rows::row_code;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::ops::Range;
use weir::packet::{Batch, Cell, Row};

/// Minimum memory for rows, whatever the memory of the run.
const BYTES_MIN: usize = 1 << 20;
/// Maximum memory for rows: a column of a batch has room for 4 GiB.
const BYTES_MAX: usize = 2 << 30;
/// Maximum number of parts that are merged at the same time. More parts are merged into one part before.
const PARTS_MAX: usize = 64;

/// What rows are sorted by.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// Indexes of the columns, the most significant first.
    pub columns: Vec<usize>,
    /// The largest values come first. Rows without a value come last in any case.
    pub is_descending: bool,
}

impl SortKey {
    fn compare(&self, one: Row<'_>, other: Row<'_>) -> Ordering {
        let of_column = |&at: &usize| match (one.cell(at), other.cell(at)) {
            (Cell::Absent, Cell::Absent) => Ordering::Equal,
            (Cell::Absent, _) => Ordering::Greater,
            (_, Cell::Absent) => Ordering::Less,
            (one, other) if self.is_descending => compare(other, one),
            (one, other) => compare(one, other),
        };
        self.columns.iter().map(of_column).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// The order of two values of a column: numbers and times by size, addresses of IPv4 before IPv6, texts by
/// their bytes.
fn compare(one: Cell<'_>, other: Cell<'_>) -> Ordering {
    match (one, other) {
        (Cell::Bool(a), Cell::Bool(b)) => a.cmp(&b),
        (Cell::Unsigned(a), Cell::Unsigned(b)) | (Cell::Interval(a), Cell::Interval(b)) => a.cmp(&b),
        (Cell::Fraction(a), Cell::Fraction(b)) => a.total_cmp(&b),
        (Cell::Time(a), Cell::Time(b)) => a.cmp(&b),
        (Cell::Address(a), Cell::Address(b)) => a.cmp(&b),
        (Cell::Mac(a), Cell::Mac(b)) => a.cmp(&b),
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::Bytes(a), Cell::Bytes(b)) => a.cmp(b),
        (Cell::Texts(a), Cell::Texts(b)) => a.iter().cmp(b.iter()),
        (Cell::Numbers(a), Cell::Numbers(b)) => a.cmp(b),
        // The values of a column have one type, except that hosts may be addresses or numbers.
        (one, other) => rank(one).cmp(&rank(other)),
    }
}

fn rank(cell: Cell<'_>) -> u8 {
    match cell {
        Cell::Bool(_) => 0,
        Cell::Unsigned(_) => 1,
        Cell::Fraction(_) => 2,
        Cell::Interval(_) => 3,
        Cell::Time(_) => 4,
        Cell::Address(_) => 5,
        Cell::Mac(_) => 6,
        Cell::Text(_) => 7,
        Cell::Bytes(_) => 8,
        Cell::Texts(_) => 9,
        Cell::Numbers(_) => 10,
        Cell::Absent => 11,
    }
}

/// Collects rows, and returns them sorted. Equal rows keep their order.
pub struct Sorter {
    key: SortKey,
    /// Only the first rows are needed.
    limit: usize,
    bytes_max: usize,
    rows: Batch,
    /// Sorted rows in temporary files, the oldest first.
    parts: VecDeque<Part>,
}

/// Sorted rows in a temporary file without a name: the file vanishes with the process.
struct Part(File);

impl Sorter {
    /// An empty sorter that returns the first `limit` rows, and uses about `bytes_max` bytes of memory.
    pub fn new(key: SortKey, limit: Option<u64>, bytes_max: usize) -> Self {
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let bytes_max = bytes_max.clamp(BYTES_MIN, BYTES_MAX);
        Self { key, limit, bytes_max, rows: Batch::default(), parts: VecDeque::new() }
    }

    /// The indexes of the columns that rows are sorted by.
    pub fn columns(&self) -> &[usize] {
        &self.key.columns
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Those of a temporary file.
    pub fn push(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        self.rows.extend(batch, rows, None);
        if self.rows.bytes() <= self.bytes_max {
            return Ok(());
        }
        let sorted = self.take_sorted();
        if self.limit < sorted.order.len() {
            let first = &sorted.order[..self.limit];
            first.iter().for_each(|&index| self.rows.add_around(&[], sorted.batch.row(index), &[]));
        }
        if self.limit >= sorted.order.len() || self.rows.bytes() > self.bytes_max / 2 {
            self.rows.clear();
            self.parts.push_back(Part::written(&self.key, self.limit, vec![List::of(sorted)])?);
            self.merge_parts()?;
        }
        Ok(())
    }

    /// Removes the rows in memory.
    fn take_sorted(&mut self) -> Sorted {
        let next = Batch::new(self.rows.columns());
        let batch = std::mem::replace(&mut self.rows, next);
        let mut order: Vec<usize> = (0..batch.rows()).collect();
        order.sort_by(|&one, &other| self.key.compare(batch.row(one), batch.row(other)));
        Sorted { batch, order }
    }

    /// Merges all parts into one, if there are too many.
    fn merge_parts(&mut self) -> io::Result<()> {
        if self.parts.len() < PARTS_MAX {
            return Ok(());
        }
        let lists = self.take_parts()?;
        self.parts.push_back(Part::written(&self.key, self.limit, lists)?);
        Ok(())
    }

    fn take_parts(&mut self) -> io::Result<Vec<List>> {
        std::mem::take(&mut self.parts).into_iter().map(List::read).collect()
    }

    /// Passes the rows to `next`, sorted.
    ///
    /// # Errors
    /// Those of a temporary file, and of `next`.
    pub fn finish(mut self, next: &mut dyn FnMut(Row<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut lists = self.take_parts()?;
        lists.push(List::of(self.take_sorted()));
        merge(&self.key, lists, self.limit, next)
    }
}

/// Rows in memory, and their indexes in order.
struct Sorted {
    batch: Batch,
    order: Vec<usize>,
}

impl Part {
    /// The first `limit` rows of sorted lists, as one list.
    fn written(key: &SortKey, limit: usize, lists: Vec<List>) -> io::Result<Self> {
        let write = || {
            let mut out = BufWriter::new(tempfile::tempfile()?);
            merge(key, lists, limit, &mut |row| row_code::write(row, &mut out))?;
            out.flush()?;
            let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            Ok(Part(file))
        };
        write().map_err(|error: io::Error| unsorted(&error))
    }
}

/// An error of the temporary files: the output is not to blame, and another file system may have room.
fn unsorted(error: &io::Error) -> io::Error {
    let place = std::env::temp_dir();
    io::Error::other(format!(
        "{}: {error}: rows that are sorted and exceed the memory (--memory) wait there; free space, or name another directory \
         by TMPDIR=DIR",
        place.display()
    ))
}

/// A sorted list of rows.
struct List {
    /// The rows in memory: of a file, the next one.
    rows: Sorted,
    /// The place of the next row in the order.
    at: usize,
    file: Option<BufReader<File>>,
}

impl List {
    fn of(rows: Sorted) -> Self {
        Self { rows, at: 0, file: None }
    }

    fn read(Part(file): Part) -> io::Result<Self> {
        let rows = Sorted { batch: Batch::default(), order: vec![] };
        let mut list = Self { rows, at: 0, file: Some(BufReader::new(file)) };
        list.fill()?;
        Ok(list)
    }

    fn first(&self) -> Option<Row<'_>> {
        Some(self.rows.batch.row(*self.rows.order.get(self.at)?))
    }

    fn advance(&mut self) -> io::Result<()> {
        self.at += 1;
        self.fill()
    }

    /// Reads the next row of a file.
    fn fill(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.rows.batch.clear();
        self.at = 0;
        self.rows.order.clear();
        if row_code::read(file, &mut self.rows.batch)? {
            self.rows.order.push(0);
        }
        Ok(())
    }
}

/// Merges sorted lists of rows, and passes the first `limit` rows to `next`. Of equal rows, those of the
/// earlier list come first.
fn merge(
    key: &SortKey,
    mut lists: Vec<List>,
    limit: usize,
    next: &mut dyn FnMut(Row<'_>) -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..limit {
        let firsts = lists.iter().enumerate().filter_map(|(at, list)| Some((at, list.first()?)));
        let Some((at, row)) = firsts.min_by(|(_, one), (_, other)| key.compare(*one, *other)) else { break };
        next(row)?;
        lists[at].advance()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::packet::Value;

    /// Sorts numbers, each with its place in the input.
    fn sorted(
        numbers: &[Option<u64>],
        is_descending: bool,
        limit: Option<u64>,
    ) -> (Vec<Option<u64>>, Vec<u64>) {
        let mut sorter = Sorter::new(SortKey { columns: vec![1], is_descending }, limit, 0);
        for (place, number) in numbers.iter().enumerate() {
            let number = number.map_or(Value::Absent, Value::Unsigned);
            let padding = Value::Text("x".repeat(1000).into());
            let mut row = Batch::default();
            row.push(&[Value::Unsigned(place as u64), number, padding]);
            sorter.push(&row, 0..1).expect("a temporary file");
        }
        let (mut keys, mut places) = (vec![], vec![]);
        sorter
            .finish(&mut |row| {
                keys.push(row.cell(1).unsigned());
                places.extend(row.cell(0).unsigned());
                Ok(())
            })
            .expect("a temporary file");
        (keys, places)
    }

    #[test]
    fn many_rows_are_sorted_as_few_are() {
        // About a hundred times the memory, in more parts than are merged at the same time.
        let numbers: Vec<Option<u64>> = (0..100_000_u64)
            .map(|n| (n % 1000 != 0).then_some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50))
            .collect();
        let mut expected: Vec<(usize, Option<u64>)> = numbers.iter().copied().enumerate().collect();
        expected.sort_by_key(|(_, number)| number.map_or((1, 0), |n| (0, n)));
        let (keys, places) = sorted(&numbers, false, None);
        assert_eq!(keys, expected.iter().map(|(_, number)| *number).collect::<Vec<_>>());
        assert!(
            places.iter().zip(&expected).all(|(place, (expected, _))| *place == *expected as u64),
            "stable"
        );
    }

    #[test]
    fn the_largest_come_first_and_absent_ones_last() {
        let (keys, _) = sorted(&[Some(1), None, Some(3), Some(2)], true, None);
        assert_eq!(keys, [Some(3), Some(2), Some(1), None]);
        let numbers: Vec<_> = (0..20_000).map(|n| Some(n * 7 % 20_000)).collect();
        let (keys, _) = sorted(&numbers, true, Some(3));
        assert_eq!(keys, [Some(19_999), Some(19_998), Some(19_997)]);
    }
}
