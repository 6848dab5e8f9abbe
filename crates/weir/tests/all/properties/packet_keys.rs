//! Keys of packets: packets have equal numbers exactly if the fields of the key are equal, whatever the
//! filter and the workers.

use crate::properties::drive::FIRST_LIGHT;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use weir::io::CaptureReader;
use weir::{Engine, Item, Next, PacketKey, RunEnd, Shape, TakeItems};

/// Source and destination of a packet, with their ports.
type Ends = ((IpAddr, u16), (IpAddr, u16));

/// The ends of an Ethernet frame with TCP or UDP; `None` for fragments and everything else.
fn ends(frame: &[u8]) -> Option<Ends> {
    let packet = frame.get(14..)?;
    let (addresses, transport, protocol) = match frame.get(12..14)? {
        [8, 0] => {
            let is_fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
            let addresses: [[u8; 4]; 2] = [packet[12..16].try_into().ok()?, packet[16..20].try_into().ok()?];
            let header = usize::from(packet[0] & 15) * 4;
            (addresses.map(IpAddr::from), &packet[header..], packet[9]).some_unless(is_fragment)?
        }
        [0x86, 0xdd] => {
            let addresses: [[u8; 16]; 2] = [packet[8..24].try_into().ok()?, packet[24..40].try_into().ok()?];
            (addresses.map(IpAddr::from), &packet[40..], packet[6])
        }
        _ => return None,
    };
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let [source, destination] = addresses;
    matches!(protocol, 6 | 17).then(|| ((source, port(0)), (destination, port(2))))
}

trait Unless: Sized {
    fn some_unless(self, condition: bool) -> Option<Self> {
        (!condition).then_some(self)
    }
}

impl<T> Unless for T {}

/// Keeps frames with their numbers.
struct Keep(Arc<Mutex<Numbered>>);

type Numbered = Vec<(Vec<u8>, u64)>;

impl TakeItems for Keep {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        if let Item::Packet { frame, key, .. } = item {
            self.0.lock().expect("no panic").push((frame, key));
        }
        Next::Go
    }

    fn finish(&mut self, _: Option<RunEnd<'_>>) {}
}

/// The packets that match a filter, each with the number of its key.
fn numbered(key: &str, filter: &str, workers: usize) -> Numbered {
    let kept = Arc::<Mutex<Numbered>>::default();
    let mut engine = Engine::new();
    let key = PacketKey::of(&weir::Compiler::default(), key).expect("a key");
    let shape = Shape { frames: true, ..Shape::default() };
    let question = key.question(filter, shape).expect("it has room");
    engine.subscribe_questions(vec![question], Keep(Arc::clone(&kept))).expect("a filter");
    engine.run(&mut CaptureReader::open(&[FIRST_LIGHT]), workers).expect("it runs");
    drop(engine);
    Arc::into_inner(kept).expect("the run is over").into_inner().expect("no panic")
}

/// Packets have equal numbers exactly if the model says so.
fn check<K: Hash + Eq + Debug + Clone>(key: &str, filter: &str, workers: usize, model: impl Fn(&Ends) -> K) {
    let packets = numbered(key, filter, workers);
    let known: Vec<(K, u64)> =
        packets.iter().filter_map(|(frame, number)| Some((model(&ends(frame)?), *number))).collect();
    assert!(known.len() > 500, "{key}: {} packets", known.len());
    let (mut numbers, mut keys) = (HashMap::new(), HashMap::new());
    for (key_of, number) in known {
        assert_eq!(*numbers.entry(key_of.clone()).or_insert(number), number, "{key}: {key_of:?}");
        let other = keys.entry(number).or_insert_with(|| key_of.clone());
        assert_eq!(*other, key_of, "{key}: two keys with one number");
    }
    assert!(numbers.len() > 3, "{key}");
}

#[test]
fn equal_fields_are_equal_numbers() {
    for (filter, workers) in [("tcp or udp", 1), ("tcp or udp", 2), ("conn.orig_bytes > 0", 1)] {
        let ordered = |(one, other): &Ends| (*one.min(other), *one.max(other));
        check("flow", filter, workers, ordered);
        check("5tuple", filter, workers, |ends| *ends);
        check("hosts", filter, workers, |ends| {
            let ((one, _), (other, _)) = ordered(ends);
            (one.min(other), one.max(other))
        });
        check("pair", filter, workers, |((source, _), (destination, _))| (*source, *destination));
        check("dport, ip.src/8", filter, workers, |((source, _), (_, port))| match source {
            IpAddr::V4(source) => (*port, Some(source.octets()[0])),
            IpAddr::V6(_) => (*port, None),
        });
    }
}

#[test]
fn what_is_no_key_is_named() {
    for (key, says) in [
        ("", "a field is missing"),
        ("ip.scr", "ip.src"),
        ("ip.src/33", "32"),
        ("ip.src ip.dst", "a comma is missing"),
        ("tls.sni", "tls.sni"),
        ("count()", "a comma is missing"),
    ] {
        let wrong = PacketKey::of(&weir::Compiler::default(), key).expect_err(key).render(false);
        assert!(wrong.contains(says), "{key}: {wrong}");
    }
}
