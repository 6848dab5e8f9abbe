//! State of a server's answer to a command.
//!
//! ```text
//! answer     = result, { more results, result } ;
//! result     = ok | error | end | columns, column * n, [ end ], row *, ( end | ok that begins like an end | error ) ;
//! ```
//!
//! Client and server negotiate at login whether an end packet follows the columns. This parser detects the
//! end packet by its form, so it can parse connections whose login was not seen.

use super::command::{
    BINLOG_DUMP, BINLOG_DUMP_GTID, CHANGE_USER, FIELD_LIST, STATEMENT_FETCH, STATEMENT_PREPARE, STATISTICS,
};
use super::exchange::MysqlExchange;
use super::packet::{capability, number, string};
use crate::line::text;
use crate::wire::Reader;

/// Maximum bytes kept of a server's text.
const RESPONSE_BYTES_MAX: usize = 512;

/// Maximum number of columns of a result (MySQL's own limit).
const COLUMNS_MAX: u64 = 4096;

const MORE_RESULTS: u16 = 8;
const CURSOR: u16 = 0x40;

/// A server's packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) sequence: u8,
    /// Length of the payload, which may be longer than the available bytes.
    pub(super) length_bytes: u64,
    pub(super) payload: &'a [u8],
}

impl Packet<'_> {
    /// Whether the packet ends columns or rows.
    fn is_end(&self) -> bool {
        self.payload.first() == Some(&0xfe) && self.length_bytes < 9
    }

    /// Whether the packet is an end packet of five bytes, a form that no other packet has.
    fn is_short_end(&self) -> bool {
        self.payload.first() == Some(&0xfe) && self.length_bytes == 5
    }

    /// Server status flags in an end packet.
    fn end_state(&self) -> u16 {
        match self.payload {
            [_, _, _, low, high, ..] => u16::from_le_bytes([*low, *high]),
            _ => 0,
        }
    }
}

/// The next expected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// The first packet of a result.
    #[default]
    First,
    /// This many column definitions.
    Columns(u32),
    /// Rows; or the end packet after the columns, if no row was seen.
    Rows { is_begun: bool },
    /// Binary log events, which have no end.
    Endless,
}

/// The effect of a packet on its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The answer continues.
    More,
    /// The answer is complete.
    Over,
    /// The server requests a file from the client.
    WantsFile,
}

/// State of the server.
#[derive(Debug, Default)]
pub(super) struct Answer {
    place: Place,
    /// The answer has begun, but is not complete.
    is_begun: bool,
    /// Number of outstanding parameter and column definitions after the answer to a PREPARE.
    descriptions: u32,
    last_sequence: u8,
}

impl Answer {
    /// Whether this packet begins an answer although the previous one is incomplete.
    pub(super) fn is_cut_by(&self, packet: &Packet<'_>) -> bool {
        // Sequence 1 after 0 is a wrap-around.
        packet.sequence == 1 && self.last_sequence != 0 && self.is_begun
    }

    /// Whether this packet still belongs to the previous answer.
    pub(super) fn is_behind(&mut self, packet: &Packet<'_>) -> bool {
        let last = std::mem::replace(&mut self.last_sequence, packet.sequence);
        if self.is_begun {
            return false;
        }
        if packet.sequence == 1 && last != 0 {
            self.descriptions = 0;
            return false;
        }
        if packet.is_short_end() && packet.sequence != 1 {
            return true;
        }
        let is_description = self.descriptions > 0;
        self.descriptions = self.descriptions.saturating_sub(1);
        is_description
    }

    /// Whether an answer has begun, but is not complete.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Drops the current answer.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes a packet of the answer to `exchange`.
    pub(super) fn take(&mut self, packet: &Packet<'_>, exchange: &mut MysqlExchange) -> Taken {
        let taken = match self.place {
            Place::First => self.take_first(packet, exchange),
            Place::Columns(left) => {
                self.place =
                    if left > 1 { Place::Columns(left - 1) } else { Place::Rows { is_begun: false } };
                Taken::More
            }
            Place::Rows { is_begun } => self.take_row(packet, is_begun, exchange),
            Place::Endless => Taken::More,
        };
        self.is_begun = taken != Taken::Over;
        if taken == Taken::Over {
            self.place = Place::First;
        }
        taken
    }

    fn take_first(&mut self, packet: &Packet<'_>, exchange: &mut MysqlExchange) -> Taken {
        let command = exchange.command;
        let Some((kind, _)) = packet.payload.split_first() else { return Taken::Over };
        match (kind, command) {
            (0xff, _) => take_error(packet.payload, exchange),
            (0xfe, Some(CHANGE_USER)) | (1, Some(CHANGE_USER)) => Taken::More,
            (_, Some(STATEMENT_FETCH)) => self.take_row(packet, true, exchange),
            (0, Some(STATEMENT_PREPARE)) if packet.length_bytes >= 12 => {
                self.take_prepared(packet.payload, exchange);
                Taken::Over
            }
            (0, Some(BINLOG_DUMP | BINLOG_DUMP_GTID)) => {
                exchange.is_good = Some(true);
                self.place = Place::Endless;
                Taken::More
            }
            (0, _) => self.go_on(take_ok(packet.payload, exchange)),
            (0xfe, _) if packet.is_end() => {
                exchange.is_good = Some(true);
                self.go_on(packet.end_state())
            }
            (0xfb, _) => Taken::WantsFile,
            (_, Some(STATISTICS)) => {
                exchange.is_good = Some(true);
                exchange.response = Some(text(packet.payload, RESPONSE_BYTES_MAX));
                Taken::Over
            }
            // Each packet is one column definition.
            (_, Some(FIELD_LIST)) => {
                self.place = Place::Rows { is_begun: true };
                exchange.rows = Some(1);
                Taken::More
            }
            _ => self.take_columns(packet, exchange),
        }
    }

    /// Takes the number of columns.
    fn take_columns(&mut self, packet: &Packet<'_>, exchange: &mut MysqlExchange) -> Taken {
        let mut reader = Reader::new(packet.payload);
        let has_flag = exchange.can(capability::OPTIONAL_METADATA);
        let flag = if has_flag { reader.u8() } else { None };
        let count = number(&mut reader).filter(|count| (1..=COLUMNS_MAX).contains(count));
        // A flag says whether column definitions follow: in MySQL before the number, in MariaDB after it.
        let are_told = flag != Some(0) && reader.u8() != Some(0);
        match count {
            Some(count) if are_told => self.place = Place::Columns(count as u32),
            Some(_) => self.place = Place::Rows { is_begun: false },
            // Not a known answer.
            None => return Taken::Over,
        }
        exchange.rows.get_or_insert(0);
        Taken::More
    }

    fn take_row(&mut self, packet: &Packet<'_>, is_begun: bool, exchange: &mut MysqlExchange) -> Taken {
        match packet.payload.first() {
            Some(0xff) => return take_error(packet.payload, exchange),
            Some(0xfe) if packet.is_short_end() => {
                let state = packet.end_state();
                if !is_begun && state & CURSOR == 0 {
                    self.place = Place::Rows { is_begun: true };
                    return Taken::More;
                }
                exchange.is_good = Some(true);
                return self.go_on(state);
            }
            // A row that begins with 0xfe has a long text, and thus fills its packet.
            Some(0xfe) if packet.length_bytes < super::packet::LONG_BYTES => {
                let state = read_ok(packet.payload).map_or(0, |ok| ok.state);
                exchange.is_good = Some(true);
                return self.go_on(state);
            }
            _ => exchange.rows = Some(exchange.rows.unwrap_or(0).saturating_add(1)),
        }
        self.place = Place::Rows { is_begun: true };
        Taken::More
    }

    /// Ends a result; another one may follow.
    fn go_on(&mut self, state: u16) -> Taken {
        self.place = Place::First;
        if state & MORE_RESULTS == 0 { Taken::Over } else { Taken::More }
    }

    /// Takes the statement's number, and the number of definitions that follow.
    fn take_prepared(&mut self, payload: &[u8], exchange: &mut MysqlExchange) {
        let [_, a, b, c, d, columns @ .., _, _, _] = payload.first_chunk::<12>().copied().unwrap_or([0; 12]);
        let [columns, parameters] =
            [[columns[0], columns[1]], [columns[2], columns[3]]].map(u16::from_le_bytes);
        exchange.statement = Some(u32::from_le_bytes([a, b, c, d]));
        exchange.is_good = Some(true);
        self.descriptions = u32::from(columns) + u32::from(parameters);
    }
}

/// The contents of an OK packet.
struct Ok<'a> {
    rows: u64,
    insert: u64,
    state: u16,
    info: &'a [u8],
}

fn read_ok(payload: &[u8]) -> Option<Ok<'_>> {
    let mut reader = Reader::new(payload.get(1..)?);
    let (rows, insert) = (number(&mut reader)?, number(&mut reader)?);
    let state = reader.array().map_or(0, u16::from_le_bytes);
    reader.array::<2>(); // warnings
    Some(Ok { rows, insert, state, info: reader.rest() })
}

/// Takes an OK packet; returns the server status flags.
pub(super) fn take_ok(payload: &[u8], exchange: &mut MysqlExchange) -> u16 {
    exchange.is_good = Some(true);
    let Some(ok) = read_ok(payload) else { return 0 };
    exchange.rows = Some(exchange.rows.unwrap_or(0).saturating_add(ok.rows));
    exchange.insert = Some(ok.insert).filter(|insert| *insert != 0).or(exchange.insert);
    let mut reader = Reader::new(ok.info);
    let info = match string(&mut reader) {
        Some(info) if reader.is_empty() || exchange.can(capability::SESSION_TRACK) => info,
        // Without capabilities the format of this field is unknown: a text, or a text and session state.
        _ if exchange.connection.capabilities.is_none() && ok.info.iter().any(u8::is_ascii_control) => &[],
        _ => ok.info,
    };
    if !info.is_empty() {
        exchange.response = Some(text(info, RESPONSE_BYTES_MAX));
    }
    ok.state
}

/// Takes an error packet: code, `#` and SQL state, message.
pub(super) fn take_error(payload: &[u8], exchange: &mut MysqlExchange) -> Taken {
    let mut reader = Reader::new(payload.get(1..).unwrap_or_default());
    let code = reader.array().map(u16::from_le_bytes);
    if code == Some(0xffff) {
        // A progress report (MariaDB).
        return Taken::More;
    }
    exchange.is_good = Some(false);
    exchange.error = code;
    let message = match reader.rest() {
        [b'#', a, b, c, d, e, message @ ..] => {
            exchange.sql_state = Some(text(&[*a, *b, *c, *d, *e], 5));
            message
        }
        message => message,
    };
    exchange.response = Some(text(message, RESPONSE_BYTES_MAX)).filter(|message| !message.is_empty());
    Taken::Over
}
