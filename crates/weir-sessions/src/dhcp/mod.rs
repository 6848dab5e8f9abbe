//! DHCP for IPv4 (RFC 2131): one [`DhcpTransaction`] per transaction and flow, yielded after the server's ACK or NAK.
//! `message` parses datagrams; `transaction` has the session and its filter fields.

mod message;
#[cfg(test)]
mod tests;
mod transaction;

pub use message::{Message, Options};
pub use transaction::{DhcpTransaction, MESSAGES_MAX, kind_name};

use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::collections::VecDeque;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "dhcp",
    service: "dhcp",
    log: "dhcp",
    transports: &["udp"],
    hands_over: &[],
    doc: "DHCP for IPv4: clients and their addresses (RFC 2131)",
    probe,
    may_begin,
    open: |_| Box::new(DhcpParser::default()),
    carrier: None,
    settings: &[],
    fields: transaction::FIELDS,
};

/// Operation (request or reply), and length of a hardware address.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 1 | 2)),
        2 => ByteSet::of(|byte| byte <= 16),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of open transactions per flow.
pub const OPEN_MAX: usize = 16;

/// Time-out of a transaction. Zeek's value.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Detects the fixed header and its cookie.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_dhcp = |datagram| Message::parse(datagram).is_some();
    if opening.is_datagram && (is_dhcp(opening.originator) || is_dhcp(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the transactions of one flow.
#[derive(Debug, Default)]
pub struct DhcpParser {
    /// Open transactions, oldest first.
    open: VecDeque<DhcpTransaction>,
    cut_off: CutOff,
}

impl SessionParser for DhcpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        while self.open.front().is_some_and(|oldest| data.time.since_ns(oldest.time) > PATIENCE_NS) {
            self.yield_at(0, sessions);
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::Wanted };
        let is_it = |open: &DhcpTransaction| open.messages[0].transaction == message.transaction;
        let at = self.open.iter().position(is_it).unwrap_or_else(|| {
            let (time, messages) = (data.time, Vec::new());
            self.open.push_back(DhcpTransaction { time, last_time: time, messages });
            self.open.len() - 1
        });
        // ACK and NAK; DECLINE and RELEASE, which have no answer.
        let is_last = matches!(message.options.kind, Some(4..=7));
        let transaction = &mut self.open[at];
        transaction.last_time = data.time;
        if transaction.messages.len() < MESSAGES_MAX {
            transaction.messages.push(message);
        } else {
            self.cut_off.parts += 1;
        }
        if is_last {
            self.yield_at(at, sessions);
        } else if self.open.len() > OPEN_MAX {
            self.yield_at(0, sessions);
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        while !self.open.is_empty() {
            self.yield_at(0, sessions);
        }
    }

    fn held_bytes(&self) -> usize {
        self.open.iter().map(DhcpTransaction::held_bytes).sum()
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl DhcpParser {
    fn yield_at(&mut self, at: usize, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(transaction) = self.open.remove(at) {
            sessions.push(Box::new(transaction));
        }
    }
}
