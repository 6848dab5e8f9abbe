//! 10 M UDP frames of 64 bytes over 1 M random flows: a load on the flow table alone.

use std::path::Path;

use crate::shell::Result;
use crate::traces::frame::{ETHERNET_BYTES, Ends, IPV4_BYTES, Trace, ethernet, ipv4, udp};
use weir_testing::Random;

const FRAMES: u64 = 10_000_000;
const FLOWS: u64 = 1_000_000;
const FRAME_BYTES: usize = 64;
const STEP_US: u64 = 1;

pub fn make(file: &Path, scale: f64) -> Result {
    write(file, (FRAMES as f64 * scale) as u64, (FLOWS as f64 * scale) as u64)
}

/// Writes a trace of frames of random flows.
pub fn write(file: &Path, frames: u64, flows: u64) -> Result {
    let mut random = Random::new(64);
    let flows: Vec<Ends> = (0..flows).map(|_| ends(&mut random)).collect();
    let mut trace = Trace::create(file, STEP_US)?;
    let payload = [0u8; FRAME_BYTES - ETHERNET_BYTES - IPV4_BYTES - 8];
    for n in 0..frames {
        let flow = flows[random.below(flows.len() as u64) as usize];
        trace.put(&ethernet(0x0800, &ipv4(flow, 17, n as u16, 0, &udp(flow, &payload))))?;
    }
    trace.finish()
}

fn ends(random: &mut Random) -> Ends {
    let (addresses, ports) = (random.bits(), random.bits());
    Ends {
        src: 0x0a00_0000 | (addresses as u32 & 0x00ff_ffff),
        dst: 0x0a00_0000 | ((addresses >> 32) as u32 & 0x00ff_ffff),
        src_port: 1024 + (ports % 64_000) as u16,
        dst_port: 1024 + ((ports >> 32) % 64_000) as u16,
    }
}
