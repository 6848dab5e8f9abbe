//! Combines rows that describe the same thing into one row. The rows of all workers pass here in one order,
//! so the result does not depend on the number of workers. A row waits here for the rows that complete it:
//!
//! * An exchange whose messages are in two connections, as those of DHCP are: a client without an address
//!   asks all hosts, and the server answers one. Each connection yields a row of its own: half of the
//!   exchange.
//! * The ranges of a download: each response yields a row of its own (`summed_rows`).

use super::announced_rows::{AnnouncedRows, Needed};
use super::changes::Changes;
use super::peak::Peak;
use super::row_times::{apart_ns, earlier, whole_duration};
use super::summed_rows::SummedLog;
use crate::ask::compile::Compiled;
use crate::flow::record::ColumnMask;
use crate::items::item::{Item, Rows};
use crate::outcome::Outcome;
use crate::rows::session::{ENDS_AT, Log, TIME_AT, UID_AT};
use crate::rows::shape::Shape;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_engine::plan::{QuestionPlan, Want};
use weir_memory::live_bytes;
use weir_packet::{Batch, Cell, Row, Texts, Timestamp, Value};
use weir_sessions::{Place, ProtocolSet, SessionRegistry, UIDS};

/// How long a half waits: until the same question has a row of the same protocol that is so much later. On a
/// link, the machine's clock counts, too. The other half comes with the time-out of its connection, so a
/// longer `--idle-timeout` lets halves wait longer. 180 s.
const PATIENCE: Duration = Duration::from_secs(180);

/// Maximum number of halves that wait, about 5 KiB each. The oldest half gives way to another one, and is a
/// row of its own.
const HALVES_MAX: usize = 1024;

/// Maximum time between the beginnings of two halves, in nanoseconds: 60 s. Halves further apart are of two
/// exchanges whose numbers are equal by chance.
const APART_NS: u64 = 60_000_000_000;

/// Delivers items to `changes`, and joins rows on the way.
pub(crate) struct JoinedRows<'a> {
    changes: &'a mut dyn Changes,
    joins: Vec<JoinedLog>,
    sums: Rc<[SummedLog]>,
    announced: AnnouncedRows,
    /// By question of this program.
    questions: Vec<Asked>,
    /// By question of the next program.
    next: Vec<Asked>,
    /// By question: rows that came here and were not delivered, because they are hidden or part of another
    /// row.
    withheld: Vec<u64>,
    /// The halves that wait, the oldest one first.
    halves: VecDeque<Half>,
    /// Memory of the halves.
    held: Peak,
    patience: Duration,
    is_live: bool,
}

/// A question.
struct Asked {
    /// With what joining needs.
    shape: Shape,
    /// Protocols whose rows say which sessions have announced the connections of the question's other rows.
    announcing: ProtocolSet,
    /// Those of them whose rows the question did not ask for.
    hidden: ProtocolSet,
    /// The number is in use: nobody has removed the question.
    is_asked: bool,
}

/// A protocol whose rows are joined, and the indexes of its columns.
struct JoinedLog {
    protocol: usize,
    by: Vec<usize>,
    messages: usize,
    place: fn(&str) -> Option<Place>,
    duration: Option<usize>,
    uids: Option<usize>,
    repeated: Option<usize>,
}

/// A row that waits for the other half of its exchange.
struct Half {
    question: usize,
    protocol: usize,
    key: Vec<Value<'static>>,
    is_request: bool,
    /// Its only row.
    row: Batch,
    /// Memory of the row in bytes.
    bytes: isize,
    packet: Option<u64>,
    since: Instant,
}

impl JoinedLog {
    /// The protocols of the registry whose rows are joined.
    fn all(registry: &SessionRegistry) -> Vec<Self> {
        let of = |join: &weir_sessions::Join| {
            let protocol = registry.number_of(join.protocol)?;
            let columns = Log::of(registry, join.protocol)?.columns();
            let at = |name: &str| columns.iter().position(|column| column.name == name);
            Some(Self {
                protocol,
                by: join.by.iter().map(|name| at(name)).collect::<Option<_>>()?,
                messages: at(join.messages)?,
                place: join.place,
                duration: at("duration"),
                uids: at(UIDS),
                repeated: at("repeated"),
            })
        };
        registry.joins().iter().filter_map(of).collect()
    }

    /// The columns that joining needs.
    fn needed(&self) -> ColumnMask {
        let head = [TIME_AT, UID_AT].into_iter().chain(ENDS_AT);
        head.chain(self.by.iter().copied())
            .chain([self.messages])
            .chain(self.duration)
            .chain(self.uids)
            .collect()
    }

    /// Returns `true` if a row has only requests, and `false` if it has only answers. Returns `None` if the
    /// row is not half of an exchange.
    fn half(&self, row: Row<'_>) -> Option<bool> {
        let Cell::Texts(messages) = row.cell(self.messages) else { return None };
        let is_known = self.by.iter().all(|&column| row.cell(column).is_present());
        // A row that stands for others may be of several exchanges.
        let is_single = self.repeated.is_none_or(|column| !row.cell(column).is_present());
        if !is_known || !is_single {
            return None;
        }
        let mut sides = messages.iter().map(|message| (self.place)(message).map(|place| place.is_request));
        let first = sides.next()??;
        sides.all(|side| side == Some(first)).then_some(first)
    }

    fn key(&self, row: Row<'_>) -> Vec<Value<'static>> {
        self.by.iter().map(|&column| row.cell(column).value().into_owned()).collect()
    }

    /// Makes the row of an exchange. The row has the connection of the answers, because the requests are sent
    /// to all hosts. The client is the originator.
    fn join(&self, requests: Row<'_>, answers: Row<'_>) -> Batch {
        let halves = [requests, answers];
        let [client_port, server_port] = [ENDS_AT[1], ENDS_AT[3]].map(|column| requests.cell(column));
        let is_turned = client_port != server_port && answers.cell(ENDS_AT[1]) == server_port;
        let mut batch = Batch::new(answers.len());
        let mut joined = batch.add();
        for column in 0..answers.len() {
            let cells = halves.map(|half| half.cell(column));
            match column {
                TIME_AT => joined.push(earlier(cells)),
                _ if Some(column) == self.duration => joined.push(whole_duration(halves, column)),
                _ if column == self.messages => {
                    joined.push(Cell::Texts(Texts::Whole(&self.in_order(cells.map(texts)))));
                }
                _ if Some(column) == self.uids => {
                    let mut uids: Vec<String> = cells.into_iter().flat_map(texts).collect();
                    uids.dedup();
                    joined.push(Cell::Texts(Texts::Whole(&uids)));
                }
                UID_AT => joined.push(cells[1]),
                _ if let Some(end) = ENDS_AT.iter().position(|end| *end == column) => {
                    let from = if is_turned { (end + 2) % 4 } else { end };
                    joined.push(answers.cell(ENDS_AT[from]));
                }
                _ => joined.push(if cells[1].is_present() { cells[1] } else { cells[0] }),
            }
        }
        drop(joined);
        batch
    }

    /// The messages of both halves in the usual order of an exchange. The order of capture is not known: rows
    /// have no times of single messages.
    fn in_order(&self, [requests, answers]: [Vec<String>; 2]) -> Vec<String> {
        let step = |message: &String| (self.place)(message).map_or(u8::MAX, |place| place.step);
        let (mut requests, mut answers) = (requests.into_iter().peekable(), answers.into_iter().peekable());
        let mut all = vec![];
        loop {
            let is_request = match (requests.peek(), answers.peek()) {
                (Some(request), Some(answer)) => step(request) <= step(answer),
                (request, _) => request.is_some(),
            };
            let next = if is_request { requests.next() } else { answers.next() };
            let Some(next) = next else { return all };
            all.push(next);
        }
    }
}

impl<'a> JoinedRows<'a> {
    /// Joins the rows of these questions. `changes` receives all items.
    pub fn new(compiled: &Compiled, shapes: &[Shape], changes: &'a mut dyn Changes) -> Self {
        let idle = match compiled.options.limits.idle_timeout_ms {
            Some(0) => Duration::MAX,
            ms => Duration::from_millis(ms.unwrap_or_default().into()) + Duration::from_secs(60),
        };
        let mut joined = Self {
            changes,
            joins: JoinedLog::all(&compiled.plan.sessions),
            sums: SummedLog::all(&compiled.plan.sessions).into(),
            announced: AnnouncedRows::new(&compiled.plan.sessions),
            questions: vec![],
            next: vec![],
            withheld: vec![],
            halves: VecDeque::new(),
            held: Peak::default(),
            patience: PATIENCE.max(idle),
            is_live: compiled.options.narrow,
        };
        joined.questions = joined.asked(compiled, shapes);
        joined
    }

    /// The shapes of the questions, with the columns and the protocols that joining needs.
    pub fn shapes(&self) -> Vec<Shape> {
        self.questions.iter().map(|asked| asked.shape).collect()
    }

    /// The questions of a program, and what joining needs for them.
    fn asked(&self, compiled: &Compiled, shapes: &[Shape]) -> Vec<Asked> {
        let shapes = shapes.iter().copied().chain(std::iter::repeat(Shape::default()));
        let of = |(question, mut shape): (&QuestionPlan, Shape)| {
            let needed = self.widen(&mut shape, question.want);
            let rows = shape.rows.unwrap_or(needed.protocols);
            shape.rows = shape.rows.map(|rows| rows | needed.protocols);
            Asked {
                shape,
                announcing: needed.protocols,
                hidden: needed.protocols - rows,
                is_asked: question.want != Want::Nothing,
            }
        };
        compiled.plan.questions.iter().zip(shapes).map(of).collect()
    }

    /// Adds the columns that joining needs, and returns what announcements need.
    fn widen(&self, shape: &mut Shape, want: Want) -> Needed {
        if let Some(log) = shape.parts {
            let sums = self.sums.iter().filter(|sum| sum.log == log.name);
            sums.for_each(|sum| shape.columns = shape.columns.with(sum.needed()));
            return Needed::NOTHING;
        }
        for join in &self.joins {
            if shape.rows.is_none_or(|rows| rows.contains(join.protocol)) {
                shape.columns = shape.columns.with(join.needed());
            }
        }
        if shape.count_only {
            return Needed::NOTHING;
        }
        let needed = self.announced.needed(want, shape.rows, shape.columns);
        shape.columns = shape.columns.with(needed.columns);
        needed
    }

    /// Takes rows of sessions: what they announce, and what was announced of them.
    fn take_rows(&mut self, question: usize, rows: &Rows<'_>) {
        let asked = &self.questions[question];
        if asked.announcing.contains(rows.protocol) {
            self.announced.learn(question, rows);
            if asked.hidden.contains(rows.protocol) {
                return self.withhold(question, rows.range.len());
            }
        }
        if let Some(join) = self.joins.iter().position(|join| join.protocol == rows.protocol) {
            return self.take(question, join, rows);
        }
        match self.announced.named(question, rows) {
            Some(batch) => {
                let packets = rows.packets.get(rows.range.clone()).unwrap_or_default();
                let range = 0..batch.rows();
                let named = Rows { protocol: rows.protocol, batch: &batch, packets, range };
                self.changes.item(question, Item::Rows(named));
            }
            None => self.changes.item(question, Item::Rows(rows.clone())),
        }
    }

    /// Delivers all halves that wait: the run is over. Corrects the numbers of items that questions received,
    /// and states the largest memory of halves and announced ends.
    pub fn finish(mut self, outcome: &mut Outcome) {
        self.give_up(|_| true);
        for (matched, withheld) in outcome.matched.iter_mut().zip(&self.withheld) {
            *matched = matched.saturating_sub(*withheld);
        }
        outcome.memory.joined_rows = self.held.most() + self.announced.held().most();
    }

    fn withhold(&mut self, question: usize, rows: usize) {
        if self.withheld.len() <= question {
            self.withheld.resize(question + 1, 0);
        }
        self.withheld[question] += rows as u64;
    }

    /// Whether the rows of a question are those of sessions.
    fn is_of_sessions(&self, question: usize) -> bool {
        self.questions
            .get(question)
            .is_some_and(|asked| asked.shape.parts.is_none() && asked.shape.notes.is_none())
    }

    /// The rule by which rows of a question are added up.
    fn sum_of(&self, question: usize) -> Option<usize> {
        let log = self.questions.get(question)?.shape.parts?;
        self.sums.iter().position(|sum| sum.log == log.name)
    }

    fn keep(&mut self, half: Half) {
        self.held.change(half.bytes);
        self.halves.push_back(half);
        if self.halves.len() > HALVES_MAX {
            let oldest = self.remove(0);
            oldest.into_iter().for_each(|half| self.pass(half));
        }
    }

    fn remove(&mut self, at: usize) -> Option<Half> {
        let half = self.halves.remove(at)?;
        self.held.change(-half.bytes);
        Some(half)
    }

    fn pass(&mut self, half: Half) {
        self.pass_row(half.question, half.protocol, &half.row, half.packet);
    }

    fn pass_row(&mut self, question: usize, protocol: usize, batch: &Batch, packet: Option<u64>) {
        let rows = Rows { protocol, batch, packets: &[packet], range: 0..1 };
        self.changes.item(question, Item::Rows(rows));
    }

    /// Delivers the waiting halves for which `is_over` holds, as rows of their own.
    fn give_up(&mut self, is_over: impl Fn(&Half) -> bool) {
        while let Some(at) = self.halves.iter().position(&is_over) {
            let half = self.remove(at);
            half.into_iter().for_each(|half| self.pass(half));
        }
    }

    /// Delivers the waiting halves of a question that began more than [`PATIENCE`] before `now`.
    fn give_up_old(&mut self, question: usize, now: Timestamp) {
        let patience_ns = self.patience.as_nanos();
        self.give_up(|half| {
            let Cell::Time(ts) = half.row.cell(0, TIME_AT) else { return false };
            half.question == question && u128::from(now.since_ns(ts)) > patience_ns
        });
    }

    /// Adds up or delivers rows of parts of sessions; those of incomplete wholes wait.
    fn add_up(&mut self, question: usize, at: usize, rows: &Rows<'_>) {
        let sums = Rc::clone(&self.sums);
        let sum = &sums[at];
        for index in rows.range.clone() {
            let row = rows.batch.row(index);
            if let Cell::Time(now) = row.cell(TIME_AT) {
                self.give_up_old(question, now);
            }
            if !sum.is_part(row) {
                let whole = Rows { range: index..index + 1, ..rows.clone() };
                self.changes.item(question, Item::Rows(whole));
                continue;
            }
            let (key, protocol) = (sum.key(row), rows.protocol);
            let is_other = |waiting: &Half| {
                (waiting.question, waiting.protocol) == (question, protocol) && waiting.key == key
            };
            let at_other = self.halves.iter().position(is_other);
            let packet = rows.packets.get(index).copied().flatten();
            let before = live_bytes();
            let (joined, packet) = match at_other.and_then(|at| self.halves.get(at)) {
                Some(other) => (sum.join(other.row.row(0), row), packet.max(other.packet)),
                None => {
                    let mut single = Batch::new(rows.batch.columns());
                    single.extend(rows.batch, index..index + 1, None);
                    (single, packet)
                }
            };
            let bytes = live_bytes() - before;
            let is_whole = sum.is_whole(joined.row(0));
            if at_other.and_then(|at| self.remove(at)).is_some() {
                self.withhold(question, 1);
            }
            if is_whole {
                self.pass_row(question, protocol, &joined, packet);
                continue;
            }
            let (row, since) = (joined, Instant::now());
            self.keep(Half { question, protocol, key, is_request: false, row, bytes, packet, since });
        }
    }

    /// Joins or delivers rows of a protocol whose rows are joined; the first halves wait.
    fn take(&mut self, question: usize, number: usize, rows: &Rows<'_>) {
        for index in rows.range.clone() {
            let row = rows.batch.row(index);
            if let Cell::Time(now) = row.cell(TIME_AT) {
                self.give_up_old(question, now);
            }
            let packet = rows.packets.get(index).copied().flatten();
            let join = &self.joins[number];
            let protocol = join.protocol;
            let Some(is_request) = join.half(row) else {
                let whole = Rows { range: index..index + 1, ..rows.clone() };
                self.changes.item(question, Item::Rows(whole));
                continue;
            };
            let key = join.key(row);
            let is_other = |half: &Half| {
                (half.question, half.protocol) == (question, protocol)
                    && (half.is_request != is_request && half.key == key)
                    && apart_ns(half.row.row(0), row) <= APART_NS
            };
            let Some(at) = self.halves.iter().position(is_other) else {
                let before = live_bytes();
                let mut single = Batch::new(rows.batch.columns());
                single.extend(rows.batch, index..index + 1, None);
                let bytes = live_bytes() - before;
                let since = Instant::now();
                self.keep(Half { question, protocol, key, is_request, row: single, bytes, packet, since });
                continue;
            };
            let Some(other) = self.remove(at) else { continue };
            let join = &self.joins[number];
            let joined = match is_request {
                true => join.join(row, other.row.row(0)),
                false => join.join(other.row.row(0), row),
            };
            self.pass_row(question, protocol, &joined, packet.max(other.packet));
            self.withhold(question, 1);
        }
    }
}

impl Changes for JoinedRows<'_> {
    fn item(&mut self, question: usize, item: Item<'_>) {
        if self.is_live && !self.halves.is_empty() {
            let patience = self.patience;
            self.give_up(|half| half.since.elapsed() > patience);
        }
        match item {
            // Other rows have the number 0, which is that of a protocol whose rows are not joined.
            Item::Rows(rows) if self.is_of_sessions(question) => self.take_rows(question, &rows),
            Item::Rows(rows) if let Some(at) = self.sum_of(question) => self.add_up(question, at, &rows),
            item => self.changes.item(question, item),
        }
    }

    fn is_over(&self) -> bool {
        self.changes.is_over()
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        let (compiled, shapes) = self.changes.program()?;
        self.next = self.asked(&compiled, &shapes);
        let shapes = self.next.iter().map(|asked| asked.shape).collect();
        Some((compiled, shapes))
    }

    fn taken_over(&mut self) {
        let before = std::mem::replace(&mut self.questions, std::mem::take(&mut self.next));
        let now: Vec<bool> = self.questions.iter().map(|asked| asked.is_asked).collect();
        let is_asked = |question: usize| now.get(question).copied().unwrap_or(false);
        // Questions that stay keep their numbers. The halves of those that end have to be delivered now.
        self.give_up(|half| !is_asked(half.question));
        self.announced.keep_questions(is_asked);
        // A question that takes the number of a removed one begins at 0.
        for (question, withheld) in self.withheld.iter_mut().enumerate() {
            let was_asked = before.get(question).is_some_and(|asked| asked.is_asked);
            if is_asked(question) && !was_asked {
                *withheld = 0;
            }
        }
        self.changes.taken_over();
    }

    fn joined_bytes(&self) -> u64 {
        self.held.now() + self.announced.held().now()
    }
}

fn texts(cell: Cell<'_>) -> Vec<String> {
    match cell {
        Cell::Texts(texts) => texts.iter().map(String::from).collect(),
        _ => vec![],
    }
}
