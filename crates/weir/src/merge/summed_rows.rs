//! Makes one row of the rows of several parts of a file, such as the ranges of a download. The row has the
//! sum of their sizes.

use super::row_times::whole_duration;
use crate::flow::record::ColumnMask;
use crate::rows::session::{Log, TIME_AT};
use weir_packet::{Batch, Cell, Row, Value};
use weir_sessions::{SessionRegistry, Sum};

/// A log whose rows may be parts of a whole, and the indexes of its columns.
pub(crate) struct SummedLog {
    pub log: &'static str,
    by: usize,
    parts: usize,
    whole: usize,
    added: Vec<usize>,
    /// The sizes of what was received and of what is missing: those of `added` that are bytes.
    done: Vec<usize>,
    duration: Option<usize>,
}

impl SummedLog {
    /// The logs of the registry whose rows may be parts of a whole.
    pub fn all(registry: &SessionRegistry) -> Vec<Self> {
        let of = |sum: &Sum| {
            let columns = Log::of_parts(registry).find(|log| log.path == sum.log)?.columns();
            let at = |name: &str| columns.iter().position(|column| column.name == name);
            let added = sum.added.iter().map(|name| at(name)).collect::<Option<Vec<_>>>()?;
            let parts = at(sum.parts)?;
            Some(Self {
                log: sum.log,
                by: at(sum.by)?,
                parts,
                whole: at(sum.whole)?,
                done: added.iter().copied().filter(|column| *column != parts).collect(),
                added,
                duration: at("duration"),
            })
        };
        registry.sums().iter().filter_map(of).collect()
    }

    /// The columns that adding up needs.
    pub fn needed(&self) -> ColumnMask {
        let own = [TIME_AT, self.by, self.parts, self.whole].into_iter();
        own.chain(self.added.iter().copied()).chain(self.duration).collect()
    }

    /// Whether a row may be a part of a whole.
    pub fn is_part(&self, row: Row<'_>) -> bool {
        row.cell(self.parts).is_present() && row.cell(self.by).is_present()
    }

    /// What all rows of a whole share.
    pub fn key(&self, row: Row<'_>) -> Vec<Value<'static>> {
        vec![row.cell(self.by).value().into_owned()]
    }

    /// Whether nothing of the whole is left to wait for.
    pub fn is_whole(&self, row: Row<'_>) -> bool {
        let sizes = self.done.iter().map(|&column| number(row.cell(column)));
        matches!(row.cell(self.whole), Cell::Unsigned(whole) if sizes.sum::<u64>() >= whole)
    }

    /// Makes one row of two. Values that are not added are those of the earliest row that has them.
    pub fn join(&self, first: Row<'_>, second: Row<'_>) -> Batch {
        let is_turned = matches!(
            [first, second].map(|row| row.cell(TIME_AT)),
            [Cell::Time(of_first), Cell::Time(of_second)] if of_second < of_first
        );
        let rows = if is_turned { [second, first] } else { [first, second] };
        let mut batch = Batch::new(first.len());
        let mut joined = batch.add();
        for column in 0..first.len() {
            let cells = rows.map(|row| row.cell(column));
            match column {
                _ if Some(column) == self.duration => joined.push(whole_duration(rows, column)),
                _ if self.added.contains(&column) => {
                    let [first, second] = cells.map(number);
                    joined.push(Cell::Unsigned(first.saturating_add(second)));
                }
                _ => joined.push(if cells[0].is_present() { cells[0] } else { cells[1] }),
            }
        }
        drop(joined);
        batch
    }
}

fn number(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Unsigned(number) => number,
        _ => 0,
    }
}
