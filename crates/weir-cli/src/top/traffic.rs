//! The traffic so far, as `weir top` shows it: connections, and sums by host, name of a server and protocol.
//! Everything that the traffic can make larger is bounded; what is beyond a bound is counted together.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use weir::{Connection, Hosts, Tally};

/// Connections that are listed, and hosts and names that are counted separately.
const ENTRIES_MAX: usize = 1 << 16;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// A connection is reported within this time after each packet, nanoseconds.
pub const REPORT_NS: i64 = 1_000_000_000;

/// A connection without a packet for this time has the rate 0, nanoseconds.
const STALE_NS: i64 = 3_000_000_000;

/// Packets, their bytes, and connections or sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    pub packets: u64,
    pub bytes: u64,
    pub count: u64,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.count += more.count;
    }
}

/// A connection.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its record, as last reported.
    pub record: Connection,
    /// Bits per second between the last two reports.
    rate: f64,
    /// It has ended.
    pub is_over: bool,
}

impl Known {
    /// Bytes of IP in both directions.
    pub fn bytes(&self) -> u64 {
        self.record.ip_bytes.iter().sum()
    }

    /// Packets in both directions.
    pub fn packets(&self) -> u64 {
        self.record.packets.iter().sum()
    }

    /// Bits per second, if the connection is active at `now` (nanoseconds since 1970).
    pub fn rate(&self, now: i64) -> f64 {
        let is_active = !self.is_over && now - last_time(&self.record) < STALE_NS;
        if is_active { self.rate } else { 0.0 }
    }
}

fn last_time(record: &Connection) -> i64 {
    record.ts.0.saturating_add_unsigned(record.duration_ns.unwrap_or(0))
}

/// The name under which the traffic of a connection counts.
fn protocol(record: &Connection) -> String {
    match &record.service {
        Some(service) => service.to_string(),
        None => format!("unknown {}", record.proto),
    }
}

/// The traffic since the filter was last changed.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// The connections, by identifier.
    pub connections: HashMap<String, Known>,
    /// Connections that have ended, the earliest first: they make room for others.
    ended: VecDeque<String>,
    /// Connections that had no place in the list. Their traffic is counted at their end.
    pub unlisted: u64,
    /// By host, of connections.
    pub hosts: Tally<IpAddr, Sum>,
    /// By protocol and name, of sessions.
    pub names: Tally<(String, String), Sum>,
    /// By application protocol, of connections.
    pub protocols: Tally<String, Sum>,
    /// The latest time of a packet that a record names, nanoseconds since 1970.
    pub now: i64,
    /// The captures have ended.
    pub is_over: bool,
    /// Number of the filter: answers to an earlier one are not counted.
    pub filter_number: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            connections: HashMap::new(),
            ended: VecDeque::new(),
            unlisted: 0,
            hosts: Tally::bounded(ENTRIES_MAX),
            names: Tally::bounded(ENTRIES_MAX),
            protocols: Tally::bounded(ENTRIES_MAX),
            now: 0,
            is_over: false,
            filter_number: 0,
        }
    }
}

impl Traffic {
    /// Begins anew, since the filter is another one from now on. Returns the traffic of the previous filter.
    pub fn restart(&mut self) -> Self {
        let next = Self { filter_number: self.filter_number + 1, is_over: self.is_over, ..Self::default() };
        std::mem::replace(self, next)
    }

    /// The questions about the other filter were refused: the answers to the previous ones count again. Those
    /// that came in the meantime are lost to the screen.
    pub fn return_to(&mut self, previous: Self) {
        *self = Self { is_over: self.is_over, ..previous };
    }

    /// Takes a report of a connection: what was not reported before is counted.
    pub fn report(&mut self, record: Connection, is_over: bool) {
        let last = last_time(&record);
        self.now = self.now.max(last);
        let is_known = self.connections.get(&record.uid).is_some_and(|known| !known.is_over);
        if !is_known && !self.make_room() {
            if is_over {
                self.unlisted += 1;
                self.count(&record, record.packets, record.ip_bytes, 1);
            }
            return;
        }
        let before = self.connections.get(&record.uid).filter(|_| is_known);
        let none = ([0; 2], [0; 2], record.ts.0);
        let (packets, bytes, since) = before.map_or(none, |known| {
            let record = &known.record;
            (record.packets, record.ip_bytes, last_time(record))
        });
        let grown =
            |now: [u64; 2], before: [u64; 2]| [0, 1].map(|side| now[side].saturating_sub(before[side]));
        let (packets, bytes) = (grown(record.packets, packets), grown(record.ip_bytes, bytes));
        // The service is recognised from the first bytes, so it may come after the first report.
        let moved = before.filter(|known| known.record.service != record.service).map(|known| {
            let Known { record, .. } = known;
            let sum = Sum { packets: record.packets.iter().sum(), bytes: known.bytes(), count: 1 };
            (protocol(record), sum)
        });
        if let Some((old, sum)) = moved {
            let of_old = self.protocols.of(old);
            of_old.packets = of_old.packets.saturating_sub(sum.packets);
            of_old.bytes = of_old.bytes.saturating_sub(sum.bytes);
            of_old.count = of_old.count.saturating_sub(1);
            self.protocols.of(protocol(&record)).add(sum);
        }
        self.count(&record, packets, bytes, u64::from(!is_known));
        // A report may stand for a burst of a millisecond: the rate is that of the time between two reports.
        let passed = (last - since).max(REPORT_NS);
        let bits = bytes.iter().sum::<u64>() as f64 * 8.0;
        let rate = bits * 1e9 / passed as f64;
        if is_over {
            self.ended.push_back(record.uid.clone());
        }
        self.connections.insert(record.uid.clone(), Known { record, rate, is_over });
    }

    /// Makes room for another connection. Returns whether there is some.
    fn make_room(&mut self) -> bool {
        while self.connections.len() >= ENTRIES_MAX {
            let Some(uid) = self.ended.pop_front() else { return false };
            self.connections.remove(&uid);
        }
        true
    }

    /// Counts packets and bytes of a connection, of each direction.
    fn count(&mut self, record: &Connection, packets: [u64; 2], bytes: [u64; 2], count: u64) {
        let sum = Sum { packets: packets.iter().sum(), bytes: bytes.iter().sum(), count };
        self.protocols.of(protocol(record)).add(sum);
        if record.hosts == Hosts::Addresses {
            self.hosts.of(record.orig_h).add(sum);
            if record.resp_h != record.orig_h {
                self.hosts.of(record.resp_h).add(sum);
            }
        }
    }

    /// Counts a session with the server of this name.
    pub fn name(&mut self, protocol: &str, name: &str) {
        let name = name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_string();
        self.names.of((protocol.to_string(), name)).count += 1;
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use weir::EndValues;
    use weir::packet::Timestamp;

    /// The record of connection `number` that has sent and received as many packets.
    pub fn record(number: u32, packets: [u64; 2], seconds: f64) -> Connection {
        Connection {
            ts: Timestamp(1_000_000_000),
            uid: format!("C{number}"),
            hosts: Hosts::Addresses,
            orig_h: Ipv4Addr::from(0x0a00_0000 + number).into(),
            orig_p: 40_000,
            resp_h: Ipv4Addr::new(192, 0, 2, 1).into(),
            resp_p: 443,
            proto: "tcp".into(),
            service: None,
            duration_ns: Some((seconds * 1e9) as u64),
            bytes: None,
            conn_state: "S1",
            missed_bytes: 0,
            history: String::new(),
            packets,
            ip_bytes: packets.map(|packets| packets * 100),
            tunnel_parents: vec![],
            vlan: None,
            inner_vlan: None,
            other_vlan: None,
            at_end: EndValues::default(),
        }
    }

    #[test]
    fn reports_of_a_connection_count_once() {
        let mut traffic = Traffic::default();
        traffic.report(record(1, [1, 1], 1.0), false);
        traffic.report(Connection { service: Some("ssl".into()), ..record(1, [3, 5], 2.0) }, false);
        assert_eq!(traffic.connections["C1"].rate(3_000_000_000), 600.0 * 8.0);
        assert_eq!(traffic.connections["C1"].rate(9_000_000_000), 0.0, "it is idle");
        traffic.report(Connection { service: Some("ssl".into()), ..record(1, [4, 6], 2.5) }, true);
        let sum = Sum { packets: 10, bytes: 1000, count: 1 };
        assert_eq!(traffic.protocols.of("ssl".into()), &sum);
        assert_eq!(traffic.protocols.of("unknown tcp".into()), &Sum::default());
        assert_eq!(traffic.hosts.of(Ipv4Addr::new(192, 0, 2, 1).into()), &sum);
    }

    #[test]
    fn the_list_is_bounded_and_the_sums_are_complete() {
        let mut traffic = Traffic::default();
        let all = ENTRIES_MAX as u32 + 10;
        for number in 0..all {
            traffic.report(record(number, [1, 0], 0.1), false);
        }
        assert_eq!(traffic.connections.len(), ENTRIES_MAX);
        for number in 0..all {
            traffic.report(record(number, [2, 0], 0.2), true);
        }
        assert_eq!(traffic.connections.len(), ENTRIES_MAX);
        assert_eq!(traffic.protocols.of("unknown tcp".into()).packets, 2 * u64::from(all));
        assert_eq!(traffic.protocols.of("unknown tcp".into()).count, u64::from(all));
        assert!(traffic.hosts.beyond.packets > 0);
    }
}
