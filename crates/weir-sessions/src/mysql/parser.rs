//! [`MysqlParser`]: turns bytes of both directions into exchanges.

use super::answer::{Answer, Packet, Taken, take_error, take_ok};
use super::command::{self, ARGUMENT_BYTES_MAX};
use super::compressed::{Unpacked, Unpacker};
use super::exchange::{Asked, MysqlConnection, MysqlExchange, ZLIB};
use super::packet::{Greeting, HEADER_BYTES, LONG_BYTES, Login, capability, measure};
use crate::frames::{Frame, Frames, Head, Next};
use crate::pairing::Waiting;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum bytes kept of a packet.
pub const PACKET_BYTES_MAX: usize = 2048;

/// Maximum number of unanswered commands per connection.
pub const WAITING_MAX: usize = 64;

/// Maximum number of prepared statements per connection whose queries are kept.
pub const STATEMENTS_MAX: usize = 64;

/// State of one direction.
#[derive(Debug, Default)]
struct Side {
    frames: Frames,
    /// The start of the next packet is unknown. Bytes are skipped until a packet of the other side shows
    /// where the next one begins.
    is_lost: bool,
    /// Bytes are missing: the next packet must look like a command.
    is_doubtful: bool,
    /// The last packet continues in the next one.
    is_long: bool,
}

/// Maximum number of sessions from one packet of the compressed protocol: clients wait for answers.
const UNPACKED_SESSIONS_MAX: usize = 256;

/// Parses one connection.
#[derive(Debug, Default)]
pub struct MysqlParser {
    sides: [Side; 2],
    client: Option<Direction>,
    connection: Arc<MysqlConnection>,
    /// Capabilities of the server.
    server_capabilities: Option<u64>,
    /// The login is over, or the capture began after it.
    is_in: bool,
    waiting: Waiting<MysqlExchange, WAITING_MAX>,
    answer: Answer,
    /// The client's bytes after a gap may be delivered late: the server may have answered them already.
    is_client_late: bool,
    /// The client sends a file.
    sends_file: bool,
    /// Queries of prepared statements, oldest first.
    statements: VecDeque<(u32, Arc<str>)>,
    /// Decompression of both directions, once everything after the login is compressed.
    unpackers: Option<[Unpacker; 2]>,
    /// Number of sessions from the current compressed packet of each direction.
    unpacked_sessions: [usize; 2],
    cut_off: CutOff,
}

type Sessions = Vec<Box<dyn Session>>;

impl SessionParser for MysqlParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Sessions) -> Progress {
        let mut rest = data.bytes;
        let mut progress = Progress::Wanted;
        if self.unpackers.is_none() {
            progress = self.parse_plain(data, &mut rest, sessions);
        }
        if let Some(unpackers) = &mut self.unpackers {
            let mut unpacker = std::mem::take(&mut unpackers[data.from as usize]);
            progress = self.parse_packed(data, rest, &mut unpacker, sessions);
            if let Some(unpackers) = &mut self.unpackers {
                unpackers[data.from as usize] = unpacker;
            }
        }
        if progress != Progress::Wanted {
            self.finish(sessions);
        }
        progress
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Sessions) -> Progress {
        if self.unpackers.is_some() && length_bytes > 0 {
            // The start of the next compressed packet is unknown.
            self.cut_off.sessions += 1;
            self.finish(sessions);
            return Progress::Done;
        }
        let side = &mut self.sides[from as usize];
        if side.is_lost || side.frames.lose(length_bytes) {
            return Progress::Wanted;
        }
        side.is_long = false;
        // Answers can no longer be matched to commands.
        sessions.extend(self.waiting.take_all().map(|waiting| Box::new(waiting) as Box<dyn Session>));
        self.answer.reset();
        self.sends_file = false;
        if self.client == Some(from) {
            // Most commands fit one segment, so the next segment most likely begins with a command.
            side.is_doubtful = true;
            self.is_client_late = true;
            return Progress::Wanted;
        }
        // Answers often have many segments. The next answer begins after the client's next command.
        side.is_lost = true;
        self.settle()
    }

    fn finish(&mut self, sessions: &mut Sessions) {
        sessions.extend(self.waiting.take_all().map(|waiting| Box::new(waiting) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.cut_off.sessions + self.waiting.evicted(), ..self.cut_off }
    }
}

/// Like [`measure`], but after a gap, where the bytes may be no packet: accepts only commands shorter than 1
/// MiB.
fn measure_command(bytes: &[u8]) -> Head {
    match bytes {
        [_, _, 16..=255, ..] | [0, 0, 0, ..] | [_, _, _, 1..=255, ..] => Head::Wrong,
        [_, _, _, 0, kind, ..] if command::is_known(*kind) => measure(bytes),
        [_, _, _, _, _, ..] => Head::Wrong,
        _ => Head::Short,
    }
}

impl MysqlParser {
    /// Parses plain packets from the front of `rest`: all, or those before the start of compression.
    fn parse_plain(&mut self, data: &Data<'_>, rest: &mut &[u8], sessions: &mut Sessions) -> Progress {
        let was_packed = self.unpackers.is_some();
        loop {
            let side = &mut self.sides[data.from as usize];
            if side.is_lost {
                return Progress::Wanted;
            }
            let measure = if side.is_doubtful { measure_command } else { measure };
            let before = sessions.len();
            let progress = match side.frames.next(rest, data.time, PACKET_BYTES_MAX, measure) {
                Next::Frame(frame) => self.take_packet(data.from, &frame, rest.len(), sessions),
                Next::More => return Progress::Wanted,
                Next::Lost => {
                    side.is_lost = true;
                    self.settle()
                }
            };
            if progress != Progress::Wanted || self.unpackers.is_some() != was_packed {
                return progress;
            }
            // Few compressed bytes may contain millions of unsolicited answers.
            let unpacked = &mut self.unpacked_sessions[data.from as usize];
            *unpacked += sessions.len() - before;
            if was_packed && *unpacked > UNPACKED_SESSIONS_MAX {
                self.cut_off.sessions += 1;
                return Progress::Done;
            }
        }
    }

    /// Parses packets of the compressed protocol.
    fn parse_packed(
        &mut self,
        data: &Data<'_>,
        mut rest: &[u8],
        unpacker: &mut Unpacker,
        sessions: &mut Sessions,
    ) -> Progress {
        loop {
            let mut piece = match unpacker.next(&mut rest) {
                Unpacked::Bytes(piece, is_first) => {
                    if is_first {
                        self.unpacked_sessions[data.from as usize] = 0;
                    }
                    piece
                }
                Unpacked::More => return Progress::Wanted,
                Unpacked::Wrong => {
                    self.cut_off.sessions += 1;
                    return Progress::Done;
                }
            };
            let progress = self.parse_plain(data, &mut piece, sessions);
            if progress != Progress::Wanted {
                return progress;
            }
        }
    }

    fn take_packet(
        &mut self,
        from: Direction,
        frame: &Frame<'_>,
        rest_bytes: usize,
        sessions: &mut Sessions,
    ) -> Progress {
        let Some((&[_, _, _, sequence], payload)) = frame.bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Progress::Wanted;
        };
        let packet = Packet { sequence, length_bytes: frame.length_bytes - HEADER_BYTES as u64, payload };
        let side = &mut self.sides[from as usize];
        let goes_on = std::mem::replace(&mut side.is_long, packet.length_bytes == LONG_BYTES);
        if goes_on {
            return Progress::Wanted;
        }
        // Only a server sends sequence 0 with these bytes first, unless the capture began in the middle.
        let is_server = sequence == 0 && matches!(payload.first(), Some(9 | 10 | 0xff));
        let client = *self.client.get_or_insert(if is_server { from.other() } else { from });
        if client != from {
            return self.take_server(frame, &packet, sessions);
        }
        side.is_doubtful = false;
        if self.sends_file {
            self.sends_file = packet.length_bytes > 0;
            return Progress::Wanted;
        }
        if sequence == 0 {
            // After the login all packets are compressed. Without the login or its answer, compression was
            // not announced.
            let is_agreed = self.unpackers.is_none() && self.connection.compression().is_some();
            if is_agreed || (self.connection.capabilities.is_none() && command::is_packed(payload)) {
                self.cut_off.sessions += 1;
                return Progress::Done;
            }
            self.is_in = true;
            self.take_command(frame, payload, sessions);
        } else if !self.is_in {
            self.is_in = true;
            return self.take_login(frame, &packet, rest_bytes);
        }
        // Other packets carry authentication data.
        Progress::Wanted
    }

    /// Gives up once both directions have lost the start of their packets.
    fn settle(&mut self) -> Progress {
        if self.sides.iter().all(|side| side.is_lost) {
            self.cut_off.sessions += 1;
            return Progress::Done;
        }
        Progress::Wanted
    }

    fn take_login(&mut self, frame: &Frame<'_>, packet: &Packet<'_>, rest_bytes: usize) -> Progress {
        let Some(login) = Login::parse(packet.payload, packet.length_bytes) else { return Progress::Wanted };
        let mut exchange = self
            .waiting
            .take(|waiting| waiting.asked == Some(Asked::Login))
            .unwrap_or_else(|| MysqlExchange::new(frame.time, &self.connection));
        exchange.time = frame.time;
        exchange.asked = Some(if login.is_tls { Asked::Tls } else { Asked::Login });
        exchange.argument = login.user.as_deref().map(Arc::from);
        let both = self.server_capabilities.unwrap_or(u64::MAX) & login.capabilities;
        let connection = Arc::make_mut(&mut self.connection);
        connection.capabilities = Some(both);
        connection.user = login.user;
        connection.database = login.database;
        connection.program = login.program;
        connection.plugin = login.plugin.or(connection.plugin.take());
        exchange.connection = Arc::clone(&self.connection);
        self.waiting.push(exchange, drop);
        if login.is_tls {
            return Progress::HandOver { rest_bytes };
        }
        if both & (capability::COMPRESS | capability::ZSTD) != 0 && self.server_capabilities.is_none() {
            // The server's answer, after which compression begins, is not captured.
            self.cut_off.sessions += 1;
            return Progress::Done;
        }
        Progress::Wanted
    }

    fn take_command(&mut self, frame: &Frame<'_>, payload: &[u8], sessions: &mut Sessions) {
        let Some((command, body)) = payload.split_first() else { return };
        let server = &mut self.sides[self.client.map_or(1, |client| client.other() as usize)];
        if server.is_lost {
            // The server's next bytes are the answer to this command.
            *server = Side::default();
        }
        let mut exchange = MysqlExchange::new(frame.time, &self.connection);
        exchange.command = Some(*command);
        exchange.argument = command::argument(*command, body, self.connection.capabilities).map(Arc::from);
        self.cut_off.parts += u64::from(
            exchange.argument.is_some()
                && frame.length_bytes > (HEADER_BYTES + 3 + ARGUMENT_BYTES_MAX) as u64,
        );
        exchange.statement = command::statement(*command, body);
        let known = self.statements.iter().position(|(number, _)| Some(*number) == exchange.statement);
        match (known, *command) {
            (Some(at), command::STATEMENT_CLOSE) => {
                exchange.argument = self.statements.remove(at).map(|(_, query)| query);
            }
            (Some(at), _) => exchange.argument = Some(Arc::clone(&self.statements[at].1)),
            (None, _) => {}
        }
        let over = match *command {
            // The data is an argument of a later execution.
            command::STATEMENT_LONG_DATA => None,
            command if command::is_answered(command) => {
                self.waiting.push(exchange, |oldest| sessions.push(Box::new(oldest)));
                None
            }
            _ => Some(exchange),
        };
        sessions.extend(over.map(|over| Box::new(over) as Box<dyn Session>));
    }

    fn take_server(&mut self, frame: &Frame<'_>, packet: &Packet<'_>, sessions: &mut Sessions) -> Progress {
        if !self.is_in && packet.sequence == 0 && self.take_greeting(frame, packet.payload) {
            return Progress::Wanted;
        }
        if self.answer.is_cut_by(packet) {
            self.answer.reset();
            sessions.extend(self.waiting.take_oldest().map(|cut| Box::new(cut) as Box<dyn Session>));
        }
        let is_login = self.waiting.oldest().is_some_and(|front| front.asked.is_some());
        if is_login {
            return self.take_login_answer(packet, sessions);
        }
        if self.answer.is_behind(packet) {
            return Progress::Wanted;
        }
        if !self.answer.is_begun() && self.is_client_late {
            // Clients seldom pipeline: the answer belongs to the last command.
            while self.waiting.iter().len() > 1 {
                self.is_client_late = false;
                sessions.extend(self.waiting.take_oldest().map(|late| Box::new(late) as Box<dyn Session>));
            }
        }
        if self.waiting.is_empty() {
            self.waiting.push(MysqlExchange::new(frame.time, &self.connection), drop);
        }
        let Some(exchange) = self.waiting.oldest_mut() else { return Progress::Wanted };
        match self.answer.take(packet, exchange) {
            Taken::More => {}
            Taken::WantsFile => self.sends_file = true,
            Taken::Over => {
                if let Some(over) = self.waiting.take_oldest() {
                    self.conclude(&over);
                    sessions.push(Box::new(over));
                }
            }
        }
        Progress::Wanted
    }

    /// Takes a greeting, or an error in its place; returns whether it was a greeting.
    fn take_greeting(&mut self, frame: &Frame<'_>, payload: &[u8]) -> bool {
        let Some(greeting) = Greeting::parse(payload) else {
            if payload.first() == Some(&0xff) {
                self.expect_login(frame);
            }
            return false;
        };
        self.server_capabilities = Some(greeting.capabilities);
        let connection = Arc::make_mut(&mut self.connection);
        connection.version = Some(greeting.version).filter(|version| !version.is_empty());
        connection.thread = Some(greeting.thread);
        connection.plugin = greeting.plugin;
        self.expect_login(frame);
        true
    }

    fn expect_login(&mut self, frame: &Frame<'_>) {
        if self.waiting.is_empty() {
            let mut exchange = MysqlExchange::new(frame.time, &self.connection);
            exchange.asked = Some(Asked::Login);
            self.waiting.push(exchange, drop);
        }
    }

    /// Takes an answer to the login, which may request more authentication data several times.
    fn take_login_answer(&mut self, packet: &Packet<'_>, sessions: &mut Sessions) -> Progress {
        let Some(exchange) = self.waiting.oldest_mut() else { return Progress::Wanted };
        match packet.payload.split_first() {
            Some((0, _)) => {
                take_ok(packet.payload, exchange);
            }
            Some((0xff, _)) => drop(take_error(packet.payload, exchange)),
            Some((0xfe, plugin)) => {
                let plugin = &plugin[..memchr::memchr(0, plugin).unwrap_or(plugin.len())];
                let connection = Arc::make_mut(&mut self.connection);
                connection.plugin = Some(crate::line::text(plugin, 256)).filter(|plugin| !plugin.is_empty());
                exchange.connection = Arc::clone(&self.connection);
                return Progress::Wanted;
            }
            _ => return Progress::Wanted,
        }
        self.is_in = true;
        let compression = exchange.connection.compression().filter(|_| exchange.is_good == Some(true));
        sessions.extend(self.waiting.take_oldest().map(|over| Box::new(over) as Box<dyn Session>));
        match compression {
            Some(ZLIB) => self.unpackers = Some(Default::default()),
            Some(_) => {
                self.cut_off.sessions += 1;
                return Progress::Done;
            }
            None => {}
        }
        Progress::Wanted
    }

    /// Applies a completed command to the state of the connection.
    fn conclude(&mut self, over: &MysqlExchange) {
        let client = self.client.unwrap_or(Direction::Originator);
        let side = &mut self.sides[client as usize];
        if side.is_lost && self.waiting.is_empty() {
            // The client's next bytes are a command.
            *side = Side { is_doubtful: true, ..Side::default() };
        }
        self.sends_file = false;
        if over.is_good != Some(true) {
            return;
        }
        match (over.command, over.statement) {
            (Some(command::INIT_DATABASE), _) => {
                Arc::make_mut(&mut self.connection).database = over.argument.as_deref().map(str::to_owned);
            }
            (Some(command::RESET_CONNECTION), _) => self.statements.clear(),
            (Some(command::CHANGE_USER), _) => {
                self.statements.clear();
                Arc::make_mut(&mut self.connection).user = over.argument.as_deref().map(str::to_owned);
            }
            (Some(command::STATEMENT_PREPARE), Some(number)) => {
                // The server may reuse a number if its reset was not seen.
                self.statements.retain(|(known, _)| *known != number);
                if self.statements.len() == STATEMENTS_MAX {
                    self.statements.pop_front();
                    self.cut_off.parts += 1;
                }
                let query = over.argument.clone().unwrap_or_else(|| Arc::from(""));
                self.statements.push_back((number, query));
            }
            _ => {}
        }
    }
}
