//! A sample has whole connections: those of the hosts that are selected, with the rows that they have without
//! a sample.

use crate::properties::drive::{all_sessions, ask, rows, seeds};
use std::collections::HashSet;
use weir::{Compiler, Options, SAMPLES, Want};
use weir_testing::Random;
use weir_testing::frames;
use weir_testing::traffic::{Network, conversation, mix};

/// Gives the packets of a conversation other hosts.
fn change_hosts(frame: &mut [u8], number: u8) {
    // The second bytes of the source's and of the destination's address.
    let addresses: &[usize] = match frame.get(12..14) {
        Some([0x08, 0x00]) => &[27, 31],
        Some([0x86, 0xdd]) => &[23, 39],
        _ => &[],
    };
    for &byte in addresses {
        if let Some(byte) = frame.get_mut(byte) {
            *byte ^= number;
        }
    }
}

#[test]
fn a_sample_has_whole_connections() {
    let compiler = Compiler::default();
    let (mut all, mut sampled) = (0, 0);
    for seed in seeds(0..4) {
        let mut random = Random::new(seed);
        let network =
            Network { repeats: true, loses: true, reorders: true, fragments: seed % 2 == 0, cuts: false };
        let talks: Vec<_> = (0..30u8)
            .map(|number| {
                let ports = (40_000 + u16::from(number), [80, 443][usize::from(number % 2)]);
                let mut talk = conversation(&mut random, ports, network);
                talk.packets.iter_mut().for_each(|packet| change_hosts(&mut packet.frame, number));
                talk
            })
            .collect();
        let mut packets = mix(&mut random, &talks);
        packets.extend((0..40).map(|_| frames::any(&mut random)));
        frames::give_times(&mut random, &mut packets);
        for want in [Want::Packets, Want::Connections, all_sessions()] {
            for filter in ["", "tcp", "not udp or frame.len > 100"] {
                let of = |sample| {
                    let options = Options { sample, ..Options::default() };
                    compiler.compile(&[ask(filter, want)], &options).expect("a filter")
                };
                let [whole, half, other] = [None, Some(SAMPLES as u32 / 2), Some(SAMPLES as u32)].map(of);
                let of = |compiled, workers| {
                    let mut rows = rows(&compiler, compiled, &packets, workers).0;
                    rows.sort_unstable();
                    rows
                };
                let (whole, half, other) = (of(&whole, 1), (of(&half, 1), of(&half, 2)), of(&other, 1));
                // Fragments may come to a worker before their connection does.
                assert!(
                    network.fragments || half.0 == half.1,
                    "seed {seed}, {filter}, {want:?}: workers change nothing"
                );
                assert_eq!(whole, other, "seed {seed}, {filter}, {want:?}: 1/1 is all");
                let known: HashSet<&String> = whole.iter().collect();
                let wrong = half.0.iter().find(|row| !known.contains(row));
                assert_eq!(wrong, None, "seed {seed}, {filter}, {want:?}");
                all += whole.len();
                sampled += half.0.len();
            }
        }
    }
    println!("{sampled} of {all} rows");
    assert!((all / 3..all * 2 / 3).contains(&sampled), "{sampled} of {all}");
}
