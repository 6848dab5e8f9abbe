//! Tests of runs with a split source: the two orders, changed questions, and an idle worker.

use super::run_changing;
use crate::ask::compile::{Ask, Compiled, Compiler, Options};
use crate::ask::ordering::Ordering;
use crate::items::item::Item;
use crate::merge::changes::Changes;
use crate::outcome::Outcome;
use crate::rows::events::EventRows;
use crate::rows::shape::Shape;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weir_compile::Need;
use weir_compile::events::EventSet;
use weir_engine::plan::Want;
use weir_io::{CaptureReader, MemoryPacket, MemorySource};
use weir_packet::{Burst, Poll, Source, SourceError, SourceStats, Timestamp};

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

/// The shipped capture, reduced to packets of IPv4 or IPv6, which can be split by their two hosts.
fn capture() -> MemorySource {
    let mut reader = CaptureReader::open(&[FIRST_LIGHT]);
    let (mut burst, mut packets) = (Burst::default(), vec![]);
    while reader.poll(&mut burst).expect("the shipped capture") == Poll::Packets {
        packets.extend(burst.packets.iter().enumerate().map(|(index, packet)| MemoryPacket {
            time: packet.time,
            link: packet.link,
            wire_bytes: packet.wire_bytes,
            frame: burst.data(index).to_vec(),
        }));
    }
    let source = MemorySource::new().split_by(|packet| {
        let addresses = match packet.frame.get(12..14) {
            Some([0x08, 0x00]) => packet.frame.get(26..34),
            Some([0x86, 0xdd]) => packet.frame.get(22..54),
            _ => None,
        };
        addresses.unwrap_or_default().iter().map(|&byte| usize::from(byte)).sum()
    });
    packets.chunks(16).fold(source, |source, packets| source.then_packets(packets.to_vec()))
}

/// Polls slowly, so that questions can change between two bursts.
struct Slow(Box<dyn Source + Send>);

impl Source for Slow {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        std::thread::sleep(Duration::from_millis(2));
        self.0.poll(burst)
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let slow = |source| Box::new(Self(source)) as Box<dyn Source + Send>;
        Ok(self.0.split(parts, idle_max)?.map(|sources| sources.into_iter().map(slow).collect()))
    }

    fn stats(&self) -> SourceStats {
        self.0.stats()
    }
}

/// Items of each question as text, without the numbers of packets.
#[derive(Default)]
struct Rows {
    rows: Vec<(usize, String)>,
    /// Programs to run in turn.
    programs: Vec<Compiled>,
    changed: usize,
}

impl Changes for Rows {
    fn item(&mut self, question: usize, item: Item<'_>) {
        match item {
            Item::Packet { meta, .. } => {
                self.rows.push((question, format!("{} {}", meta.time, meta.wire_bytes)));
            }
            Item::Connection(mut row) => {
                row.uid.clear();
                row.tunnel_parents.clear();
                self.rows.push((question, format!("{row:?}")));
            }
            Item::Rows(made) => {
                self.rows.extend(made.iter().map(|row| (question, format!("{:?}", row.values()))));
            }
            _ => {}
        }
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        let next = self.programs.get(self.changed % self.programs.len().max(1))?;
        self.changed += 1;
        Some((next.clone(), vec![]))
    }
}

fn compile(compiler: &Compiler, asks: &[(&str, Want)], ordering: Ordering) -> Compiled {
    let ask = |&(filter, want): &(&str, Want)| Ask {
        filter: filter.to_string(),
        need: Need { service: want == Want::Connections, ..Need::default() },
        want,
    };
    let asks: Vec<Ask> = asks.iter().map(ask).collect();
    let options = Options { ordering, ..Options::default() };
    compiler.compile(&asks, &options).unwrap_or_else(|wrong| panic!("{wrong}"))
}

const BY_WORKER: Ordering = Ordering::ByWorker { delay: Duration::from_millis(50) };
const ASKED: [(&str, Want); 2] = [("tcp or udp", Want::Packets), ("", Want::Connections)];

fn run(ordering: Ordering, workers: usize) -> (Vec<(usize, String)>, Outcome) {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &ASKED, ordering);
    let mut rows = Rows::default();
    let outcome = run_changing(&compiler, compiled, &mut capture(), &[], workers, &mut rows, &mut |_| ());
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    assert_eq!(outcome.source.received, outcome.counters.packet.packets);
    (rows.rows, outcome)
}

#[test]
fn in_total_order_rows_do_not_depend_on_the_number_of_workers() {
    let (expected, _) = run(Ordering::Total, 1);
    assert!(expected.len() > 1000);
    for workers in [2, 3] {
        assert_eq!(run(Ordering::Total, workers).0, expected, "{workers} workers");
    }
}

#[test]
fn by_worker_the_rows_are_the_same_and_packets_of_a_worker_in_order() {
    let (mut expected, _) = run(Ordering::Total, 1);
    expected.sort();
    for workers in [1, 2, 3] {
        let (mut rows, outcome) = run(BY_WORKER, workers);
        assert_eq!(outcome.shares.len(), if workers > 1 { workers } else { 0 });
        rows.sort();
        assert_eq!(rows, expected, "{workers} workers");
    }
}

#[test]
fn questions_that_stay_do_not_notice_a_change_where_workers_have_sources_of_their_own() {
    let compiler = Compiler::default();
    let (mut expected, _) = run(Ordering::Total, 1);
    expected.sort();
    let with = [&ASKED[..], &[("udp", Want::Connections)]].concat();
    let without = [&ASKED[..], &[("", Want::Nothing)]].concat();
    let programs = [without, with].map(|asks| compile(&compiler, &asks, BY_WORKER));
    let mut rows = Rows { programs: programs.to_vec(), ..Rows::default() };
    let mut source = Slow(Box::new(capture()));
    let first = programs[1].clone();
    let outcome = run_changing(&compiler, first, &mut source, &[], 3, &mut rows, &mut |_| ());
    assert!(outcome.swaps.0 > 1, "{:?}", outcome.swaps);
    let mut staying = rows.rows;
    staying.retain(|(question, _)| *question < 2);
    staying.sort();
    assert_eq!(staying, expected);
}

const HOSTS: &str = "
//! Every packet's source
protocol source { instance (below.src)  vars { packets: u32 }  count { packets += 1 }  timeout 60m
    event seen on end { packets } \"all packets of a host\" }
//! Above UDP
stack sources extends internet { udp -> source }
";

/// One thread reads for workers that share tables. No count is lost when questions change.
#[test]
fn shared_tables_survive_changes() {
    let mut compiler = Compiler::default();
    compiler.add("sources.weir", HOSTS).unwrap_or_else(|wrong| panic!("{wrong}"));
    let seen = EventRows::of(compiler.stack(), &["source.seen".to_string()]).expect("it is declared").asked;
    let question = |filter: &str, want, events: EventSet| Ask {
        filter: filter.to_string(),
        need: Need { events, ..Need::default() },
        want,
    };
    let program = |other| {
        let asks = [question("", Want::Events, seen), question("tcp", other, EventSet::EMPTY)];
        let options = Options { ordering: BY_WORKER, ..Options::default() };
        compiler.compile(&asks, &options).unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    let programs = [program(Want::Connections), program(Want::Nothing)];
    let run = |workers, programs: &[Compiled]| {
        let mut rows = Rows { programs: programs.to_vec(), ..Rows::default() };
        let (mut source, first) = (Slow(Box::new(capture())), program(Want::Nothing));
        let outcome = run_changing(&compiler, first, &mut source, &[], workers, &mut rows, &mut |_| ());
        let mut events = rows.rows;
        events.retain(|(question, _)| *question == 0);
        events.sort();
        (events, outcome.swaps.0)
    };
    let (expected, _) = run(1, &[]);
    assert!(expected.len() > 3, "{expected:?}");
    for workers in [2, 3] {
        let (events, changes) = run(workers, &programs);
        assert!(changes > 1, "{changes} changes");
        assert_eq!(events, expected, "{workers} workers");
    }
}

/// A source with two parts: one has a packet; the other one has nothing, not even a time, until the packet
/// was delivered.
struct HalfIdle;

/// A part of that source.
struct Part<'a> {
    packets: MemorySource,
    is_over: &'a AtomicBool,
}

static HAS_ROW: AtomicBool = AtomicBool::new(false);

impl Source for Part<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        std::thread::sleep(Duration::from_millis(1));
        match self.packets.poll(burst)? {
            Poll::End if !self.is_over.load(Relaxed) => Ok(Poll::Idle { now: Timestamp::MIN }),
            polled => Ok(polled),
        }
    }
}

impl Source for HalfIdle {
    fn poll(&mut self, _: &mut Burst) -> Result<Poll, SourceError> {
        Ok(Poll::End)
    }

    fn split(
        &mut self,
        parts: usize,
        _: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let part = |packets| Box::new(Part { packets, is_over: &HAS_ROW }) as Box<dyn Source + Send>;
        let idle = (1..parts).map(|_| part(MemorySource::new()));
        Ok(Some(idle.chain([part(capture())]).collect()))
    }
}

#[test]
fn rows_come_within_the_delay_although_a_worker_is_idle() {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &ASKED, BY_WORKER);
    let mut rows = 0;
    let mut each = |_: usize, item: Item<'_>| {
        rows += usize::from(matches!(item, Item::Packet { .. }));
        HAS_ROW.store(rows > 1000, Relaxed);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = crate::run(&compiler, &compiled, &mut HalfIdle, &[], 2, &mut each, &mut |_| ());
    assert!(HAS_ROW.load(Relaxed), "the run ends once they came");
}

/// A source with two parts: the first has the start of a TCP connection, and stays open until the second
/// part's datagrams were delivered, or for a second at most.
struct OneWaits;

static HAS_DATAGRAM: AtomicBool = AtomicBool::new(false);
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// The part with the connection.
struct Waits {
    packets: MemorySource,
    polls: u32,
}

impl Source for Waits {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        std::thread::sleep(Duration::from_millis(1));
        self.polls += 1;
        match self.packets.poll(burst)? {
            Poll::End if !HAS_DATAGRAM.load(Relaxed) && self.polls < 1000 => {
                Ok(Poll::Idle { now: Timestamp::MIN })
            }
            polled => {
                GAVE_UP.fetch_or(polled == Poll::End && !HAS_DATAGRAM.load(Relaxed), Relaxed);
                Ok(polled)
            }
        }
    }
}

impl Source for OneWaits {
    fn poll(&mut self, _: &mut Burst) -> Result<Poll, SourceError> {
        Ok(Poll::End)
    }

    fn split(
        &mut self,
        _: usize,
        _: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let of_protocol = |protocol: u8| {
            let mut source = capture();
            let (mut burst, mut packets) = (Burst::default(), vec![]);
            while let Ok(Poll::Packets) = source.poll(&mut burst) {
                packets.extend(burst.packets.iter().enumerate().map(|(index, packet)| MemoryPacket {
                    time: packet.time,
                    link: packet.link,
                    wire_bytes: packet.wire_bytes,
                    frame: burst.data(index).to_vec(),
                }));
            }
            packets
                .retain(|packet| packet.frame.get(12..14) == Some(&[8, 0]) && packet.frame[23] == protocol);
            packets
        };
        let begun: Vec<_> = of_protocol(6).into_iter().take(1).collect();
        let connection = Waits { packets: MemorySource::new().then_packets(begun), polls: 0 };
        let datagrams = MemorySource::new().then_packets(of_protocol(17));
        Ok(Some(vec![Box::new(connection), Box::new(datagrams)]))
    }
}

#[test]
fn packets_do_not_wait_for_connections_of_another_worker() {
    let compiler = Compiler::default();
    let asks = [("udp or tls.sni contains \"x\"", Want::Packets)];
    let compiled = compile(&compiler, &asks, BY_WORKER);
    let mut each = |_: usize, item: Item<'_>| {
        HAS_DATAGRAM.fetch_or(matches!(item, Item::Packet { .. }), Relaxed);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = crate::run(&compiler, &compiled, &mut OneWaits, &[], 2, &mut each, &mut |_| ());
    assert!(HAS_DATAGRAM.load(Relaxed) && !GAVE_UP.load(Relaxed));
}
