//! Makes the rows of logs of sessions. What each column shows is decided once, when the first row comes.

use super::session::{CARRIER, CONNECTION, NUMBERS, Origin, REPEATED, Shown, logged, says_carrier};
use crate::flow::record::ColumnMask;
use std::sync::OnceLock;
use weir_packet::{Cell, RowWriter, ValueType};
use weir_sessions::{Field, PartLog, Session, SessionRegistry};

/// Makes the rows of a log.
#[derive(Debug)]
pub(crate) struct RowMaker {
    fields: &'static [Field],
    columns: Vec<Shown>,
    /// By column: the bytes of its name.
    pub name_bytes: Vec<usize>,
    /// The first column of the log's own, and the indexes of their fields.
    own_at: usize,
    own: Vec<usize>,
    /// The index of the column `repeated`.
    pub repeated_at: usize,
}

impl RowMaker {
    /// Rows of sessions with these fields. `has_carrier`: they end with the transport protocol, unless a
    /// field says it.
    pub fn of_sessions(fields: &'static [Field], has_carrier: bool) -> Self {
        let head = CONNECTION.iter().map(|column| &*column.name);
        Self::of(fields, &[], head, has_carrier)
    }

    /// Rows of parts of sessions.
    pub fn of_parts(log: &PartLog, has_carrier: bool) -> Self {
        Self::of(log.fields, log.head, log.head.iter().copied(), has_carrier)
    }

    fn of<'h>(
        fields: &'static [Field],
        not_own: &'static [&'static str],
        head: impl Iterator<Item = &'h str>,
        has_carrier: bool,
    ) -> Self {
        let of_field = |name: &str| fields.iter().position(|field| field.column == name);
        let shown = |name: &str| {
            let own = || of_field(name).map(|index| Shown::of_field(fields, index));
            Shown::of_connection(name).or_else(own).unwrap_or(Shown::Nothing)
        };
        let (mut columns, mut name_bytes): (Vec<_>, Vec<_>) =
            head.map(|name| (shown(name), name.len())).unzip();
        let own_at = columns.len();
        let own: Vec<usize> = logged(fields, not_own).map(|(index, _)| index).collect();
        columns.extend(own.iter().map(|index| Shown::of_field(fields, *index)));
        name_bytes.extend(own.iter().map(|index| fields[*index].column.len()));
        let repeated_at = columns.len();
        // `repeated` is written once the row is complete.
        columns.push(Shown::Nothing);
        name_bytes.push(REPEATED.name.len());
        if has_carrier && !says_carrier(fields) {
            columns.push(Shown::Carrier);
            name_bytes.push(CARRIER.name.len());
        }
        Self { fields, columns, name_bytes, own_at, own, repeated_at }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The fields of sessions whose rows count as equal: those with a shown column, without times and numbers
    /// of messages.
    pub fn compared(&self, shown: ColumnMask) -> impl Iterator<Item = usize> {
        let own = self.own.iter().copied().enumerate();
        let compared = own.filter(move |&(at, index)| {
            let field = &self.fields[index];
            let is_time = matches!(field.value_type, ValueType::Time | ValueType::Interval);
            !is_time && !NUMBERS.contains(&field.column) && shown.contains(self.own_at + at)
        });
        compared.map(|(_, index)| index)
    }

    /// Writes the row of a session that has a time and no connection.
    pub fn write_alone(&self, shown: ColumnMask, session: &dyn Session, row: &mut RowWriter<'_>) {
        for at in 0..CONNECTION.len() {
            let time = session.time().filter(|_| at == 0 && shown.contains(at));
            row.push(time.map_or(Cell::Absent, Cell::Time));
        }
        for (at, index) in self.own.iter().enumerate() {
            let value = session.value(*index);
            row.push(if shown.contains(CONNECTION.len() + at) { (&value).into() } else { Cell::Absent });
        }
    }

    /// Writes the row of a session, or of a part. Columns that are not `shown` are absent, and are not
    /// computed.
    pub fn write(
        &self,
        shown: ColumnMask,
        origin: &Origin<'_>,
        session: &dyn Session,
        row: &mut RowWriter<'_>,
    ) {
        for (at, column) in self.columns.iter().enumerate() {
            match shown.contains(at) {
                true => origin.write(column, self.fields, session, row),
                false => row.push(Cell::Absent),
            }
        }
    }
}

/// The makers of rows of all logs.
#[derive(Debug)]
pub(crate) struct RowMakers {
    /// By protocol: without and with the transport protocol.
    sessions: Vec<[OnceLock<RowMaker>; 2]>,
    /// By log of parts: the same.
    parts: Vec<[OnceLock<RowMaker>; 2]>,
}

impl RowMakers {
    /// Makers of the rows of a registry's protocols.
    pub fn of(registry: &SessionRegistry) -> Self {
        let none = |count: usize| (0..count).map(|_| Default::default()).collect();
        Self { sessions: none(registry.protocols().len()), parts: none(registry.part_logs().len()) }
    }

    /// The maker of the rows of a protocol's sessions.
    pub fn of_sessions(&self, registry: &SessionRegistry, protocol: usize, has_carrier: bool) -> &RowMaker {
        let made = &self.sessions[protocol][usize::from(has_carrier)];
        made.get_or_init(|| RowMaker::of_sessions(registry.protocol(protocol).fields, has_carrier))
    }

    /// The maker of the rows of a log of parts. `None`: the registry has no such log.
    pub fn of_parts(
        &self,
        registry: &SessionRegistry,
        log: &PartLog,
        has_carrier: bool,
    ) -> Option<&RowMaker> {
        let at = registry.part_logs().iter().position(|other| other.name == log.name)?;
        let made = &self.parts[at][usize::from(has_carrier)];
        Some(made.get_or_init(|| RowMaker::of_parts(log, has_carrier)))
    }
}
