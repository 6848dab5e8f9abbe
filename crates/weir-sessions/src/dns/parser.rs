//! [`DnsParser`]: matches queries and answers of both directions; yields one [`DnsTransaction`] per pair.
//!
//! An answer belongs to the oldest query of the other side with the same ID and question (RFC 5452 §4); an
//! answer without question belongs to the oldest query with its ID. Unmatched messages wait: at most
//! [`WAITING_MAX`] of them, of at most [`WAITING_BYTES_MAX`] bytes together. Beyond these bounds, and at the
//! end of the connection, they are yielded alone. A retransmitted query is a transaction of its own. If a
//! zone transfer has several messages, its first message is the answer.

use super::message::Message;
use super::probe::is_possible;
use super::transaction::DnsTransaction;
use crate::pairing::Waiting;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum number of unmatched messages.
pub const WAITING_MAX: usize = 64;

/// Time after which an unmatched message is yielded, checked when another message arrives.
const WAITING_NS: u64 = 60_000_000_000;

/// Question types of zone transfers (RFC 5936, RFC 1995), whose answer may have several messages.
const TRANSFERS: std::ops::RangeInclusive<u16> = 251..=252;

/// Maximum size of all unmatched messages.
pub const WAITING_BYTES_MAX: usize = 128 * 1024;

/// One direction of a stream: messages with a two-byte length prefix (RFC 1035 §4.2.2, RFC 7766 §8).
#[derive(Debug, Default)]
struct Side {
    /// An incomplete message with its length prefix: at most 64 KiB.
    kept: Vec<u8>,
    /// The start of the next message is unknown.
    is_lost: bool,
}

/// Parses the transactions of one connection or flow.
#[derive(Debug, Default)]
pub struct DnsParser {
    sides: [Side; 2],
    /// Unmatched messages, oldest first.
    waiting: Waiting<Box<DnsTransaction>, WAITING_MAX, WAITING_BYTES_MAX>,
    /// The zone transfer that was answered last: its ID, and the direction of the answer.
    transfer: Option<(u16, Direction)>,
    cut_off: CutOff,
}

impl SessionParser for DnsParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if data.is_datagram {
            let is_message = is_possible(data.bytes) && self.take_message(data, data.bytes, sessions);
            return if is_message { Progress::Wanted } else { Progress::NotMine };
        }
        self.take_stream(data, sessions);
        self.settle(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes > 0 {
            self.sides[from as usize] = Side { is_lost: true, ..Side::default() };
        }
        self.settle(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.waiting.take_all().map(|waiting| waiting as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.waiting.evicted(), ..self.cut_off }
    }
}

impl DnsParser {
    fn take_stream(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let mut rest = data.bytes;
        let mut kept = std::mem::take(&mut self.sides[data.from as usize].kept);
        while !self.sides[data.from as usize].is_lost && !rest.is_empty() {
            let length = |prefix: &[u8]| match *prefix {
                [high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => 0,
            };
            if kept.is_empty()
                && let Some(message) = rest.get(2..2 + length(rest))
            {
                rest = &rest[2 + message.len()..];
                self.take_message_of_stream(data, message, sessions);
                continue;
            }
            let wanted = if kept.len() < 2 { 2 } else { 2 + length(&kept) };
            let (head, tail) = rest.split_at(rest.len().min(wanted - kept.len()));
            kept.extend_from_slice(head);
            rest = tail;
            if kept.len() >= 2 && kept.len() == 2 + length(&kept) {
                self.take_message_of_stream(data, &kept[2..], sessions);
                kept = Vec::new();
            }
        }
        let side = &mut self.sides[data.from as usize];
        if !side.is_lost {
            side.kept = kept;
        }
    }

    /// If the bytes are no message, the length prefix cannot be trusted either.
    fn take_message_of_stream(
        &mut self,
        data: &Data<'_>,
        bytes: &[u8],
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        if !bytes.is_empty() && !self.take_message(data, bytes, sessions) {
            self.sides[data.from as usize].is_lost = true;
        }
    }

    /// Takes a message; returns whether the bytes are one.
    fn take_message(&mut self, data: &Data<'_>, bytes: &[u8], sessions: &mut Vec<Box<dyn Session>>) -> bool {
        let Some(message) = Message::parse(bytes) else { return false };
        self.cut_off.parts += message.omitted;
        let is_overdue = |oldest: &mut Box<DnsTransaction>| data.time.since_ns(oldest.time) > WAITING_NS;
        while let Some(overdue) = self.waiting.take_oldest_if(is_overdue) {
            sessions.push(overdue);
        }
        if let Some(mut transaction) = self.waiting.take(|waiting| is_partner(waiting, data.from, &message)) {
            if message.header.is_response() {
                transaction.rtt_ns = Some(data.time.since_ns(transaction.time));
                transaction.response = Some(message);
                let is_transfer = transaction.question().is_some_and(|asked| TRANSFERS.contains(&asked.kind));
                self.transfer = transaction.id().filter(|_| is_transfer).map(|id| (id, data.from));
            } else {
                transaction.query = Some(message);
            }
            sessions.push(transaction);
            // Most flows have one transaction, but stay in the table for a minute.
            self.waiting.shrink_if_empty();
            return true;
        }
        if message.header.is_response() && self.transfer == Some((message.header.id, data.from)) {
            // A further message of a zone transfer. The first one is enough.
            self.cut_off.parts += message.answers.len() as u64;
            return true;
        }
        let transaction = self.open(data.from, data.time, data.is_datagram, message);
        self.waiting.push(Box::new(transaction), |oldest| sessions.push(oldest));
        true
    }

    fn open(&self, from: Direction, time: Timestamp, is_datagram: bool, message: Message) -> DnsTransaction {
        let mut transaction = DnsTransaction {
            time,
            client: from,
            is_datagram,
            query: None,
            response: None,
            rtt_ns: None,
            is_retransmission: false,
        };
        if message.header.is_response() {
            transaction.client = from.other();
            transaction.response = Some(message);
        } else {
            let is_same = |waiting: &DnsTransaction| {
                let query = waiting.query.as_ref().filter(|_| waiting.client == from);
                query.is_some_and(|query| {
                    query.header == message.header && query.questions == message.questions
                })
            };
            // Multicast DNS repeats queries with ID 0 by design (RFC 6762 §5.2).
            transaction.is_retransmission =
                message.header.id != 0 && self.waiting.iter().any(|waiting| is_same(waiting));
            transaction.query = Some(message);
        }
        transaction
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.sides.iter().all(|side| side.is_lost) {
            return Progress::Wanted;
        }
        self.finish(sessions);
        Progress::Done
    }
}

/// Whether a waiting message is the counterpart of `message`, which comes from `from`.
fn is_partner(waiting: &DnsTransaction, from: Direction, message: &Message) -> bool {
    let (half, client) =
        if message.header.is_response() { (&waiting.query, from.other()) } else { (&waiting.response, from) };
    let Some(half) = half else { return false };
    let is_same_question = match (half.questions.first(), message.questions.first()) {
        (Some(one), Some(other)) => one.name == other.name && one.kind == other.kind,
        _ => true,
    };
    waiting.client == client && half.header.id == message.header.id && is_same_question
}
