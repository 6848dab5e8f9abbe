//! Rows of sessions, and of parts of them (files, certificates): first the connection, then the log's own
//! columns, with Zeek's names (<https://docs.zeek.org/en/master/logs/>). The columns follow from the
//! registries of protocols and of parts.

use super::shape::Shape;
use crate::flow::id;
use crate::flow::locality::is_local;
use crate::flow::places::proto_name;
use crate::flow::record::ColumnMask;
use std::sync::{Mutex, PoisonError};
use weir_compile::PartFields;
use weir_engine::flow::FlowView;
use weir_packet::{Cell, Column, RowWriter, Texts, Timestamp, Value, ValueType};
use weir_sessions::files::SHARED_NUMBER;
use weir_sessions::{Field, PartLog, ProtocolSet, Session, SessionProtocol, SessionRegistry, UIDS};

/// The first columns of every row of a session.
pub(super) const CONNECTION: &[Column] = &[
    Column::new(
        "ts",
        ValueType::Time,
        "time of the session's first bytes; for a handshake, of the connection's first packet",
    ),
    Column::new("uid", ValueType::Text, "identifier of the connection, as in its record"),
    Column::new("id.orig_h", ValueType::Address, "originator's address"),
    Column::new("id.orig_p", ValueType::Unsigned, "originator's port"),
    Column::new("id.resp_h", ValueType::Address, "responder's address"),
    Column::new("id.resp_p", ValueType::Unsigned, "responder's port"),
];

/// The log of one or several session protocols with the same columns, or the log of parts of sessions.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// Zeek's name of the log, the `_path` of its rows: `ssl`.
    pub path: &'static str,
    /// The name of the command for this log.
    pub ask: &'static str,
    /// Protocols whose sessions have rows in the log.
    pub protocols: ProtocolSet,
    /// Protocols whose sessions must be found for all rows: the log's own, and those that contain them.
    holders: ProtocolSet,
    /// The column that names the session that announced the connection, and the protocols of such sessions.
    named_in: Option<(usize, ProtocolSet)>,
    rows: Rows,
    /// Rows have a column for the transport protocol.
    carrier: bool,
}

/// The last column of rows with the transport protocol.
pub(super) const CARRIER: Column = Column::new("proto", ValueType::Text, "transport protocol");

/// The column behind those of a session's own, or a part's.
pub(super) const REPEATED: Column = Column::new(
    "repeated",
    ValueType::Unsigned,
    "number of rows that this one stands for, if the rows of its connection were [limited](bounds.md); they equal this \
     one but for times and numbers of messages",
);

/// Columns that number the messages of a connection. Rows that only differ in them and in times are merged if
/// rows are limited.
pub(super) const NUMBERS: &[&str] = &[
    "trans_depth",
    "trans_id",
    "tid",
    "seq",
    "stream_id",
    "fuid",
    "id",
    "orig_fuids",
    "resp_fuids",
    "repeated",
];

/// The first columns of rows of sessions: `ts`, `uid`, then the originator's host and port, and the
/// responder's.
pub(crate) const TIME_AT: usize = 0;
pub(crate) const UID_AT: usize = 1;
pub(crate) const ENDS_AT: [usize; 4] = [2, 3, 4, 5];

/// The source of a log's rows.
#[derive(Debug, Clone, Copy)]
enum Rows {
    /// Sessions: the first of its protocols.
    Sessions(&'static SessionProtocol),
    /// Parts of sessions.
    Parts(&'static PartLog),
}

impl Log {
    /// The log of a session protocol: shared with other protocols if it is the first of these (the log of TLS
    /// also has DTLS), else of its own sessions alone; or the log of parts of sessions of this name. `None`
    /// if the registry has neither.
    pub fn of(registry: &SessionRegistry, name: &str) -> Option<Self> {
        let Some(number) = registry.number_of(name) else {
            return Self::of_parts(registry).find(|log| log.ask == name);
        };
        let path = registry.protocol(number).log;
        let log = Self::all(registry).into_iter().find(|log| log.path == path)?;
        let protocols = if log.ask == name { log.protocols } else { ProtocolSet::of(number) };
        let holders = protocols | registry.around(protocols);
        Some(Self { protocols, holders, ..log })
    }

    /// All logs of sessions, in the order of the registry.
    pub fn all(registry: &SessionRegistry) -> Vec<Self> {
        let mut logs: Vec<Self> = vec![];
        for protocol in registry.protocols() {
            if logs.iter().any(|log| log.path == protocol.log) {
                continue;
            }
            let protocols = registry.where_(|other| other.log == protocol.log);
            let mut log = Self {
                path: protocol.log,
                ask: protocol.name,
                protocols,
                holders: protocols | registry.around(protocols),
                named_in: None,
                rows: Rows::Sessions(protocol),
                carrier: false,
            };
            let announcing = registry.announcing(protocols);
            let column = registry.announcements().iter().find(|one| one.of == protocol.name);
            let columns = log.columns();
            let column = column.and_then(|one| columns.iter().position(|column| column.name == one.column));
            log.named_in = column.map(|column| (column, announcing));
            logs.push(log);
        }
        logs
    }

    /// All logs of parts of sessions, in the order of their registry.
    pub fn of_parts(registry: &SessionRegistry) -> impl Iterator<Item = Self> {
        registry.part_logs().iter().map(|log| {
            let protocols = registry.where_(|protocol| log.of.iter().any(|(name, _)| *name == protocol.name));
            let holders = protocols | registry.around(protocols);
            let (rows, named_in) = (Rows::Parts(log), None);
            Self { path: log.name, ask: log.name, protocols, holders, named_in, rows, carrier: false }
        })
    }

    /// The same log with a last column `proto`, unless it has one: Suricata's events name the transport
    /// protocol. A question takes the column over by the log's [`shape`](Self::shape).
    #[must_use]
    pub fn with_carrier(self) -> Self {
        Self { carrier: true, ..self }
    }

    fn fields(&self) -> &'static [Field] {
        match self.rows {
            Rows::Sessions(protocol) => protocol.fields,
            Rows::Parts(log) => log.fields,
        }
    }

    /// Protocols whose sessions must be found for all rows with all their columns.
    pub fn asked(&self) -> ProtocolSet {
        self.asked_for(ColumnMask::ALL)
    }

    /// Protocols whose sessions must be found for these columns of all rows: the [`holders`](Self::holders),
    /// and those that announce their connections if a column names these.
    pub fn asked_for(&self, columns: ColumnMask) -> ProtocolSet {
        match self.named_in {
            Some((column, announcing)) if columns.contains(column) => self.holders | announcing,
            _ => self.holders,
        }
    }

    /// The column of these, if any, that names the session that announced the connection. Only rows have its
    /// value.
    pub fn named_in(&self, columns: ColumnMask) -> Option<usize> {
        self.named_in.map(|(column, _)| column).filter(|&column| columns.contains(column))
    }

    /// Protocols whose sessions hold the rows: the log's own, and those whose sessions contain them.
    pub fn holders(&self) -> ProtocolSet {
        self.holders
    }

    /// The shape for a question that asks for the sessions of the log's protocols.
    pub fn shape(&self) -> Shape {
        let shape = Shape { carrier: self.carrier, ..Shape::default() };
        match self.rows {
            Rows::Sessions(_) => Shape { rows: Some(self.protocols), ..shape },
            Rows::Parts(log) => Shape { parts: Some(log), ..shape },
        }
    }

    /// The columns that a table shows unless all are requested: see [`SessionProtocol::brief`].
    pub fn brief(&self) -> &'static [&'static str] {
        match self.rows {
            Rows::Sessions(protocol) => protocol.brief,
            Rows::Parts(log) => log.brief,
        }
    }

    /// The column that identifies the subject of a row; a log shows each subject once.
    pub fn known_by(&self) -> Option<usize> {
        match self.rows {
            Rows::Sessions(_) => None,
            Rows::Parts(log) => self.columns().iter().position(|column| column.name == log.known_by),
        }
    }

    /// The columns of its rows.
    pub fn columns(&self) -> Vec<Column> {
        let carrier = Some(CARRIER).filter(|_| self.carrier && !says_carrier(self.fields()));
        match self.rows {
            Rows::Sessions(_) => {
                CONNECTION.iter().cloned().chain(self.own_columns()).chain(carrier).collect()
            }
            Rows::Parts(log) => {
                let of_connection =
                    |name: &str| CONNECTION.iter().find(|column| column.name == name).cloned();
                let of_part = |name: &str| log.fields.iter().find(|field| field.column == name).map(column);
                let head = log.head.iter().filter_map(|name| of_connection(name).or_else(|| of_part(name)));
                head.chain(self.own_columns()).chain(carrier).collect()
            }
        }
    }

    /// The columns as fields, with the names that filters on the log's rows know: the fields' names, and the
    /// columns' names after the log's. `None` for logs of sessions, whose names all filters know.
    pub(crate) fn fields_of_parts(&self) -> Option<PartFields> {
        static FIELDS: Mutex<Vec<(&str, &[Field])>> = Mutex::new(vec![]);
        let Rows::Parts(log) = self.rows else { return None };
        let mut made = FIELDS.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = made.iter().find(|(name, _)| *name == log.name).map(|(_, fields)| *fields);
        let fields = fields.unwrap_or_else(|| {
            let fields = columns_as_fields(log);
            made.push((log.name, fields));
            fields
        });
        Some(PartFields { name: log.name, doc: log.doc, fields })
    }

    /// The columns of a log of what these fields describe, one row for each connection or none.
    pub(crate) fn columns_of(fields: &[Field]) -> Vec<Column> {
        CONNECTION
            .iter()
            .cloned()
            .chain(logged(fields, &[]).map(|(_, field)| column(field)))
            .chain([REPEATED])
            .collect()
    }

    /// The columns that identify the connection, the same in every log of sessions.
    pub fn connection_columns(&self) -> impl Iterator<Item = Column> + use<> {
        CONNECTION.iter().cloned()
    }

    /// The columns after those that identify the connection.
    pub fn own_columns(&self) -> impl Iterator<Item = Column> {
        let (fields, head) = match self.rows {
            Rows::Sessions(protocol) => (protocol.fields, &[][..]),
            Rows::Parts(log) => (log.fields, log.head),
        };
        logged(fields, head).map(|(_, field)| column(field)).chain([REPEATED])
    }
}

/// The sessions of protocols in `rows` that a session contains; each with its protocol.
pub(crate) fn within(
    registry: &SessionRegistry,
    carrier: usize,
    rows: ProtocolSet,
    session: &dyn Session,
) -> impl Iterator<Item = (usize, Box<dyn Session>)> {
    let wanted = registry.within(carrier).filter(move |(of, _)| rows.contains(*of));
    wanted.flat_map(move |(of, within)| (within.sessions)(session).into_iter().map(move |one| (of, one)))
}

/// The columns of a log of parts as fields with the types of rows. Built once per process.
fn columns_as_fields(log: &PartLog) -> &'static [Field] {
    let shown = |field: &Field| {
        let by_column = format!("{}.{}", log.name, field.column);
        let is_another = by_column != field.name;
        let aliases: &'static [&'static str] = match is_another {
            true => Box::leak(Box::new([&*Box::leak(by_column.into_boxed_str())])),
            false => &[],
        };
        Field { value_type: column(field).value_type, aliases, ..*field }
    };
    let fields: Vec<Field> = log.fields.iter().filter(|field| !field.column.is_empty()).map(shown).collect();
    Box::leak(fields.into_boxed_slice())
}

/// The fields that have a column after the first columns of a row.
pub(super) fn logged<'a>(
    fields: &'a [Field],
    head: &'static [&'static str],
) -> impl Iterator<Item = (usize, &'a Field)> {
    let is_logged = |field: &Field| !field.column.is_empty() && !head.contains(&field.column);
    fields.iter().enumerate().filter(move |(_, field)| is_logged(field))
}

/// The column of a field.
fn column(field: &Field) -> Column {
    let value_type = match field.value_type {
        ValueType::Numbers if names_files(field) => ValueType::Texts,
        ValueType::Unsigned if names_files(field) => ValueType::Text,
        other => other,
    };
    Column::new(field.column, value_type, field.doc)
}

/// Whether a field holds numbers of files of its session, which rows show as identifiers.
fn names_files(field: &Field) -> bool {
    [field.column, field.name].iter().any(|name| name.ends_with("fuid") || name.ends_with("fuids"))
}

/// Whether a field holds the identifiers of the connections of a row, which are one unless rows are joined.
fn names_connections(field: &Field) -> bool {
    field.column == UIDS
}

/// Fields whose value also depends on the connection: a function of the connection, the field's own value,
/// and other fields.
const OF_CONNECTION: &[(&str, OfConnection)] = &[
    ("files.local_orig", |ends, _, read| {
        let sender = if read("files.is_orig") == Value::Bool(true) { 0 } else { 2 };
        ends.is_local(sender).map_or(Value::Absent, Value::Bool)
    }),
    ("ssh.direction", |ends, _, _| match (ends.is_local(0), ends.is_local(2)) {
        (Some(true), Some(false)) => Value::Text("OUTBOUND".into()),
        (Some(false), Some(true)) => Value::Text("INBOUND".into()),
        _ => Value::Absent,
    }),
    // Zeek's path begins with the receiving station and the sender.
    ("smtp.path", |ends, own, _| {
        let stations = [ends.0[2], ends.0[0]].into_iter().filter_map(|end| match end {
            Cell::Address(address) => Some(address.to_string()),
            _ => None,
        });
        let received = match &own {
            Value::Texts(received) => received.to_vec(),
            _ => vec![],
        };
        Value::Texts(stations.chain(received).collect())
    }),
];

/// See [`OF_CONNECTION`].
pub(super) type OfConnection = fn(&Ends, Value<'_>, &dyn Fn(&str) -> Value<'static>) -> Value<'static>;

/// The ends of a connection, as rows show them: the originator's host and port, the responder's.
pub(super) struct Ends([Cell<'static>; 4]);

impl Ends {
    /// Whether the address of an end belongs to the local site.
    fn is_local(&self, end: usize) -> Option<bool> {
        match self.0[end] {
            Cell::Address(address) => Some(is_local(address)),
            _ => None,
        }
    }
}

/// Values that all rows of a session share.
pub(crate) struct Origin<'a> {
    flow: &'a FlowView<'a>,
    protocol: usize,
    time: Timestamp,
    ends: Ends,
}

impl<'a> Origin<'a> {
    pub fn of(flow: &'a FlowView<'a>, protocol: usize, session: &dyn Session) -> Self {
        let (orig, resp) = flow.endpoints();
        let hosts = flow.key_layout().ends().hosts;
        let ends = Ends([
            id::host(hosts, orig.address),
            Cell::Unsigned(u64::from(orig.port)),
            id::host(hosts, resp.address),
            Cell::Unsigned(u64::from(resp.port)),
        ]);
        Self { flow, protocol, time: session.time().unwrap_or(flow.first_time()), ends }
    }

    /// The identifier of a file of the session with this number.
    fn fuid(&self, number: u64) -> String {
        let flow = self.flow;
        let of = match (number & SHARED_NUMBER != 0, &self.ends.0) {
            (true, [Cell::Address(orig), _, Cell::Address(resp), _]) => {
                let [low, high] = [orig.min(resp), orig.max(resp)];
                format!("{low} {high}")
            }
            _ => id::uid(flow.graph, flow.table, flow.header),
        };
        id::fuid(&of, self.protocol as u64, number)
    }

    /// Writes the value of a column.
    pub(super) fn write(
        &self,
        shown: &Shown,
        fields: &[Field],
        session: &dyn Session,
        row: &mut RowWriter<'_>,
    ) {
        let flow = self.flow;
        match *shown {
            Shown::Time => row.push(Cell::Time(self.time)),
            Shown::Uid => row.text_with(|text| id::push_uid(flow.graph, flow.table, flow.header, text)),
            Shown::End(end) => row.push(self.ends.0[end]),
            Shown::Uids => {
                let uid = [id::uid(flow.graph, flow.table, flow.header)];
                row.push(Cell::Texts(Texts::Whole(&uid)));
            }
            Shown::Field(index) => row.push((&session.value(index)).into()),
            Shown::OfConnection(index, tell) => {
                let at = |name: &str| fields.iter().position(|field| field.name == name);
                let read = |name: &str| at(name).map_or(Value::Absent, |at| session.value(at).into_owned());
                row.push((&tell(&self.ends, session.value(index), &read)).into());
            }
            Shown::Files(index) => match session.value(index) {
                Value::Unsigned(number) => row.push(Cell::Text(&self.fuid(number))),
                Value::Numbers(list) => {
                    let fuids: Vec<String> = list.iter().map(|number| self.fuid(*number)).collect();
                    row.push(Cell::Texts(Texts::Whole(&fuids)));
                }
                other => row.push((&other).into()),
            },
            Shown::Carrier => row.push(Cell::Text(&proto_name(flow.table_name()))),
            Shown::Nothing => row.push(Cell::Absent),
        }
    }
}

/// Where the content of a column comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// The time of the session.
    Time,
    /// The identifier of the connection.
    Uid,
    /// The originator's host (0) or port (1), the responder's host (2) or port (3).
    End(usize),
    /// The identifiers of the connections of the row.
    Uids,
    /// The field with this index.
    Field(usize),
    /// A field that holds numbers of files, as their identifiers.
    Files(usize),
    /// A field whose value also depends on the connection.
    OfConnection(usize, OfConnection),
    /// The transport protocol.
    Carrier,
    /// Nothing: the column is written later, or does not apply.
    Nothing,
}

impl Shown {
    /// The content of the column with this name, if the column is among those that describe the connection
    /// (`ts`, `uid`, addresses and ports). `None`: the name is another column's.
    pub(super) fn of_connection(name: &str) -> Option<Self> {
        Some(match CONNECTION.iter().position(|column| column.name == name)? {
            0 => Self::Time,
            1 => Self::Uid,
            end => Self::End(end - 2),
        })
    }

    /// The content of the column that the field at `index` has in the log.
    pub(super) fn of_field(fields: &[Field], index: usize) -> Self {
        let field = &fields[index];
        if let Some((_, tell)) = OF_CONNECTION.iter().find(|(name, _)| *name == field.name) {
            return Self::OfConnection(index, *tell);
        }
        match field {
            _ if names_connections(field) => Self::Uids,
            _ if names_files(field) => Self::Files(index),
            _ => Self::Field(index),
        }
    }
}

/// Whether rows of these fields have a column for the transport protocol.
pub(crate) fn says_carrier(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.column == CARRIER.name)
}

/// The parts of a session, each with what its row shares with others.
pub(crate) fn parts<'a>(
    flow: &'a FlowView<'a>,
    (registry, protocol): (&SessionRegistry, usize),
    session: &dyn Session,
    log: &PartLog,
) -> impl Iterator<Item = (Origin<'a>, Box<dyn Session>)> + use<'a> {
    let name = registry.protocol(protocol).name;
    let parts_of = log.of.iter().find(|(of, _)| *of == name).map(|(_, parts_of)| parts_of);
    let parts = parts_of.map_or(vec![], |parts_of| parts_of(session));
    let session_time = session.time().unwrap_or(flow.first_time());
    parts.into_iter().map(move |part| {
        let origin = Origin::of(flow, protocol, &*part);
        let time = part.time().unwrap_or(session_time);
        (Origin { time, ..origin }, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs() -> impl Iterator<Item = Log> {
        let registry = SessionRegistry::builtin();
        Log::all(registry).into_iter().chain(Log::of_parts(registry))
    }

    #[test]
    fn protocols_that_share_a_log_have_the_same_columns() {
        let registry = SessionRegistry::builtin();
        for log in Log::all(registry) {
            let of = |p: &SessionProtocol| -> Vec<_> {
                logged(p.fields, &[]).map(|(_, field)| (field.column, field.value_type)).collect()
            };
            let first = registry
                .protocols()
                .iter()
                .find(|p| p.name == log.ask)
                .expect("a log is its first protocol's");
            for protocol in registry.protocols().iter().filter(|p| p.log == log.path) {
                assert_eq!(of(protocol), of(first), "{} and {}", protocol.name, first.name);
            }
        }
    }

    #[test]
    fn a_log_has_no_column_twice() {
        for log in logs() {
            let columns = log.columns();
            for (index, column) in columns.iter().enumerate() {
                assert!(columns[..index].iter().all(|other| other.name != column.name), "{}", column.name);
            }
        }
    }

    #[test]
    fn what_hangs_on_the_connection_is_a_column_and_told_from_both_ends() {
        let fields = || {
            let registry = SessionRegistry::builtin();
            let of_sessions = registry.protocols().iter().flat_map(|protocol| protocol.fields);
            of_sessions.chain(registry.part_logs().iter().flat_map(|log| log.fields))
        };
        for (name, _) in OF_CONNECTION {
            assert!(fields().any(|field| field.name == *name && !field.column.is_empty()), "{name}");
        }
        let address = |text: &str| Cell::Address(text.parse().expect("an address"));
        let tell = |name: &str, ends: [&str; 2], own: Value<'_>, is_orig: bool| {
            let [orig, resp] = ends.map(address);
            let ends = Ends([orig, Cell::Unsigned(1), resp, Cell::Unsigned(2)]);
            let (_, tell) = OF_CONNECTION.iter().find(|(of, _)| *of == name).expect("it is there");
            tell(&ends, own, &|field| {
                assert_eq!(field, "files.is_orig");
                Value::Bool(is_orig)
            })
        };
        let (inside, outside) = ("192.168.0.1", "1.1.1.1");
        let absent = || Value::Absent;
        assert_eq!(tell("files.local_orig", [inside, outside], absent(), true), Value::Bool(true));
        assert_eq!(tell("files.local_orig", [inside, outside], absent(), false), Value::Bool(false));
        assert_eq!(tell("ssh.direction", [inside, outside], absent(), false), Value::Text("OUTBOUND".into()));
        assert_eq!(tell("ssh.direction", [outside, inside], absent(), false), Value::Text("INBOUND".into()));
        assert_eq!(tell("ssh.direction", [inside, inside], absent(), false), Value::Absent);
        let received = Value::Texts(vec!["10.0.0.9".to_string()].into());
        let path = [inside, outside, "10.0.0.9"].map(str::to_string);
        assert_eq!(tell("smtp.path", [outside, inside], received, false), Value::Texts(path.to_vec().into()));
    }

    #[test]
    fn files_and_certificates_have_the_columns_of_zeek_in_its_order_and_then_ours() {
        let log = |name: &str| Log::of(SessionRegistry::builtin(), name);
        let names = |name: &str| -> Vec<String> {
            log(name).expect("there is one").columns().iter().map(|c| c.name.to_string()).collect()
        };
        let files = "ts fuid uid id.orig_h id.orig_p id.resp_h id.resp_p source depth analyzers mime_type filename \
                     duration local_orig is_orig seen_bytes total_bytes missing_bytes overflow_bytes timedout \
                     parent_fuid md5 sha1 sha256 extracted extracted_cutoff extracted_size ranges repeated";
        assert_eq!(names("files").join(" "), files);
        let x509 = "ts fingerprint certificate.version certificate.serial certificate.subject certificate.issuer \
                    certificate.not_valid_before certificate.not_valid_after certificate.key_alg \
                    certificate.sig_alg certificate.key_type certificate.key_length certificate.exponent \
                    certificate.curve san.dns san.uri san.email san.ip basic_constraints.ca \
                    basic_constraints.path_len host_cert client_cert repeated";
        assert_eq!(names("x509").join(" "), x509);
        assert_eq!((log("x509").unwrap().known_by(), log("files").unwrap().known_by()), (Some(1), None));
        assert_eq!(log("x509").unwrap().protocols.len(), 2, "of TLS and DTLS");
    }
}
