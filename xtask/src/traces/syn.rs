//! 5 M unanswered TCP SYNs, each of a connection of its own, over 50 seconds: the effect of a scan on a flow
//! table.

use std::path::Path;

use crate::shell::Result;
use crate::traces::frame::{Ends, Trace, ethernet, ipv4, tcp};
use weir_testing::Random;

const SYNS: f64 = 5_000_000.0;
const STEP_US: u64 = 10;

pub fn make(file: &Path, scale: f64) -> Result {
    let mut random = Random::new(5);
    let mut trace = Trace::create(file, STEP_US)?;
    for n in 0..(SYNS * scale) as u64 {
        let ends = Ends {
            src: 0x0a00_0000 | (random.bits() as u32 & 0x00ff_ffff),
            dst: 0xc633_6400 | random.below(256) as u32,
            src_port: 1024 + random.below(64_000) as u16,
            dst_port: random.below(1024) as u16,
        };
        let syn = tcp(ends, random.bits() as u32, 0, 2, &[]);
        trace.put(&ethernet(0x0800, &ipv4(ends, 6, n as u16, 0, &syn)))?;
    }
    trace.finish()
}
