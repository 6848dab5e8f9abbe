//! MySQL and MariaDB (client/server protocol, version 10): one [`MysqlExchange`] for the login, and one per
//! command and answer. Bottom up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `packet` | packets; contents of greeting and login |
//! | `command` | names and arguments of commands |
//! | `answer` | state of the server's answer: columns, rows, next result |
//! | `compressed` | compressed packets → plain packets |
//! | `parser` | matching of answers and commands |
//! | `exchange` | the session, and its filter fields |
//!
//! Passwords are skipped; rows are counted and skipped. TLS is handed over. Data compressed with zlib is
//! decompressed on the fly; Zstandard is not supported: the connection is given up after its login, and
//! counted.

mod answer;
mod command;
mod compressed;
mod exchange;
mod packet;
mod parser;
mod probe;
#[cfg(test)]
mod tests;

pub use exchange::{MysqlConnection, MysqlExchange};
pub use parser::{MysqlParser, PACKET_BYTES_MAX, STATEMENTS_MAX, WAITING_MAX};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "mysql",
    service: "mysql",
    log: "mysql",
    transports: &["tcp"],
    ports: &[3306],
    hands_over: &["tls"],
    doc: "MySQL and MariaDB: logins, databases, and commands with their results",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(MysqlParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "cmd", "arg", "success", "rows", "response"],
    fields: exchange::FIELDS,
};

/// The header of the first or second packet, shorter than 64 KiB.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        2 => ByteSet::of(|byte| byte == 0),
        3 => ByteSet::of(|byte| byte <= 1),
        _ => ByteSet::ALL,
    }
}
