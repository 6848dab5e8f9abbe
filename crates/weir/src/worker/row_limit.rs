//! The rows of a worker's sessions, within what their connections and all traffic have
//! [earned](weir_engine::row_account). The last row that a connection may have is held. A further row that
//! equals the held one, but for times and numbers of messages, is merged into it. Other rows are left out.
//! The question counts both.

use crate::flow::record::ColumnMask;
use crate::items::yields::{RowPlace, Yields};
use crate::rows::row_maker::RowMaker;
use std::collections::VecDeque;
use weir_engine::FlowRef;
use weir_engine::question_losses::QuestionLosses;
use weir_engine::row_account::{Payment, ROWS_PER_BYTE, RowAccount};
use weir_engine::subscriber::Order;
use weir_packet::{Batch, Cell, Value};
use weir_sessions::Session;

/// Bytes of rows that connections may have beyond what they have earned, all together. An unused reserve does
/// not grow beyond this.
const RESERVE_BYTES: u64 = 1 << 20;

/// A row that others are merged into is released after this time.
const HELD_NS: i64 = 1_000_000_000;

/// Rows that are held at a time; the oldest one is released for another one.
const HELD_MAX: usize = 64;

/// The allowance of a worker.
#[derive(Debug, Default)]
pub struct RowLimit {
    /// Bytes of rows that all packets so far have earned.
    earned: u64,
    /// By question.
    questions: Vec<Option<Spender>>,
    /// Number of questions so far.
    numbered: usize,
    /// The last rows of connections that owe all they may owe, the oldest one first; they are paid for.
    held: VecDeque<HeldRow>,
    /// A held row was released since the last question.
    has_released: bool,
}

/// What a question has spent.
#[derive(Debug, Clone, Copy)]
struct Spender {
    /// The question in accounts of connections: a question that takes the number of a removed one has
    /// another.
    account: usize,
    /// Bytes of rows.
    spent: u64,
}

/// A row that further rows are merged into.
#[derive(Debug)]
struct HeldRow {
    flow: FlowRef,
    place: RowPlace,
    /// Its only row.
    row: Batch,
    /// The fields that sessions with equal rows share, by index.
    values: Vec<(usize, Value<'static>)>,
    /// The index of the column `repeated`.
    repeated_at: usize,
    /// Rows that it stands for.
    repeated: u64,
    since_ns: i64,
}

impl HeldRow {
    fn is_like(&self, session: &dyn Session) -> bool {
        self.values.iter().all(|(field, value)| session.value(*field) == *value)
    }
}

/// The connection of a row.
#[derive(Clone, Copy)]
pub struct Payer<'a> {
    pub flow: FlowRef,
    pub account: &'a RowAccount,
    /// The time of its last packet, in nanoseconds since 1970.
    pub now: i64,
}

impl RowLimit {
    /// Notes the bytes on the wire of all packets that the worker has read so far.
    pub fn earn(&mut self, wire_bytes: u64) {
        self.earned = wire_bytes.saturating_mul(ROWS_PER_BYTE as u64);
    }

    /// Whether a row of this session may be made for its place: then the row is written, and
    /// [`settle`](Self::settle) is called. Rows that are merged or left out are not made: a sender of many
    /// small messages costs little.
    pub fn admits(
        &mut self,
        place: RowPlace,
        payer: Payer<'_>,
        session: &dyn Session,
        losses: &QuestionLosses,
        yields: &mut Yields,
    ) -> bool {
        let is_held = |held: &HeldRow| held.flow == payer.flow && held.place.question == place.question;
        let at = self.held.iter().position(is_held);
        let Spender { account, .. } = *self.spender(place.question);
        if !payer.account.is_exhausted(account) {
            // The rows of a connection stay in order.
            if let Some(held) = at.and_then(|at| self.held.remove(at)) {
                self.release(held, place.order, yields);
            }
            return true;
        }
        payer.account.limit();
        let held = at.and_then(|at| self.held.get_mut(at));
        match held.filter(|held| held.place.protocol == place.protocol && held.is_like(session)) {
            Some(held) => {
                held.repeated += 1;
                losses.add_merged(1);
            }
            None => losses.add_left_out(1),
        }
        false
    }

    /// Pays for the last row of `yields`, which is the row of this session. Returns whether the row stays
    /// there.
    pub fn settle(
        &mut self,
        place: RowPlace,
        payer: Payer<'_>,
        (maker, shown): (&RowMaker, ColumnMask),
        session: &dyn Session,
        losses: &QuestionLosses,
        yields: &mut Yields,
    ) -> bool {
        let Some(batch) = yields.last_row(place) else { return true };
        // Braces, the end of the line, and the name of the log.
        let bytes = 16 + batch.last_row_json_bytes(&maker.name_bytes);
        let earned = self.earned;
        let Spender { account, spent } = self.spender(place.question);
        *spent = (*spent).max(earned.saturating_sub(RESERVE_BYTES));
        let has_reserve = *spent + bytes as u64 <= earned.saturating_add(RESERVE_BYTES);
        let account = *account;
        let payment = payer.account.pay(account, bytes, has_reserve);
        if payment == Payment::Refused {
            losses.add_left_out(1);
            payer.account.limit();
            yields.take_last_row(place);
            return false;
        }
        *spent += bytes as u64;
        if payment != Payment::Owed || !payer.account.is_exhausted(account) {
            return true;
        }
        let Some(row) = yields.take_last_row(place) else { return true };
        if self.held.len() == HELD_MAX
            && let Some(oldest) = self.held.pop_front()
        {
            self.release(oldest, place.order, yields);
        }
        let value = |field: usize| (field, session.value(field).into_owned());
        let values = maker.compared(shown).map(value).collect();
        let repeated_at = maker.repeated_at;
        let Payer { flow, now: since_ns, .. } = payer;
        self.held.push_back(HeldRow { flow, place, row, values, repeated_at, repeated: 1, since_ns });
        false
    }

    /// Releases the rows that are held for long enough at `now`; `i64::MAX`: all of them.
    pub fn pass_time(&mut self, order: Order, now: i64, yields: &mut Yields) {
        let is_due = |held: &HeldRow| now == i64::MAX || now.saturating_sub(held.since_ns) >= HELD_NS;
        while let Some(held) = self.held.pop_front_if(|held| is_due(held)) {
            self.release(held, order, yields);
        }
    }

    /// The machine's clock was set by this many nanoseconds.
    pub fn step_clock(&mut self, step_ns: i64) {
        let held = self.held.iter_mut();
        held.for_each(|held| held.since_ns = held.since_ns.saturating_add(step_ns));
    }

    /// Another question takes this number.
    pub fn begin(&mut self, question: usize) {
        if let Some(spender) = self.questions.get_mut(question) {
            *spender = None;
        }
    }

    /// Forgets and returns whether a held row was released: then it is the last row of its question.
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    fn spender(&mut self, question: usize) -> &mut Spender {
        if self.questions.len() <= question {
            self.questions.resize(question + 1, None);
        }
        self.questions[question].get_or_insert_with(|| {
            self.numbered += 1;
            Spender { account: self.numbered, spent: 0 }
        })
    }

    /// Adds a held row to the results.
    fn release(&mut self, held: HeldRow, order: Order, yields: &mut Yields) {
        let HeldRow { place, row, repeated_at, repeated, .. } = held;
        self.has_released = true;
        let mut writer = yields.add_row(RowPlace { order, ..place }, row.columns());
        for (at, cell) in row.row(0).iter().enumerate() {
            let is_repeated = at == repeated_at && repeated > 1;
            writer.push(if is_repeated { Cell::Unsigned(repeated) } else { cell });
        }
    }
}
