//! Sessions over layers of one's own: `sessions mine as tcp` makes the bytes that a layer delivers carry
//! sessions.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows};
use weir::{Compiler, Options};
use weir_testing::frames::{V4, ethernet, ipv4};

/// A transport with streams, and one with datagrams.
const TEXT: &str = "
protocol flux {
    header { src_port: u16  dst_port: u16  seq: u32  length: u16 }
    payload = rest[.. length]
    instance (below.src, src_port) <-> (below.dst, dst_port)
    sequence at seq of payload from first
    timeout 1m
    event bytes on ordered { assemble }
}
protocol drops {
    header { src_port: u16  dst_port: u16 }
    payload = rest
    instance (below.src, src_port) <-> (below.dst, dst_port)
    timeout 1m
    event bytes on packet { assemble }
}
stack silent extends internet {
    ip -> flux   when upper == 253
    ip -> drops  when upper == 254
}
stack mine extends silent {
    sessions flux as tcp
    sessions drops as udp
}
";

fn packet(number: u8, forward: bool, header: &[u8], payload: &[u8]) -> MemoryPacket {
    let ends = if forward { (V4[0], V4[1]) } else { (V4[1], V4[0]) };
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, number, 1, 0, &[], &[header, payload].concat())))
}

/// A segment of `flux`.
fn flux(forward: bool, seq: u32, payload: &[u8]) -> MemoryPacket {
    let ports: [u16; 2] = if forward { [40_000, 80] } else { [80, 40_000] };
    let length = (payload.len() as u16).to_be_bytes();
    let header = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &seq.to_be_bytes(), &length].concat();
    packet(253, forward, &header, payload)
}

/// A question in DNS.
const QUESTION: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01";

/// Numbers of sessions, by the name of the stack.
fn sessions(stack: &str) -> usize {
    let request = b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (first, second) = request.split_at(17);
    let mut answer = QUESTION.to_vec();
    answer[2] = 0x81;
    let ports = |forward: bool| if forward { [0x9c, 0x40, 0, 53] } else { [0, 53, 0x9c, 0x40] };
    let packets = [
        // The second half comes first.
        flux(true, 1000, b""),
        flux(true, 1017, second),
        flux(true, 1000, first),
        flux(false, 500, response),
        packet(254, true, &ports(true), QUESTION),
        packet(254, false, &ports(false), &answer),
    ];
    let mut compiler = Compiler::default();
    compiler.add("mine.weir", TEXT).unwrap_or_else(|wrong| panic!("{}", wrong.render(false)));
    compiler.use_stack(stack).unwrap();
    let compiled = compile(&compiler, &[ask("", all_sessions())], &Options::default());
    rows(&compiler, &compiled, &packets, 1).0.len()
}

#[test]
fn layers_carry_the_sessions_that_the_stack_declares() {
    assert_eq!(sessions("silent"), 0, "no layer says that it carries any");
    assert_eq!(sessions("mine"), 2, "HTTP and DNS");
}
