//! Filters in the syntax of pcap-filter(7) match the same packets as in libpcap, without its optimiser (which
//! leaves out loads, so that some frames match although they are too short): on random frames of several link
//! types, whole and truncated, and on the captures of this repository. Each filter runs natively and in the
//! interpreter.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, ask, compile, read_capture, rows, seeds};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use weir::packet::{LinkType, Timestamp};
use weir::{Compiler, Executor, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{self, V4, V6, ethernet, vlan};

const SEEDS: u64 = 60;
/// Filters per seed: they are compiled to one program.
const FILTERS: usize = 6;

/// A packet of the network layer, and its EtherType; `depth` tunnels at most.
fn network(random: &mut Random, depth: u32) -> (u16, Vec<u8>) {
    if random.once_in(15) {
        return (0x0806, frames::arp(random));
    }
    if random.once_in(20) {
        return (random.pick(&[0x88cc, 0x809b, 0x8035, 0x8863]), frames::noise(random, 60));
    }
    let (mut number, mut payload) = frames::transport(random);
    match random.below(12) {
        0 if depth > 0 => {
            let (ethertype, inside) = network(random, depth - 1);
            number = if ethertype == 0x86dd { 41 } else { 4 };
            payload = inside;
        }
        1 if depth > 0 => {
            let (ethertype, inside) = network(random, depth - 1);
            let (proto, inside) = match random.below(2) {
                0 => (0x6558, ethernet(ethertype, &inside)),
                _ => (ethertype, inside),
            };
            let vni = random.pick(&[5, 7]);
            let options: &[u8] = if random.once_in(3) { &[0, 1, 2, 1, 9, 9, 9, 9] } else { &[] };
            let version = if random.once_in(8) { 0x40 } else { 0 };
            let mut geneve = vec![version | (options.len() / 4) as u8, 0];
            geneve.extend(u16::to_be_bytes(proto));
            geneve.extend([0, 0, vni, 0]);
            geneve.extend(options);
            geneve.extend(inside);
            number = 17;
            payload = frames::udp((40_000, 6081), &geneve);
        }
        2 => {
            number = 1;
            payload = vec![random.pick(&[0, 8, 13]), 0, 0, 0, 0, 1, 0, 2];
        }
        // An authentication header.
        3 => {
            payload = [&[number, 4, 0, 0][..], &[1; 20], &payload].concat();
            number = 51;
        }
        _ => {}
    }
    if random.once_in(3) {
        if number == 1 {
            number = 58;
            payload[0] = random.pick(&[128, 129, 135]);
        }
        for _ in 0..random.below(3) {
            payload = match random.below(3) {
                0 => frames::ipv6_fragment(number, 8 * random.below(2) as u16, true, 7, &payload),
                _ => frames::extension(number, &payload),
            };
            number = random.pick(&[0, 43, 44, 60]);
        }
        let ends = (random.pick(&V6), random.pick(&V6));
        return (0x86dd, frames::ipv6(ends, number, &payload));
    }
    let options: &[u8] = if random.once_in(5) { &[1, 1, 1, 0] } else { &[] };
    let fragment = match random.below(8) {
        0 => 0x2000 | (300 + random.below(9)) as u16,
        1 => 0x2000,
        _ => 0x4000,
    };
    let ends = (random.pick(&V4), random.pick(&V4));
    (0x0800, frames::ipv4(ends, number, random.bits() as u16, fragment, options, &payload))
}

/// Tags, labels and PPPoE around a packet of the network layer.
fn tagged(random: &mut Random) -> (u16, Vec<u8>) {
    let (mut ethertype, mut payload) = network(random, 2);
    if random.once_in(6) && matches!(ethertype, 0x0800 | 0x86dd) {
        for depth in 0..1 + random.below(2) {
            let label = random.pick(&[5u32, 1000, 16]) << 12 | u32::from(depth == 0) << 8 | 64;
            payload = [&label.to_be_bytes()[..], &payload].concat();
        }
        ethertype = 0x8847;
    } else if random.once_in(8) && matches!(ethertype, 0x0800 | 0x86dd) {
        let protocol = if ethertype == 0x0800 { 0x21 } else { 0x57 };
        let length = payload.len() as u8;
        payload = [&[0x11, 0, 0, random.pick(&[7, 9]), 0, length, 0, protocol][..], &payload].concat();
        ethertype = 0x8864;
    }
    for _ in 0..[0, 0, 0, 1, 1, 2][random.below(6) as usize] {
        payload = vlan(random.pick(&[5, 100]), ethertype, &payload);
        ethertype = random.pick(&[0x8100, 0x88a8, 0x9100]);
    }
    (ethertype, payload)
}

/// A frame of this link type.
fn frame(random: &mut Random, link: LinkType) -> MemoryPacket {
    let (ethertype, payload) = tagged(random);
    let is_ip = |ethertype| matches!(ethertype, 0x0800 | 0x86dd);
    let type_bytes = ethertype.to_be_bytes();
    let frame = match link {
        LinkType::ETHERNET if random.once_in(20) => {
            let llc = random.pick(&[[0x42, 0x42, 3], [0xfe, 0xfe, 3], [0xe0, 0xe0, 3], [0xaa, 0xaa, 3]]);
            ethernet(60, &[&llc[..], &[8, 0, 7, 0x80, 0x9b], &frames::noise(random, 20)].concat())
        }
        LinkType::ETHERNET => ethernet(ethertype, &payload),
        LinkType::LINUX_SLL => {
            let head = [0, random.pick(&[0, 4]), 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
            [&head[..], &type_bytes, &payload].concat()
        }
        LinkType::LINUX_SLL2 => {
            let head =
                [0, 0, 0, 0, 0, random.pick(&[1, 2]), 0, 1, random.pick(&[0, 4]), 6, 2, 0, 0, 0, 0, 1, 0, 0];
            [&type_bytes[..], &head, &payload].concat()
        }
        LinkType::NULL | LinkType::LOOP => {
            // libpcap knows only the values of BSD.
            let family: u32 = if ethertype == 0x86dd { random.pick(&[24, 28, 30]) } else { 2 };
            let family = if link == LinkType::NULL { family.to_le_bytes() } else { family.to_be_bytes() };
            [&family[..], &payload].concat()
        }
        LinkType::PPP if is_ip(ethertype) => {
            [&[0xff, 3, 0, if ethertype == 0x0800 { 0x21 } else { 0x57 }][..], &payload].concat()
        }
        LinkType::PPP if ethertype == 0x8847 => [&[0xff, 3, 2, 0x81][..], &payload].concat(),
        LinkType::PPP | LinkType::C_HDLC => [&[0x0f, 0][..], &type_bytes, &payload].concat(),
        LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP | LinkType::PPI => {
            wlan(random, link, ethertype, &payload)
        }
        _ => payload,
    };
    let wire_bytes = frame.len() as u32;
    let packet = MemoryPacket { time: Timestamp(0), link, wire_bytes, frame };
    if random.once_in(4) { packet.cut(random.below(80) as usize) } else { packet }
}

/// An 802.11 frame.
fn wlan(random: &mut Random, link: LinkType, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = match link {
        LinkType::IEEE802_11_RADIOTAP => match random.below(3) {
            0 => vec![0, 0, 8, 0, 0, 0, 0, 0],
            1 => vec![0, 0, 9, 0, 2, 0, 0, 0, random.pick(&[0, 0x20])],
            _ => [&[0, 0, 17, 0, 3, 0, 0, 0][..], &[1; 8], &[random.pick(&[0, 0x20])]].concat(),
        },
        LinkType::PPI => vec![0, 0, 8, 0, random.pick(&[105, 105, 105, 1]), 0, 0, 0],
        _ => vec![],
    };
    let first = random.pick(&[0x08, 0x08, 0x88, 0x80, 0xb4]);
    let direction = random.pick(&[0, 1, 2, 3]);
    let start = out.len();
    out.extend([first, direction, 0, 0]);
    for _ in 0..3 {
        out.extend([2, 0, 0, 0, 0, random.pick(&[1, 2])]);
    }
    out.extend([0, 0]);
    if first == 0x88 {
        out.extend([0, 0]);
        if link == LinkType::IEEE802_11_RADIOTAP
            && out.get(8).is_some_and(|flags| *flags == 0x20)
            && start == 9
        {
            out.extend([0, 0]);
        }
    }
    out.extend([0xaa, 0xaa, 3, 0, 0, 0]);
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

fn expression(random: &mut Random, depth: u32, link: LinkType) -> String {
    if depth == 0 || random.once_in(4) {
        return primitive(random, link);
    }
    let mut part = |depth: u32| expression(random, depth, link);
    let (left, right) = (part(depth - 1), part(depth - 1));
    match random.below(6) {
        0 | 1 => format!("({left}) and ({right})"),
        2 | 3 => format!("({left}) or ({right})"),
        4 => format!("not ({left})"),
        // Without parentheses both operators have equal precedence and associate to the left.
        _ => {
            let mut one = || primitive(random, link);
            format!("{} or {} and {}", one(), one(), one())
        }
    }
}

/// An expression that may begin with what moves the headers. What follows is only evaluated if that part
/// holds: otherwise libpcap reads registers that it has not written.
fn filter(random: &mut Random, link: LinkType) -> String {
    let depth = random.below(3) as u32;
    let inner = expression(random, depth, link);
    // In 802.11 libpcap mixes up the registers of these places, and those of arithmetic.
    if is_wlan(link) {
        return if random.once_in(4) { format!("not ({inner})") } else { inner };
    }
    let head = random.pick(&[
        "",
        "",
        "vlan and ",
        "vlan 5 and ",
        "mpls and ",
        "mpls 5 and mpls and ",
        "pppoes and ",
        "pppoes 7 and ",
        "geneve and ",
        "geneve 5 and ",
        "vlan and vlan and ",
        "vlan or ",
        "vlan and geneve and ",
        "geneve and vlan and ",
        "geneve and geneve and ",
    ]);
    let text = format!("{head}({inner})");
    if random.once_in(4) { format!("not ({text})") } else { text }
}

fn primitive(random: &mut Random, link: LinkType) -> String {
    let direction = random.pick(&["", "src ", "dst ", "src or dst ", "src and dst "]);
    let (v4, v6) = (Ipv4Addr::from(random.pick(&V4)), Ipv6Addr::from(random.pick(&V6)));
    let (port, other) = (random.pick(&frames::PORTS), random.pick(&frames::PORTS));
    let over = random.pick(&["", "tcp ", "udp ", "sctp "]);
    let number = random.pick(&[1, 2, 4, 6, 17, 41, 47, 50, 51, 58, 132]);
    match random.below(22) {
        0 => format!("{direction}host {v4}"),
        1 => format!("{direction}host {v6}"),
        2 => format!("{}{direction}host {v4}", random.pick(&["ip ", "arp ", "rarp "])),
        3 => format!(
            "{direction}net {}",
            random.pick(&[
                "10.0.0.0/8",
                "192.0.2",
                "198.51",
                "0.0.0.0/1",
                "10",
                "192.0.2.0 mask 255.255.255.0"
            ])
        ),
        4 => format!(
            "{direction}net {}",
            random.pick(&["2001:db8::/32", "2001:db8:1::/48", "fe80::/10", "::/0"])
        ),
        5 | 6 => format!("{over}{direction}port {port}"),
        7 => format!("{over}{direction}portrange {}-{}", port, other),
        8 => random
            .pick(&[
                "tcp", "udp", "icmp", "icmp6", "ip", "ip6", "arp", "igmp", "esp", "sctp", "ah", "pim", "vrrp",
            ])
            .to_string(),
        9 => format!("{}proto {number}", random.pick(&["", "ip ", "ip6 "])),
        10 => format!("{} {}", random.pick(&["less", "greater"]), random.below(160)),
        11..=13 if !is_wlan(link) => relation(random),
        14 => random
            .pick(&[
                "ether proto 0x0800",
                "ether proto \\arp",
                "ether proto 0x42",
                "ether proto \\ip6",
                "pppoed",
            ])
            .to_string(),
        15 => random
            .pick(&[
                "ether host 02:00:00:00:00:01",
                "ether src 02:00:00:00:00:01",
                "ether dst 2:0:0:0:0:1",
                "broadcast",
                "multicast",
                "llc",
                "llc u",
            ])
            .to_string(),
        16 if !is_wlan(link) => {
            format!("len {} {}", random.pick(&["<", ">=", "=", "!="]), 40 + random.below(80))
        }
        17 => random
            .pick(&["ip multicast", "ip6 multicast", "stp", "iso", "isis", "ipx", "atalk", "aarp", "netbeui"])
            .to_string(),
        18 | 19 => format!("{}protochain {number}", random.pick(&["", "ip ", "ip6 "])),
        20 if matches!(link, LinkType::LINUX_SLL | LinkType::LINUX_SLL2) => {
            random.pick(&["inbound", "outbound"]).to_string()
        }
        20 if link == LinkType::LINUX_SLL2 => format!("ifindex {}", random.pick(&[1, 2])),
        _ => format!("port {port} or {other} or 53"),
    }
}

fn is_wlan(link: LinkType) -> bool {
    matches!(link, LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP | LinkType::PPI)
}

fn relation(random: &mut Random) -> String {
    if random.once_in(2) {
        return random
            .pick(&[
                "tcp[13] & 2 != 0",
                "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
                "tcp[0:2] = 443",
                "udp[2:2] < 1024",
                "icmp[icmptype] == icmp-echo",
                "icmp6[icmp6type] = icmp6-echo",
                "ip[8] > 63",
                "ip[0] & 0xf != 5",
                "ip[6:2] & 0x1fff != 0",
                "ip6[6] == 6",
                "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
                "(ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2) != 0",
                "ip[2:2] = len - 14",
                "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
                "ether[0] & 1 = 0",
                "ether[12:2] > 1500",
            ])
            .to_string();
    }
    let (left, right) = (sum(random, 2), sum(random, 2));
    format!("{left} {} {right}", random.pick(&["=", "!=", "<", "<=", ">", ">="]))
}

/// Arithmetic over numbers and bytes of the packet.
fn sum(random: &mut Random, depth: u32) -> String {
    if depth > 0 && random.once_in(2) {
        let op = random.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
        let (left, right) = (sum(random, depth - 1), sum(random, depth - 1));
        let right = match op {
            // Constants that libpcap refuses.
            "/" | "%" => format!("({right} | 1)"),
            "<<" | ">>" => format!("({right} & 15)"),
            _ => right,
        };
        return match random.below(3) {
            0 => format!("({left} {op} {right})"),
            _ => format!("{left} {op} {right}"),
        };
    }
    match random.below(8) {
        0 => "len".to_string(),
        1 => format!("-{}", random.below(5)),
        2 | 3 => random.pick(&["0", "1", "2", "3", "6", "8", "20", "64", "0xff", "1500"]).to_string(),
        4 => format!("ip[{}]", random.below(24)),
        5 => format!("ip6[{}:{}]", random.below(44), random.pick(&[1, 2, 4])),
        6 => format!("tcp[{}:{}]", random.below(24), random.pick(&[1, 2, 4])),
        _ => format!("udp[ip[0] & 3 + {}]", random.below(4)),
    }
}

/// The packets as a capture file; a packet's microseconds are its number.
fn capture(packets: &[MemoryPacket], link: LinkType) -> Vec<u8> {
    let word = |n: u32| n.to_le_bytes();
    let mut file =
        [word(0xa1b2_c3d4), [2, 0, 4, 0], word(0), word(0), word(262_144), word(link.0.into())].concat();
    for (index, packet) in packets.iter().enumerate() {
        let length = word(packet.frame.len() as u32);
        file.extend([word(1_700_000_000), word(index as u32 + 1), length, word(packet.wire_bytes)].concat());
        file.extend(&packet.frame);
    }
    file
}

/// Numbers of the packets that libpcap matches, or its error message if it refuses the expression.
fn libpcap(expression: &str, file: &[u8]) -> Result<Vec<u64>, String> {
    let mut child = Command::new("tcpdump")
        .args(["-O", "-r", "-", "-w", "-", "--", expression])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut input = child.stdin.take().unwrap();
    let bytes = file.to_vec();
    // If tcpdump refuses the expression before it has read all input, writing fails; this is not an error
    // here.
    let writer = std::thread::spawn(move || drop(input.write_all(&bytes)));
    let mut out = vec![];
    child.stdout.take().unwrap().read_to_end(&mut out).map_err(|e| e.to_string())?;
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).map_err(|e| e.to_string())?;
    writer.join().unwrap();
    if !child.wait().map_err(|e| e.to_string())?.success() {
        return Err(said);
    }
    let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
    let (mut at, mut numbers) = (24, vec![]);
    while at + 16 <= out.len() {
        numbers.push(u64::from(word(at + 4)));
        at += 16 + word(at + 8) as usize;
    }
    Ok(numbers)
}

/// Compares filters on packets of one link type. Returns how many filters matched something.
fn compare(
    compiler: &Compiler,
    texts: &[String],
    packets: &[MemoryPacket],
    link: LinkType,
    place: &str,
) -> usize {
    let file = capture(packets, link);
    let options = |engine| Options { bpf: true, engine, ..Options::default() };
    let (mut asks, mut expected) = (vec![], vec![]);
    for text in texts {
        let theirs = libpcap(text, &file);
        // libpcap takes any sum that begins with a constant for that constant.
        let is_mistaken = |said: &String| said.contains("shift by") || said.contains("by zero");
        if theirs.as_ref().is_err_and(is_mistaken) {
            continue;
        }
        match compiler.compile(&[ask(text, Want::Packets)], &options(Executor::Interpreter)) {
            // A filter that libpcap refuses for this link type matches nothing of it.
            Ok(_) => expected.push(theirs.unwrap_or_default()),
            Err(wrong) => {
                assert!(theirs.is_err(), "{place}: {text}: {:?}", wrong.list);
                continue;
            }
        }
        asks.push(ask(text, Want::Packets));
    }
    if asks.is_empty() {
        return 0;
    }
    for engine in [Executor::Native, Executor::Interpreter] {
        let compiled = compile(compiler, &asks, &options(engine));
        let mut ours = vec![vec![]; asks.len()];
        for row in rows(compiler, &compiled, packets, 1).0 {
            let (question, number) = row.split_once(" packet ").unwrap();
            ours[question.parse::<usize>().unwrap()].push(number.parse::<u64>().unwrap());
        }
        for ((ours, theirs), asked) in ours.iter().zip(&expected).zip(&asks) {
            let first = ours.iter().chain(theirs).filter(|n| ours.contains(n) != theirs.contains(n)).min();
            if let Some(&number) = first {
                panic!(
                    "{place}: {link}: {}: ours {} packets, theirs {}; the first that differs is {number}: {:02x?}",
                    asked.filter,
                    ours.len(),
                    theirs.len(),
                    packets[number as usize - 1].frame
                );
            }
        }
    }
    expected.iter().filter(|numbers| !numbers.is_empty()).count()
}

fn has_tcpdump() -> bool {
    let is_there = Command::new("tcpdump").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no tcpdump here");
    }
    is_there
}

#[test]
fn ours_is_libpcap_s() {
    if !has_tcpdump() {
        return;
    }
    let compiler = Compiler::default();
    let (mut compared, mut found) = (0, 0);
    for seed in seeds(0..SEEDS) {
        let mut random = Random::new(seed);
        let link = match random.below(3) {
            0 => LinkType::ETHERNET,
            _ => random.pick(&[
                LinkType::ETHERNET,
                LinkType::LINUX_SLL,
                LinkType::LINUX_SLL2,
                LinkType::NULL,
                LinkType::LOOP,
                LinkType::RAW,
                LinkType::IPV4,
                LinkType::IPV6,
                LinkType::PPP,
                LinkType::C_HDLC,
                LinkType::IEEE802_11,
                LinkType::IEEE802_11_RADIOTAP,
                LinkType::PPI,
            ]),
        };
        let packets: Vec<MemoryPacket> = (0..120).map(|_| frame(&mut random, link)).collect();
        let texts: Vec<String> = (0..FILTERS).map(|_| filter(&mut random, link)).collect();
        found += compare(&compiler, &texts, &packets, link, &format!("seed {seed}"));
        compared += texts.len();
    }
    println!("{compared} compared, {found} of them found something");
    assert!(found * 3 > compared, "many find something: {found}");
}

/// The link types of shipped captures whose headers pcap filters know.
const LINKS: [LinkType; 9] = [
    LinkType::ETHERNET,
    LinkType::LINUX_SLL,
    LinkType::NULL,
    LinkType::RAW,
    LinkType::PPP,
    LinkType::C_HDLC,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::PPI,
];

/// The first filter is the one of the issue: 289 packets.
#[test]
fn captures_are_filtered_as_by_libpcap() {
    if !has_tcpdump() {
        return;
    }
    let compiler = Compiler::default();
    let mut random = Random::new(1);
    let folder = |name: &str| format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    let mut paths =
        vec![FIRST_LIGHT.to_string(), folder("examples/tunnels.pcap"), folder("examples/constructs.pcap")];
    let protocols = std::fs::read_dir(folder("protocols")).unwrap();
    let protocols = protocols.map(|entry| entry.unwrap().path().display().to_string());
    paths.extend(protocols.filter(|path| path.ends_with(".pcap")));
    paths.sort();
    for path in paths {
        let packets = read_capture(&path);
        let link = packets[0].link;
        // Of other link types, a pcap filter selects nothing (docs/filters.md).
        if !LINKS.contains(&link) {
            continue;
        }
        let mut texts = vec!["not tcp".to_string(), "udp port 53".to_string(), "protochain 6".to_string()];
        // `-(1 % 64)`, which no byte reaches: the sign binds less tightly than `%`.
        texts.push("ip[8] < -1 % 64".to_string());
        texts.extend((0..FILTERS).map(|_| filter(&mut random, link)));
        compare(&compiler, &texts, &packets, link, &path);
    }
    let first = read_capture(FIRST_LIGHT);
    let options = Options { bpf: true, ..Options::default() };
    let compiled = compile(&compiler, &[ask("not tcp", Want::Packets)], &options);
    assert_eq!(rows(&compiler, &compiled, &first, 1).0.len(), 289);
}
