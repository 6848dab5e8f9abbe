//! No input makes the parser panic, or hold much; and how the streams are cut into pieces changes nothing.

mod support;

use proptest::prelude::*;
use support::{Segment, feed, handshakes};
use weir_sessions::tls::{CertificateChain, fuzz_tls};

/// The segments cut into pieces at the places that `cuts` says, in turn; the order of the bytes is kept.
fn cut(segments: &[Segment], cuts: &[usize]) -> Vec<Segment> {
    let mut lengths = cuts.iter().cycle();
    let mut pieces = Vec::new();
    for (from, bytes) in segments {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = (*lengths.next().expect("endless")).clamp(1, rest.len());
            pieces.push((*from, rest[..length].to_vec()));
            rest = &rest[length..];
        }
    }
    pieces
}

/// One of our handshakes.
fn any_handshake() -> impl Strategy<Value = Vec<Segment>> {
    (0..handshakes().len()).prop_map(|index| handshakes().swap_remove(index).1)
}

/// One of our handshakes with some bytes changed, some left out, and some put in.
fn any_mutated() -> impl Strategy<Value = Vec<Segment>> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8, any::<u8>());
    (any_handshake(), prop::collection::vec(edit, 0..12)).prop_map(|(mut segments, edits)| {
        for (segment, at, action, byte) in edits {
            let index = segment.index(segments.len());
            let bytes = &mut segments[index].1;
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            match action {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                _ => bytes.insert(at, byte),
            }
        }
        segments
    })
}

fn any_cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..8_usize, 1..400_usize], 1..40)
}

#[test]
fn single_bytes_give_the_same_handshake() {
    for (name, segments) in handshakes() {
        assert_eq!(feed(&cut(&segments, &[1])), feed(&segments), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cutting_gives_the_same_handshake(segments in any_mutated(), cuts in any_cuts()) {
        prop_assert_eq!(feed(&cut(&segments, &cuts)), feed(&segments));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_tls(&bytes);
    }

    #[test]
    fn mutated_handshakes_do_no_harm(segments in any_mutated(), commands in prop::collection::vec(any::<u8>(), 1..64)) {
        // As commands for the fuzzer: up to 63 bytes each, now and then a gap.
        let mut input = Vec::new();
        let mut commands = commands.iter().cycle();
        for (from, bytes) in &segments {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let command = *commands.next().expect("endless");
                let length = usize::from(command >> 2).clamp(1, rest.len());
                let gap = u8::from(command == 7) << 1;
                input.push((length as u8) << 2 | gap | *from as u8);
                input.extend_from_slice(&rest[..length]);
                rest = &rest[length..];
            }
        }
        fuzz_tls(&input);
    }

    #[test]
    fn mutated_certificates_do_no_harm(at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let handshake = feed(&support::handshake("tls12-client-cert")).remove(0);
        let mut der = handshake.server_certificates.der().next().expect("given").to_vec();
        for (index, byte) in at {
            let index = index.index(der.len());
            der[index] = byte;
        }
        let length = &(der.len() as u32).to_be_bytes()[1..];
        let list = [length, &der].concat();
        let body = [&(list.len() as u32).to_be_bytes()[1..], &list].concat();
        prop_assert_eq!(CertificateChain::parse(&body).certificates().len(), 1);
    }
}
