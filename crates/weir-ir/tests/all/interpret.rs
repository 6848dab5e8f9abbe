//! Guarantees to the engine, tested on the interpreter.

use weir_ir::abi::{Continuation, FlowRecord, Program, Resume, Step};
use weir_ir::graph::{Graph, Table};
use weir_ir::interpret::Interpreter;
use weir_packet::{Direction, DropReason, PacketMeta};
use weir_testing::graph::{RecordingHost, drive, tcp_frame};

fn program(text: &str) -> Interpreter {
    let graph: Graph = text.parse().expect("it parses");
    weir_ir::verify::assert_valid(&graph, "parsing");
    Interpreter::new(graph).expect("patterns compile")
}

fn file(name: &str) -> Interpreter {
    let path = format!("{}/../../filetests/ir/{name}.weirir", env!("CARGO_MANIFEST_DIR"));
    program(&std::fs::read_to_string(path).expect("the file is there"))
}

#[test]
fn a_filter_without_flows_is_done_in_the_head() {
    let (program, mut k) = (file("port"), Continuation::default());
    let mut ask = |frame: &[u8]| (program.head(&PacketMeta::default(), frame, &mut k), k.terms);
    assert_eq!(ask(&tcp_frame(1, 443, b"x")), (Step::Done(None), 1));
    assert_eq!(ask(&tcp_frame(443, 1, b"x")), (Step::Done(None), 0));
    assert_eq!(ask(&tcp_frame(1, 443, b"")[..37]), (Step::Done(Some(DropReason::Truncated)), 0));
    assert_eq!(ask(&[]), (Step::Done(Some(DropReason::Truncated)), 0));
}

#[test]
fn a_residual_filter_is_asked_about_numbers_and_bytes() {
    let (program, mut k) = (file("residual"), Continuation::default());
    assert_eq!(program.ask(&[0x6162], &[b"", b"abc"], &mut k), 1);
    assert_eq!(program.ask(&[0x6163], &[b"", b"abc"], &mut k), 0);
    assert_eq!(program.ask(&[0x6162], &[b"", b"a"], &mut k), 0, "too short");
    assert_eq!(program.ask(&[], &[], &mut k), 0, "missing inputs are 0 and empty");
}

#[test]
fn after_a_restart_the_program_goes_on_from_the_lookup_with_what_lived() {
    let program = program(
        "table0 tcp\nvar0 table0 state u8\nblock0:\n v0 = frame\n v1 = const 7\n v2 = bool true\n\
         lookup table0 (v1, v1) swap v2, block1\n\
         block1(v3: flow table0, v4: bool, v5: bool):\n branch v5, block2, block3\n\
         block2:\n v6 = length v0\n set v3 var0 = v6\n done v6\nblock3:\n restart\n",
    );
    let (packet, mut k, mut host) =
        (PacketMeta::default(), Continuation::default(), RecordingHost::default());
    k.set_key([9; 5]);
    assert_eq!(program.head(&packet, b"abc", &mut k), Step::Lookup);
    assert_eq!((k.table, k.key(), k.swap, k.resume()), (0, &[7, 7][..], 1, 0), "the words before are gone");
    let mut data = vec![0; program.layout().size(Table(0))];
    for (new, expected) in [(false, Step::Restart), (true, Step::Done(None))] {
        let flow = FlowRecord { id: 1, data: &mut data };
        let (frame, direction) = (&b"abc"[..], Direction::Originator);
        let at = Resume { packet: &packet, frame, flow, direction, is_new: new };
        assert_eq!(program.resume(&mut host, at, &mut k), expected);
    }
    assert_eq!((k.terms, data[0]), (3, 3));
}

#[test]
fn letters_are_kept_once_and_up_to_their_number() {
    let program = program(
        "table0 tcp\nvar0 table0 history letters 2\nblock0:\n v0 = frame\n v1 = const 0\n v2 = bool true\n\
         check v0 v1 1, block1, block3\nblock1:\n lookup table0 () swap v2, block2\n\
         block2(v3: flow table0, v4: bool, v5: bool):\n v6 = load8 v0 v1 0\n append v3 var0 v6\n done v1\n\
         block3:\n done v1\n",
    );
    let packets: Vec<_> = b"SSHAS".iter().map(|&letter| (PacketMeta::default(), vec![letter])).collect();
    let outcome = drive(&program, &packets);
    let data = outcome.flows.values().next().expect("one flow");
    assert_eq!(data[..3], [2, b'S', b'H'], "no letter twice, and no third");
}

#[test]
fn numbers_are_cut_to_their_bits_and_sides_are_apart() {
    let outcome = drive(&file("lookups"), &[(PacketMeta::default(), vec![10, 11, 12, 13])]);
    assert_eq!(outcome.packets[0].outs, [2, 0], "65538 in 16 bits; the originator's is still 0");
    assert_eq!(outcome.packets[0].done, Some((14, None)));
    assert_eq!(outcome.packets[0].lookups.len(), 2);
}
