//! DHCP for IPv4 (RFC 2131): one [`DhcpTransaction`] per transaction and flow, yielded after the server's ACK
//! or NAK. A client without an address asks all hosts, and the answers are another flow: [`JOIN`] makes one
//! row of both. `message` parses datagrams; `transaction` has the session and its filter fields.

mod message;
#[cfg(test)]
mod tests;
mod transaction;

pub use message::{Message, Options};
pub use transaction::{DhcpTransaction, MESSAGES_MAX, kind_name};

use crate::joins::{Join, Place};
use crate::pairing::Waiting;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "dhcp",
    service: "dhcp",
    log: "dhcp",
    transports: &["udp"],
    ports: &[67, 68],
    hands_over: &[],
    doc: "DHCP for IPv4: clients and their addresses (RFC 2131)",
    probe,
    may_begin,
    open: |_| Box::new(DhcpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "mac", "host_name", "assigned_addr", "msg_types", "lease_time"],
    fields: transaction::FIELDS,
};

/// An exchange is a transaction of one client: DISCOVER, OFFER, REQUEST, ACK.
pub const JOIN: Join = Join { protocol: "dhcp", by: &["trans_id", "mac"], messages: "msg_types", place };

fn place(message: &str) -> Option<Place> {
    let (is_request, step) = match message {
        "DISCOVER" => (true, 0),
        "OFFER" => (false, 1),
        "REQUEST" | "INFORM" => (true, 2),
        "ACK" | "NAK" => (false, 3),
        _ => return None,
    };
    Some(Place { is_request, step })
}

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
    open: Waiting<DhcpTransaction, OPEN_MAX>,
    cut_off: CutOff,
}

impl SessionParser for DhcpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        while let Some(old) = self.open.take_oldest_if(|old| data.time.since_ns(old.time) > PATIENCE_NS) {
            sessions.push(Box::new(old));
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
        let number = message.transaction;
        let is_same = |open: &DhcpTransaction| open.messages[0].transaction == number;
        // ACK and NAK; DECLINE and RELEASE, which have no answer.
        let is_last = matches!(message.options.kind, Some(4..=7));
        let Some(open) = self.open.find(is_same) else {
            let (time, messages) = (data.time, vec![message]);
            let begun = DhcpTransaction { time, last_time: time, messages };
            if is_last {
                sessions.push(Box::new(begun));
            } else {
                self.open.push(begun, |oldest| sessions.push(Box::new(oldest)));
            }
            return Progress::Wanted;
        };
        open.last_time = data.time;
        if open.messages.len() < MESSAGES_MAX {
            open.messages.push(message);
        } else {
            self.cut_off.parts += 1;
        }
        if is_last && let Some(over) = self.open.take(is_same) {
            sessions.push(Box::new(over));
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.open.take_all().map(|open| Box::new(open) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.open.evicted(), ..self.cut_off }
    }
}
