//! Tests of pcapng metadata besides packets, read and written again.

use super::capture::fuzz_reader;
use super::craft::*;
use super::*;
use crate::{CaptureFormat, CaptureWriter};
use Order::{Big, Little};
use proptest::prelude::*;
use std::io::{Cursor, Write};
use std::sync::Mutex;

/// A writer whose bytes stay accessible.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the packets of a capture whose numbers are wanted.
fn rewritten(file: &[u8], is_wanted: impl Fn(u64) -> bool) -> (Vec<u8>, Found) {
    let (findings, out) = (Findings::default(), Shared::default());
    let writer = CaptureWriter::new(CaptureFormat::Pcapng, Box::new(out.clone()));
    let mut writer = writer.with_findings(findings.follow());
    let reader = CaptureReader::from_reader("test", Box::new(Cursor::new(file.to_vec())));
    let mut source = reader.with_findings(findings.clone()).with_block_bytes(256);
    let mut burst = Burst::default();
    while source.poll(&mut burst).expect("the file is whole") != Poll::End {
        for (index, packet) in burst.packets.iter().enumerate().filter(|(_, one)| is_wanted(one.number)) {
            let options = burst.extra(index).annotations;
            writer.write_with_options(packet, burst.data(index), options).expect("memory");
        }
    }
    writer.finish().expect("memory");
    let bytes = out.0.lock().unwrap().clone();
    (bytes, findings.found())
}

type Said<'a> = (u16, &'a [u8]);

fn options(order: Order, options: &[Said<'_>]) -> Vec<u8> {
    let mut out = vec![];
    for (code, value) in options {
        out.extend(order.u16(*code));
        out.extend(order.u16(value.len() as u16));
        out.extend(*value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out.extend(if options.is_empty() { &[][..] } else { &[0; 4] });
    out
}

fn section_with(order: Order, said: &[Said<'_>]) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend([order.u16(1), order.u16(0)].concat());
    body.extend(order.u64(u64::MAX));
    body.extend(options(order, said));
    block(order, 0x0a0d_0d0a, &body)
}

/// A packet with options; its data is its number, three times.
fn packet(order: Order, number: u8, said: &[Said<'_>]) -> Vec<u8> {
    let mut body = vec![];
    for word in [0, 0, u32::from(number), 3, 3] {
        body.extend(order.u32(word));
    }
    body.extend([number, number, number, 0]);
    body.extend(options(order, said));
    block(order, 6, &body)
}

fn names(order: Order) -> Vec<u8> {
    let records = options(order, &[(1, b"\x0a\0\0\x01router\0"), (2, &[7; 20])]);
    block(order, 4, &[records, options(order, &[(1, b"of the site"), (3, &[10, 0, 0, 2])])].concat())
}

fn secrets(order: Order, keys: &[u8]) -> Vec<u8> {
    let mut body = order.u32(0x544c_534b).to_vec();
    body.extend(order.u32(keys.len() as u32));
    body.extend(keys);
    body.resize(body.len().next_multiple_of(4), 0);
    block(order, 10, &[body, options(order, &[(1, b"keys")])].concat())
}

/// A capture with all kinds of metadata.
fn telling(order: Order) -> Vec<u8> {
    // The writer uses nanoseconds and adds only this option for times.
    let interface = [
        (9, &[9][..]),
        (2, b"eth0"),
        (3, b"the uplink"),
        (8, &order.u64(10_000_000_000)),
        (11, b"\0tcp"),
        (12, b"Linux"),
        (2988, &[&order.u32(32473)[..], b"ours"].concat()),
    ];
    let mut words = order.u16(1).to_vec();
    words.extend([0; 2]);
    words.extend(order.u32(1500));
    [
        section_with(order, &[(2, b"a machine"), (3, b"an OS"), (4, b"a tool"), (1, b"why")]),
        block(order, 1, &[words, options(order, &interface)].concat()),
        secrets(order, b"CLIENT_RANDOM 00 11"),
        packet(order, 1, &[(1, b"first"), (1, b"again"), (2, &order.u32(0x4001)), (4, &order.u64(7))]),
        names(order),
        packet(order, 2, &[]),
        packet(order, 3, &[(3, &[2, 1, 2, 3, 4]), (7, &[&[1][..], &order.u64(9)].concat())]),
        secrets(order, b"CLIENT_RANDOM 22 33"),
    ]
    .concat()
}

#[test]
fn what_pcapng_says_is_written_as_it_was_and_little_endian() {
    for order in [Little, Big] {
        let (written, found) = rewritten(&telling(order), |_| true);
        assert_eq!(written, telling(Little), "{order:?}");
        assert_eq!((found.blocks_skipped, found.options_cut, found.blocks_lost), (0, 0, 0));
        let (again, _) = rewritten(&written, |_| true);
        assert_eq!(again, written);
    }
}

#[test]
fn names_and_secrets_stand_before_the_packets_behind_them_whoever_is_left_out() {
    let file = telling(Big);
    let whole = telling(Little);
    let [first, second] = [1, 2].map(|number| {
        let said: &[Said<'_>] =
            &[(1, b"first"), (1, b"again"), (2, &[1, 64, 0, 0]), (4, &[7, 0, 0, 0, 0, 0, 0, 0])];
        packet(Little, number, if number == 1 { said } else { &[] })
    });
    let expected = |left_out: &[&Vec<u8>]| {
        left_out.iter().fold(whole.clone(), |mut file, part| {
            let at = file.windows(part.len()).position(|window| window == &part[..]).expect("it is there");
            file.drain(at..at + part.len());
            file
        })
    };
    assert_eq!(rewritten(&file, |number| number != 1).0, expected(&[&first]));
    assert_eq!(rewritten(&file, |number| number == 3).0, expected(&[&first, &second]));
    let (nothing, _) = rewritten(&file, |_| false);
    let kept =
        [secrets(Little, b"CLIENT_RANDOM 00 11"), names(Little), secrets(Little, b"CLIENT_RANDOM 22 33")];
    assert!(nothing.ends_with(&kept.concat()), "they are all that follows the section");
}

#[test]
fn nobody_carries_what_nobody_writes() {
    let mut source = CaptureReader::from_reader("test", Box::new(Cursor::new(telling(Little))));
    let mut burst = Burst::default();
    while source.poll(&mut burst).expect("the file is whole") != Poll::End {
        assert!(burst.extras.is_empty(), "options are not read either");
    }
    assert_eq!(source.findings().found().blocks_skipped, 3);
}

#[test]
fn a_capture_of_pcap_says_nothing_of_its_packets() {
    // The end of one packet and the beginning of the next look like a pcapng block around the second one.
    let mut file = pcap_header(Little, 0xa1b2_c3d4, 1);
    let looks = [Little.u32(6), Little.u32(32 + 8 + 12), [0; 4]].concat();
    file.extend(pcap_record(Little, (1, 0), (12, 12), &[], &looks));
    file.extend(pcap_record(Little, (1, 0), (8, 8), &[], &[9; 8]));
    file.extend(pcap_record(Little, (0x0004_0001, 0), (4, 4), &[], b"abcd"));
    let reader = CaptureReader::from_reader("test", Box::new(Cursor::new(file.clone())));
    let findings = Findings::default();
    let _ = findings.follow();
    let mut source = reader.with_findings(findings);
    let mut burst = Burst::default();
    assert_eq!(source.poll(&mut burst).expect("the file is whole"), Poll::Packets);
    assert!(burst.packets.len() == 3 && burst.extras.is_empty());
    let (written, _) = rewritten(&file, |_| true);
    assert!(written.starts_with(&section(Little)), "no options there, either");
}

#[test]
fn broken_options_of_packets_end_what_is_said() {
    let mut broken = packet(Little, 1, &[(1, b"whole"), (1, b"abcd")]);
    let at = broken.windows(4).position(|window| window == b"abcd").expect("it is there");
    broken[at - 2] = 0xff;
    let body = [section(Little), interface(Little, 1, 0, &[(9, &[9])]), broken].concat();
    let (written, _) = rewritten(&body, |_| true);
    assert!(written.ends_with(&packet(Little, 1, &[(1, b"whole")])));
    // A block that ends directly after its packet has no options either.
    let plain = [section(Little), interface(Little, 1, 0, &[(9, &[9])]), packet(Little, 1, &[])].concat();
    assert!(rewritten(&plain, |_| true).0.ends_with(&packet(Little, 1, &[])));
}

#[test]
fn what_is_too_long_or_lies_is_left_out_and_counted() {
    let long = [b'x'; 60_000];
    let mut lies = secrets(Little, b"keys");
    lies[12] = 0xff;
    let file = [
        section_with(Little, &[(2, b"a machine"), (1, &long), (1, &long)]),
        interface(Little, 1, 0, &[(2, b"eth0"), (1, &long), (1, &long), (11, b"x")]),
        lies,
        packet(Little, 1, &[]),
    ];
    let (written, found) = rewritten(&file.concat(), |_| true);
    assert_eq!((found.options_cut, found.blocks_skipped), (2, 1));
    assert_eq!(found.interfaces[0].name, "eth0");
    // As many as fit, whatever else is between them.
    assert!((120_000..120_300).contains(&written.len()), "{}", written.len());
    let (again, found) = rewritten(&written, |_| true);
    assert_eq!((found.options_cut, again), (0, written));
}

#[test]
fn simple_packets_have_no_options() {
    let simple = block(Little, 3, &[&Little.u32(3)[..], b"abc"].concat());
    let file = [section(Little), interface(Little, 1, 0, &[]), simple.clone(), simple].concat();
    let (written, _) = rewritten(&file, |_| true);
    let block = &written[written.len() - 36..];
    assert_eq!(block[..8], [Little.u32(6), Little.u32(36)].concat(), "a head, four bytes, and nothing more");
}

proptest! {
    #[test]
    fn what_is_written_of_a_changed_capture_can_be_read(
        at in any::<proptest::sample::Index>(),
        value in any::<u8>(),
        is_big in any::<bool>(),
    ) {
        let mut file = telling(if is_big { Big } else { Little });
        let at = at.index(file.len());
        file[at] = value;
        fuzz_reader(&file);
    }
}
