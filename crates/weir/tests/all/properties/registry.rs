//! A registry of many session protocols, most of them artificial: questions, filters and output use the right
//! number.

use crate::properties::drive::{MemoryPacket, ask, compile, rows};
use std::any::Any;
use weir::packet::{Timestamp, Value, ValueType};
use weir::sessions::{
    ByteSet, CutOff, Data, Direction, Field, InnerPiece, Opening, Probe, Progress, ProtocolSet, Session,
    SessionParser, SessionProtocol,
};
use weir::stream::OverloadParams;
use weir::{Compiler, Log, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{ACK, PSH, SYN, V4, ethernet, give_times, ipv4, tcp};

/// Protocols registered in addition to the built-in ones.
const MADE_UP: usize = 200;

/// A message: the first byte identifies it, the second is its number.
#[derive(Debug)]
struct Number(u8);

impl Session for Number {
    fn value(&self, index: usize) -> Value<'_> {
        if index == 0 { Value::Unsigned(self.0.into()) } else { Value::Absent }
    }

    fn time(&self) -> Option<Timestamp> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct NumberParser;

impl SessionParser for NumberParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        sessions.push(Box::new(Number(data.bytes[1])));
        Progress::Done
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Done
    }

    fn finish(&mut self, _: &mut Vec<Box<dyn Session>>) {}

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

/// Protocol `n`; only the last one is ever recognised.
fn protocol(n: usize) -> &'static SessionProtocol {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let name = leak(format!("made{n}"));
    let number = Field {
        name: leak(format!("{name}.number")),
        aliases: &[],
        column: "number",
        value_type: ValueType::Unsigned,
        doc: "the number",
        words: None,
    };
    let is_mine = |opening: &Opening<'_>| match opening.originator {
        [0xb3, _, ..] => Probe::Certain,
        _ => Probe::NotForUs,
    };
    Box::leak(Box::new(SessionProtocol {
        name,
        service: name,
        log: name,
        doc: "made up",
        transports: &["tcp"],
        ports: &[],
        hands_over: &[],
        probe: if n + 1 == MADE_UP { is_mine } else { |_| Probe::NotForUs },
        may_begin: |first| if first.at == 0 { ByteSet::of(|byte| byte == 0xb3) } else { ByteSet::ALL },
        open: |_| Box::new(NumberParser),
        carrier: None,
        settings: &[],
        brief: &[],
        fields: Box::leak(Box::new([number])),
    }))
}

/// A connection whose client sends these bytes.
fn connection(payload: &[u8]) -> Vec<MemoryPacket> {
    connection_from(40_000, payload)
}

/// As [`connection`], from this port.
fn connection_from(port: u16, payload: &[u8]) -> Vec<MemoryPacket> {
    let segment = |side: usize, flags: u8, numbers: (u32, u32), payload: &[u8]| {
        let segment = tcp([(port, 7_000), (7_000, port)][side], numbers.0, numbers.1, flags, &[], payload);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
    };
    let mut packets = vec![
        segment(0, SYN, (99, 0), &[]),
        segment(1, SYN | ACK, (499, 100), &[]),
        segment(0, ACK | PSH, (100, 500), payload),
    ];
    give_times(&mut Random::new(1), &mut packets);
    packets
}

#[test]
fn the_last_of_two_hundred_protocols_is_recognised_filtered_on_and_shown() {
    let mut compiler = Compiler::default();
    let builtin = compiler.sessions().protocols().len();
    for n in 0..MADE_UP {
        assert_eq!(compiler.register(protocol(n)), Ok(builtin + n));
    }
    let last = format!("made{}", MADE_UP - 1);
    let all = Want::Sessions(compiler.sessions().all());
    let log = Log::of(compiler.sessions(), &last).expect("each has a log");
    assert_eq!(log.asked(), ProtocolSet::of(builtin + MADE_UP - 1));
    let of_log = Want::Sessions(log.asked());
    let service = format!("conn.service == \"{last}\"");
    let (met, missed) = (format!("{last}.number == 7"), format!("{last}.number == 8"));
    let mut connections = ask(&service, Want::Connections);
    connections.need = Need { service: true, ..Need::default() };
    let asks = [
        ask("", all),
        ask(&last, of_log),
        ask(&met, of_log),
        ask(&missed, of_log),
        ask("made3", all),
        connections,
        ask(&met, Want::Packets),
    ];
    for options in [Options::default(), Options { engine: weir::Executor::Interpreter, ..Options::default() }]
    {
        let compiled = compile(&compiler, &asks, &options);
        assert!(compiled.warnings().list.is_empty(), "{:?}", compiled.warnings().list);
        let outcome = rows(&compiler, &compiled, &connection(&[0xb3, 7]), 1).1;
        assert_eq!(outcome.matched, [1, 1, 1, 0, 0, 1, 3]);
    }
}

/// A parser that keeps all its bytes and yields one session at the end.
struct Hoarder(Vec<u8>);

impl SessionParser for Hoarder {
    fn parse(&mut self, data: &Data<'_>, _: &mut Vec<Box<dyn Session>>) -> Progress {
        self.0.extend_from_slice(data.bytes);
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.push(Box::new(Number(0)));
    }

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

#[test]
fn sessions_that_hold_more_than_the_memory_are_ended() {
    const CONNECTIONS: u16 = 200;
    const PAYLOAD_BYTES: usize = 1000;
    let hoarder: &SessionProtocol = Box::leak(Box::new(SessionProtocol {
        open: |_| Box::new(Hoarder(vec![])),
        ..*protocol(MADE_UP - 1)
    }));
    let mut compiler = Compiler::default();
    let number = compiler.register(hoarder).expect("no other has its name");
    let mut packets: Vec<MemoryPacket> =
        (0..CONNECTIONS).flat_map(|n| connection_from(40_000 + n, &[0xb3; PAYLOAD_BYTES])).collect();
    give_times(&mut Random::new(2), &mut packets);
    let run = |memory_max| {
        let overload = OverloadParams { memory_max, ..OverloadParams::default() };
        let options = Options { overload, ..Options::default() };
        let compiled = compile(&compiler, &[ask("", Want::Sessions(ProtocolSet::of(number)))], &options);
        let outcome = rows(&compiler, &compiled, &packets, 1).1;
        assert_eq!(outcome.matched, [u64::from(CONNECTIONS)], "those that are ended yield what they have");
        (outcome.counters.flow.holders_shed, outcome.memory.sessions)
    };
    let all_bytes = u64::from(CONNECTIONS) * PAYLOAD_BYTES as u64;
    let (shed, held_bytes) = run(1 << 20);
    // Some connections end before others begin, so the maximum is below the sum.
    assert!(shed == 0 && held_bytes >= all_bytes / 2, "{shed}, {held_bytes}");
    let (shed, held_bytes) = run(50_000);
    assert!(shed >= 100 && shed < u64::from(CONNECTIONS), "{shed}");
    assert!((25_000..=50_000).contains(&held_bytes), "{held_bytes}");
}

/// The key of [`Masked`].
const MASK: u8 = 0x55;

/// A tunnel: a first byte, and then a stream whose bytes are masked.
#[derive(Default)]
struct Masked {
    inner: Vec<InnerPiece>,
    is_inside: [bool; 2],
}

impl SessionParser for Masked {
    fn parse(&mut self, data: &Data<'_>, _: &mut Vec<Box<dyn Session>>) -> Progress {
        let is_inside = std::mem::replace(&mut self.is_inside[data.from as usize], true);
        let masked = &data.bytes[usize::from(!is_inside)..];
        let bytes = masked.iter().map(|byte| byte ^ MASK).collect();
        self.inner.push(InnerPiece { from: data.from, time: data.time, gap_bytes: 0, bytes });
        Progress::Inner
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Done
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.push(Box::new(Number(1)));
    }

    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        pieces.append(&mut self.inner);
    }

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

/// The bytes in `depth` nested tunnels.
fn masked(bytes: &[u8], depth: usize) -> Vec<u8> {
    (0..depth).fold(bytes.to_vec(), |inner, _| {
        [0xb3].into_iter().chain(inner.into_iter().map(|byte| byte ^ MASK)).collect()
    })
}

#[test]
fn streams_inside_sessions_are_probed() {
    let tunnel: &SessionProtocol = Box::leak(Box::new(SessionProtocol {
        open: |_| Box::new(Masked::default()),
        hands_over: &["http", "made199"],
        ..*protocol(MADE_UP - 1)
    }));
    let mut compiler = Compiler::default();
    let number = compiler.register(tunnel).expect("no other has its name");
    let http = compiler.sessions().number_of("http").expect("it is built in");
    let request = b"GET /inside HTTP/1.1\r\nHost: a.example\r\n\r\n";
    // Sessions of HTTP, of the tunnels, of both; and the connection by its services, each named once.
    let services = |depth: usize| {
        let names = if depth < 4 { "made199,http" } else { "made199" };
        format!("conn.service == \"{names}\"")
    };
    for depth in 1..=5 {
        let packets = connection(&masked(request, depth));
        let mut connections = ask(&services(depth), Want::Connections);
        connections.need = Need { service: true, ..Need::default() };
        let asks = [
            ask("http.uri == \"/inside\"", Want::Sessions(ProtocolSet::of(http))),
            ask("", Want::Sessions(ProtocolSet::of(number))),
            ask("", Want::Sessions(compiler.sessions().all())),
            connections,
        ];
        let compiled = compile(&compiler, &asks, &Options::default());
        let outcome = rows(&compiler, &compiled, &packets, 1).1;
        // A flow has at most four protocols; deeper ones are counted as refused.
        let (tunnels, inside) = (depth.min(4) as u64, u64::from(depth < 4));
        assert_eq!(outcome.matched, [inside, tunnels, tunnels + inside, 1], "{depth}");
        assert_eq!(outcome.counters.session.inner_streams_cut, 1 - inside, "{depth}");
        // A program with the question for HTTP only gives the same number.
        let compiled = compile(&compiler, &asks[..1], &Options::default());
        assert_eq!(rows(&compiler, &compiled, &packets, 1).1.matched, [inside], "{depth}");
    }
}

#[test]
fn what_can_not_stand_beside_the_known_protocols_is_refused() {
    let mut compiler = Compiler::default();
    let refused = |compiler: &mut Compiler, protocol: SessionProtocol| {
        let protocol = Box::leak(Box::new(protocol));
        compiler.register(protocol).expect_err("it is refused").to_string()
    };
    let like = |name| SessionProtocol { name, ..*protocol(0) };
    assert_eq!(
        refused(&mut compiler, like("tls")),
        "session protocol `tls`: `tls` is the name of something else; choose another one"
    );
    assert!(
        refused(&mut compiler, SessionProtocol { log: "http", ..like("x") })
            .contains("the log `http` have other columns")
    );
    assert!(
        refused(&mut compiler, SessionProtocol { transports: &[], ..like("x") }).contains("`transports`")
    );
    assert!(compiler.register(protocol(0)).is_ok());
    assert!(refused(&mut compiler, like("made1")).contains("`made0` is the name"), "services are names, too");
    let room = (0..).take_while(|n| compiler.register(protocol(1_000 + n)).is_ok()).count();
    assert_eq!(compiler.sessions().protocols().len(), weir::sessions::PROTOCOLS_MAX);
    assert!(room > 200 && refused(&mut compiler, like("x")).contains("no more are possible"));
}
