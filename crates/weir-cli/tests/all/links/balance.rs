//! Workers of one link, of which one falls behind.

use crate::links::{Capturing, counter, inside, make_pair, send, text};
use std::collections::HashMap;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir::link::{LinkOptions, Links};
use weir::packet::{Burst, Poll, Source, SourceError, SourceStats, Timestamp};
use weir::{Ask, Compiler, Item, Need, Options, Shape, Want};
use weir_testing::frames;

/// How often packets come while one worker does not read. The kernel passes a block of the ring at each time:
/// more than half of the 64 blocks wait, and there is room for all packets.
const ROUNDS: u64 = 34;

/// Datagrams between a host of this number and a server, one in each direction.
fn both_directions(host: u16) -> [Vec<u8>; 2] {
    let [high, low] = host.to_be_bytes();
    let (host, server) = (([10, 0, high, low], 5000), ([192, 0, 2, 7], 9000));
    [(host, server), (server, host)].map(|(from, to)| {
        let datagram = frames::udp((from.1, to.1), b"some bytes");
        frames::ethernet(0x0800, &frames::ipv4((from.0, to.0), 17, 1, 0, &[], &datagram))
    })
}

fn of_hosts(hosts: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    hosts.flat_map(both_directions).collect()
}

/// A link whose first part is not read while the gate is closed.
struct Gated {
    links: Links,
    is_closed: Arc<AtomicBool>,
}

struct First {
    part: Box<dyn Source + Send>,
    is_closed: Arc<AtomicBool>,
}

impl Source for Gated {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.links.poll(burst)
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        assert!(idle_max > Some(Duration::from_secs(60)), "the time-out of the longest flow: {idle_max:?}");
        let mut parts = self.links.split(parts, idle_max)?.expect("a link can be split");
        let first = First { part: parts.remove(0), is_closed: Arc::clone(&self.is_closed) };
        parts.insert(0, Box::new(first));
        Ok(Some(parts))
    }

    fn stats(&self) -> SourceStats {
        self.links.stats()
    }
}

impl Source for First {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        if self.is_closed.load(Ordering::SeqCst) {
            burst.clear();
            std::thread::sleep(Duration::from_millis(1));
            return Ok(Poll::Idle { now: Timestamp::MIN });
        }
        self.part.poll(burst)
    }

    fn stats(&self) -> SourceStats {
        self.part.stats()
    }
}

#[test]
fn new_connections_go_to_the_worker_that_keeps_up() {
    if !inside("balance::new_connections_go_to_the_worker_that_keeps_up") {
        return;
    }
    make_pair(0);
    let stop = Arc::new(AtomicUsize::new(0));
    let options = LinkOptions { stop: Arc::clone(&stop), ..LinkOptions::default() };
    let links = Links::open(&["in0".to_string()], &options, 2).expect("the interface is there");
    let is_closed = Arc::new(AtomicBool::new(false));
    let mut source = Gated { links, is_closed: Arc::clone(&is_closed) };
    let compiler = Compiler::default();
    let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    let ordering = weir::Ordering::ByWorker { delay: Duration::from_millis(50) };
    let options = Options { ordering, ..Options::default() };
    let compiled = compiler.compile(&[ask], &options).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (known, new) = (0..200, 200..500);
    // Sends in steps, and ends the capture. Returns the number of packets.
    let traffic = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        let mut sent = send("out0", &of_hosts(known.clone()));
        std::thread::sleep(Duration::from_millis(200));
        is_closed.store(true, Ordering::SeqCst);
        for _ in 0..ROUNDS {
            sent += send("out0", &of_hosts(known.clone()));
            std::thread::sleep(Duration::from_millis(25));
        }
        std::thread::sleep(Duration::from_secs(3));
        sent += send("out0", &of_hosts(new.clone()));
        sent += send("out0", &of_hosts(known.clone()));
        is_closed.store(false, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(200));
        sent += send("out0", &of_hosts(known.start..new.end));
        std::thread::sleep(Duration::from_millis(200));
        stop.store(1, Ordering::SeqCst);
        sent as u64
    });
    let mut rows: HashMap<IpAddr, Vec<[u64; 2]>> = HashMap::new();
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(row) = item {
            rows.entry(row.orig_h).or_default().push(row.packets);
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let ran = weir::run(&compiler, &compiled, &mut source, &[Shape::default()], 2, &mut each, &mut |_| {});
    let Ok(outcome) = ran;
    let sent = traffic.join().expect("it sends");
    let stats = outcome.source;
    assert_eq!(
        (stats.received, stats.dropped(), outcome.counters.packet.packets),
        (sent, 0, sent),
        "{stats:?}"
    );
    assert!(stats.places_moved > 100 && stats.pairs_not_moved == 0, "{stats:?}");
    // Half of the new pairs are at home at the first worker, and most of these have moved.
    assert!((75..200).contains(&stats.pairs_moved), "{stats:?}");
    assert!(outcome.shares.iter().all(|&packets| packets > 2000), "{:?}", outcome.shares);
    assert_eq!(rows.len(), 500);
    for (host, packets) in rows {
        let IpAddr::V4(address) = host else { panic!("{host}") };
        let [_, _, high, low] = address.octets();
        let expected = if u16::from_be_bytes([high, low]) < 200 { [ROUNDS + 3; 2] } else { [2; 2] };
        assert_eq!(packets, [expected], "{host} has one row");
    }
}

#[test]
fn without_the_right_connections_stay() {
    if !inside("balance::without_the_right_connections_stay") {
        return;
    }
    let allowed = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").unwrap_or_default();
    if allowed.trim() == "0" {
        eprintln!(
            "skipped: without_the_right_connections_stay needs kernel.unprivileged_bpf_disabled other than 0"
        );
        return;
    }
    make_pair(0);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all,+net_raw", "--inh-caps", "-all"]);
    command.args([env!("CARGO_BIN_EXE_weir"), "flows", "-i", "in0", "-j", "2", "-v", "--stats", "--count"]);
    let capturing = Capturing::run(&mut command, "capturing on");
    let sent = send("out0", &of_hosts(0..100));
    let output = capturing.end();
    let said = text(&output.stderr);
    assert!(said.contains("new connections do not move away from workers that fall behind"), "{said}");
    assert_eq!(
        (counter(&output, "source_received"), text(&output.stdout).trim()),
        (sent as u64, "100"),
        "{said}"
    );
}
