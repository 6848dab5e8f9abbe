//! Reads any bytes as a capture file.

use weir_io::{CaptureReader, Findings, PcapngWriter};
use weir_packet::{BURST_PACKETS_MAX, Burst, PacketMeta, Poll, Source};

/// Reads arbitrary bytes as a capture to its end, writes its packets as pcapng, and reads the result again.
/// Checks the guarantees of [`Source`]. For fuzzers and tests.
///
/// # Panics
/// If a guarantee of [`Source`] is violated, or the written packets differ from those read again.
pub fn fuzz_reader(bytes: &[u8]) {
    // Stops decompression bombs. No other input of a fuzzer has that many bursts.
    const BURSTS_MAX: usize = 1 << 14;
    for block_bytes in [64, 4 << 10] {
        let (mut written, findings) = (PcapngWriter::new(Vec::new()), Findings::default());
        written = written.with_findings(findings.follow());
        let mut said = vec![];
        let errors = fuzz_read(bytes, (block_bytes, BURSTS_MAX), &findings, |meta, frame, options| {
            written.write_with_options(meta, frame, options).expect("memory");
            said.push((frame.len(), options.len()));
        });
        assert!(errors <= 1, "one file, one error");
        let (written, again) = (written.finish().expect("memory"), Findings::default());
        let _ = again.follow();
        let mut rest = said.iter();
        let errors = fuzz_read(&written, (block_bytes, usize::MAX), &again, |_, frame, options| {
            assert_eq!(rest.next(), Some(&(frame.len(), options.len())));
        });
        assert_eq!(
            (errors, rest.len(), again.found().blocks_skipped),
            (0, 0, 0),
            "what was written is whole"
        );
    }
}

/// Calls `each` for every packet of the first `bursts_max` bursts of a capture, with its bytes and options.
/// Returns the number of errors.
fn fuzz_read(
    bytes: &[u8],
    (block_bytes, bursts_max): (usize, usize),
    findings: &Findings,
    mut each: impl FnMut(&PacketMeta, &[u8], &[u8]),
) -> usize {
    let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let mut source = CaptureReader::from_reader("fuzz", reader).with_block_bytes(block_bytes);
    source = source.with_findings(findings.clone());
    let mut burst = Burst::default();
    let (mut number, mut errors) = (0, 0);
    for _ in 0..bursts_max {
        match source.poll(&mut burst) {
            Ok(Poll::End) => break,
            Ok(Poll::Idle { .. }) => panic!("a reader waits for its packets"),
            Ok(Poll::Packets) => {
                assert!((1..=BURST_PACKETS_MAX).contains(&burst.packets.len()));
                for (index, packet) in burst.packets.iter().enumerate() {
                    number += 1;
                    assert_eq!(packet.number, number);
                    assert!(packet.wire_bytes >= packet.captured_bytes);
                    assert_eq!(burst.data(index).len(), packet.captured_bytes as usize);
                    assert_eq!(source.interfaces()[usize::from(packet.interface)].link, packet.link);
                    each(packet, burst.data(index), burst.extra(index).annotations);
                }
            }
            Err(_) => errors += 1,
        }
    }
    errors
}
