//! Writes the packets that contain a text to a pcapng file, even if the text is split over segments, or
//! segments are reordered or repeated.
//!
//! `cargo run --example evidence -- TEXT out.pcapng capture.pcap`

use std::collections::BTreeMap;
use std::path::Path;
use weir::Engine;
use weir::io::{CaptureReader, CaptureWriter};
use weir::packet::PacketMeta;
use weir::stream::{Chunk, ChunkParams, Stream, StreamHandler, StreamParams};

/// Maximum number of kept packets.
const PACKETS_MAX: usize = 100_000;

/// The packets found so far, by number.
struct Evidence {
    text: Vec<u8>,
    packets: BTreeMap<u64, (PacketMeta, Vec<u8>)>,
}

impl StreamHandler for Evidence {
    type State = ();

    fn data(&mut self, (): &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let length = self.text.len();
        let is_it = |at: &usize| chunk.bytes[*at..].starts_with(&self.text);
        let found: Vec<usize> = (0..chunk.bytes.len()).filter(is_it).collect();
        if found.is_empty() {
            return;
        }
        for packet in chunk.packets() {
            let brought = |at: &usize| *at < packet.bytes.end && at + length > packet.bytes.start;
            if found.iter().any(brought) && self.packets.len() < PACKETS_MAX {
                self.packets.insert(packet.meta.number, (packet.meta, packet.frame.to_vec()));
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(text), Some(out)) = (args.next(), args.next()) else {
        return Err("TEXT OUT.pcapng FILE…".into());
    };
    let text = text.into_encoded_bytes();
    // Chunks overlap by the length of the text minus one, so a text that crosses two chunks is found.
    let overlap = text.len().saturating_sub(1) as u32;
    let chunk = Some(ChunkParams { bytes: overlap + (16 << 10), overlap, flush_ns: 0 });
    let params = StreamParams { chunk, packets: true, ..StreamParams::default() };
    let mut engine = Engine::new();
    let make = move || Evidence { text: text.clone(), packets: BTreeMap::new() };
    let evidence = engine.subscribe_streams("", params, make).map_err(|wrong| wrong.to_string())?;
    let files: Vec<_> = args.collect();
    let outcome = engine.run(&mut CaptureReader::open(&files), 1).map_err(|wrong| wrong.to_string())?;
    for error in &outcome.errors {
        eprintln!("{error}");
    }
    let mut writer = CaptureWriter::create(Path::new(&out))?;
    let mut count = 0;
    for (meta, frame) in outcome.handlers.of::<Evidence>(evidence).iter().flat_map(|one| one.packets.values())
    {
        writer.write(meta, frame)?;
        count += 1;
    }
    writer.finish()?;
    println!("{count} packets");
    Ok(())
}
