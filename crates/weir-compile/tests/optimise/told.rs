//! The behaviour of a test's own stack on packets: its events and the bytes that it delivers, as text.

use super::engine::run;
use weir_compile::events::{self, EventSet};
use weir_compile::{Need, Question, StackCatalog, lower};
use weir_ir::interpret::Interpreter;
use weir_ir::passes::{Options, optimize};
use weir_ir::verify::assert_valid;
use weir_lang::Library;
use weir_packet::{LinkType, PacketMeta};

/// The link type of test stacks: one for private use.
const LINK: LinkType = LinkType(147);

/// The effects of each frame with a filter: `name a b` for an event with columns, `gap N BYTES` for bytes,
/// and `yes` at the end if the packet matches the filter.
///
/// Runs the graph as lowered and the optimized one, which must give the same result.
pub fn told(text: &str, stack: &str, filter: &str, frames: &[Vec<u8>]) -> Vec<Vec<String>> {
    let mut library = Library::builtin();
    library.extend_with("mine.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let stack = library.stack(stack).expect("just added");
    let catalog = StackCatalog::new(stack, &[], weir_sessions::SessionRegistry::builtin().protocols());
    let filter = weir_lang::filter::compile(filter, &catalog).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let names: Vec<String> = events::events(stack).into_iter().map(|event| event.name).collect();
    let need = Need { packets: true, streams: true, events: EventSet::FULL, ..Need::default() };
    let lowered = lower(stack, &catalog, &[Question { filter, need }]).expect("few terms").graph;
    assert_valid(&lowered, "lowered");
    let mut optimised = lowered.clone();
    optimize(&mut optimised, &Options::default());
    assert_valid(&optimised, "optimised");
    let packet = |frame: &Vec<u8>| {
        let bytes = frame.len() as u32;
        let meta =
            PacketMeta { captured_bytes: bytes, wire_bytes: bytes, link: LINK, ..PacketMeta::default() };
        (meta, frame.clone())
    };
    let packets: Vec<_> = frames.iter().map(packet).collect();
    let say = |call: &String| match call.split_whitespace().collect::<Vec<_>>()[..] {
        ["emit", event, _, ref words @ ..] => {
            let number: usize = event.trim_start_matches("event").parse().expect("a number");
            // Two words per column; all columns here fit the low word.
            let low = words.iter().skip(1).step_by(2).map(|w| w.trim_matches(['[', ']', ',']));
            let name = names[number].split('.').next_back().expect("layer.event");
            Some([name].into_iter().chain(low).collect::<Vec<_>>().join(" "))
        }
        ["deliver", _, _, _, gap, ref bytes @ ..] => Some(format!("gap {gap} {}", bytes.concat())),
        _ => None,
    };
    let [first, second] = [lowered, optimised].map(|graph| {
        let outcome = run(&Interpreter::new(graph).expect("its patterns compile"), &packets);
        let of = |p: &super::engine::PacketOutcome| {
            let mut told: Vec<String> = p.calls().iter().filter_map(say).collect();
            told.extend((p.terms() != 0).then(|| "yes".to_string()));
            told
        };
        outcome.packets.iter().map(of).collect::<Vec<_>>()
    });
    assert_eq!(first, second, "before and after the passes");
    second
}
