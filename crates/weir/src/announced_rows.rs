//! Names the session that announced a connection in the connection's rows: the rows of RTP have the Call-ID
//! of the call whose messages announced the ends of the stream. The rows of the announcing sessions pass
//! here first; the names are kept until newer ones need their place.

use crate::item::Rows;
use crate::record::ColumnMask;
use crate::session_rows::{ENDS_AT, Log, TIME_AT};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use weir_engine::plan::Want;
use weir_packet::{Batch, Cell, Row, Timestamp};
use weir_sessions::{Announcement, ProtocolSet, SessionRegistry};

/// Maximum number of ends that are kept, and of bytes of their names. The oldest give way; the streams of
/// their calls have rows without a Call-ID then.
const ENDS_MAX: usize = 16_384;
const NAMES_BYTES_MAX: usize = 1 << 20;

/// Maximum number of announcements of one end that a row is compared with, the latest ones first.
const COMPARED_MAX: usize = 16;

/// What announcing sessions have said.
pub(crate) struct AnnouncedRows {
    logs: Vec<AnnouncedLog>,
    ends: HashMap<Key, VecDeque<Named>>,
    /// The key of each end in `ends`, the oldest one first.
    order: VecDeque<Key>,
    names_bytes: usize,
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

/// The name of an announcing session, and the time of its beginning.
#[derive(Clone)]
struct Named {
    since: Timestamp,
    name: Rc<str>,
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
                rows.iter().for_each(|row| self.learn_row((question, at), row));
            }
        }
    }

    fn learn_row(&mut self, (question, at): (usize, usize), row: Row<'_>) {
        let log = &self.logs[at];
        let (Cell::Text(name), Cell::Time(since)) = (row.cell(log.name), row.cell(TIME_AT)) else { return };
        let named = Named { since, name: name.into() };
        let mut ends = vec![];
        for &column in &log.ends {
            if let Cell::Texts(texts) = row.cell(column) {
                ends.extend(texts.iter().filter_map(log.end));
            }
        }
        for end in ends {
            let key = (question, at, end);
            let before = self.ends.entry(key).or_default();
            if before.back().is_some_and(|last| last.name == named.name) {
                continue;
            }
            before.push_back(named.clone());
            self.order.push_back(key);
            self.names_bytes += named.name.len();
            while self.order.len() > ENDS_MAX || self.names_bytes > NAMES_BYTES_MAX {
                self.forget_oldest();
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some(key) = self.order.pop_front() else { return };
        let Some(named) = self.ends.get_mut(&key) else { return };
        self.names_bytes -= named.pop_front().map_or(0, |named| named.name.len());
        if named.is_empty() {
            self.ends.remove(&key);
        }
    }

    /// Forgets what was announced to questions that are not asked any more.
    pub fn keep_questions(&mut self, is_asked: impl Fn(usize) -> bool) {
        self.order.retain(|key| is_asked(key.0));
        self.ends.retain(|key, _| is_asked(key.0));
        self.names_bytes = self.ends.values().flatten().map(|named| named.name.len()).sum();
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

    /// The session that announced both ends of a connection, or else the latest that announced one of them.
    fn name_of(&self, (question, at): (usize, usize), row: Row<'_>) -> Option<&str> {
        let Cell::Time(until) = row.cell(TIME_AT) else { return None };
        let [first, second] = [[ENDS_AT[0], ENDS_AT[1]], [ENDS_AT[2], ENDS_AT[3]]].map(|[host, port]| {
            let (Cell::Address(host), Cell::Unsigned(port)) = (row.cell(host), row.cell(port)) else {
                return vec![];
            };
            self.announced((question, at), (host, port), until)
        });
        let both = first.iter().find(|one| second.iter().any(|other| other.name == one.name));
        let one = || first.iter().chain(&second).max_by_key(|named| named.since);
        both.or_else(one).map(|named| &*named.name)
    }

    /// The sessions that had announced this end by then, the latest one first. RTCP has the port after that
    /// of its stream (RFC 3550 section 11).
    fn announced(&self, (question, at): (usize, usize), end: (IpAddr, u64), until: Timestamp) -> Vec<&Named> {
        let Ok(port) = u16::try_from(end.1) else { return vec![] };
        let of = |port| self.ends.get(&(question, at, SocketAddr::from((end.0, port))));
        let named = of(port).or_else(|| of(port & !1)).into_iter().flat_map(|named| named.iter().rev());
        named.take(COMPARED_MAX).filter(|named| named.since <= until).collect()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.order.len() * (2 * size_of::<Key>() + size_of::<Named>()) + self.names_bytes
    }
}
