//! Names the session that announced a connection in the connection's rows: the rows of RTP have the Call-ID
//! of the call whose messages announced the ends of the stream. The rows of the announcing sessions pass
//! here first. A stream whose two ends a call announced, one by each side, belongs to that call; if one end
//! alone was announced, the stream must begin soon after.

use crate::item::Rows;
use crate::record::ColumnMask;
use crate::session_rows::{ENDS_AT, Log, TIME_AT};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
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
    /// Memory in bytes, and the largest value so far.
    bytes: [isize; 2],
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

/// The question, the index of the announcing protocol in `logs`, and the announced end.
type Key = (usize, usize, SocketAddr);

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
            bytes: [0; 2],
        }
    }

    /// The columns and the protocols whose rows are needed beside those that a question asks for.
    pub fn needed(
        &self,
        want: Want,
        rows: Option<ProtocolSet>,
        columns: ColumnMask,
    ) -> (ProtocolSet, ColumnMask) {
        let Want::Sessions(wanted) = want else { return (ProtocolSet::EMPTY, ColumnMask::NONE) };
        let rows = rows.unwrap_or(wanted);
        let is_needed = |log: &&AnnouncedLog| {
            rows.contains(log.of) && wanted.contains(log.by) && columns.contains(log.column)
        };
        let mut all = (ProtocolSet::EMPTY, ColumnMask::NONE);
        for log in self.logs.iter().filter(is_needed) {
            all.0.insert(log.by);
            let head = [TIME_AT].into_iter().chain(ENDS_AT).chain(log.ends.iter().copied());
            all.1 = all.1.with(head.chain([log.name, log.column]).collect());
        }
        all
    }

    /// Takes what the rows of an announcing protocol say.
    pub fn learn(&mut self, question: usize, rows: &Rows<'_>) {
        for at in 0..self.logs.len() {
            if self.logs[at].by == rows.protocol {
                let before = live_bytes();
                rows.iter().for_each(|row| self.learn_row((question, at), row));
                self.charge(live_bytes() - before);
            }
        }
    }

    fn charge(&mut self, bytes: isize) {
        self.bytes[0] += bytes;
        self.bytes[1] = self.bytes[1].max(self.bytes[0]);
    }

    fn learn_row(&mut self, (question, at): (usize, usize), row: Row<'_>) {
        let log = &self.logs[at];
        let (Cell::Text(name), Cell::Time(time)) = (row.cell(log.name), row.cell(TIME_AT)) else { return };
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let name: Rc<str> = name.into();
        let mut ends = vec![];
        for (side, &column) in log.ends.iter().enumerate() {
            if let Cell::Texts(texts) = row.cell(column) {
                ends.extend(texts.iter().filter_map(log.end).map(|end| (side, end)));
            }
        }
        for (side, end) in ends {
            let key = (question, at, end);
            let before = self.ends.entry(key).or_insert_with(|| Vec::with_capacity(1));
            let same = |named: &&mut Named| (&named.name, named.side) == (&name, side);
            if let Some(named) = before.iter_mut().find(same) {
                (named.first, named.last) = (named.first.min(time), named.last.max(time));
                continue;
            }
            if before.len() == OF_END_MAX {
                before.remove(0);
            }
            before.push(Named { name: Rc::clone(&name), side, first: time, last: time });
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
        // The announcement may have given way to a later one of the same end.
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
        self.order.retain(|(key, _)| is_asked(key.0));
        self.ends.retain(|key, _| is_asked(key.0));
        self.names_bytes = self.order.iter().map(|(_, name)| name.len()).sum();
        self.charge(live_bytes() - before);
    }

    /// Returns the rows with the names of the sessions that announced their connections; `None` if no name is
    /// known.
    pub fn named(&self, question: usize, rows: &Rows<'_>) -> Option<Batch> {
        let at = self.logs.iter().position(|log| log.of == rows.protocol)?;
        let names: Vec<_> = rows.iter().map(|row| self.name_of((question, at), row)).collect();
        if names.iter().all(Option::is_none) {
            return None;
        }
        let mut batch = Batch::new(rows.batch.columns());
        for (row, name) in rows.iter().zip(names) {
            let mut writer = batch.add();
            for (column, cell) in row.iter().enumerate() {
                match name {
                    Some(name) if column == self.logs[at].column => writer.push(Cell::Text(name)),
                    _ => writer.push(cell),
                }
            }
        }
        Some(batch)
    }

    /// The session whose sides announced the ends of a connection, or else the latest that announced both, or
    /// else one.
    fn name_of(&self, (question, at): (usize, usize), row: Row<'_>) -> Option<&str> {
        let Cell::Time(time) = row.cell(TIME_AT) else { return None };
        let [first, second] = [[ENDS_AT[0], ENDS_AT[1]], [ENDS_AT[2], ENDS_AT[3]]].map(|[host, port]| {
            let (Cell::Address(host), Cell::Unsigned(port)) = (row.cell(host), row.cell(port)) else {
                return vec![];
            };
            self.announced((question, at), (host, port), time)
        });
        let pairs = || first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
        let both = || pairs().filter(|(one, other)| one.name == other.name);
        let of_sides = both().find(|(one, other)| one.side != other.side);
        let one = || {
            let all = first.iter().chain(&second);
            all.filter(|named| age_ns(named, time) <= ONE_END_AGE_MAX_NS).max_by_key(|named| named.first)
        };
        let pair = of_sides.or_else(|| both().next());
        pair.map(|(one, _)| one).or_else(one).map(|named| &*named.name)
    }

    /// What sessions had said of this end by then, the latest one first. RTCP may have the port after that of
    /// its stream (RFC 3550 section 11).
    fn announced(&self, (question, at): (usize, usize), end: (IpAddr, u64), time: Timestamp) -> Vec<&Named> {
        let Ok(port) = u16::try_from(end.1) else { return vec![] };
        let of = |port| {
            let named = self.ends.get(&(question, at, SocketAddr::from((end.0, port))));
            let named = named.into_iter().flat_map(|of_end| of_end.iter().rev());
            named.filter(|named| named.first <= time && age_ns(named, time) <= AGE_MAX_NS)
        };
        let mut all: Vec<_> = of(port).collect();
        if all.is_empty() {
            all.extend(of(port & !1));
        }
        all
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.bytes[0]).unwrap_or_default()
    }

    /// The largest memory so far, in bytes.
    pub fn bytes_peak(&self) -> usize {
        usize::try_from(self.bytes[1]).unwrap_or_default()
    }
}

/// The time from the last announcement to the beginning of a stream, in nanoseconds.
fn age_ns(named: &Named, time: Timestamp) -> u64 {
    time.since_ns(named.last)
}
