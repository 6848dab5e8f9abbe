//! Walks captures and prints their packets and bytes: the whole of a source's contract in a few lines,
//! and a measure of what reading costs.
//!
//! ```text
//! walk FILE...              packets and bytes of the captures
//! walk --measure FILE       the reader against the least that any reader does: read(2) and a walk
//! walk --make FILE PACKETS BYTES      writes a capture to measure with
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::time::Instant;
use weir_io::{CaptureReader, CaptureWriter};
use weir_packet::{Burst, LinkType, PacketMeta, Poll, Source, Timestamp};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--make", file, packets, bytes] => make(file, packets.parse()?, bytes.parse()?),
        ["--measure", file] => measure(file),
        [] => Err("name a capture".into()),
        _ => {
            let (packets, bytes) = walk(&args);
            println!("{packets} packets, {bytes} bytes");
            Ok(())
        }
    }
}

/// Packets and wire bytes of these captures; errors are said and gone past.
fn walk<P: AsRef<std::path::Path>>(files: &[P]) -> (u64, u64) {
    let mut source = CaptureReader::open(files);
    let mut burst = Burst::default();
    let mut bytes = 0;
    loop {
        match source.poll(&mut burst) {
            Ok(Poll::Packets) => bytes += burst.packets.iter().map(|p| u64::from(p.wire_bytes)).sum::<u64>(),
            Ok(Poll::Idle { .. }) => {}
            Ok(Poll::End) => return (source.packets(), bytes),
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// The least that a reader does: 1 MiB blocks into one buffer, and a walk over the records of a
/// little-endian pcap file.
fn walk_bare(file: &str) -> std::io::Result<(u64, u64)> {
    let mut file = File::open(file)?;
    let mut block = vec![0u8; (1 << 20) + (1 << 18)];
    file.read_exact(&mut block[..24])?;
    let (mut packets, mut bytes, mut tail) = (0, 0, 0);
    loop {
        let read = file.read(&mut block[tail..tail + (1 << 20)])?;
        if read == 0 {
            return Ok((packets, bytes));
        }
        let (end, mut at) = (tail + read, 0);
        while let Some(header) = block[at..end].first_chunk::<16>() {
            let word =
                |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
            let next = at + 16 + word(8) as usize;
            if next > end {
                break;
            }
            packets += 1;
            bytes += u64::from(word(12));
            at = next;
        }
        block.copy_within(at..end, 0);
        tail = end - at;
    }
}

/// Times both ways of reading by turns, and prints the best of each.
fn measure(file: &str) -> Result<(), Box<dyn Error>> {
    const TURNS: usize = 9;
    let (mut ours, mut bare) = (f64::MAX, f64::MAX);
    let mut counted = [(0, 0); 2];
    for _ in 0..TURNS {
        let start = Instant::now();
        counted[0] = walk(&[file]);
        ours = ours.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        counted[1] = walk_bare(file)?;
        bare = bare.min(start.elapsed().as_secs_f64());
    }
    let (packets, bytes) = counted[0];
    assert_eq!(counted[0], counted[1], "both see the same packets");
    for (name, seconds) in [("reader", ours), ("bare", bare)] {
        println!(
            "{name:8} {seconds:.3} s  {:6.1} ns a packet  {:5.2} GB/s",
            seconds * 1e9 / packets as f64,
            bytes as f64 / seconds / 1e9
        );
    }
    println!("ratio    {:.3}  ({packets} packets, {bytes} bytes; best of {TURNS})", ours / bare);
    Ok(())
}

fn make(file: &str, packets: u64, bytes: usize) -> Result<(), Box<dyn Error>> {
    let mut writer = CaptureWriter::create(file)?;
    let mut data = vec![0u8; bytes];
    for number in 1..=packets {
        // Not all alike, so that compressing it means something.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        data.chunks_mut(32).for_each(|chunk| {
            let some = chunk.len().min(8);
            chunk[..some].copy_from_slice(&mixed[..some]);
        });
        let meta = PacketMeta {
            time: Timestamp(1_700_000_000_000_000_000 + number as i64 * 1_000),
            number,
            wire_bytes: bytes as u32,
            link: LinkType::ETHERNET,
            ..PacketMeta::default()
        };
        writer.write(&meta, &data)?;
    }
    Ok(writer.finish()?)
}
