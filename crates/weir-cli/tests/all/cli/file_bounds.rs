//! Files that traffic makes have bounds: traffic of many connections makes no more files than the bounds say.

use crate::cli::{text, weir};
use std::fs;
use std::path::Path;
use weir_testing::frames::{self, ACK};

const CONNECTIONS: u16 = 300;

/// A capture of connections, each with one request and its answer.
fn attack(place: &Path) -> String {
    let mut all = vec![];
    for number in 0..CONNECTIONS {
        let port = 20_000 + number;
        let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let body = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{number:01000}");
        let request = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        let packets = [
            (client, server, frames::tcp((port, 80), 100, 1, ACK, &[], request)),
            (
                server,
                client,
                frames::tcp((80, port), 1, 100 + request.len() as u32, ACK, &[], body.as_bytes()),
            ),
        ];
        for (from, to, segment) in packets {
            all.push(frames::ethernet(0x0800, &frames::ipv4((from, to), 6, number, 0, &[], &segment)));
        }
    }
    let path = place.join("attack.pcap");
    fs::write(&path, frames::pcap(&all)).expect("room");
    path.to_str().expect("text").to_string()
}

/// The number of files in a directory, and their bytes.
fn volume(directory: &Path) -> (usize, u64) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.fold((0, 0), |(files, bytes), entry| (files + 1, bytes + entry.metadata().expect("a file").len()))
}

#[test]
fn many_connections_and_contents_make_as_many_files_as_the_bounds_say() {
    let place = tempfile::tempdir().expect("a directory");
    let capture = attack(place.path());
    for (command, dir_option, option, all) in [
        ("streams", "-o", "--files-max", 2 * usize::from(CONNECTIONS)),
        ("files", "--extract", "--extract-max", usize::from(CONNECTIONS)),
    ] {
        for (number, (bound, files_max, bytes_max)) in
            [("1M/40", 40, 1 << 20), ("20k", 100_000, 20 << 10), ("20k/7", 7, 20 << 10)]
                .into_iter()
                .enumerate()
        {
            let into = place.path().join(format!("{command}{number}"));
            let into_name = into.to_str().expect("text");
            let args = [command, "-r", &capture, "--format", "json", dir_option, into_name, option, bound];
            let output = weir(&args);
            let said = text(&output.stderr);
            assert!(output.status.success(), "{command} {bound}: {said}");
            let (files, bytes) = volume(&into);
            assert!(
                files > 0 && files <= files_max && bytes <= bytes_max,
                "{command} {bound}: {files} {bytes}"
            );
            assert_eq!(said.matches("has the most that it gets").count(), 1, "{command} {bound}: {said}");
            assert!(said.contains(&format!("({option} BYTES/FILES)")), "{said}");
            assert!(said.contains("files were not created, and "), "the number at the end: {said}");
            assert_eq!(text(&output.stdout).lines().count(), all, "{command} {bound}: every row is there");
        }
        // The usual bounds are wide enough.
        let into = place.path().join(format!("{command}-usual"));
        let args = [command, "-r", &capture, "--format", "json", dir_option, into.to_str().expect("text")];
        let output = weir(&args);
        assert_eq!((volume(&into).0, text(&output.stderr).as_str()), (all, ""), "{command}");
    }
    let output = weir(&["streams", "-r", &capture, "--files-max", "1M"]);
    assert!(text(&output.stderr).contains("name their directory"), "{}", text(&output.stderr));
}
