//! Protocols that nobody wrote: whatever a text means, it means the same to every engine.
//!
//! Texts, filters and packets come from a row of random bytes, as those of the fuzz target `text` do. What fails is
//! made small before it is printed; what was found so is below as a case of its own.

use crate::drive::{Packet, ask, compile, rows, seeds};
use std::collections::BTreeMap;
use std::panic;
use weir::packet::LinkType;
use weir::{Compiler, Engine, Options, Tried, Want};
use weir_ir::testing::Random;

const SEEDS: u64 = 150;
/// More choices than any text, filter and packets take.
const BYTES: usize = 6_000;

pub fn choices(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..BYTES).map(|_| random.bits() as u8).collect()
}

#[test]
fn engines_agree_on_generated_protocols() {
    let (mut taken, mut refused, mut rows) = (0, BTreeMap::<String, u32>::new(), 0);
    for seed in seeds(0..SEEDS) {
        let bytes = choices(seed);
        match panic::catch_unwind(|| weir::try_text(&bytes)) {
            Ok(Tried::Agreed(said)) => (taken, rows) = (taken + 1, rows + said),
            Ok(Tried::Refused(why)) => {
                println!("seed {seed} refused: {why}");
                *refused.entry(why[..5].to_string()).or_default() += 1;
            }
            Err(_) => panic!("seed {seed}, made small:\n{}", weir::shrink_text(&bytes).unwrap_or_default()),
        }
    }
    let count: u32 = refused.values().sum();
    println!("{taken} taken, {rows} rows; {count} refused: {refused:?}");
    assert!(taken >= count * 19, "most texts are taken: {taken}");
    assert!(rows > taken as usize * 40, "most say something: {rows} rows");
}

/// Rows of connections that packets of one stack belong to, without the passes and with them.
fn connections(text: &str, filter: &str, frames: &[&[u8]]) -> [Vec<String>; 2] {
    let mut compiler = Compiler::default();
    compiler.add("mine.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let packet = |frame: &&[u8]| {
        let wire_bytes = frame.len() as u32;
        Packet { time_ns: 0, link: LinkType(147), wire_bytes, bytes: frame.to_vec() }
    };
    let packets: Vec<Packet> = frames.iter().map(packet).collect();
    [vec!["all".to_string()], vec![]].map(|without_passes| {
        let options = Options { engine: Engine::Interpreter, without_passes, ..Options::default() };
        let compiled = compile(&compiler, &[ask(filter, Want::Connections)], &options);
        rows(&compiler, &compiled, &packets, 1).0
    })
}

#[test]
fn a_one_sided_instance_is_no_connection() {
    let text = "
        //! Who talks to whom
        protocol talk {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 1m
        }
        //! Counted by its kind
        protocol kind {
            header { kind: u8 }
            instance (kind)
            timeout 1m
        }
        //! Both
        stack both { start 147: talk  talk -> kind }";
    // The packet is the connection's, whether somebody wants the other instance or it has been dropped.
    for rows in connections(text, "kind.kind == 3", &[&[1, 2, 3], &[2, 3, 4]]) {
        assert_eq!(rows.len(), 1, "{rows:?}");
    }
}

#[test]
fn what_ends_on_a_packet_holds_no_other_connection() {
    let text = "
        //! Over at once
        protocol brief {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 0s
        }
        //! Not over
        protocol lasting {
            header { from: u8  to: u8 }
            instance (from) <-> (to)
            timeout 1m
        }
        //! In it
        stack both {
            start 147: brief
            repeat brief 2
            brief -> brief     when from == 1
            brief -> lasting
        }";
    // The third has the place of the first in its table, or its own.
    for rows in connections(text, "", &[&[1, 2, 3, 4, 5, 6], &[3, 4, 5, 6]]) {
        assert_eq!(rows.len(), 4, "{rows:#?}");
        assert!(rows.iter().all(|row| row.contains("tunnel_parents: []")), "{rows:#?}");
    }
}
