//! Commands by number: their names, their arguments, and whether they are answered.

use super::packet::{capability, number, string, until_zero};
use crate::line::text;
use crate::session::{Words, named};
use crate::wire::Reader;
use std::borrow::Cow;

pub(super) const QUIT: u8 = 1;
pub(super) const INIT_DATABASE: u8 = 2;
pub(super) const QUERY: u8 = 3;
pub(super) const FIELD_LIST: u8 = 4;
pub(super) const STATISTICS: u8 = 9;
pub(super) const CHANGE_USER: u8 = 17;
pub(super) const BINLOG_DUMP: u8 = 18;
pub(super) const STATEMENT_PREPARE: u8 = 22;
pub(super) const STATEMENT_EXECUTE: u8 = 23;
pub(super) const STATEMENT_LONG_DATA: u8 = 24;
pub(super) const STATEMENT_CLOSE: u8 = 25;
pub(super) const STATEMENT_FETCH: u8 = 28;
pub(super) const BINLOG_DUMP_GTID: u8 = 30;
pub(super) const RESET_CONNECTION: u8 = 31;
pub(super) const STATEMENT_BULK_EXECUTE: u8 = 250;

/// Maximum bytes kept of an argument.
pub(super) const ARGUMENT_BYTES_MAX: usize = 1024;

/// Zeek's names, in numerical order.
const NAMES: [&str; 32] = [
    "sleep",
    "quit",
    "init_db",
    "query",
    "field_list",
    "create_db",
    "drop_db",
    "refresh",
    "shutdown",
    "statistics",
    "process_info",
    "connect",
    "process_kill",
    "debug",
    "ping",
    "time",
    "delayed_insert",
    "change_user",
    "binlog_dump",
    "table_dump",
    "connect_out",
    "register_slave",
    "stmt_prepare",
    "stmt_execute",
    "stmt_send_long_data",
    "stmt_close",
    "stmt_reset",
    "set_option",
    "stmt_fetch",
    "daemon",
    "binlog_dump_gtid",
    "reset_connection",
];

/// The name of a command.
pub(super) fn name(command: u8) -> Cow<'static, str> {
    match NAMES.get(usize::from(command)) {
        Some(name) => (*name).into(),
        None if command == STATEMENT_BULK_EXECUTE => "stmt_bulk_execute".into(),
        None => format!("unknown-{command}").into(),
    }
}

/// All names of requests: commands, login, and TLS.
pub(super) const WORDS: Words = Words {
    list: || named(0..=u8::MAX, name).into_iter().chain(["login", "ssl_request"]).collect(),
    others: &["unknown-"],
};

/// Whether the command exists.
pub(super) fn is_known(command: u8) -> bool {
    usize::from(command) < NAMES.len() || matches!(command, STATEMENT_BULK_EXECUTE | 254)
}

/// Whether the payload is not a command, but the rest of a compressed packet: three bytes of uncompressed
/// length (0 if the packet is not compressed), then its data. Clients never send command 0.
pub(super) fn is_packed(payload: &[u8]) -> bool {
    matches!(
        payload,
        [0, ..] | [_, _, _, 0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] | [_, _, _, 0x28, 0xb5, 0x2f, 0xfd, ..]
    )
}

/// Whether the server answers the command.
pub(super) fn is_answered(command: u8) -> bool {
    !matches!(command, QUIT | STATEMENT_CLOSE | STATEMENT_LONG_DATA)
}

/// The number of the prepared statement that a command refers to.
pub(super) fn statement(command: u8, body: &[u8]) -> Option<u32> {
    let has_one = matches!(command, STATEMENT_EXECUTE..=26 | STATEMENT_FETCH | STATEMENT_BULK_EXECUTE);
    has_one.then(|| Reader::new(body).array().map(u32::from_le_bytes)).flatten()
}

/// The argument of a command: query, database, table, user, or thread; `None` if it has none that is text.
pub(super) fn argument(command: u8, body: &[u8], capabilities: Option<u64>) -> Option<String> {
    let said = match command {
        QUERY => query(body, capabilities).unwrap_or_default(),
        INIT_DATABASE | 5 | 6 | STATEMENT_PREPARE => body,
        FIELD_LIST | CHANGE_USER => until_zero(&mut Reader::new(body)),
        12 => {
            return Reader::new(body).array().map(|thread| u32::from_le_bytes(thread).to_string());
        }
        _ => return None,
    };
    // Some clients also send the terminating zero.
    let said = said.strip_suffix(&[0]).unwrap_or(said);
    Some(text(said, ARGUMENT_BYTES_MAX)).filter(|said| !said.is_empty())
}

/// The text of a query, after its attributes if these were negotiated.
fn query(body: &[u8], capabilities: Option<u64>) -> Option<&[u8]> {
    // No query text begins with these bytes: they announce no attributes, in one set.
    if let [0, 1, query @ ..] = body {
        return Some(query);
    }
    if capabilities.is_none_or(|capabilities| capabilities & capability::QUERY_ATTRIBUTES == 0) {
        return Some(body);
    }
    let mut reader = Reader::new(body);
    let count = usize::try_from(number(&mut reader)?).ok()?;
    number(&mut reader)?;
    let nulls = reader.take(count.div_ceil(8))?;
    let mut kinds = Vec::new();
    if reader.u8()? == 1 {
        // Each attribute has at least three bytes, so the length of the body bounds the loop.
        for _ in 0..count {
            kinds.push(reader.array::<2>()?[0]);
            string(&mut reader)?;
        }
    }
    for (index, kind) in kinds.into_iter().enumerate() {
        if nulls[index / 8] >> (index % 8) & 1 == 1 {
            continue;
        }
        match kind {
            1 => reader.take(1)?,
            2 | 13 => reader.take(2)?,
            3 | 4 | 9 => reader.take(4)?,
            5 | 8 => reader.take(8)?,
            6 => &[],
            7 | 10..=12 => reader.vector8()?,
            _ => string(&mut reader)?,
        };
    }
    Some(reader.rest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_stand_before_a_query() {
        let both = Some(capability::QUERY_ATTRIBUTES);
        assert_eq!(argument(QUERY, b"select 1\0", None).as_deref(), Some("select 1"));
        assert_eq!(argument(QUERY, b"\x00\x01select 1", both).as_deref(), Some("select 1"));
        // Two attributes: a one-byte number, and NULL.
        let body = b"\x02\x01\x02\x01\x01\x00\x01a\x06\x00\x01b\x07select 1";
        assert_eq!(argument(QUERY, body, both).as_deref(), Some("select 1"));
        assert_eq!(argument(QUERY, &body[..9], both), None);
    }

    #[test]
    fn commands_are_called_as_in_zeek() {
        assert_eq!(name(STATEMENT_PREPARE), "stmt_prepare");
        assert_eq!(name(31), "reset_connection");
        assert_eq!(name(99), "unknown-99");
        assert_eq!(statement(STATEMENT_EXECUTE, &[7, 0, 0, 0, 0]), Some(7));
        assert_eq!(statement(QUERY, b"select"), None);
    }
}
