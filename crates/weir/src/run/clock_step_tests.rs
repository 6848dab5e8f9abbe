//! The clock of the machine is set during a live capture: time neither stands still, nor do more connections
//! end than those whose time is over.

use crate::io::{MemoryPacket, MemorySource};
use crate::packet::{Burst, LinkType, Poll, Source, SourceError, Timestamp};
use crate::{Connection, Engine};
use weir_testing::frames;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_790_000_000 * SECOND;
const HOUR: i64 = 3_600 * SECOND;

/// A datagram of the client with this number.
fn datagram(client: u8, time: i64) -> MemoryPacket {
    let datagram = frames::udp((40_000 + u16::from(client), 9), b"some bytes");
    let packet = frames::ipv4(([10, 0, 0, client], [10, 0, 0, 100]), 17, 1, 0, &[], &datagram);
    let frame = frames::ethernet(0x0800, &packet);
    MemoryPacket { time: Timestamp(time), link: LinkType::ETHERNET, wire_bytes: frame.len() as u32, frame }
}

/// Claims of a link on which no packets come, each 10 ms, for some seconds from a time on.
fn silence(source: MemorySource, from: i64, seconds: i64) -> MemorySource {
    (0..100 * seconds)
        .fold(source, |source, number| source.then_idle(Timestamp(from + number * SECOND / 100)))
}

/// Runs over the source: the port of each connection and its number of packets, in the order in which they
/// end, and how often the clock was set back.
fn connections(mut source: impl Source) -> (Vec<(u32, u64)>, u64) {
    let mut ended = vec![];
    let mut engine = Engine::new();
    let add = |connection: &Connection| {
        ended.push((connection.orig_p, connection.packets.iter().sum()));
    };
    engine.subscribe("udp", add).expect("the filter is right");
    let outcome = engine.run(&mut source, 1).expect("the program is right");
    drop(engine);
    (ended, outcome.counters.clock.clock_set_back)
}

#[test]
fn time_goes_on_after_a_step_back() {
    for back in [90 * SECOND, HOUR, 24 * HOUR] {
        let now = START - back;
        let source = MemorySource::new().then_packets(vec![datagram(1, START), datagram(1, START + SECOND)]);
        let source = silence(source, START + SECOND, 2);
        // The clock is set back; another connection begins, and is silent for longer than its time-out of a
        // minute.
        let source = source.then_packets(vec![datagram(2, now), datagram(2, now + SECOND)]);
        let source = silence(source, now + SECOND, 65);
        // At the end of the capture, connections end in the order of their first packets.
        let source =
            source.then_packets(vec![datagram(3, now + 67 * SECOND), datagram(2, now + 68 * SECOND)]);
        let (ended, set_back) = connections(source);
        assert_eq!(set_back, 1, "{back}");
        assert!(
            ended.contains(&(40_002, 2)) && ended.contains(&(40_002, 1)),
            "the idle connection has ended: {ended:?}"
        );
        assert_eq!(ended.iter().map(|(_, packets)| packets).sum::<u64>(), 6);
    }
}

#[test]
fn a_step_forward_ends_each_connection_at_most_once() {
    let source = MemorySource::new().then_packets(vec![datagram(1, START), datagram(2, START + SECOND)]);
    let source = silence(source, START + SECOND, 2);
    let now = START + HOUR;
    let source = source.then_packets((0u8..20).map(|n| datagram(1 + n % 2, now + i64::from(n) * SECOND)));
    let (mut ended, set_back) = connections(source);
    ended.sort();
    assert_eq!(ended, [(40_001, 1), (40_001, 10), (40_002, 1), (40_002, 10)]);
    assert_eq!(set_back, 0);
}

/// A link, which reports a step of the clock with the first packet or claim behind it.
struct Stepping {
    inner: MemorySource,
    by: i64,
    /// Polls until then.
    polls: usize,
}

impl Source for Stepping {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.polls = self.polls.saturating_sub(1);
        self.inner.poll(burst)
    }

    fn clock_step(&mut self) -> i64 {
        if self.polls == 0 { std::mem::take(&mut self.by) } else { 0 }
    }
}

#[test]
fn connections_continue_over_a_step_that_the_source_reports() {
    for by in [HOUR, -HOUR, 90 * SECOND, -90 * SECOND, 10_000 * HOUR] {
        let before: Vec<MemoryPacket> =
            (0..6).map(|n| datagram(1 + n % 3, START + i64::from(n) * SECOND)).collect();
        let now = START + by;
        let after = |from: i64| (from..from + 20).map(move |n| datagram(1 + (n % 2) as u8, now + n * SECOND));
        let source = silence(MemorySource::new().then_packets(before), START + 6 * SECOND, 1);
        // The third connection is silent for more than a minute.
        let source = source.then_packets(after(7)).then_packets(after(50)).then_packets(after(70));
        let polls = 1 + 100 + 1;
        let (mut ended, set_back) = connections(Stepping { inner: source, by, polls });
        assert_eq!(ended.first(), Some(&(40_003, 2)), "{by}: the idle connection ends first: {ended:?}");
        ended.sort();
        assert_eq!(ended, [(40_001, 32), (40_002, 32), (40_003, 2)], "{by}");
        assert_eq!(set_back, 0);
    }
}
