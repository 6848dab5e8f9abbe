//! Windows of sequences: bytes outside are neither delivered nor remembered, and the event tells.

use super::engine::run;
use weir_compile::{Need, Question, StackCatalog, lower};
use weir_ir::interpret::Interpreter;
use weir_ir::passes::{Options, optimize};
use weir_lang::Library;
use weir_packet::{LinkType, PacketMeta};

/// Numbers of eight bits: they wrap soon.
const TEXT: &str = "
//! Bytes with numbers
protocol seg {
    header { from: u8  to: u8  seq: u8  ack: u8  window: u8 }
    payload = rest
    instance (from) <-> (to)
    each side { acked: u8 = seq  size: u8 = max }
    prepare { me.acked = ack  me.size = window }
    sequence at seq of payload window peer.acked .. peer.acked + peer.size from first
    timeout 1m
    event data on ordered { assemble, seq }
    event late on out_of_window { seq }
}
//! Of them
stack segs { start 147: seg }
";

/// From, to, number, acknowledgement, window, bytes.
type Segment<'a> = (u8, u8, u8, u8, u8, &'a [u8]);

/// What happens at each: events with their column, and bytes delivered.
fn happens(segments: &[Segment<'_>]) -> Vec<Vec<String>> {
    let mut library = Library::builtin();
    library.extend_with("segs.weir", TEXT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let stack = library.stack("segs").expect("just added");
    let catalog = StackCatalog::new(stack, &[], weir_sessions::PROTOCOLS);
    let filter = weir_lang::filter::compile("", &catalog).expect("it is empty");
    let need = Need { streams: true, events: u64::MAX, ..Need::default() };
    let mut graph = lower(stack, &catalog, &[Question { filter, need }]).expect("few terms").graph;
    optimize(&mut graph, &Options::default());
    let packet = |&(from, to, seq, ack, window, bytes): &Segment<'_>| {
        let frame = [&[from, to, seq, ack, window], bytes].concat();
        let bytes = frame.len() as u32;
        let link = LinkType(147);
        (PacketMeta { captured_bytes: bytes, wire_bytes: bytes, link, ..PacketMeta::default() }, frame)
    };
    let packets: Vec<_> = segments.iter().map(packet).collect();
    let program = Interpreter::new(graph).expect("no patterns");
    let told = |call: &String| match call.split_whitespace().collect::<Vec<_>>()[..] {
        ["emit", "event0", .., seq] => Some(format!("data {}", seq.trim_end_matches(']'))),
        ["emit", _, .., seq] => Some(format!("late {}", seq.trim_end_matches(']'))),
        ["deliver", _, _, _, gap, ref bytes @ ..] => Some(format!("gap {gap} {}", bytes.concat())),
        _ => None,
    };
    run(&program, &packets).packets.iter().map(|p| p.calls().iter().filter_map(told).collect()).collect()
}

#[test]
fn what_lies_outside_is_not_delivered() {
    let told = happens(&[
        // Before the peer said anything, its window is as large as can be.
        (1, 2, 250, 0, 9, b"ab"),
        // It has them, and wants four more: 252 to 255.
        (2, 1, 0, 252, 4, b""),
        (1, 2, 4, 0, 9, b"x"),
        (1, 2, 0, 0, 9, b"x"),
        (1, 2, 246, 0, 9, b"x"),
        (1, 2, 252, 0, 9, b"cdef"),
        // What begins before the window and reaches into it counts; the `f` came before.
        (2, 1, 0, 1, 4, b""),
        (1, 2, 255, 0, 9, b"fghi"),
        // The window is closed: empty segments may stand at its end, nothing else.
        (2, 1, 0, 3, 0, b""),
        (1, 2, 3, 0, 9, b"x"),
        (1, 2, 3, 0, 9, b""),
    ]);
    let data = |seq: u8, bytes: &str| vec![format!("data {seq}"), format!("gap 0 {bytes}")];
    assert_eq!(told[0], data(250, "[61,62]of2"));
    assert_eq!(told[2..5], [["late 4"], ["late 0"], ["late 246"]]);
    assert_eq!(told[5], data(252, "[63,64,65,66]of4"));
    assert_eq!(told[7], data(255, "[67,68,69]of3"));
    assert_eq!(told[9], ["late 3"]);
    assert_eq!(told[10][0], "data 3");
}
