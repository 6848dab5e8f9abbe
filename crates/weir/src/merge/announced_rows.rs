//! Names the session that announced a connection in the connection's rows: the rows of RTP have the Call-ID
//! of the call whose messages announced the ends of the stream. The rows of the announcing sessions pass
//! here first. A stream whose two ends a call announced, one by each side, belongs to that call; if one end
//! alone was announced, the stream must begin soon after.

use super::peak::Peak;
use crate::flow::record::ColumnMask;
use crate::items::item::Rows;
use crate::rows::session::{ENDS_AT, Log, TIME_AT};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use weir_engine::plan::Want;
use weir_memory::live_bytes;
use weir_packet::{Batch, Cell, Row, Timestamp};
use weir_sessions::{Announcement, ProtocolSet, SessionRegistry};

/// Maximum number of announced ends that are kept, and of bytes of their names, for all questions together.
/// The oldest give way; the streams of their calls have rows without a Call-ID then.
const ENDS_MAX: usize = 16_384;
const NAMES_BYTES_MAX: usize = 1 << 20;

/// Maximum size of a name in bytes. A session with a longer name announces nothing.
const NAME_BYTES_MAX: usize = 256;

/// Maximum number of announcements of one end. The oldest gives way.
const OF_END_MAX: usize = 32;

/// Maximum time from the last announcement to the beginning of the stream, if the session announced both
/// ends: 24 h. Calls announce their media again every half hour (RFC 4028 section 4), or else not at all.
const AGE_MAX_NS: u64 = 24 * 3_600_000_000_000;

/// The same, if the session announced one end: 10 min. The callee's telephone may ring that long. Ports are
/// used again by other calls later.
const ONE_END_AGE_MAX_NS: u64 = 600_000_000_000;

/// What announcing sessions have said.
pub(crate) struct AnnouncedRows {
    logs: Vec<AnnouncedLog>,
    ends: HashMap<Key, Vec<Named>>,
    /// Each announcement in `ends`, the oldest one first, and some that have given way.
    order: VecDeque<(Key, Rc<str>)>,
    /// Bytes of the names in `order`.
    names_bytes: usize,
    held: Peak,
}

/// An announcing protocol, the protocol of the announced connections, and the indexes of their columns.
struct AnnouncedLog {
    by: usize,
    ends: Vec<usize>,
    end: fn(&str) -> Option<SocketAddr>,
    name: usize,
    of: usize,
    column: usize,
}

/// Protocols and columns whose rows are needed here, beside those that a question asks for.
#[derive(Clone, Copy)]
pub(crate) struct Needed {
    pub protocols: ProtocolSet,
    pub columns: ColumnMask,
}

impl Needed {
    pub const NOTHING: Self = Self { protocols: ProtocolSet::EMPTY, columns: ColumnMask::NONE };
}

/// An announced end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    question: usize,
    /// The protocol of the announced connections.
    of: usize,
    end: SocketAddr,
}

/// What a session said of an end.
struct Named {
    name: Rc<str>,
    /// The column in `ends` that has the end: the side of the session that announced it.
    side: usize,
    first: Timestamp,
    last: Timestamp,
}

impl AnnouncedLog {
    fn of(registry: &SessionRegistry, announcement: &Announcement) -> Option<Self> {
        let at = |protocol: &str, name: &str| {
            let columns = Log::of(registry, protocol)?.columns();
            columns.iter().position(|column| column.name == name)
        };
        Some(Self {
            by: registry.number_of(announcement.by)?,
            ends: announcement.ends.iter().map(|name| at(announcement.by, name)).collect::<Option<_>>()?,
            end: announcement.end,
            name: at(announcement.by, announcement.name)?,
            of: registry.number_of(announcement.of)?,
            column: at(announcement.of, announcement.column)?,
        })
    }
}

impl AnnouncedRows {
    /// Nothing has been announced.
    pub fn new(registry: &SessionRegistry) -> Self {
        let logs = registry.announcements().iter();
        Self {
            logs: logs.filter_map(|announcement| AnnouncedLog::of(registry, announcement)).collect(),
            ends: HashMap::new(),
            order: VecDeque::new(),
            names_bytes: 0,
            held: Peak::default(),
        }
    }

    /// What a question needs that asks for rows of these protocols (`None`: of all wanted ones) with these
    /// columns.
    pub fn needed(&self, want: Want, rows: Option<ProtocolSet>, columns: ColumnMask) -> Needed {
        let Want::Sessions(wanted) = want else { return Needed::NOTHING };
        let rows = rows.unwrap_or(wanted);
        let mut needed = Needed::NOTHING;
        for log in &self.logs {
            if rows.contains(log.of) && wanted.contains(log.by) && columns.contains(log.column) {
                needed.protocols.insert(log.by);
                let head = [TIME_AT].into_iter().chain(ENDS_AT).chain(log.ends.iter().copied());
                needed.columns = needed.columns.with(head.chain([log.name, log.column]).collect());
            }
        }
        needed
    }

    /// Takes what the rows of an announcing protocol say.
    pub fn learn(&mut self, question: usize, rows: &Rows<'_>) {
        let before = live_bytes();
        for at in 0..self.logs.len() {
            if self.logs[at].by == rows.protocol {
                rows.iter().for_each(|row| self.learn_row(question, at, row));
            }
        }
        self.held.change(live_bytes() - before);
    }

    /// Takes what a row says; `at` is the index of its rule in `logs`.
    fn learn_row(&mut self, question: usize, at: usize, row: Row<'_>) {
        let log = &self.logs[at];
        let (Cell::Text(name), Cell::Time(time)) = (row.cell(log.name), row.cell(TIME_AT)) else { return };
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let (name, of): (Rc<str>, usize) = (name.into(), log.of);
        let mut ends = vec![];
        for (side, &column) in log.ends.iter().enumerate() {
            if let Cell::Texts(texts) = row.cell(column) {
                ends.extend(texts.iter().filter_map(log.end).map(|end| (side, end)));
            }
        }
        for (side, end) in ends {
            let key = Key { question, of, end };
            let of_end = self.ends.entry(key).or_insert_with(|| Vec::with_capacity(1));
            if let Some(known) = of_end.iter_mut().find(|known| known.side == side && known.name == name) {
                (known.first, known.last) = (known.first.min(time), known.last.max(time));
                continue;
            }
            if of_end.len() == OF_END_MAX {
                of_end.remove(0);
            }
            of_end.push(Named { name: Rc::clone(&name), side, first: time, last: time });
            self.order.push_back((key, Rc::clone(&name)));
            self.names_bytes += name.len();
            while self.order.len() > ENDS_MAX || self.names_bytes > NAMES_BYTES_MAX {
                self.forget_oldest();
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((key, name)) = self.order.pop_front() else { return };
        self.names_bytes -= name.len();
        let Some(of_end) = self.ends.get_mut(&key) else { return };
        // The end may have lost this announcement already: an end keeps the latest `OF_END_MAX`.
        if of_end.first().is_some_and(|oldest| Rc::ptr_eq(&oldest.name, &name)) {
            of_end.remove(0);
        }
        if of_end.is_empty() {
            self.ends.remove(&key);
        }
    }

    /// Forgets what was announced to questions that are not asked any more.
    pub fn keep_questions(&mut self, is_asked: impl Fn(usize) -> bool) {
        let before = live_bytes();
        self.order.retain(|(key, _)| is_asked(key.question));
        self.ends.retain(|key, _| is_asked(key.question));
        self.names_bytes = self.order.iter().map(|(_, name)| name.len()).sum();
        self.held.change(live_bytes() - before);
    }

    /// Returns the rows with the names of the sessions that announced their connections; `None` if no name is
    /// known.
    pub fn named(&self, question: usize, rows: &Rows<'_>) -> Option<Batch> {
        let log = self.logs.iter().find(|log| log.of == rows.protocol)?;
        let names: Vec<_> = rows.iter().map(|row| self.name_of(question, log.of, row)).collect();
        if names.iter().all(Option::is_none) {
            return None;
        }
        let mut batch = Batch::new(rows.batch.columns());
        for (row, name) in rows.iter().zip(names) {
            let mut writer = batch.add();
            for (column, cell) in row.iter().enumerate() {
                match name {
                    Some(name) if column == log.column => writer.push(Cell::Text(name)),
                    _ => writer.push(cell),
                }
            }
        }
        Some(batch)
    }

    /// The session whose two sides announced the two ends of a connection. If there is none: the latest one
    /// that announced both ends, or else the latest one that announced one end.
    fn name_of(&self, question: usize, of: usize, row: Row<'_>) -> Option<&str> {
        let Cell::Time(time) = row.cell(TIME_AT) else { return None };
        let announced = |host: usize, port: usize| match (row.cell(host), row.cell(port)) {
            (Cell::Address(host), Cell::Unsigned(port)) => {
                let port = u16::try_from(port).unwrap_or_default();
                self.announced(Key { question, of, end: SocketAddr::from((host, port)) }, time)
            }
            _ => vec![],
        };
        let (orig, resp) = (announced(ENDS_AT[0], ENDS_AT[1]), announced(ENDS_AT[2], ENDS_AT[3]));
        let both = || {
            let pairs = orig.iter().flat_map(|one| resp.iter().map(move |other| (one, other)));
            pairs.filter(|(one, other)| one.name == other.name)
        };
        let of_two_sides = both().find(|(one, other)| one.side != other.side);
        let of_one_end = || {
            let recent = orig.iter().chain(&resp).filter(|named| age_ns(named, time) <= ONE_END_AGE_MAX_NS);
            recent.max_by_key(|named| named.first)
        };
        let of_both_ends = of_two_sides.or_else(|| both().next()).map(|(one, _)| one);
        of_both_ends.or_else(of_one_end).map(|named| &*named.name)
    }

    /// What sessions had said of an end by then, the latest one first. RTCP may have the port after that of
    /// its stream (RFC 3550 section 11).
    fn announced(&self, key: Key, time: Timestamp) -> Vec<&Named> {
        let of = |key: Key| {
            let named = self.ends.get(&key).into_iter().flat_map(|of_end| of_end.iter().rev());
            named.filter(|named| named.first <= time && age_ns(named, time) <= AGE_MAX_NS)
        };
        let mut all: Vec<_> = of(key).collect();
        if all.is_empty() {
            let end = SocketAddr::from((key.end.ip(), key.end.port() & !1));
            all.extend(of(Key { end, ..key }));
        }
        all
    }

    /// Memory that is held.
    pub fn held(&self) -> &Peak {
        &self.held
    }
}

/// The time from the last announcement to the beginning of a stream, in nanoseconds.
fn age_ns(named: &Named, time: Timestamp) -> u64 {
    time.since_ns(named.last)
}
