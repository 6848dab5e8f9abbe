//! The account of memory against the allocator: what connections cost is counted, for every session protocol
//! and after every part of its conversations.

use crate::properties::drive::{all_sessions, ask, compile, has_all_seeds};
use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use weir::io::source::{MemoryPacket, MemorySource};
use weir::packet::{Burst, Direction, Poll, Source, SourceError, Timestamp};
use weir::{Compiled, Compiler, Options, Shape};
use weir_sessions::SessionRegistry;
use weir_testing::conversation::{Act, Conversation};
use weir_testing::frames::{ACK, SYN, ethernet, ipv4, tcp, udp};

const SERVER: [u8; 4] = [192, 168, 0, 1];

/// The packets of many connections with the same conversation, which go on in turns. The memory of the
/// packets is released with each burst.
struct Many<'a> {
    packets: &'a [Packet],
    port: u16,
    is_datagram: bool,
    connections: u32,
    /// The number of packets so far.
    at: u32,
    /// The bytes that were allocated before the first packet, and after the last one.
    live: &'a Cell<[isize; 2]>,
}

/// A packet of a conversation.
struct Packet {
    from: Direction,
    numbers: [u32; 2],
    flags: u8,
    bytes: Vec<u8>,
}

/// A connection's packets: over TCP with a handshake.
fn packets(conversation: &Conversation) -> Vec<Packet> {
    let (client, server) = (Direction::Originator, Direction::Responder);
    let mut next = [1001_u32, 1001];
    let mut all = vec![];
    if !conversation.is_datagram {
        for (from, numbers, flags) in
            [(client, [1000, 0], SYN), (server, [1000, 1001], SYN | ACK), (client, next, ACK)]
        {
            all.push(Packet { from, numbers, flags, bytes: vec![] });
        }
    }
    for step in &conversation.steps {
        let side = step.from as usize;
        match &step.act {
            Act::Send(bytes) => {
                for piece in bytes.chunks(1400) {
                    let numbers = [next[side], next[1 - side]];
                    all.push(Packet { from: step.from, numbers, flags: ACK, bytes: piece.to_vec() });
                    next[side] += piece.len() as u32;
                }
            }
            Act::Lose(bytes) => next[side] = next[side].wrapping_add(*bytes as u32),
        }
    }
    all
}

impl Many<'_> {
    fn packet(&self, at: u32) -> MemoryPacket {
        let (connection, packet) = (at % self.connections, &self.packets[(at / self.connections) as usize]);
        let [_, _, a, b] = connection.to_be_bytes();
        let is_client = packet.from == Direction::Originator;
        let ((from, to), ports) = if is_client {
            (([10, 0, a, b], SERVER), (40_000, self.port))
        } else {
            ((SERVER, [10, 0, a, b]), (self.port, 40_000))
        };
        let payload = if self.is_datagram {
            udp(ports, &packet.bytes)
        } else {
            tcp(ports, packet.numbers[0], packet.numbers[1], packet.flags, &[], &packet.bytes)
        };
        let frame =
            ethernet(0x0800, &ipv4((from, to), if self.is_datagram { 17 } else { 6 }, 1, 0, &[], &payload));
        let mut packet = MemoryPacket::ethernet(frame);
        packet.time = Timestamp(1_700_000_000_000_000_000 + i64::from(at) * 1000);
        packet
    }
}

impl Source for Many<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        let [before, _] = self.live.get();
        let now = weir_memory::live_bytes();
        let end = self.packets.len() as u32 * self.connections;
        self.live.set(if self.at == 0 { [now, now] } else { [before, now] });
        if self.at == end {
            return Ok(Poll::End);
        }
        let to = (self.at + 64).min(end);
        let mut burst_source = MemorySource::new().then_packets((self.at..to).map(|at| self.packet(at)));
        self.at = to;
        burst_source.poll(burst)
    }
}

/// Bytes that so many connections cost: allocated, and counted.
fn cost(
    programs: &(Compiler, Compiled),
    conversation: &Conversation,
    port: u16,
    connections: u32,
) -> [isize; 2] {
    let (compiler, compiled) = programs;
    let packets = packets(conversation);
    let live = Cell::default();
    let is_datagram = conversation.is_datagram;
    let mut source = Many { packets: &packets, port, is_datagram, connections, at: 0, live: &live };
    let shapes = vec![Shape::default(); compiled.question_count()];
    let mut each = |_: usize, _: weir::Item<'_>| Ok::<(), Infallible>(());
    let Ok(outcome) = weir::run(compiler, compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
    let [before, after] = live.get();
    let counted: u64 = outcome.memory.iter().filter(|owner| owner.0 != "tables").map(|owner| owner.1).sum();
    [after - before, counted as isize]
}

/// Bytes that a connection may cost beyond what is counted: of so many connections, places in the lists of
/// rows that wait to be delivered, which are used again.
const UNCOUNTED_MAX: isize = 100;

#[test]
fn what_connections_cost_is_counted() {
    let connections = 1000;
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", all_sessions())], &Options::default());
    let programs = (compiler, compiled);
    // Connections of an unknown protocol cost what all do: entries of tables, which have a budget of their
    // own.
    let plain = [false, true].map(|is_datagram| {
        let mut unknown = Conversation::parse("> \"\\xff\\xfe\\xfd\\xfc\\xfb\\xfa\\xf9\\xf8\"");
        unknown.is_datagram = is_datagram;
        cost(&programs, &unknown, 1, connections)[0]
    });
    let (mut faults, mut measured) = (vec![], 0);
    for protocol in SessionRegistry::builtin().protocols() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus")).join(protocol.name);
        let seeds = fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        for seed in seeds.filter(|seed| seed.extension().is_some_and(|extension| extension == "talk")) {
            let whole = Conversation::parse(&fs::read_to_string(&seed).unwrap());
            let steps = whole.steps.len();
            let mut phases = if has_all_seeds() { vec![1, 2, 3, steps / 2, steps] } else { vec![2, steps] };
            phases.retain(|&phase| phase > 0 && phase <= steps);
            phases.dedup();
            for phase in phases {
                let mut conversation = whole.clone();
                conversation.steps.truncate(phase);
                let port = protocol.ports.first().copied().unwrap_or(9999);
                let [allocated, counted] = cost(&programs, &conversation, port, connections);
                let own = allocated - plain[usize::from(conversation.is_datagram)];
                let connections = connections as isize;
                let is_counted = own <= counted + counted / 10 + UNCOUNTED_MAX * connections;
                let line = format!(
                    "{} {phase}: {} bytes a connection, {} of them counted",
                    seed.display(),
                    own / connections,
                    counted / connections
                );
                println!("{line}");
                if !is_counted {
                    faults.push(line);
                }
                measured += 1;
            }
        }
    }
    assert!(measured > 50, "there are conversations");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
