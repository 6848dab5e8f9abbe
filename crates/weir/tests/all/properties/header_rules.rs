//! Rules about headers pass every packet that changes an answer: the packets that a device would pass give
//! the same rows as all packets.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, all_sessions, ask, read_capture, seeds};
use crate::properties::engines;
use crate::properties::kernel::answers;
use std::path::Path;
use weir::packet::{HeaderClass, HeaderRules, IpVersion, LinkType, Transport};
use weir::{Ask, Compiled, Compiler, Options, Want};
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

fn rules(compiled: &Compiled) -> Option<HeaderRules> {
    compiled.kernel_filters()?.header_rules().ok()
}

/// Checks that the packets that pass give the rows of all packets. Returns the numbers of packets, and of
/// those that pass.
fn check(compiler: &Compiler, asks: &[Ask], packets: &[MemoryPacket]) -> Option<(usize, usize)> {
    let options = Options { narrow: true, ..Options::default() };
    let compiled = compiler.compile(asks, &options).ok()?;
    let rules = rules(&compiled)?;
    let passing = packets.iter().enumerate().filter(|(_, packet)| passes(&rules, &packet.frame));
    let (numbers, kept): (Vec<usize>, Vec<MemoryPacket>) =
        passing.map(|(number, packet)| (number, packet.clone())).unzip();
    let expected = answers(compiler, &compiled, packets, &(0..packets.len()).collect::<Vec<_>>());
    let got = answers(compiler, &compiled, &kept, &numbers);
    if expected != got {
        let missing: Vec<_> = expected.iter().filter(|row| !got.contains(row)).take(5).collect();
        let more: Vec<_> = got.iter().filter(|row| !expected.contains(row)).take(5).collect();
        panic!("{asks:#?}\n{rules}missing {missing:#?}, new {more:#?}");
    }
    Some((packets.len(), kept.len()))
}

#[test]
fn what_passes_the_rules_gives_all_answers() {
    let compiler = Compiler::default();
    let tunnels = Path::new(FIRST_LIGHT).with_file_name("tunnels.pcap");
    let shipped = [read_capture(FIRST_LIGHT), read_capture(tunnels.to_str().expect("text"))];
    let wants = [Want::Packets, Want::Connections, all_sessions()];
    let (mut with_rules, mut all, mut passed) = (0, 0, 0);
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
        if let Some((count, kept)) = check(&compiler, &asks, &packets) {
            with_rules += 1;
            all += count;
            passed += kept;
        }
    }
    println!("{with_rules} filters with rules, {passed} of {all} packets passed");
    assert!(with_rules > 50, "{with_rules}");
    assert!(passed * 10 < all * 9, "{passed} of {all}");
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
