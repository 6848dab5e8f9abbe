//! Filters in the syntax of pcap-filter(7) match the same packets as in libpcap, where both support them: one
//! IP header, no tags, no tunnels (see `compile_bpf` for the differences beyond), no truncation (libpcap
//! rejects a packet that is too short for one part of a filter, even under `not`).

use crate::drive::{MemoryPacket, ask, rows, seeds};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use weir::{Compiler, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{self, V4, V6, ethernet};

const SEEDS: u64 = 250;

/// A frame whose layers both support.
fn frame(random: &mut Random) -> MemoryPacket {
    let (mut number, mut payload) = frames::transport(random);
    if number == 1 {
        payload = vec![random.pick(&[0, 8, 13]), 0, 0, 0, 0, 1, 0, 2];
    }
    if number == 132 {
        // The stack has no SCTP: libpcap would find its ports, ours would not.
        number = 50;
    }
    if random.once_in(12) {
        return MemoryPacket::ethernet(ethernet(0x0806, &frames::arp(random)));
    }
    if random.once_in(20) {
        return MemoryPacket::ethernet(ethernet(0x88cc, &frames::noise(random, 60)));
    }
    if random.once_in(3) {
        if number == 1 {
            number = 58;
            payload[0] = random.pick(&[128, 129, 135]);
        }
        let ends = (random.pick(&V6), random.pick(&V6));
        return MemoryPacket::ethernet(ethernet(0x86dd, &frames::ipv6(ends, number, &payload)));
    }
    let options: &[u8] = if random.once_in(5) { &[1, 1, 1, 0] } else { &[] };
    // Later fragments whose datagram never completes. First fragments would wait for it here, but not in
    // libpcap.
    let fragment = if random.once_in(6) { 0x2000 | (300 + random.below(9)) as u16 } else { 0x4000 };
    let ends = (random.pick(&V4), random.pick(&V4));
    let packet = frames::ipv4(ends, number, random.bits() as u16, fragment, options, &payload);
    MemoryPacket::ethernet(ethernet(0x0800, &packet))
}

fn expression(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.once_in(3) {
        return primitive(random);
    }
    let (left, right) = (expression(random, depth - 1), expression(random, depth - 1));
    match random.below(6) {
        0 | 1 => format!("({left}) and ({right})"),
        2 | 3 => format!("({left}) or ({right})"),
        4 => format!("not ({left})"),
        // Without parentheses both operators have equal precedence and associate to the left.
        _ => format!("{} or {} and {}", primitive(random), primitive(random), primitive(random)),
    }
}

fn primitive(random: &mut Random) -> String {
    let direction = random.pick(&["", "src ", "dst ", "src or dst ", "src and dst "]);
    let (v4, v6) = (Ipv4Addr::from(random.pick(&V4)), Ipv6Addr::from(random.pick(&V6)));
    let (port, other) = (random.pick(&frames::PORTS), random.pick(&frames::PORTS));
    let over = random.pick(&["", "tcp ", "udp "]);
    match random.below(16) {
        0 => format!("{direction}host {v4}"),
        1 => format!("{direction}host {v6}"),
        2 => format!("ip {direction}host {v4}"),
        3 => format!(
            "{direction}net {}",
            random.pick(&["10.0.0.0/8", "192.0.2.0/24", "198.51.0.0/16", "0.0.0.0/1"])
        ),
        4 => format!("{direction}net {}", random.pick(&["2001:db8::/32", "2001:db8:1::/48", "fe80::/10"])),
        5 | 6 => format!("{over}{direction}port {port}"),
        7 => format!("{over}{direction}portrange {}-{}", port.min(other), port.max(other)),
        8 => random
            .pick(&["tcp", "udp", "icmp", "icmp6", "ip", "ip6", "arp", "igmp", "esp", "sctp"])
            .to_string(),
        9 => format!(
            "{}proto {}",
            random.pick(&["", "ip ", "ip6 "]),
            random.pick(&[1, 2, 6, 17, 47, 50, 58, 132])
        ),
        10 => format!("{} {}", random.pick(&["less", "greater"]), random.below(160)),
        11 => random
            .pick(&[
                "tcp[13] & 2 != 0",
                "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
                "tcp[tcpflags] == tcp-ack",
                "tcp[0:2] = 443",
                "udp[2:2] < 1024",
                "icmp[icmptype] == icmp-echo",
            ])
            .to_string(),
        12 => random
            .pick(&["ip[8] > 63", "ip[0] & 0xf != 5", "ip[9] = 17", "ip[6:2] & 0x1fff != 0", "ip6[6] == 6"])
            .to_string(),
        13 => random
            .pick(&["ether proto 0x0800", "ether proto \\arp", "ether[12:2] = 0x86dd", "ether[0] & 1 = 0"])
            .to_string(),
        14 => random
            .pick(&["ether host 02:00:00:00:00:01", "ether src 02:00:00:00:00:01", "broadcast", "multicast"])
            .to_string(),
        _ => format!("len {} {}", random.pick(&["<", ">=", "=", "!="]), 40 + random.below(80)),
    }
}

/// The packets as a capture file; a packet's microseconds are its number.
fn capture(packets: &[MemoryPacket]) -> Vec<u8> {
    let word = |n: u32| n.to_le_bytes();
    let mut file = [word(0xa1b2_c3d4), [2, 0, 4, 0], word(0), word(0), word(65_535), word(1)].concat();
    for (index, packet) in packets.iter().enumerate() {
        let length = word(packet.frame.len() as u32);
        file.extend([word(1_700_000_000), word(index as u32 + 1), length, length].concat());
        file.extend(&packet.frame);
    }
    file
}

/// Numbers of the packets that libpcap matches, or its error message if it refuses the expression.
fn libpcap(expression: &str, file: &[u8]) -> Result<Vec<u64>, String> {
    let mut child = Command::new("tcpdump")
        .args(["-r", "-", "-w", "-", expression])
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

#[test]
fn ours_is_libpcap_s() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("skipped: there is no tcpdump here");
        return;
    }
    let compiler = Compiler::default();
    let (mut compared, mut refused, mut found) = (0, 0, 0);
    for seed in seeds(0..SEEDS) {
        let mut random = Random::new(seed);
        let packets: Vec<MemoryPacket> = (0..120).map(|_| frame(&mut random)).collect();
        let depth = random.below(4) as u32;
        let text = expression(&mut random, depth);
        let theirs = libpcap(&text, &capture(&packets));
        let options = Options { bpf: true, ..Options::default() };
        let asks = [ask(&text, Want::Packets)];
        let theirs = match theirs {
            Ok(numbers) => numbers,
            Err(said) => {
                // libpcap refuses filters that can never match (`ip6 and ip[8] > 1`); ours matches nothing,
                // or refuses them as well.
                assert!(
                    said.contains("expression rejects all packets")
                        || said.contains("syntax")
                        || said.contains("modifier"),
                    "seed {seed}: {text}: {said}"
                );
                refused += 1;
                vec![]
            }
        };
        let compiled = match compiler.compile(&asks, &options) {
            Ok(compiled) => compiled,
            Err(diagnostics) => {
                assert!(theirs.is_empty(), "seed {seed}: {text}: {:?}", diagnostics.list);
                continue;
            }
        };
        let rows = rows(&compiler, &compiled, &packets, 1).0;
        let ours: Vec<u64> = rows.iter().map(|row| row["0 packet ".len()..].parse().unwrap()).collect();
        let first = (0..ours.len().max(theirs.len())).find(|&i| ours.get(i) != theirs.get(i));
        if let Some(at) = first {
            let number = ours.get(at).into_iter().chain(theirs.get(at)).min().unwrap();
            panic!(
                "seed {seed}: {text}: ours {} packets, theirs {}; the first that differs is {number}: {:02x?}",
                ours.len(),
                theirs.len(),
                packets[*number as usize - 1].frame
            );
        }
        compared += 1;
        found += usize::from(!ours.is_empty());
    }
    println!("{compared} compared, {found} of them found something, {refused} refused by libpcap");
    assert!(found * 2 > compared, "most find something: {found}");
}
