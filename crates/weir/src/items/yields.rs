//! The results of a worker on their way to the caller: items, and rows, which are kept in a batch for each
//! question.

use super::item::Rows;
use super::yielded::Yielded;
use std::collections::VecDeque;
use weir_engine::subscriber::Order;
use weir_packet::{Batch, RowWriter};

/// Results of a worker, in its order.
#[derive(Debug, Default)]
pub struct Yields {
    queue: VecDeque<(Order, Yielded)>,
    /// By question: the rows that the queue refers to.
    rows: Vec<Vec<KeptRows>>,
}

/// Where a row belongs.
#[derive(Debug, Clone, Copy)]
pub struct RowPlace {
    pub order: Order,
    pub question: usize,
    /// The index of the protocol whose sessions the rows are; 0 for other rows.
    pub protocol: usize,
    /// The number of the packet that completed the row, if the question asks for the number.
    pub packet: Option<u64>,
}

impl RowPlace {
    /// The place of a row that is not of a session.
    pub fn of(order: Order, question: usize) -> Self {
        Self { order, question, protocol: 0, packet: None }
    }
}

/// Rows of a question, all of one kind.
#[derive(Debug)]
struct KeptRows {
    /// The index of the protocol whose sessions the rows are.
    protocol: usize,
    batch: Batch,
    /// For each row the number of the packet that completed it.
    packets: Vec<Option<u64>>,
    /// The first row that the queue still refers to.
    next: usize,
}

impl Yields {
    /// Appends a result.
    pub fn push(&mut self, order: Order, yielded: Yielded) {
        self.queue.push_back((order, yielded));
    }

    /// Appends a row with this number of columns.
    pub fn add_row(&mut self, place: RowPlace, columns: usize) -> RowWriter<'_> {
        let RowPlace { order, question, protocol, packet } = place;
        self.queue.push_back((order, Yielded::Row(question, protocol)));
        if self.rows.len() <= question {
            self.rows.resize_with(question + 1, Vec::new);
        }
        let kinds = &mut self.rows[question];
        let known = kinds.iter().position(|kept| kept.protocol == protocol);
        let at = known.unwrap_or_else(|| {
            kinds.push(KeptRows { protocol, batch: Batch::default(), packets: vec![], next: 0 });
            kinds.len() - 1
        });
        let kept = &mut kinds[at];
        // The question of this number is another one since.
        if kept.batch.is_empty() && kept.batch.columns() != columns {
            kept.batch = Batch::new(columns);
        }
        kept.packets.push(packet);
        kept.batch.add()
    }

    /// Appends a copy of the last row of question `from`, which has the same columns. Returns `false` if
    /// there is no such row.
    pub fn add_row_of(&mut self, place: RowPlace, from: usize, columns: usize) -> bool {
        let find = |kept: &&mut KeptRows| kept.protocol == place.protocol;
        let Some(kept) = self.rows.get_mut(from).and_then(|kinds| kinds.iter_mut().find(find)) else {
            return false;
        };
        if kept.batch.is_empty() || kept.batch.columns() != columns || from == place.question {
            return false;
        }
        let batch = std::mem::take(&mut kept.batch);
        self.add_row(place, columns).extend(batch.row(batch.rows() - 1));
        if let Some(kept) = self.rows.get_mut(from).and_then(|kinds| kinds.iter_mut().find(find)) {
            kept.batch = batch;
        }
        true
    }

    /// The batch with the last row, if the last result is one of this place's question and protocol.
    pub fn last_row(&self, place: RowPlace) -> Option<&Batch> {
        let is_of = |yielded: &Yielded| matches!(yielded, Yielded::Row(q, p) if (*q, *p) == (place.question, place.protocol));
        self.queue.back().filter(|(_, yielded)| is_of(yielded))?;
        let kept = self.rows.get(place.question)?.iter().find(|kept| kept.protocol == place.protocol)?;
        Some(&kept.batch).filter(|batch| !batch.is_empty())
    }

    /// Removes and returns the [last row](Self::last_row), as a batch of its own.
    pub fn take_last_row(&mut self, place: RowPlace) -> Option<Batch> {
        self.last_row(place)?;
        let kept =
            self.rows.get_mut(place.question)?.iter_mut().find(|kept| kept.protocol == place.protocol)?;
        self.queue.pop_back();
        kept.packets.pop();
        kept.batch.take_last()
    }

    /// Number of results.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The place of the first result in the order of the run.
    pub fn first(&self) -> Option<Order> {
        self.queue.front().map(|(order, _)| *order)
    }

    /// Removes the first result, if `is_next` is true of its place in the order of the run. Consecutive rows
    /// of one kind are one result.
    pub fn pop_if(&mut self, is_next: impl Fn(Order) -> bool) -> Option<Popped<'_>> {
        let (_, first) = self.queue.pop_front_if(|(order, _)| is_next(*order))?;
        let Yielded::Row(question, protocol) = first else { return Some(Popped::Other(first)) };
        let is_same =
            |yielded: &Yielded| matches!(yielded, Yielded::Row(q, p) if (*q, *p) == (question, protocol));
        let mut rows = 1;
        while self.queue.pop_front_if(|(order, next)| is_next(*order) && is_same(next)).is_some() {
            rows += 1;
        }
        let kept = self.rows.get_mut(question)?.iter_mut().find(|kept| kept.protocol == protocol)?;
        let range = kept.next..kept.next + rows;
        kept.next = range.end;
        let rows_of = Rows { protocol, batch: &kept.batch, packets: &kept.packets, range };
        Some(Popped::Rows(question, rows_of))
    }

    /// Forgets the rows of results that were removed, if no results are left; their memory stays for others.
    pub fn recycle(&mut self) {
        if self.queue.is_empty() {
            for kept in self.rows.iter_mut().flatten() {
                kept.batch.clear();
                kept.packets.clear();
                kept.next = 0;
            }
        }
    }
}

/// A result that was removed.
#[derive(Debug)]
pub enum Popped<'a> {
    /// Rows of a question.
    Rows(usize, Rows<'a>),
    /// Anything else.
    Other(Yielded),
}
