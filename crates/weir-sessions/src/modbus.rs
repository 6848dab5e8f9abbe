//! Modbus over TCP (Modbus Messaging on TCP/IP 1.0b): one [`ModbusTransaction`] per request and answer.

use crate::frames::{Frames, Head, Next};
use crate::pairing::{Exchange, Held, Pairing};
use crate::session::{Words, named, session_fields};
use crate::values::{name, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "modbus",
    service: "modbus",
    log: "modbus",
    transports: &["tcp"],
    ports: &[502],
    hands_over: &[],
    doc: "Modbus: requests to controllers, and their answers (Modbus/TCP)",
    probe,
    may_begin,
    open: |_| Box::new(ModbusParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "unit", "func", "pdu_type", "exception"],
    fields: FIELDS,
};

/// Protocol identifier 0, and a length below 256.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        2..=4 => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

/// Maximum length of a message (§4.1).
const MESSAGE_BYTES_MAX: usize = 260;

/// Maximum number of unanswered requests per connection: a controller accepts up to 16 (§4.3.2).
pub const WAITING_MAX: usize = 64;

/// A message: its header and main fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Transaction identifier.
    pub transaction: u16,
    /// Unit identifier: the controller behind a gateway.
    pub unit: u8,
    /// Function code; plus 0x80 in an exception response.
    pub function: u8,
    /// First register or coil in a request.
    pub address: Option<u16>,
    /// Number of registers or coils.
    pub count: Option<u16>,
    /// Exception code.
    pub exception: Option<u8>,
}

/// A request with its response, or one of them if the other was not seen.
pub type ModbusTransaction = Exchange<Message>;

/// Whether the form of a message is that of a request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Request,
    Response,
    Either,
}

impl Message {
    /// Parses a complete message with its header.
    fn parse(bytes: &[u8]) -> Option<(Self, Form)> {
        let mut reader = Reader::new(bytes);
        let transaction = reader.u16()?;
        reader.take(4)?;
        let (unit, function) = (reader.u8()?, reader.u8()?);
        let data = reader.rest();
        let two = |at: usize| data.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let form = match (function, data) {
            (0x80.., [_]) => Form::Response,
            (1..=4, [length, ..]) if usize::from(*length) + 1 == data.len() && data.len() != 4 => {
                Form::Response
            }
            (1..=4, [_, _, _, _]) => Form::Request,
            (15 | 16, [_, _, _, _]) => Form::Response,
            (15 | 16, [_, _, _, _, length, ..]) if usize::from(*length) + 5 == data.len() => Form::Request,
            _ => Form::Either,
        };
        let is_asking = form != Form::Response;
        let message = Self {
            transaction,
            unit,
            function,
            address: two(0).filter(|_| is_asking && matches!(function, 1..=6 | 15 | 16 | 22..=24)),
            count: two(2).filter(|_| is_asking && matches!(function, 1..=4 | 15 | 16 | 23)),
            exception: data.first().copied().filter(|_| function >= 0x80),
        };
        Some((message, form))
    }

    /// The fields in which a request and its response agree.
    fn key(&self) -> (u16, u8, u8) {
        (self.transaction, self.unit, self.function & 0x7f)
    }
}

/// Measures a message by its header (§3.1.3): transaction, protocol 0, length of the rest.
fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [_, _, 0, 0, high, low, ..] => match u16::from_be_bytes([*high, *low]) {
            length @ 2..=254 => Head::Bytes(6 + u64::from(length)),
            _ => Head::Wrong,
        },
        [_, _, protocol @ ..] if protocol.iter().take(2).any(|byte| *byte != 0) => Head::Wrong,
        _ => Head::Short,
    }
}

/// Detects a message with a known function on the Modbus port; on other ports a complete request and its
/// response.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| match measure(bytes) {
        Head::Bytes(length) => match bytes.get(..length as usize) {
            Some(message) => match Message::parse(message) {
                Some((message, _)) if matches!(message.function & 0x7f, 1..=24 | 43 | 65..=72 | 90 | 100..=110) => {
                    Ok(Some(message))
                }
                _ => Err(()),
            },
            None => Ok(None),
        },
        Head::Short => Ok(None),
        Head::Wrong => Err(()),
    };
    let is_port_known = opening.is_on(PROTOCOL.ports);
    match (side(opening.originator), side(opening.responder)) {
        (Err(()), _) | (_, Err(())) => Probe::NotForUs,
        (Ok(Some(_)), _) | (_, Ok(Some(_))) if is_port_known => Probe::Certain,
        (Ok(Some(asked)), Ok(Some(answered))) if asked.key() == answered.key() => Probe::Certain,
        (Ok(Some(_)), Ok(Some(_))) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

/// Parses the transactions of one connection.
#[derive(Debug, Default)]
pub struct ModbusParser {
    sides: [Frames; 2],
    client: Option<Direction>,
    pairing: Pairing<Message, WAITING_MAX>,
}

impl SessionParser for ModbusParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            match self.sides[data.from as usize].next(&mut rest, data.time, MESSAGE_BYTES_MAX, measure) {
                Next::Frame(frame) => {
                    if let Some((message, form)) = Message::parse(&frame.bytes) {
                        self.take_message(data.from, frame.time, message, form, sessions);
                    }
                }
                Next::Lost if self.sides.iter().all(Frames::is_lost) => {
                    self.finish(sessions);
                    return Progress::Done;
                }
                Next::More | Next::Lost => return Progress::Wanted,
            }
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        self.sides[from as usize].lose(length_bytes);
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.pairing.take_all().map(|unanswered| unanswered as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        self.pairing.cut_off()
    }
}

impl ModbusParser {
    fn take_message(
        &mut self,
        from: Direction,
        time: Timestamp,
        message: Message,
        form: Form,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        let client = *self.client.get_or_insert(if form == Form::Response { from.other() } else { from });
        if from == client {
            // Some clients use one number for all requests. Over TCP no request is a retransmission.
            let oldest = self.pairing.ask(from, time, message, |_, _| false);
            sessions.extend(oldest.map(|oldest| oldest as Box<dyn Session>));
        } else {
            let fits = |request: &Message, response: &Message| request.key() == response.key();
            sessions.push(self.pairing.answer(from, time, message, fits));
        }
    }
}

impl Held for Message {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl ModbusTransaction {
    /// The message with the function: the request, or else the response.
    fn message(&self) -> Option<&Message> {
        self.request.as_ref().or(self.response.as_ref())
    }

    /// Name of the function, as in Zeek: `READ_HOLDING_REGISTERS`.
    pub fn function_name(&self) -> Option<Cow<'static, str>> {
        Some(function_name(self.message()?.function & 0x7f))
    }

    /// Name of the exception: `ILLEGAL_DATA_ADDRESS`.
    pub fn exception_name(&self) -> Option<Cow<'static, str>> {
        Some(match self.response.as_ref()?.exception? {
            1 => "ILLEGAL_FUNCTION".into(),
            2 => "ILLEGAL_DATA_ADDRESS".into(),
            3 => "ILLEGAL_DATA_VALUE".into(),
            4 => "SLAVE_DEVICE_FAILURE".into(),
            5 => "ACKNOWLEDGE".into(),
            6 => "SLAVE_DEVICE_BUSY".into(),
            8 => "MEMORY_PARITY_ERROR".into(),
            10 => "GATEWAY_PATH_UNAVAILABLE".into(),
            11 => "GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND".into(),
            other => format!("unknown-{other}").into(),
        })
    }
}

impl Session for ModbusTransaction {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The name of a function: `READ_COILS`.
fn function_name(function: u8) -> Cow<'static, str> {
    match function {
        1 => "READ_COILS".into(),
        2 => "READ_DISCRETE_INPUTS".into(),
        3 => "READ_HOLDING_REGISTERS".into(),
        4 => "READ_INPUT_REGISTERS".into(),
        5 => "WRITE_SINGLE_COIL".into(),
        6 => "WRITE_SINGLE_REGISTER".into(),
        7 => "READ_EXCEPTION_STATUS".into(),
        8 => "DIAGNOSTICS".into(),
        11 => "GET_COMM_EVENT_COUNTER".into(),
        12 => "GET_COMM_EVENT_LOG".into(),
        15 => "WRITE_MULTIPLE_COILS".into(),
        16 => "WRITE_MULTIPLE_REGISTERS".into(),
        17 => "REPORT_SLAVE_ID".into(),
        20 => "READ_FILE_RECORD".into(),
        21 => "WRITE_FILE_RECORD".into(),
        22 => "MASK_WRITE_REGISTER".into(),
        23 => "READ_WRITE_MULTIPLE_REGISTERS".into(),
        24 => "READ_FIFO_QUEUE".into(),
        43 => "ENCAP_INTERFACE_TRANSPORT".into(),
        _ => format!("unknown-{function}").into(),
    }
}

/// All names of functions.
const FUNCTIONS: Words = Words { list: || named(0..=0x7f, function_name), others: &["unknown-"] };

session_fields! { ModbusTransaction;
    "mbtcp.trans_id" ["modbus.tid"] tid: Unsigned, "Number of the transaction" => |t| unsigned(t.message().map(|m| m.transaction));
    "mbtcp.unit_id" ["modbus.unit"] unit: Unsigned, "Controller behind a gateway" => |t| unsigned(t.message().map(|m| m.unit));
    "modbus.func" [] func: Text in FUNCTIONS, "Requested function: READ_HOLDING_REGISTERS" => |t| name(t.function_name());
    "modbus.pdu_type" [] pdu_type: Text, "Type of the last message: REQ, RESP" => |t| text(Some(if t.response.is_some() { "RESP" } else { "REQ" }));
    "modbus.exception" [] exception: Text, "Name of the exception: ILLEGAL_DATA_ADDRESS" => |t| name(t.exception_name());
    // Fields without a column in the log.
    "modbus.func_code" [] _: Unsigned, "Number of the function" => |t| unsigned(t.message().map(|m| m.function & 0x7f));
    "modbus.exception_code" [] _: Unsigned, "Number of the exception" => |t| unsigned(t.response.and_then(|m| m.exception));
    "modbus.reference_num" ["modbus.address"] _: Unsigned, "First register or coil" => |t| unsigned(t.request.and_then(|m| m.address));
    "modbus.word_cnt" ["modbus.count"] _: Unsigned, "Number of registers or coils" => |t| unsigned(t.request.and_then(|m| m.count));
    "modbus.response_time" ["modbus.rtt"] _: Interval, "Time from request to answer" => |t| t.rtt_ns.map_or(Value::Absent, Value::Interval);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::rows;

    const NAMES: &[&str] =
        &["tid", "unit", "func", "pdu_type", "exception", "modbus.address", "modbus.count"];

    #[test]
    fn requests_meet_their_answers() {
        let talk = "> 0001 0000 0006 11 03 006b 0003 0002 0000 0006 11 05 00ac ff00 0003 0000 0006 11 03 ffff 0001\n\
                    < 0002 0000 0006 11 05 00ac ff00\n< 0001 0000 0009 11 03 06 022b 0000 0064\n\
                    < 0003 0000 0003 11 83 02\n> 0004 0000 0002 11 11\n";
        assert_eq!(
            rows(&PROTOCOL, talk, NAMES),
            [
                "2 | 17 | WRITE_SINGLE_COIL | RESP | - | 172 | -",
                "1 | 17 | READ_HOLDING_REGISTERS | RESP | - | 107 | 3",
                "3 | 17 | READ_HOLDING_REGISTERS | RESP | ILLEGAL_DATA_ADDRESS | 65535 | 1",
                "4 | 17 | REPORT_SLAVE_ID | REQ | - | - | -",
            ]
        );
    }

    #[test]
    fn one_side_alone_and_gaps() {
        assert_eq!(
            rows(&PROTOCOL, "< 0001 0000 0005 11 03 02 0001\n", &["func", "pdu_type"]),
            ["READ_HOLDING_REGISTERS | RESP"]
        );
        let talk = "> 0001 0000 0006 11\n> gap 5\n> 0002 0000 0006 11 03 0001 0001\n> 0000 0001\n< 0102 03\n";
        assert_eq!(rows(&PROTOCOL, talk, &["tid", "pdu_type"]), ["2 | REQ"]);
    }

    #[test]
    fn its_port_or_an_answer_make_it_one() {
        let request = &[0, 1, 0, 0, 0, 6, 1, 3, 0, 1, 0, 1][..];
        let response = &[0, 1, 0, 0, 0, 5, 1, 3, 2, 0, 1][..];
        let probe = |originator: &[u8], responder: &[u8], port| {
            (PROTOCOL.probe)(&Opening {
                originator,
                responder,
                ports: [9, port],
                is_datagram: false,
                ..Opening::default()
            })
        };
        assert_eq!(probe(request, b"", 502), Probe::Certain);
        assert_eq!(probe(request, b"", 9), Probe::Unsure);
        assert_eq!(probe(request, response, 9), Probe::Certain);
        assert_eq!(probe(request, &[0, 2, 0, 0, 0, 5, 1, 3, 2, 0, 1], 9), Probe::NotForUs);
        assert_eq!(probe(b"GET / HTTP/1.1\r\n", b"", 502), Probe::NotForUs);
        assert_eq!(probe(&[0; 12], b"", 502), Probe::NotForUs);
        assert_eq!(probe(&[0, 0, 0], b"", 502), Probe::Unsure);
    }
}
