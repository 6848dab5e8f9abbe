//! Sorts rows in bounded memory: rows beyond the bound are sorted in parts, which are written to temporary files and
//! merged.

use crate::row_code;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use weir::packet::Value;

/// Minimum memory for rows, whatever the memory of the run.
const BYTES_MIN: usize = 1 << 20;
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

type Row = Vec<Value<'static>>;

impl SortKey {
    fn compare(&self, one: &Row, other: &Row) -> Ordering {
        let absent = Value::Absent;
        let of_column = |&at: &usize| match (one.get(at).unwrap_or(&absent), other.get(at).unwrap_or(&absent))
        {
            (Value::Absent, Value::Absent) => Ordering::Equal,
            (Value::Absent, _) => Ordering::Greater,
            (_, Value::Absent) => Ordering::Less,
            (one, other) if self.is_descending => compare(other, one),
            (one, other) => compare(one, other),
        };
        self.columns.iter().map(of_column).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// The order of two values of a column: numbers and times by size, addresses of IPv4 before IPv6, texts by their bytes.
fn compare(one: &Value<'_>, other: &Value<'_>) -> Ordering {
    match (one, other) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Unsigned(a), Value::Unsigned(b)) => a.cmp(b),
        (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
        (Value::Fraction(a), Value::Fraction(b)) => a.total_cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Address(a), Value::Address(b)) => a.cmp(b),
        (Value::Mac(a), Value::Mac(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Texts(a), Value::Texts(b)) => a.cmp(b),
        (Value::Numbers(a), Value::Numbers(b)) => a.cmp(b),
        // The values of a column have one type, except that hosts may be addresses or numbers.
        (one, other) => rank(one).cmp(&rank(other)),
    }
}

fn rank(value: &Value<'_>) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Unsigned(_) => 1,
        Value::Fraction(_) => 2,
        Value::Interval(_) => 3,
        Value::Time(_) => 4,
        Value::Address(_) => 5,
        Value::Mac(_) => 6,
        Value::Text(_) => 7,
        Value::Bytes(_) => 8,
        Value::Texts(_) => 9,
        Value::Numbers(_) => 10,
        Value::Absent => 11,
    }
}

/// Collects rows, and returns them sorted. Equal rows keep their order.
pub struct Sorter {
    key: SortKey,
    /// Only the first rows are needed.
    limit: usize,
    bytes_max: usize,
    rows: Vec<Row>,
    bytes: usize,
    /// Sorted rows in temporary files, the oldest first.
    parts: VecDeque<Part>,
}

/// Sorted rows in a temporary file without a name: the file vanishes with the process.
struct Part(File);

impl Sorter {
    /// An empty sorter that returns the first `limit` rows, and uses about `bytes_max` bytes of memory.
    pub fn new(key: SortKey, limit: Option<u64>, bytes_max: usize) -> Self {
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let bytes_max = bytes_max.max(BYTES_MIN);
        Self { key, limit, bytes_max, rows: vec![], bytes: 0, parts: VecDeque::new() }
    }

    /// The indexes of the columns that rows are sorted by.
    pub fn columns(&self) -> &[usize] {
        &self.key.columns
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of a temporary file.
    pub fn push(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let row: Row = values.iter().map(|value| value.borrowed().into_owned()).collect();
        self.bytes += bytes_of(&row);
        self.rows.push(row);
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        self.sort();
        if self.bytes > self.bytes_max / 2 {
            let rows = std::mem::take(&mut self.rows).into_iter().map(Ok);
            self.bytes = 0;
            self.parts.push_back(Part::written(rows)?);
            self.merge_parts()?;
        }
        Ok(())
    }

    /// Sorts the rows in memory, and forgets those beyond the limit.
    fn sort(&mut self) {
        let key = &self.key;
        self.rows.sort_by(|one, other| key.compare(one, other));
        let forgotten = self.rows.drain(self.limit.min(self.rows.len())..);
        self.bytes -= forgotten.map(|row| bytes_of(&row)).sum::<usize>();
    }

    /// Merges all parts into one, if there are too many.
    fn merge_parts(&mut self) -> io::Result<()> {
        if self.parts.len() < PARTS_MAX {
            return Ok(());
        }
        let parts = std::mem::take(&mut self.parts);
        let merged = Merge::of(&self.key, parts, vec![])?;
        let limit = self.limit;
        self.parts.push_back(Part::written(merged.take(limit))?);
        Ok(())
    }

    /// Passes the rows to `next`, sorted.
    ///
    /// # Errors
    /// Those of a temporary file, and of `next`.
    pub fn finish(mut self, next: &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>) -> io::Result<()> {
        self.sort();
        let rows = Merge::of(&self.key, self.parts, self.rows)?;
        rows.take(self.limit).try_for_each(|row| next(&row?))
    }
}

/// The memory of a row.
fn bytes_of(row: &Row) -> usize {
    let heap = |value: &Value<'_>| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Texts(texts) => texts.iter().map(|text| size_of::<String>() + text.len()).sum(),
        Value::Numbers(numbers) => size_of_val(&**numbers),
        _ => 0,
    };
    size_of::<Row>() + row.iter().map(|value| size_of::<Value<'_>>() + heap(value)).sum::<usize>()
}

impl Part {
    fn written(rows: impl Iterator<Item = io::Result<Row>>) -> io::Result<Self> {
        let mut out = BufWriter::new(tempfile::tempfile()?);
        for row in rows {
            row_code::write(&row?, &mut out)?;
        }
        out.flush()?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Part(file))
    }
}

/// Merges sorted lists of rows. Of equal rows, those of the earlier list come first.
struct Merge<'a> {
    key: &'a SortKey,
    lists: Vec<(Option<Row>, List)>,
}

enum List {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<Row>),
}

impl List {
    fn next(&mut self) -> io::Result<Option<Row>> {
        match self {
            List::File(file) => row_code::read(file),
            List::Memory(rows) => Ok(rows.next()),
        }
    }
}

impl<'a> Merge<'a> {
    fn of(key: &'a SortKey, parts: VecDeque<Part>, rows: Vec<Row>) -> io::Result<Self> {
        let files = parts.into_iter().map(|Part(file)| List::File(BufReader::new(file)));
        let lists = files.chain([List::Memory(rows.into_iter())]);
        let lists = lists.map(|mut list| Ok((list.next()?, list))).collect::<io::Result<_>>()?;
        Ok(Self { key, lists })
    }
}

impl Iterator for Merge<'_> {
    type Item = io::Result<Row>;

    fn next(&mut self) -> Option<io::Result<Row>> {
        let firsts = self.lists.iter_mut().filter(|(first, _)| first.is_some());
        let (first, list) = firsts.min_by(|(one, _), (other, _)| match (one, other) {
            (Some(one), Some(other)) => self.key.compare(one, other),
            _ => Ordering::Equal,
        })?;
        let row = first.take()?;
        match list.next() {
            Ok(next) => *first = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            sorter.push(&[Value::Unsigned(place as u64), number, padding]).expect("a temporary file");
        }
        let (mut keys, mut places) = (vec![], vec![]);
        sorter
            .finish(&mut |row| {
                let number = |value: &Value<'_>| if let Value::Unsigned(n) = value { Some(*n) } else { None };
                keys.push(number(&row[1]));
                places.extend(number(&row[0]));
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
