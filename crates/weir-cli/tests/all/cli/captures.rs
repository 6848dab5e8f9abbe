//! The captures that a command line names: directories, and patterns that the shell did not expand. What
//! these captures hold: a second capture in one file, damage, copies of packets.

use crate::cli::{answer, example, scratch, text, weir};
use std::fs;
use std::path::Path;

fn count(args: &[&str]) -> (Option<i32>, u64, String) {
    let output = weir(&[&["packets", "--count"], args].concat());
    let count = text(&output.stdout).trim().parse().unwrap_or(0);
    (output.status.code(), count, text(&output.stderr))
}

#[test]
fn directories_and_patterns_name_their_captures() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    for name in ["b.pcap", "a.pcap.gz", "c.txt"] {
        fs::copy(example(), at(name)).expect("room");
    }
    fs::create_dir(at("empty")).expect("room");
    let (one, both) = (2738, 2 * 2738);
    for (words, found) in [
        (vec![at("")], both),
        (vec![at("*.pcap*")], both),
        (vec![at("?.pcap")], one),
        (vec!["-r".to_string(), at("")], both),
        (vec![at(""), "frame.len > 0".to_string()], both),
        (vec![at("[ab].*"), "--filter".to_string(), "frame".to_string()], both),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (status, count, said) = count(&words);
        assert_eq!((status, count), (Some(0), found), "{words:?}: {said}");
    }
    for (word, says) in [(at("empty"), "has no captures"), (at("x*.pcap"), "no file has such a name")] {
        let (status, _, said) = count(&[&word]);
        assert!(status == Some(2) && said.contains(says), "{word}: {said}");
    }
    // A word that is a filter stays one.
    let here = std::env::current_dir().expect("there is one");
    assert!(here.join("src").is_dir(), "tests run in the crate's directory");
    assert_eq!(weir(&["packets", "--count", "src"]).status.code(), Some(2), "its files are no captures");
}

#[test]
fn a_capture_behind_another_one_in_a_file_is_read() {
    let pcap = fs::read(example()).expect("it is there");
    let pcapng = scratch("joined.pcapng");
    answer(&["packets", "-r", example().to_str().unwrap(), "-w", pcapng.to_str().unwrap()], 0);
    let pcapng = fs::read(pcapng).expect("it was written");
    let big = {
        let mut big = pcap[..24].to_vec();
        for field in [0..4, 4..6, 6..8, 16..20, 20..24] {
            big[field].reverse();
        }
        big
    };
    for (what, parts, packets) in [
        ("pcap, pcap", vec![&pcap, &pcap], 2 * 2738),
        ("pcap, pcapng", vec![&pcap, &pcapng], 2 * 2738),
        ("pcapng, pcap, pcapng", vec![&pcapng, &pcap, &pcapng], 3 * 2738),
        ("of the other byte order, without packets", vec![&pcap, &big, &pcap], 2 * 2738),
    ] {
        let file = scratch("joined");
        fs::write(&file, parts.into_iter().flatten().copied().collect::<Vec<u8>>()).expect("room");
        let (status, count, said) = count(&[file.to_str().unwrap()]);
        assert_eq!((status, count), (Some(0), packets), "{what}: {said}");
        assert!(said.contains("begin inside a file"), "{what}: {said}");
    }
}

#[test]
fn zeros_in_place_of_packets_are_damage() {
    let pcap = fs::read(example()).expect("it is there");
    for zeros in [32, 4096, 1 << 20] {
        let file = scratch("zeros.pcap");
        fs::write(&file, [&pcap[..], &vec![0; zeros]].concat()).expect("room");
        let (status, count, said) = count(&[file.to_str().unwrap()]);
        assert!((status, count) == (Some(2), 2738) && said.contains("zeros in place"), "{zeros}: {said}");
    }
}

#[test]
fn times_beyond_the_range_are_counted() {
    let pcapng = scratch("times.pcapng");
    answer(&["packets", "-r", example().to_str().unwrap(), "-w", pcapng.to_str().unwrap()], 0);
    let mut bytes = fs::read(&pcapng).expect("it was written");
    let at = bytes.windows(4).position(|four| four == [6, 0, 0, 0]).expect("there is a packet");
    bytes[at + 12..at + 16].copy_from_slice(&[0xff; 4]);
    fs::write(&pcapng, bytes).expect("room");
    let (status, count, said) = count(&[pcapng.to_str().unwrap()]);
    assert!((status, count) == (Some(2), 2738) && said.contains("time of the packet before: 1"), "{said}");
}

/// Each packet of the capture, and again behind a router, in a VLAN.
fn mirrored(path: &Path) {
    let pcap = fs::read(example()).expect("it is there");
    let mut twice = pcap[..24].to_vec();
    let mut rest = &pcap[24..];
    while let Some((header, data)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, next) = data.split_at(length);
        twice.extend_from_slice(header);
        twice.extend_from_slice(frame);
        let mut copy = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
        if frame[12..14] == [8, 0] {
            copy[18 + 8] -= 1;
        }
        let mut header = *header;
        header[8..12].copy_from_slice(&(length as u32 + 4).to_le_bytes());
        header[12..16].copy_from_slice(&(length as u32 + 4).to_le_bytes());
        twice.extend_from_slice(&header);
        twice.extend_from_slice(&copy);
        rest = next;
    }
    fs::write(path, twice).expect("room");
}

#[test]
fn copies_of_a_mirror_port_are_left_out_on_request() {
    let (once, twice) = (example(), scratch("mirrored.pcap"));
    mirrored(&twice);
    let (once, twice) = (once.to_str().unwrap(), twice.to_str().unwrap());
    // Identifiers depend on the numbers of packets. The capture itself has some resets that are equal.
    for args in [
        ["flows", "--columns", "ts,id.orig_p,history,orig_pkts,resp_pkts,orig_bytes,resp_bytes,vlan"],
        ["http", "--columns", "ts,id.orig_p,uri,status_code,response_body_len"],
        ["dns", "--columns", "ts,id.orig_p,query,answers"],
    ] {
        let plain = answer(&[&args[..], &["-r", once, "--dedup"]].concat(), 0);
        for workers in ["1", "4"] {
            let rows = answer(&[&args[..], &["-r", twice, "--dedup", "-j", workers]].concat(), 0);
            assert!(rows == plain, "{args:?}, -j {workers}");
        }
    }
    let said = text(&weir(&[twice]).stderr);
    assert!(said.contains("copies of packets") && said.contains("--dedup"), "{said}");
    assert_eq!(text(&weir(&[once]).stderr), "");
}
