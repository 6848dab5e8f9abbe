//! Brings the results of all workers into one order and delivers them: the order does not depend on the
//! number of workers.
//!
//! Packets that wait for their connection are kept here, in one queue, not by the workers. Which packets
//! wait, in what order they leave, and which are given up at a bound therefore depends only on the order of
//! the capture. If the workers have their own sources, there is no such order, and each worker has its own
//! queue: its packets never wait for connections of another worker.

use super::changes::Changes;
use crate::ask::compile::Compiled;
use crate::items::item::{Item, Rows};
use crate::items::yielded::{HeldPacket, KeptPacket, Yielded};
use crate::items::yields::{Popped, Yields};
use crate::outcome::Outcome;
use crate::rows::packet::PACKET_COLUMNS;
use crate::rows::shape::Shape;
use crate::watch::{Glance, Poster, Posting, Watch};
use crate::worker::output::Presenter;
use std::sync::Arc;
use weir_engine::counters::{Account, Counters};
use weir_engine::hold::HoldQueue;
use weir_engine::plan::{Plan, QuestionSet};
use weir_engine::stage::{Stage, Stages};
use weir_engine::subscriber::Order;
use weir_packet::Batch;

/// Rows of packets that waited are delivered together, up to this number.
const ROWS_TOGETHER: usize = 64;

/// An entry of the queue.
#[derive(Debug)]
enum Waiting {
    /// A packet that was undecided when it arrived.
    Packet(KeptPacket),
    /// An item for one question that waits behind such packets; `None` once it is delivered.
    Item(Option<Item<'static>>),
    /// Rows of packets, for one question; empty once they are delivered.
    Rows(Batch),
}

/// Delivers the results of workers.
pub struct Merger<'a> {
    presenter: Arc<Presenter>,
    /// One queue for all workers, or one for each.
    hold: Vec<HoldQueue<Waiting>>,
    changes: &'a mut dyn Changes,
    /// By question: rows of packets that have waited, and are delivered next.
    ready: Vec<Batch>,
    /// Packets that waited and were delivered, by question.
    matched: Vec<u64>,
    /// The outcomes of packets that waited.
    counters: Counters,
    stages: Stages,
    posting: Posting,
    /// Number of workers.
    workers: usize,
}

impl<'a> Merger<'a> {
    /// A merger for the questions of `plan`; `changes` receives the items, and `watch` shows the counters.
    pub fn new(
        plan: Arc<Plan>,
        presenter: Arc<Presenter>,
        changes: &'a mut dyn Changes,
        watch: Option<&Watch>,
    ) -> Self {
        let matched = vec![0; presenter.shapes.len()];
        let stages = Stages::new(plan.timed);
        let hold = vec![HoldQueue::new(plan)];
        let posting = Posting::new(watch, Poster::Merger);
        let counters = Counters::default();
        Self { presenter, hold, changes, ready: vec![], matched, counters, stages, posting, workers: 1 }
    }

    /// Gives each worker a queue of its own. Called before the first result.
    pub fn separate(&mut self, plan: &Arc<Plan>, workers: usize) {
        self.workers = workers;
        self.hold.resize_with(workers, || HoldQueue::new(Arc::clone(plan)));
    }

    /// The next program, if the questions have changed.
    pub fn changed(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        self.changes.program()
    }

    /// Whether no questions are left.
    pub fn is_over(&self) -> bool {
        self.changes.is_over()
    }

    /// Reports a pause: no packet waits to be read. Results that workers still hold come later, followed by
    /// another pause.
    pub fn pause(&mut self) {
        self.post();
        (0..self.presenter.shapes.len()).for_each(|question| self.changes.item(question, Item::Pause));
    }

    /// Changes to other questions. All results for the previous ones have been taken. Items that wait behind
    /// undecided packets for removed questions are delivered now, because nothing will be added to them.
    pub fn change(&mut self, plan: &Arc<Plan>, presenter: &Arc<Presenter>) {
        let Self { presenter: before, hold, changes, ready, matched, .. } = self;
        for hold in &mut *hold {
            let gone = hold.gone(plan);
            hold.for_each(|waiting, questions| {
                for question in &(questions & &gone) {
                    let item = match waiting {
                        Waiting::Item(item) => item.take(),
                        Waiting::Rows(rows) => {
                            let all = 0..rows.rows();
                            ready_of(ready, question).extend(rows, all, None);
                            rows.clear();
                            None
                        }
                        Waiting::Packet(kept) => {
                            matched[question] += 1;
                            if before.has_packet_rows(question) {
                                before.kept_row(question, kept, &mut ready_of(ready, question).add());
                                None
                            } else {
                                before.kept(question, kept)
                            }
                        }
                    };
                    if let Some(item) = item {
                        changes.item(question, item);
                    }
                }
            });
        }
        self.pass_ready();
        let Self { hold, changes, .. } = self;
        changes.taken_over();
        hold.iter_mut().for_each(|hold| hold.change(plan));
        presenter.carry_over(&self.presenter, &mut self.matched);
        self.presenter = Arc::clone(presenter);
    }

    /// Posts the outcomes of packets that waited, if the last posting is old.
    pub fn post(&mut self) {
        let Self { posting, counters, hold, changes, .. } = self;
        posting.post(|| {
            let mut glance = Glance { counters: *counters, ..Glance::default() };
            glance.memory.joined_rows = changes.joined_bytes();
            for queue in hold {
                glance.counters.packet.undecided += queue.given_up();
                glance.memory.held_packets += queue.bytes() as u64;
            }
            glance
        });
    }

    /// Takes the results of one batch from every worker.
    pub fn take_batch(&mut self, mut queues: Vec<Yields>) {
        self.workers = queues.len();
        let (began, count) = (self.stages.begin(), queues.iter().map(Yields::len).sum());
        while let Some((worker, end)) = first(&queues) {
            self.take_from(worker, &mut queues[worker], end);
        }
        self.stages.end(Stage::Output, count, began);
        self.post();
    }

    /// Takes the final results of workers: any number of batches from each. `next` returns a worker's next
    /// batch.
    pub fn take_rest(&mut self, workers: usize, next: impl Fn(usize) -> Option<Yields>) {
        self.workers = workers;
        let mut queues: Vec<Yields> = (0..workers).map(|_| Yields::default()).collect();
        loop {
            // The next item is known once every worker's next item is known, or the worker is done.
            for (worker, queue) in queues.iter_mut().enumerate() {
                while queue.is_empty()
                    && let Some(more) = next(worker)
                {
                    *queue = more;
                }
            }
            let Some((worker, end)) = first(&queues) else { return };
            self.take_from(worker, &mut queues[worker], end);
        }
    }

    /// Takes all results of a worker.
    pub fn take_all(&mut self, worker: usize, queue: &mut Yields) {
        let (began, count) = (self.stages.begin(), queue.len());
        self.take_from(worker, queue, None);
        self.stages.end(Stage::Output, count, began);
        self.post();
    }

    /// Takes the results of a worker that come before `end`, the next result of another worker; `None`: all.
    fn take_from(&mut self, worker: usize, queue: &mut Yields, end: Option<(Order, usize)>) {
        let is_next = |order| end.is_none_or(|end| (order, worker) < end);
        while let Some(popped) = queue.pop_if(is_next) {
            match popped {
                Popped::Rows(question, rows) => self.take_rows(worker, question, rows),
                Popped::Other(yielded) => self.take(worker, yielded),
            }
        }
        self.pass_ready();
        queue.recycle();
    }

    fn take_rows(&mut self, worker: usize, question: usize, rows: Rows<'_>) {
        let hold = self.hold_of(worker);
        if self.presenter.has_packet_rows(question) && !self.hold[hold].is_empty() {
            let mut waiting = Batch::new(rows.batch.columns());
            waiting.extend(rows.batch, rows.range, None);
            let bytes = waiting.bytes();
            return self.hold[hold].pass(Waiting::Rows(waiting), bytes, QuestionSet::one(question));
        }
        self.pass_ready();
        self.changes.item(question, Item::Rows(rows));
    }

    /// The queue of a worker's packets: one serves all workers, or each has its own.
    fn hold_of(&self, worker: usize) -> usize {
        if self.hold.len() == 1 { 0 } else { worker }
    }

    fn take(&mut self, worker: usize, yielded: Yielded) {
        let queue = self.hold_of(worker);
        let hold = &mut self.hold[queue];
        match yielded {
            Yielded::Item(question, item @ Item::Packet { .. }) if !hold.is_empty() => {
                let bytes = item_bytes(&item);
                hold.pass(Waiting::Item(Some(item)), bytes, QuestionSet::one(question));
            }
            Yielded::Item(question, Item::Pipeline(mut part)) => {
                (part.worker, part.workers) = (worker, self.workers);
                return self.changes.item(question, Item::Pipeline(part));
            }
            Yielded::Item(question, item) => return self.changes.item(question, item),
            // Rows were taken with their batch.
            Yielded::Row(..) => return,
            Yielded::Held(held) => {
                let HeldPacket { verdict, packet } = *held;
                let bytes = packet.bytes();
                hold.hold(worker, Waiting::Packet(packet), bytes, verdict);
            }
            Yielded::VerdictUpdate(settled) => hold.settle(worker, &settled),
            Yielded::Datagram(datagram, verdict) => hold.complete(worker, datagram, verdict.as_deref()),
        }
        while let Some((packet, questions)) = self.hold[queue].pop() {
            self.hand_out(packet, &questions);
        }
    }

    /// Ends the run: packets that are still undecided go only to the questions that are certain.
    pub fn finish(mut self, outcome: &mut Outcome) {
        for queue in 0..self.hold.len() {
            while let Some((packet, questions)) = self.hold[queue].pop_last() {
                self.hand_out(packet, &questions);
            }
            outcome.counters.packet.undecided += self.hold[queue].given_up();
            outcome.memory.held_packets += self.hold[queue].bytes_peak() as u64;
        }
        self.pass_ready();
        outcome.counters.merge(&self.counters);
        outcome.stages.merge(&self.stages);
        outcome.add_matched(&self.matched);
    }

    fn hand_out(&mut self, packet: Waiting, questions: &QuestionSet) {
        let kept = match packet {
            // The item's question was removed while the item waited, and received it then.
            Waiting::Item(None) => return,
            Waiting::Item(Some(item)) => {
                if let Some(question) = questions.first() {
                    self.changes.item(question, item);
                }
                return;
            }
            Waiting::Rows(rows) => {
                if let Some(question) = questions.first() {
                    self.add_ready(question, |ready| ready.extend(&rows, 0..rows.rows(), None));
                }
                return;
            }
            Waiting::Packet(kept) => kept,
        };
        self.counters.account(if questions.is_empty() { kept.otherwise } else { Account::Delivered });
        for question in questions {
            self.matched[question] += 1;
            if self.presenter.has_packet_rows(question) {
                let presenter = Arc::clone(&self.presenter);
                self.add_ready(question, |ready| presenter.kept_row(question, &kept, &mut ready.add()));
            } else if let Some(item) = self.presenter.kept(question, &kept) {
                self.changes.item(question, item);
            }
        }
    }

    fn add_ready(&mut self, question: usize, add: impl FnOnce(&mut Batch)) {
        let ready = ready_of(&mut self.ready, question);
        add(ready);
        if ready.rows() >= ROWS_TOGETHER {
            self.pass_ready();
        }
    }

    /// Delivers the rows of packets that have waited.
    fn pass_ready(&mut self) {
        for (question, batch) in self.ready.iter_mut().enumerate().filter(|(_, batch)| !batch.is_empty()) {
            let rows = Rows { protocol: 0, batch, packets: &[], range: 0..batch.rows() };
            self.changes.item(question, Item::Rows(rows));
            batch.clear();
        }
    }
}

/// The rows of a question that are ready for delivery.
fn ready_of(ready: &mut Vec<Batch>, question: usize) -> &mut Batch {
    if ready.len() <= question {
        ready.resize_with(question + 1, || Batch::new(PACKET_COLUMNS.len()));
    }
    &mut ready[question]
}

/// The worker with the earliest next result, and the place of the next result of any other worker, with this
/// worker.
fn first(queues: &[Yields]) -> Option<(usize, Option<(Order, usize)>)> {
    let next = || queues.iter().enumerate().filter_map(|(worker, queue)| Some((queue.first()?, worker)));
    let (_, worker) = next().min()?;
    Some((worker, next().filter(|(_, other)| *other != worker).min()))
}

/// Bytes that an item refers to, besides its own size.
fn item_bytes(item: &Item<'_>) -> usize {
    match item {
        Item::Packet { frame, options, .. } => frame.len() + options.len(),
        _ => 0,
    }
}
