//! A registry of many session protocols, most of them artificial: questions, filters and output use the right
//! number.

use crate::drive::{Packet, ask, compile, rows};
use crate::frames::{ACK, PSH, SYN, V4, ethernet, give_times, ipv4, tcp};
use std::any::Any;
use weir::packet::{Timestamp, Value, ValueType};
use weir::sessions::{
    ByteSet, CutOff, Data, Direction, Field, Opening, Probe, Progress, ProtocolSet, Session, SessionParser,
    SessionProtocol,
};
use weir::{Compiler, Log, Need, Options, Want};
use weir_testing::Random;

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

    fn held_bytes(&self) -> usize {
        0
    }

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
        hands_over: &[],
        probe: if n + 1 == MADE_UP { is_mine } else { |_| Probe::NotForUs },
        may_begin: |first| if first.at == 0 { ByteSet::of(|byte| byte == 0xb3) } else { ByteSet::ALL },
        parser: || Box::new(NumberParser),
        carrier: None,
        fields: Box::leak(Box::new([number])),
    }))
}

/// A connection whose client sends these bytes.
fn connection(payload: &[u8]) -> Vec<Packet> {
    let segment = |side: usize, flags: u8, numbers: (u32, u32), payload: &[u8]| {
        let segment =
            tcp([(40_000, 7_000), (7_000, 40_000)][side], numbers.0, numbers.1, flags, &[], payload);
        Packet::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
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
