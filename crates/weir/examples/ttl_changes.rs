//! Finds connections in which the packets of one side have several times to live. Possible causes: the path
//! changed; a device on the path sends packets in that side's name (resets of a firewall); or an attacker
//! sends packets that expire before they reach the receiver.
//!
//! `cargo run --example ttl_changes -- capture.pcap`

use std::collections::BTreeMap;
use weir::{Connection, Engine, Track, TrackPacket, Tracked};

/// Packets of each side by their time to live.
#[derive(Debug, Clone, Default)]
struct Hops([BTreeMap<u8, u64>; 2]);

impl Track for Hops {
    fn packet(&mut self, packet: &TrackPacket<'_>) {
        if let Some(hops) = hops(packet.frame) {
            *self.0[usize::from(!packet.is_orig)].entry(hops).or_default() += 1;
        }
    }
}

/// Time to live, or hop limit, of an Ethernet frame's outermost IP header.
fn hops(frame: &[u8]) -> Option<u8> {
    let mut ip = 14;
    while matches!(frame.get(ip - 2..ip)?, [0x81, 0] | [0x88, 0xa8]) {
        ip += 4;
    }
    match frame.get(ip)? >> 4 {
        4 => frame.get(ip + 8).copied(),
        6 => frame.get(ip + 7).copied(),
        _ => None,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine::new();
    engine.subscribe("tcp or udp", |connection: &Connection, hops: &Tracked<Hops>| {
        for (side, seen) in ["originator", "responder"].iter().zip(&hops.0).filter(|(_, seen)| seen.len() > 1)
        {
            println!("{} {} -> {} {side}: {seen:?}", connection.uid, connection.orig_h, connection.resp_h);
        }
    })?;
    engine.read(std::env::args_os().skip(1))
}
