//! Rules about headers pass every packet that changes an answer: the packets that a device would pass, and
//! the packets that a recorder's index finds, give the same rows as all packets.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, all_sessions, ask, read_capture, seeds};
use crate::properties::engines;
use crate::properties::kernel::answers;
use std::path::Path;
use std::sync::Arc;
use weir::io::ring::{RING_BYTES_MIN, Reader, Ring, Selection, Writer};
use weir::io::{CaptureReader, MemorySource};
use weir::packet::{
    Burst, HeaderClass, HeaderRules, HeaderTerms, IpVersion, LinkType, Poll, Source, Transport,
};
use weir::{Ask, Compiler, HeaderFinder, Options, Want};
use weir_testing::Random;
use weir_testing::filters::filter;

const SEEDS: u64 = 300;

/// The big-endian number of these bytes.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Whether a device with these rules passes the frame: the meaning of the rules, from the frame's bytes.
fn passes(rules: &HeaderRules, frame: &[u8]) -> bool {
    let Some((ethernet, packet)) = frame.split_at_checked(14) else { return true };
    let (version, protocol, addresses, segment) = match (number(&ethernet[12..]), packet) {
        (0x0800, [first, ..]) if first >> 4 == 4 && packet.len() >= 20 => {
            let header_bytes = usize::from(first & 15) * 4;
            let is_fragment = number(&packet[6..8]) & 0x3fff != 0;
            let Some(segment) = packet.get(header_bytes..).filter(|_| !is_fragment && header_bytes >= 20)
            else {
                return true;
            };
            (IpVersion::V4, packet[9], &packet[12..20], segment)
        }
        (0x86dd, [first, ..]) if first >> 4 == 6 && packet.len() >= 40 => {
            (IpVersion::V6, packet[6], &packet[8..40], &packet[40..])
        }
        _ => return true,
    };
    let transport = match protocol {
        6 if segment.len() >= 20 => Transport::Tcp,
        17 if segment.len() >= 8 => Transport::Udp,
        _ => return true,
    };
    let class = HeaderClass { version, transport };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let is_passed = rules.passed.iter().any(|pattern| {
        pattern.class == class
            && pattern.source.holds(number(source))
            && pattern.destination.holds(number(destination))
            && pattern.source_port.holds(number(&segment[..2]))
            && pattern.destination_port.holds(number(&segment[2..4]))
    });
    is_passed || !rules.discarded.contains(&class)
}

/// The packets that a reader gets from a recorder's ring with an index, if it asks with these terms.
fn indexed(finder: &mut HeaderFinder, terms: Option<HeaderTerms>, packets: &[MemoryPacket]) -> Vec<Vec<u8>> {
    let (ring, _) = Ring::create(RING_BYTES_MIN, "weir-property", 1).expect("some megabytes");
    let mut writer = Writer::new(&ring, 0, 0, Box::new(|_| vec![]));
    let mut source = MemorySource::default().then_packets(packets.iter().cloned());
    let (mut burst, mut headers) = (Burst::default(), vec![]);
    while source.poll(&mut burst).expect("it is memory") != Poll::End {
        headers.clear();
        finder.find(&burst, &mut headers);
        writer.write(&burst, &headers);
    }
    // The index is complete.
    drop(writer);
    let selection = Arc::<Selection>::default();
    selection.narrow(terms);
    let mut source =
        CaptureReader::from_reader("ring", Box::new(Reader::new(Some(ring), None, false, selection)));
    let mut frames = vec![];
    while source.poll(&mut burst).expect("a capture") != Poll::End {
        frames.extend((0..burst.packets.len()).map(|index| burst.data(index).to_vec()));
    }
    frames
}

/// Numbers of packets: all, and those that pass.
#[derive(Debug, Default, Clone, Copy)]
struct Passed {
    filters: usize,
    all: usize,
    by_device: usize,
    by_index: usize,
}

/// Checks that the packets that pass give the rows of all packets.
fn check(
    compiler: &Compiler,
    finder: &mut HeaderFinder,
    asks: &[Ask],
    packets: &[MemoryPacket],
) -> Option<Passed> {
    let options = Options { narrow: true, ..Options::default() };
    let compiled = compiler.compile(asks, &options).ok()?;
    let filters = compiled.kernel_filters()?;
    let rules = filters.header_rules().ok()?;
    let expected = answers(compiler, &compiled, packets, &(0..packets.len()).collect::<Vec<_>>());
    let compare = |by: &str, is_passed: &mut dyn FnMut(&MemoryPacket) -> bool| {
        let passing = packets.iter().enumerate().filter(|(_, packet)| is_passed(packet));
        let (numbers, kept): (Vec<usize>, Vec<MemoryPacket>) =
            passing.map(|(number, packet)| (number, packet.clone())).unzip();
        let got = answers(compiler, &compiled, &kept, &numbers);
        if expected != got {
            let missing: Vec<_> = expected.iter().filter(|row| !got.contains(row)).take(5).collect();
            let more: Vec<_> = got.iter().filter(|row| !expected.contains(row)).take(5).collect();
            panic!("{by}: {asks:#?}\n{rules}missing {missing:#?}, new {more:#?}");
        }
        kept.len()
    };
    // Packets come in their order.
    let mut indexed = indexed(finder, filters.header_terms(), packets).into_iter().peekable();
    let by_index = compare("index", &mut |packet| indexed.next_if_eq(&packet.frame).is_some());
    assert_eq!(indexed.next(), None, "a packet that was not written");
    let by_device = compare("device", &mut |packet| passes(&rules, &packet.frame));
    Some(Passed { filters: 1, all: packets.len(), by_device, by_index })
}

#[test]
fn what_passes_the_rules_gives_all_answers() {
    let compiler = Compiler::default();
    let mut finder = HeaderFinder::new(&compiler).expect("a program");
    let tunnels = Path::new(FIRST_LIGHT).with_file_name("tunnels.pcap");
    let shipped = [read_capture(FIRST_LIGHT), read_capture(tunnels.to_str().expect("text"))];
    let wants = [Want::Packets, Want::Connections, all_sessions()];
    let mut sum = Passed::default();
    for seed in seeds(0..SEEDS) {
        let mut random = Random::new(seed);
        let depth = random.below(3) as u32;
        let text = filter(&mut random, compiler.catalog(), depth);
        // Random filters seldom name addresses and ports that the packets have.
        let ends = [
            "tcp.port == 443",
            "udp.port in {53, 443, 8000-8100}",
            "ip.addr == 10.0.0.0/8",
            "tcp.dstport < 1024",
            "ip.src == 10.0.0.0/9 and udp",
            "ipv6.addr == 2001:db8::/32",
            "tcp.srcport >= 32768 and ip",
        ];
        let text = match random.below(4) {
            0 => format!("({text}) and {}", random.pick(&ends)),
            1 => format!("{} and {}", random.pick(&ends), random.pick(&ends)),
            2 => format!("({text}) or {}", random.pick(&ends)),
            _ => random.pick(&ends).to_string(),
        };
        // Identifiers are made of packet numbers, which differ.
        if text.contains("uid") || text.contains("frame.number") {
            continue;
        }
        let mut packets = engines::packets(&mut random, &shipped[(seed % 2) as usize], 1000);
        packets.retain(|packet| packet.link == LinkType::ETHERNET);
        let asks = [ask(&text, random.pick(&wants))];
        if let Some(passed) = check(&compiler, &mut finder, &asks, &packets) {
            sum.filters += 1;
            sum.all += passed.all;
            sum.by_device += passed.by_device;
            sum.by_index += passed.by_index;
        }
    }
    println!("{sum:?}");
    assert!(sum.filters > 50, "{sum:?}");
    assert!(sum.by_device * 10 < sum.all * 9, "{sum:?}");
    assert!(sum.by_index * 10 < sum.by_device * 9, "{sum:?}");
}

#[test]
fn only_questions_about_packets_look_into_tunnels() {
    let compiler = Compiler::default();
    let all_nested = |filter: &str, want: Want| {
        let options = Options { narrow: true, ..Options::default() };
        let compiled = compiler.compile(&[ask(filter, want)], &options).expect("it is valid");
        compiled.kernel_filters().expect("filters").header_terms().map(|terms| terms.all_nested)
    };
    assert_eq!(all_nested("tcp.port == 443", Want::Packets), Some(false));
    assert_eq!(all_nested("tcp.port == 443 and tls.sni contains \"a\"", Want::Packets), Some(true));
    assert_eq!(all_nested("tcp.port == 443", Want::Connections), Some(true));
    assert_eq!(all_nested("tcp.port == 443", all_sessions()), Some(true));
    let many: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    assert_eq!(all_nested(&format!("ip.addr in {{{}}}", many.join(", ")), Want::Packets), None);
}

/// The text of the rules of a question about packets.
fn text(filter: &str) -> Result<String, &'static str> {
    let compiler = Compiler::default();
    let options = Options { narrow: true, ..Options::default() };
    let compiled = compiler.compile(&[ask(filter, Want::Packets)], &options).expect("it is valid");
    let filters = compiled.kernel_filters().ok_or("every packet is needed")?;
    Ok(filters.header_rules()?.to_string())
}

#[test]
fn rules_say_what_devices_discard() {
    let rules = text("ip.addr == 10.0.0.0/8 and tcp.dstport == 443").unwrap();
    assert_eq!(
        rules.lines().filter(|line| line.contains("tcp")).collect::<Vec<_>>(),
        [
            "pass    eth / ipv4 / tcp dst 10.0.0.0/8 dstport 443",
            "pass    eth / ipv4 / tcp dst 10.0.0.0/8 srcport 443",
            "pass    eth / ipv4 / tcp src 10.0.0.0/8 dstport 443",
            "pass    eth / ipv4 / tcp src 10.0.0.0/8 srcport 443",
            "discard eth / ipv4 / tcp",
            "discard eth / ipv6 / tcp",
        ]
    );
    // Tunnels pass.
    assert!(rules.contains("pass    eth / ipv4 / udp dstport 4789\n"), "{rules}");
    assert!(rules.contains("discard eth / ipv4 / udp\n"), "{rules}");
    // UDP passes as a whole, and TCP is not needed.
    let rules = text("udp and not udp.port == 53").unwrap();
    assert_eq!(rules, "discard eth / ipv4 / tcp\ndiscard eth / ipv6 / tcp\n");
    for all in ["frame.len > 100", "not tcp.port == 80", "ip or ipv6", "vlan.id == 7"] {
        assert!(text(all).is_err(), "{all}: {:?}", text(all));
    }
}
