//! MySQL and MariaDB (the client/server protocol, version 10): one [`MysqlExchange`] for the login, and for each
//! command with its answer. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | is it MySQL? |
//! | `packet` | packets, and what the greeting and the login say |
//! | `command` | names of commands, and what they are for |
//! | `answer` | where the server stands in its answer: columns, rows, the next result |
//! | `compressed` | what is packed → packets |
//! | `parser` | the order of it all: which answer is for which command |
//! | `exchange` | what comes out, and its names in filters |
//!
//! Passwords are passed over, rows are counted and skipped. TLS is handed over. What zlib compressed is unpacked as it comes;
//! what Zstandard compressed is not read: the connection is given up behind its login, and counted.

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
    hands_over: &["tls"],
    doc: "MySQL and MariaDB: who logs in to which database, and commands with how they went",
    probe: probe::probe,
    may_begin,
    parser: || Box::new(MysqlParser::default()),
    carrier: None,
    fields: exchange::FIELDS,
};

/// The first or the second packet, shorter than 64 KiB.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        2 => ByteSet::of(|byte| byte == 0),
        3 => ByteSet::of(|byte| byte <= 1),
        _ => ByteSet::ALL,
    }
}
