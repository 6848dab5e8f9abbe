//! The lines of `docs/applications.md`, on traffic that has what they find, and on traffic that has not.

use std::collections::BTreeMap;
use std::path::Path;
use weir::io::{CaptureFormat, CaptureWriter};
use weir::packet::{LinkType, PacketMeta, Timestamp};
use weir_testing::frames::{ACK, FIN, RST, SYN, ethernet, ipv4, tcp};

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
const PAGE: &str = include_str!("../../../../../docs/applications.md");

const CLIENT: [u8; 4] = [10, 9, 0, 1];
const SERVER: [u8; 4] = [10, 9, 1, 1];

/// Packets of TCP.
struct Traffic {
    /// Times in milliseconds, and frames.
    frames: Vec<(i64, Vec<u8>)>,
    /// The TTL of segments from now on.
    ttl: u8,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { frames: vec![], ttl: 64 }
    }
}

impl Traffic {
    fn segment(
        &mut self,
        ms: i64,
        ends: [[u8; 4]; 2],
        ports: (u16, u16),
        numbers: (u32, u32),
        flags: u8,
        bytes: usize,
    ) {
        let segment = tcp(ports, numbers.0, numbers.1, flags, &[], &vec![b'x'; bytes]);
        let mut datagram = ipv4((ends[0], ends[1]), 6, self.frames.len() as u16, 0, &[], &segment);
        datagram[8] = self.ttl;
        self.frames.push((ms, ethernet(0x0800, &datagram)));
    }

    /// Packets from a client to a server, numbered `0..count`.
    fn each(count: u32, add: impl Fn(&mut Self, u32)) -> Self {
        let mut traffic = Self::default();
        (0..count).for_each(|number| add(&mut traffic, number));
        traffic
    }

    /// A connection with this many bytes of the client's, which ends after `ms` milliseconds.
    fn connection(&mut self, begin: i64, port: u16, to: u16, bytes: usize, ms: i64) {
        let (up, down) = ([CLIENT, SERVER], [SERVER, CLIENT]);
        self.segment(begin, up, (port, to), (100, 0), SYN, 0);
        self.segment(begin + 1, down, (to, port), (500, 101), SYN | ACK, 0);
        self.segment(begin + 2, up, (port, to), (101, 501), ACK, bytes);
        self.segment(begin + ms, up, (port, to), (101 + bytes as u32, 501), FIN | ACK, 0);
        self.segment(begin + ms + 1, down, (to, port), (501, 102 + bytes as u32), FIN | ACK, 0);
        self.segment(begin + ms + 2, up, (port, to), (102 + bytes as u32, 502), ACK, 0);
    }

    fn write(&mut self, name: &str) -> String {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("application-{name}.pcap"));
        let file = std::fs::File::create(&path).expect("a file for tests");
        let mut writer = CaptureWriter::new(CaptureFormat::Pcap, Box::new(file));
        self.frames.sort_by_key(|(ms, _)| *ms);
        for (ms, frame) in &self.frames {
            let bytes = frame.len() as u32;
            let meta = PacketMeta {
                time: Timestamp(1_700_000_000_000_000_000 + ms * 1_000_000),
                wire_bytes: bytes,
                captured_bytes: bytes,
                link: LinkType::ETHERNET,
                ..PacketMeta::default()
            };
            writer.write_with_options(&meta, frame, &[]).expect("it is written");
        }
        writer.finish().expect("it is written");
        path.to_str().expect("a path of text").to_string()
    }
}

/// Traffic that has what an application finds.
fn traffic(application: &str) -> Traffic {
    let syn = |traffic: &mut Traffic, from: [u8; 4], to: [u8; 4], port: u16, number: u32| {
        traffic.segment(i64::from(number), [from, to], (2_000 + number as u16, port), (number, 0), SYN, 0);
    };
    let host = |net: u8, number: u32| [10, net, (number >> 8) as u8, number as u8];
    match application {
        "SYN flood" => Traffic::each(300, |all, n| syn(all, host(7, n), SERVER, 80, n)),
        "Port scan" => Traffic::each(80, |all, n| syn(all, CLIENT, SERVER, 1 + n as u16, n)),
        "Host sweep" => Traffic::each(80, |all, n| syn(all, CLIENT, host(8, n), 445, n)),
        "SSH brute force" => {
            Traffic::each(20, |all, n| all.connection(i64::from(n) * 100, 3_000 + n as u16, 22, 200, 50))
        }
        "Slowloris" => {
            Traffic::each(20, |all, n| all.connection(i64::from(n) * 10, 3_000 + n as u16, 80, 40, 30_000))
        }
        "Forged resets" => {
            let mut all = Traffic::default();
            all.connection(0, 3_000, 80, 100, 5_000);
            all.ttl = 250;
            for n in 0..5 {
                let seq = 900_000 + 7 * n as u32;
                all.segment(100 + n, [SERVER, CLIENT], (80, 3_000), (seq, 0), RST, 0);
            }
            all
        }
        "Changes of TTL" => Traffic::each(9, |all, n| {
            all.ttl = 60 + n as u8 % 3;
            all.segment(i64::from(n), [CLIENT, SERVER], (3_000, 80), (n, 0), ACK, 10);
        }),
        "Out-of-order TCP" => {
            let mut all = Traffic::default();
            all.connection(0, 3_000, 80, 100, 5_000);
            for (ms, seq) in [(10, 701), (11, 501), (12, 601)] {
                all.segment(ms, [SERVER, CLIENT], (80, 3_000), (seq, 201), ACK, 100);
            }
            all
        }
        _ => Traffic::each(300, |all, n| {
            all.segment(i64::from(n), [CLIENT, SERVER], (3_000, 80), (n * 1_000, 0), ACK, 1_000);
        }),
    }
}

/// Applications that find something in any traffic.
const ALWAYS: &[&str] = &["Accounting", "Profile of a load balancer", "Pass-through"];
/// Applications that find something in the shipped capture, too.
const SHIPPED: &[&str] = &["Heavy hitters", "Out-of-order TCP"];

/// The words of a line for a shell.
fn words(line: &str, file: &str) -> Vec<String> {
    let mut words = vec![];
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            1 => words.push(part.to_string()),
            _ => words.extend(part.split_whitespace().map(str::to_string)),
        }
    }
    words.into_iter().skip(1).map(|word| if word == "FILE" { file.to_string() } else { word }).collect()
}

/// The lines of the page, by application.
fn lines() -> BTreeMap<String, String> {
    let of_section = |section: &str| {
        let title = section.lines().next()?.to_string();
        let line = section.lines().find(|line| line.starts_with("weir "))?.to_string();
        Some((title, line))
    };
    PAGE.split("\n### ").skip(1).filter_map(of_section).collect()
}

#[test]
fn each_application_finds_what_is_there_and_nothing_else() {
    let lines = lines();
    assert!(lines.len() >= 11, "{lines:?}");
    for (application, line) in &lines {
        let capture = traffic(application).write(&application.replace(' ', "-"));
        let answer = |file: &str| {
            let words = words(line, file);
            let output = crate::cli::weir(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(output.status.success(), "{line}: {}", crate::cli::text(&output.stderr));
            output.stdout
        };
        assert!(!answer(&capture).is_empty(), "{application}: {line}");
        let is_found = !answer(FIRST_LIGHT).is_empty();
        let is_expected = [ALWAYS, SHIPPED].concat().contains(&application.as_str());
        assert_eq!(is_found, is_expected, "{application} in the shipped capture: {line}");
    }
}
