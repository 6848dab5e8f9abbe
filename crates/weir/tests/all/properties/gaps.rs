//! Gaps of any layer's sequence: statements run for each, also at the end of the instance; events happen on
//! the packet that shows the gap.

use crate::properties::drive::{MemoryPacket, compile, in_memory};
use std::convert::Infallible;
use weir::packet::Value;
use weir::{Ask, Compiler, EventRows, Executor, Item, Need, Options, Shape, Want};
use weir_testing::frames::{V4, ethernet, ipv4};

/// Numbered parts. The receiver says up to which number it has all parts.
const PARTS: &str = "
protocol part {
    header { number: u8  has: u8 }
    payload = rest
    instance (below.src) <-> (below.dst)
    each side { gaps: u8  states: u8 }
    vars { times: u8 }
    sequence at number of payload spanning 1 from first
    acknowledge has when has > 0
    states { fresh: start  old }
    on age: fresh -> old when number > 90
    timeout 1m
    on gap {
        me.gaps += 1
        if responder { times += 1 }
        if state.old { me.states += 1 }
    }
    event lost on gap when me.gaps < 9 { by = number, before = ordered.number, gaps = me.gaps } \"missing parts\"
    event over on end { gaps = me.gaps, answers = peer.gaps, old = me.states, times } \"an end\"
}
stack parts extends internet { ip -> part when upper == 253 }
";

/// The rows of an event: its columns, as text.
fn rows(event: &str, columns: &[&str], parts: &[(usize, u8, u8)]) -> Vec<String> {
    let mut compiler = Compiler::default();
    compiler.add("parts.weir", PARTS).unwrap_or_else(|wrong| panic!("{wrong}"));
    let packet = |&(side, number, has): &(usize, u8, u8)| {
        let bytes = [number, has, b'x'];
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 253, 1, 0, &[], &bytes)))
    };
    let packets: Vec<MemoryPacket> = parts.iter().map(packet).collect();
    let told = EventRows::of(compiler.stack(), &[event.to_string()]).expect("it is declared");
    let need = Need { events: told.asked, ..Need::default() };
    let mut runs = vec![];
    for (engine, without_passes) in [(Executor::Native, vec![]), (Executor::Interpreter, vec!["all".into()])]
    {
        let options = Options { engine, without_passes, ..Options::default() };
        let ask = Ask { filter: String::new(), need, want: Want::Events };
        let compiled = compile(&compiler, &[ask], &options);
        let mut rows = vec![];
        let mut each = |_: usize, item: Item<'_>| {
            let Item::Rows(made) = item else { panic!("{item:?} is no event") };
            for row in made.iter() {
                let values = row.values();
                let value = |name: &&str| {
                    let at = told.columns.iter().position(|column| column.name == *name).expect("a column");
                    match &values[at] {
                        Value::Unsigned(number) => number.to_string(),
                        other => panic!("{name}: {other:?}"),
                    }
                };
                rows.push(columns.iter().map(value).collect::<Vec<_>>().join(" "));
            }
            Ok::<(), Infallible>(())
        };
        let mut source = in_memory(&packets);
        let Ok(_) =
            weir::run(&compiler, &compiled, &mut source, &[Shape::default()], 1, &mut each, &mut |_| {});
        runs.push(rows);
    }
    assert_eq!(runs[0], runs[1]);
    runs.remove(0)
}

/// Parts 1, 3 and 6 of the first side, of which the other side acknowledges all before 4; then its own parts
/// 20 and 95.
const SOME: [(usize, u8, u8); 5] = [(0, 1, 0), (0, 3, 0), (0, 6, 0), (1, 20, 4), (1, 95, 0)];

#[test]
fn events_happen_on_the_packet_that_shows_a_gap() {
    let columns = ["packet", "by", "before", "gaps"];
    assert_eq!(rows("part.lost", &columns, &SOME), ["4 20 3 1"]);
    // The missing part comes before the next bytes of either side.
    let late = [(0, 1, 0), (0, 3, 0), (0, 2, 0), (1, 20, 4)];
    assert_eq!(rows("part.lost", &columns, &late), [""; 0]);
}

#[test]
fn statements_run_for_gaps_at_the_end() {
    let columns = ["gaps", "answers", "old", "times"];
    // The gap before part 6, and that before part 95, show at the end, when the instance is old.
    assert_eq!(rows("part.over", &columns, &SOME), ["2 1 1 1"]);
    assert_eq!(rows("part.over", &columns, &SOME[..1]), ["0 0 0 0"]);
}

/// A packet of a capture cannot pass for the end of an instance, whatever its link type.
#[test]
fn no_packet_is_taken_for_a_gap() {
    let mut compiler = Compiler::default();
    compiler.add("parts.weir", PARTS).unwrap_or_else(|wrong| panic!("{wrong}"));
    let ask = crate::properties::drive::ask("", Want::Connections);
    let compiled = compile(&compiler, &[ask], &Options::default());
    let packets: Vec<MemoryPacket> = (0..9)
        .map(|_| MemoryPacket { link: weir_ir::abi::GAP_LINK, ..MemoryPacket::ethernet(vec![0; 60]) })
        .collect();
    let (rows, outcome) = crate::properties::drive::rows(&compiler, &compiled, &packets, 1);
    assert!(rows.is_empty() && outcome.counters.adds_up(0).is_ok(), "{rows:?}");
}
