//! Properties of every registered protocol, tested on its seeds in `corpus/PROTOCOL`: how streams are cut
//! into pieces affects neither recognition nor the sessions, no input makes a parser panic or hold much
//! memory, and a recognised seed stays recognised.
//!
//! A seed `NAME.talk` is a conversation as text (see `weir-testing/src/conversation.rs`) that yields
//! sessions. Other files are inputs for the fuzzer, as text or commands: broken, rare or one-sided
//! conversations.

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use weir_sessions::tls::CertificateChain;
use weir_sessions::{
    DECIDED_BYTES, Direction, Opening, Probe, ProbeDecision, SessionProtocol, SessionRegistry,
};
use weir_testing::conversation::{Act, Conversation, fuzz_session, run};

/// The files of a protocol's corpus with their names, sorted.
fn corpus(protocol: &SessionProtocol) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(protocol.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("no {}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let named = |path: PathBuf| (path.display().to_string(), std::fs::read(&path).expect("readable"));
    paths.into_iter().map(named).collect()
}

/// The conversations in a protocol's corpus.
fn seeds(protocol: &SessionProtocol) -> Vec<(String, Conversation)> {
    let is_talk = |(name, _): &(String, Vec<u8>)| name.ends_with(".talk");
    let read =
        |(name, bytes): (String, Vec<u8>)| (name, Conversation::parse(&String::from_utf8_lossy(&bytes)));
    let seeds: Vec<_> = corpus(protocol).into_iter().filter(is_talk).map(read).collect();
    assert!(!seeds.is_empty(), "{} has no corpus/{}/*.talk", protocol.name, protocol.name);
    seeds
}

/// One conversation of a protocol's corpus.
fn any_seed(protocol: &'static SessionProtocol) -> impl Strategy<Value = Conversation> {
    let seeds: Vec<Conversation> = seeds(protocol).into_iter().map(|(_, seed)| seed).collect();
    prop::sample::select(seeds)
}

/// One conversation of a protocol's corpus, with bytes changed, removed, inserted or lost.
fn any_mutated(protocol: &'static SessionProtocol) -> impl Strategy<Value = Conversation> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5_u8, any::<u8>());
    (any_seed(protocol), prop::collection::vec(edit, 0..12)).prop_map(|(mut seed, edits)| {
        for (step, at, action, byte) in edits {
            let step = step.index(seed.steps.len());
            let Act::Send(bytes) = &mut seed.steps[step].act else { continue };
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            match action {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                2 => bytes.insert(at, byte),
                3 => {
                    let tail = bytes.split_off(at);
                    let mut gap = seed.steps[step].clone();
                    gap.act = Act::Lose(u64::from(byte).min(tail.len() as u64));
                    let mut rest = gap.clone();
                    rest.act = Act::Send(tail[usize::from(byte).min(tail.len())..].to_vec());
                    seed.steps.splice(step + 1..step + 1, [gap, rest]);
                }
                _ => {
                    let other = usize::from(byte) % seed.steps.len();
                    seed.steps.swap(step, other);
                }
            }
        }
        seed
    })
}

/// Cases per property and protocol; `WEIR_CASES` overrides the default.
fn cases() -> u32 {
    std::env::var("WEIR_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(512)
}

fn any_cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..8_usize, 1..400_usize], 1..40)
}

/// Tests `property` on many values of `strategy`; a failure names the protocol.
fn hold<S: Strategy>(
    protocol: &SessionProtocol,
    cases: u32,
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(error) = prop::test_runner::TestRunner::new(config).run(strategy, property) {
        panic!("{}: {error}", protocol.name);
    }
}

/// The protocols that are built in.
fn protocols() -> &'static [&'static SessionProtocol] {
    SessionRegistry::builtin().protocols()
}

#[test]
fn seeds_yield_sessions_and_are_recognised() {
    for protocol in protocols() {
        for (name, seed) in seeds(protocol) {
            let outcome = run(protocol, &seed);
            assert!(!outcome.sessions.is_empty(), "{name} yields nothing");
            let all_of = |wanted: Direction| -> Vec<u8> {
                let sent = seed.steps.iter().filter(|step| step.from == wanted).map(|step| match &step.act {
                    Act::Send(bytes) => &bytes[..],
                    Act::Lose(_) => &[],
                });
                // The engine passes the last datagram of each side to a probe; after one datagram, that is
                // the first.
                sent.take(if seed.is_datagram { 1 } else { usize::MAX }).flatten().copied().collect()
            };
            let [originator, responder] = [Direction::Originator, Direction::Responder].map(all_of);
            let opening = Opening {
                originator: &originator,
                responder: &responder,
                ports: [0, 0],
                is_datagram: seed.is_datagram,
                ..Opening::default()
            };
            assert_ne!((protocol.probe)(&opening), Probe::NotForUs, "{name}");
        }
    }
}

#[test]
fn the_corpus_does_no_harm() {
    for protocol in protocols() {
        for (name, bytes) in corpus(protocol) {
            println!("{name}");
            fuzz_session(protocol, &bytes);
        }
    }
}

#[test]
fn single_bytes_give_the_same_sessions() {
    for protocol in protocols() {
        for (name, seed) in seeds(protocol) {
            assert_eq!(run(protocol, &seed.cut(&[1])), run(protocol, &seed), "{name}");
        }
    }
}

#[test]
fn any_cutting_gives_the_same_sessions() {
    for protocol in protocols() {
        hold(protocol, cases(), &(any_mutated(protocol), any_cuts()), |(seed, cuts)| {
            prop_assert_eq!(run(protocol, &seed.cut(&cuts)), run(protocol, &seed));
            Ok(())
        });
    }
}

/// Ports of either side in conversations: unknown ones, and those that probes use as hints.
const PORTS: [u16; 12] = [0, 21, 25, 53, 110, 137, 143, 502, 587, 3389, 5353, 6379];

/// The protocol that the engine would recognise: all probes see the stream after each piece, those that deny
/// it are not asked again, and the first that is certain wins.
fn recognise(conversation: &Conversation, ports: [u16; 2]) -> Option<&'static str> {
    let mut seen = [vec![], vec![]];
    let mut left: Vec<_> = protocols().iter().filter(|p| p.transports.contains(&"tcp")).collect();
    for step in &conversation.steps {
        let Act::Send(bytes) = &step.act else { return None };
        if bytes.is_empty() {
            continue;
        }
        seen[step.from as usize].extend_from_slice(bytes);
        let opening = Opening { originator: &seen[0], responder: &seen[1], ports, ..Opening::default() };
        let said: Vec<_> = left.iter().map(|protocol| (*protocol, (protocol.probe)(&opening))).collect();
        if let Some((protocol, _)) = said.iter().find(|(_, probe)| *probe == Probe::Certain) {
            return Some(protocol.name);
        }
        left = said.into_iter().filter(|(_, probe)| *probe == Probe::Unsure).map(|(p, _)| p).collect();
        if left.is_empty() {
            return None;
        }
    }
    None
}

#[test]
fn any_cutting_is_recognised_as_the_same_protocol() {
    for protocol in protocols().iter().filter(|protocol| protocol.transports.contains(&"tcp")) {
        let ports = prop::sample::select(PORTS.to_vec());
        let strategy = (any_mutated(protocol), any_cuts(), ports, any::<bool>());
        hold(protocol, cases(), &strategy, |(seed, cuts, port, is_turned)| {
            let seed = Conversation { is_datagram: false, ..if is_turned { seed.turned() } else { seed } };
            let ports = if is_turned { [port, 0] } else { [0, port] };
            let whole = recognise(&seed, ports);
            prop_assert_eq!(recognise(&seed.cut(&[1]), ports), whole, "byte by byte, port {}", port);
            prop_assert_eq!(recognise(&seed.cut(&cuts), ports), whole, "cut, port {}", port);
            Ok(())
        });
    }
}

/// One side of a conversation with the other side of another one, which may be of a different protocol: their
/// first four steps, interleaved.
fn any_misunderstanding() -> impl Strategy<Value = Conversation> {
    let of_streams = protocols().iter().filter(|protocol| protocol.transports.contains(&"tcp"));
    let all: Vec<Conversation> =
        of_streams.flat_map(|protocol| seeds(protocol)).map(|(_, seed)| seed).collect();
    let seed = || (prop::sample::select(all.clone()), any::<bool>());
    (seed(), seed(), any::<bool>()).prop_map(
        |((one, one_is_turned), (other, other_is_turned), server_first)| {
            let [one, other] = [(one, one_is_turned), (other, other_is_turned)]
                .map(|(seed, is_turned)| if is_turned { seed.turned() } else { seed });
            let sides = [one.one_sided(Direction::Originator), other.one_sided(Direction::Responder)];
            let mut steps = vec![];
            for at in 0..4 {
                let both = sides.iter().filter_map(|side| side.steps.get(at).cloned());
                if server_first {
                    steps.extend(both.collect::<Vec<_>>().into_iter().rev())
                } else {
                    steps.extend(both)
                }
            }
            Conversation { is_datagram: false, steps }
        },
    )
}

#[test]
fn any_cutting_of_a_misunderstanding_is_recognised_as_the_same_protocol() {
    let strategy = (any_misunderstanding(), any_cuts(), prop::sample::select(PORTS.to_vec()));
    hold(protocols()[0], cases(), &strategy, |(talk, cuts, port)| {
        let whole = recognise(&talk, [0, port]);
        prop_assert_eq!(recognise(&talk.cut(&[1]), [0, port]), whole, "byte by byte, port {}", port);
        prop_assert_eq!(recognise(&talk.cut(&cuts), [0, port]), whole, "cut, port {}", port);
        Ok(())
    });
}

#[test]
fn one_side_alone_and_sides_exchanged_do_no_harm() {
    for protocol in protocols() {
        for (_, seed) in seeds(protocol) {
            for conversation in
                [seed.turned(), seed.one_sided(Direction::Originator), seed.one_sided(Direction::Responder)]
            {
                assert_eq!(run(protocol, &conversation.cut(&[1])), run(protocol, &conversation));
            }
        }
    }
}

#[test]
fn seeds_of_other_protocols_do_no_harm() {
    for protocol in protocols() {
        for other in protocols() {
            for (_, seed) in seeds(other) {
                run(protocol, &seed);
            }
        }
    }
}

#[test]
fn random_bytes_do_no_harm() {
    for protocol in protocols() {
        hold(protocol, cases(), &prop::collection::vec(any::<u8>(), 0..2000), |bytes| {
            fuzz_session(protocol, &bytes);
            Ok(())
        });
    }
}

#[test]
fn mutated_seeds_do_no_harm() {
    for protocol in protocols() {
        hold(protocol, cases(), &any_mutated(protocol), |seed| {
            run(protocol, &seed);
            Ok(())
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_certificates_do_no_harm(at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let handshake = crate::support::feed(&crate::support::handshake("tls12-client-cert")).remove(0);
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

/// The first bytes of both sides of every protocol's seeds, with the protocol.
fn beginnings() -> Vec<(&'static SessionProtocol, [Vec<u8>; 2])> {
    let of_seed = |seed: Conversation| {
        [Direction::Originator, Direction::Responder].map(|from| {
            let sent = seed.steps.iter().filter(|step| step.from == from);
            let first =
                sent.filter_map(|step| if let Act::Send(bytes) = &step.act { Some(bytes) } else { None });
            first.clone().find(|bytes| !bytes.is_empty()).cloned().unwrap_or_default()
        })
    };
    let of_protocol = |protocol: &&'static SessionProtocol| {
        let protocol = *protocol;
        seeds(protocol).into_iter().map(move |(_, seed)| (protocol, of_seed(seed)))
    };
    protocols().iter().flat_map(of_protocol).collect()
}

/// The ports of all protocols.
fn known_ports() -> Vec<u16> {
    protocols().iter().flat_map(|protocol| protocol.ports).copied().collect()
}

/// Asserts that every protocol ruled out by the decision has a probe that denies the same bytes. Returns the
/// number of the others.
fn assert_decided(decision: &ProbeDecision, opening: &Opening<'_>) -> usize {
    let transport = if opening.is_datagram { "udp" } else { "tcp" };
    let left = decision.candidates(opening, &SessionRegistry::builtin().all());
    for (index, protocol) in protocols().iter().enumerate() {
        if !left.contains(index) && protocol.transports.contains(&transport) {
            assert_eq!((protocol.probe)(opening), Probe::NotForUs, "{} {opening:02x?}", protocol.name);
        }
    }
    left.len()
}

#[test]
fn the_decision_rules_out_only_what_its_probe_denies() {
    let decision = SessionRegistry::builtin().probes();
    let (mut asked, mut possible) = (0, 0);
    for (number, (protocol, [originator, responder])) in beginnings().into_iter().enumerate() {
        // The ports of other protocols are tried with random bytes, below.
        let mut own_ports = protocol.ports.iter().cycle();
        for at in 0..DECIDED_BYTES + 2 {
            for byte in 0..=u8::MAX {
                let mut changed = [originator.clone(), responder.clone()];
                changed.iter_mut().filter_map(|bytes| bytes.get_mut(at)).for_each(|of| *of = byte);
                let [one, other] = &changed;
                let sides = [
                    (&one[..], &other[..]),
                    (&one[..], &[]),
                    (&[][..], &other[..]),
                    (&other[..], &one[..]),
                    (&one[..], &responder[..]),
                ];
                // Half of the bytes are tried on a port of the protocol; with the next seed, the other half.
                let is_on_port = (number + byte.count_ones() as usize).is_multiple_of(2);
                let port = own_ports.next().filter(|_| is_on_port).copied().unwrap_or(40001);
                for (originator, responder) in sides {
                    for is_datagram in [false, true] {
                        let ports = [40000, port];
                        let opening =
                            Opening { originator, responder, ports, is_datagram, ..Opening::default() };
                        possible += assert_decided(&decision, &opening);
                        asked += protocols().len();
                    }
                }
            }
        }
    }
    assert!(possible * 3 < asked, "it leaves too many: {possible} of {asked}");
}

proptest! {
    #[test]
    fn the_decision_agrees_with_probes_on_any_bytes(
        one in prop::collection::vec(any::<u8>(), 0..80),
        other in prop::collection::vec(any::<u8>(), 0..80),
        ports in prop::array::uniform2(prop_oneof![any::<u16>(), prop::sample::select(known_ports())]),
        is_datagram in any::<bool>(),
    ) {
        let decision = SessionRegistry::builtin().probes();
        for (originator, responder) in [(&one[..], &other[..]), (&one, &[]), (&[], &other)] {
            assert_decided(&decision, &Opening { originator, responder, ports, is_datagram, ..Opening::default() });
        }
    }
}
