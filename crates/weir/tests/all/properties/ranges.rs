//! The ranges of a download are one file, whichever connections they came over.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory};
use std::convert::Infallible;
use weir::packet::{Cell, Timestamp};
use weir::{Compiler, Item, Log, Options, Want};
use weir_testing::frames::{ACK, SYN, ethernet, ipv4, tcp};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 80];

/// The packets of a connection that begins at `second`. The client requests each of the ranges of `target`,
/// which has 300 bytes.
fn download(second: i64, port: u16, target: &str, ranges: &[(usize, usize)]) -> Vec<MemoryPacket> {
    let mut packets = vec![];
    let mut at = 1_700_000_000_000_000_000 + second * 1_000_000_000;
    let mut next = [1001_u32, 2001];
    let mut push = |from_client: bool, numbers: [u32; 2], flags: u8, bytes: &[u8]| {
        let (ends, ports) =
            if from_client { ((CLIENT, SERVER), (port, 80)) } else { ((SERVER, CLIENT), (80, port)) };
        let segment = tcp(ports, numbers[0], numbers[1], flags, &[], bytes);
        let mut packet = MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 6, 1, 0, &[], &segment)));
        packet.time = Timestamp(at);
        at += 1_000_000;
        packets.push(packet);
    };
    push(true, [1000, 0], SYN, &[]);
    push(false, [2000, 1001], SYN | ACK, &[]);
    push(true, next, ACK, &[]);
    for &(from, to) in ranges {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nRange: bytes={from}-{to}\r\n\r\n");
        push(true, next, ACK, request.as_bytes());
        next[0] += request.len() as u32;
        let length = to + 1 - from;
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {from}-{to}/300\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let answer = [head.as_bytes(), &vec![b'x'; length]].concat();
        push(false, [next[1], next[0]], ACK, &answer);
        next[1] += answer.len() as u32;
    }
    packets
}

/// For each row of a log, the values of three columns.
fn rows(log: &str, packets: &[MemoryPacket], names: [&str; 3], workers: usize) -> Vec<[String; 3]> {
    let compiler = Compiler::default();
    let log = Log::of(compiler.sessions(), log).expect("it is there");
    let compiled = compile(&compiler, &[ask("", Want::Sessions(log.asked()))], &Options::default());
    let columns = log.columns();
    let at = names.map(|name| columns.iter().position(|column| column.name == name).unwrap());
    let mut found = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Rows(rows) = item {
            found.extend(rows.iter().map(|row| {
                at.map(|column| match row.cell(column) {
                    Cell::Unsigned(number) => number.to_string(),
                    Cell::Text(text) => text.to_string(),
                    Cell::Texts(texts) => texts.iter().collect::<Vec<_>>().join(","),
                    _ => "-".to_string(),
                })
            }));
        }
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(packets);
    let Ok(outcome) =
        weir::run(&compiler, &compiled, &mut source, &[log.shape()], workers, &mut each, &mut |_| {});
    assert_eq!(outcome.matched, [found.len() as u64]);
    found
}

/// For each file, its size, the size of the whole, and the number of ranges. Sorted.
fn files(packets: &[MemoryPacket], workers: usize) -> Vec<[String; 3]> {
    let mut found = rows("files", packets, ["seen_bytes", "total_bytes", "ranges"], workers);
    found.sort();
    found
}

fn row(values: [&str; 3]) -> [String; 3] {
    values.map(str::to_string)
}

#[test]
fn ranges_of_a_download_are_one_file() {
    let mut packets = download(0, 4000, "/film", &[(0, 99), (100, 199)]);
    packets.extend(download(1, 4001, "/film", &[(200, 299)]));
    packets.extend(download(2, 4002, "/other", &[(0, 99)]));
    for workers in [1, 3] {
        let expected = [row(["100", "300", "1"]), row(["300", "300", "3"])];
        assert_eq!(files(&packets, workers), expected, "{workers} workers");
    }
    // Rows of HTTP refer to the file.
    let of_http = rows("http", &packets, ["resp_fuids", "status_code", "uri"], 1);
    let of_files = rows("files", &packets, ["fuid", "seen_bytes", "total_bytes"], 1);
    let film: Vec<_> = of_http.iter().filter(|row| row[2] == "/film").map(|row| row[0].clone()).collect();
    let whole = of_files.iter().find(|row| row[1] == "300").expect("the film");
    assert_eq!(film, [whole[0].clone(), whole[0].clone(), whole[0].clone()]);
}

#[test]
fn ranges_that_are_far_apart_are_two_files() {
    let mut packets = download(0, 4000, "/film", &[(0, 99)]);
    packets.extend(download(1000, 4001, "/film", &[(100, 199)]));
    packets.extend(download(2000, 4002, "/film", &[(0, 299)]));
    let expected = [row(["100", "300", "1"]), row(["100", "300", "1"]), row(["300", "300", "1"])];
    assert_eq!(files(&packets, 1), expected);
}
