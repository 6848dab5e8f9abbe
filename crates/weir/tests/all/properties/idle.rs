//! Time that passes while a source is idle ends connections without another packet, with any number of
//! workers.

use crate::properties::drive::{ask, compile};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use weir::io::source::{MemoryPacket, MemorySource};
use weir::packet::{Burst, LinkType, Poll, Source, SourceError, Timestamp};
use weir::{Compiler, Connection, Counters, Item, Options, Shape, Want};
use weir_testing::frames::{ethernet, ipv4, tcp};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// A time after the start.
fn at(millis: i64) -> Timestamp {
    Timestamp(START + millis * (SECOND / 1000))
}

/// A segment of a connection from `port`; a SYN-ACK goes back to it.
fn segment(millis: i64, port: u16, flags: &str) -> MemoryPacket {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let segment = match flags {
        "SYN" => {
            ethernet(0x0800, &ipv4((client, server), 6, 1, 0, &[], &tcp((port, 80), 1, 0, 0x02, &[], b"")))
        }
        "SYN-ACK" => {
            ethernet(0x0800, &ipv4((server, client), 6, 1, 0, &[], &tcp((80, port), 1, 2, 0x12, &[], b"")))
        }
        flags => panic!("{flags}?"),
    };
    MemoryPacket { time: at(millis), link: LinkType::ETHERNET, wire_bytes: 0, frame: segment }
}

type Rows = Rc<RefCell<Vec<Connection>>>;

/// Records at each poll how many rows have been delivered.
struct Watched {
    source: MemorySource,
    rows: Rows,
    seen: Vec<usize>,
}

impl Source for Watched {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.seen.push(self.rows.borrow().len());
        self.source.poll(burst)
    }
}

/// The connections; how many had been delivered at the poll after each step; and the counters.
fn connections(source: MemorySource, workers: usize) -> (Vec<Connection>, Vec<usize>, Counters) {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", Want::Connections)], &Options::default());
    let rows = Rows::default();
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(connection) = item {
            rows.borrow_mut().push(*connection);
        }
        Ok::<(), Infallible>(())
    };
    let mut source = Watched { source, rows: Rc::clone(&rows), seen: vec![] };
    let shapes = [Shape::default()];
    let Ok(outcome) = weir::run(&compiler, &compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    (rows.take(), source.seen.split_off(1), outcome.counters)
}

#[test]
fn an_unanswered_connection_ends_while_its_source_is_silent() {
    for workers in [1, 2, 3] {
        let source = MemorySource::new()
            .then_packets([segment(0, 1000, "SYN")])
            .then_idle(at(4_900))
            // Expiry may be late by one timer tick, 67 ms.
            .then_idle(at(5_200))
            .then_idle(Timestamp::MIN);
        let (rows, seen, _) = connections(source, workers);
        assert_eq!(seen, [0, 0, 1, 1], "{workers} workers");
        assert_eq!((rows.len(), rows[0].orig_p), (1, 1000));
    }
}

#[test]
fn a_source_that_claims_no_time_ends_nothing() {
    for workers in [1, 2] {
        let source = (0..50).fold(MemorySource::new(), |source, n| {
            source.then_packets([segment(n, 1000 + n as u16, "SYN")]).then_idle(Timestamp::MIN)
        });
        let (rows, seen, counters) = connections(source, workers);
        assert_eq!((rows.len(), seen.iter().max()), (50, Some(&0)), "{workers} workers");
        assert_eq!(counters.flow.flows_expired, 0);
    }
}

#[test]
fn packets_that_come_late_after_silence_begin_connections_that_last() {
    for workers in [1, 2] {
        let source = MemorySource::new()
            .then_packets([segment(0, 1000, "SYN"), segment(100, 1000, "SYN-ACK")])
            .then_idle(at(100_000))
            // Packets that a pipe has buffered, in two bursts.
            .then_packets([segment(50_000, 2000, "SYN")])
            .then_packets([segment(54_000, 2000, "SYN-ACK"), segment(54_100, 3000, "SYN")])
            .then_packets([segment(60_000, 3000, "SYN")])
            .then_idle(at(130_000));
        let (rows, _, counters) = connections(source, workers);
        let ports: Vec<_> = rows.iter().map(|row| (row.orig_p, row.packets[1])).collect();
        assert!(ports.contains(&(2000, 1)), "{workers} workers: {ports:?}");
        assert_eq!(counters.clock.claims_overruled, 1);
        assert_eq!(ports.iter().filter(|(port, _)| *port == 2000).count(), 1, "{ports:?}");
    }
}

#[test]
fn rows_do_not_depend_on_when_a_link_is_idle() {
    let packets: Vec<_> = (0..400)
        .map(|n| segment(n * 37, 1000 + (n % 23) as u16, if n % 3 == 0 { "SYN-ACK" } else { "SYN" }))
        .collect();
    let plain = MemorySource::new().then_packets(packets.clone());
    let sorted = |source, workers| {
        let (mut rows, _, _) = connections(source, workers);
        rows.sort_by_key(|row| (row.ts, row.orig_p));
        rows
    };
    let expected = sorted(plain, 1);
    for every in [1, 7, 64] {
        let idle = packets.chunks(every).fold(MemorySource::new(), |source, packets| {
            let last = packets.last().map(|packet| packet.time);
            source.then_packets(packets.to_vec()).then_idle(last.unwrap_or_default())
        });
        for workers in [1, 2] {
            assert_eq!(sorted(idle.clone(), workers), expected, "idle after each {every}, {workers} workers");
        }
    }
}
