//! Rows of several kinds in one batch: [`MergedRows`].
//!
//! The rows of a kind have cells in the same few of the batch's columns. They are stored as a batch of their
//! own, a [`Part`], with these columns only. The cost of a row is that of its cells, however many columns
//! the rows of other kinds need.

use super::{Batch, Cells, RowWriter};
use crate::Cell;
use std::ops::Range;

/// The rows of a batch, by their kinds.
#[derive(Clone, Default)]
pub(super) struct MergedRows {
    /// Number of columns of the batch.
    pub width: usize,
    parts: Vec<Part>,
    /// By row of the batch.
    order: Vec<Place>,
    /// The part that was changed last.
    last: usize,
    /// Memory of all parts but the last one, in bytes.
    others_bytes: usize,
}

/// Rows of one kind.
#[derive(Clone)]
struct Part {
    /// The columns of the batch that the rows have cells in, ascending.
    columns: Vec<usize>,
    /// The cells. This batch has no parts.
    rows: Batch,
}

/// Where a row is.
#[derive(Clone, Copy)]
struct Place {
    part: u32,
    row: u32,
}

/// The cells of a row.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    /// The columns of the batch that have cells, ascending; `None`: all.
    pub columns: Option<&'a [usize]>,
    pub cells: &'a [Cells],
    /// The index of the row in `cells`.
    pub row: usize,
}

impl MergedRows {
    /// No rows, in a batch of this number of columns.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// The rows of a batch without parts, as the first part.
    pub fn of(rows: Batch) -> Self {
        let width = rows.columns();
        let mut merged = Self::new(width);
        if !rows.is_empty() {
            merged.order.extend((0..rows.rows()).map(|row| Place { part: 0, row: row as u32 }));
            merged.parts.push(Part { columns: (0..width).collect(), rows });
        }
        merged
    }

    /// No rows, and room for as many as `like` has.
    pub fn like(like: &Self) -> Self {
        let used = like.parts.iter().filter(|part| !part.rows.is_empty());
        let parts =
            used.map(|part| Part { columns: part.columns.clone(), rows: Batch::like(&part.rows) }).collect();
        Self { width: like.width, parts, order: Vec::with_capacity(like.order.len()), ..Self::default() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.order.len()
    }

    /// Memory of the rows, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.order) + self.others_bytes + self.last_bytes()
    }

    fn last_bytes(&self) -> usize {
        self.parts.get(self.last).map_or(0, |part| part.rows.bytes())
    }

    /// Removes all rows; their memory stays for others.
    pub fn clear(&mut self) {
        self.parts.iter_mut().filter(|part| !part.rows.is_empty()).for_each(|part| part.rows.clear());
        self.order.clear();
        self.others_bytes = 0;
    }

    /// The index of the part with these columns, which becomes the last one changed.
    fn part(&mut self, columns: &[usize]) -> usize {
        let is_same = |part: &Part| part.columns == columns;
        if self.parts.get(self.last).is_some_and(is_same) {
            return self.last;
        }
        let known = self.parts.iter().position(is_same);
        let part = known.unwrap_or_else(|| {
            self.parts.push(Part { columns: columns.to_vec(), rows: Batch::new(columns.len()) });
            self.parts.len() - 1
        });
        self.others_bytes += if part == self.last { 0 } else { self.last_bytes() };
        self.last = part;
        self.others_bytes = self.others_bytes.saturating_sub(self.last_bytes());
        part
    }

    /// Begins a row with cells in these columns.
    pub fn add(&mut self, columns: &[usize]) -> RowWriter<'_> {
        let part = self.part(columns);
        let rows = &mut self.parts[part].rows;
        self.order.push(Place { part: part as u32, row: rows.rows() as u32 });
        rows.add()
    }

    /// Copies rows of a batch without parts, whose columns are these.
    pub fn extend(&mut self, columns: &[usize], from: &Batch, rows: Range<usize>, chosen: Option<&[usize]>) {
        let part = self.part(columns);
        let to = &mut self.parts[part].rows;
        let first = to.rows();
        to.extend(from, rows, chosen);
        self.order.extend((first..to.rows()).map(|row| Place { part: part as u32, row: row as u32 }));
    }

    /// Copies rows: of their columns those with these indexes, in this order; `None`: all of them.
    pub fn extend_merged(&mut self, other: &Self, rows: Range<usize>, chosen: Option<&[usize]>) {
        let order = other.order.get(rows).unwrap_or_default();
        // Consecutive rows of a kind also follow each other in their part.
        for same in order.chunk_by(|one, next| one.part == next.part) {
            let from = &other.parts[same[0].part as usize];
            let first = same[0].row as usize;
            let rows = first..first + same.len();
            let Some(chosen) = chosen else {
                self.extend(&from.columns, &from.rows, rows, None);
                continue;
            };
            let find = |(at, column): (usize, &usize)| {
                from.columns.binary_search(column).ok().map(|source| (at, source))
            };
            let (columns, sources): (Vec<usize>, Vec<usize>) =
                chosen.iter().enumerate().filter_map(find).unzip();
            self.extend(&columns, &from.rows, rows, Some(&sources));
        }
    }

    /// The cells of a row; none beyond the last row.
    pub fn stored(&self, row: usize) -> Stored<'_> {
        let Some(place) = self.order.get(row) else {
            return Stored { columns: Some(&[]), cells: &[], row: 0 };
        };
        let part = &self.parts[place.part as usize];
        Stored { columns: Some(&part.columns), cells: &part.rows.columns, row: place.row as usize }
    }

    /// The cells of a column, in the order of the rows; `None` if no row has a cell in the column.
    pub fn column(&self, column: usize) -> Option<impl Iterator<Item = Cell<'_>> + Clone> {
        let by_part: Vec<Option<&Cells>> = self
            .parts
            .iter()
            .map(|part| {
                let at = part.columns.binary_search(&column).ok().filter(|_| !part.rows.is_empty())?;
                part.rows.columns.get(at)
            })
            .collect();
        by_part.iter().any(Option::is_some).then(|| {
            let cell = move |place: &Place| {
                by_part[place.part as usize].map_or(Cell::Absent, |cells| cells.get(place.row as usize))
            };
            self.order.iter().map(cell)
        })
    }
}

impl<'a> Stored<'a> {
    /// The cell of a column of the batch.
    #[inline]
    pub fn cell(self, column: usize) -> Cell<'a> {
        let at = match self.columns {
            Some(columns) => columns.binary_search(&column).ok(),
            None => Some(column),
        };
        at.and_then(|at| self.cells.get(at)).map_or(Cell::Absent, |cells| cells.get(self.row))
    }

    /// The columns of the batch that have cells, ascending, with their cells.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (usize, Cell<'a>)> {
        let column = move |at: usize| self.columns.map_or(at, |columns| columns[at]);
        self.cells.iter().enumerate().map(move |(at, cells)| (column(at), cells.get(self.row)))
    }
}
