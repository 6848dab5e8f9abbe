//! What a capture consists of: packets and bytes per layer, top talkers, timing.

use crate::line;
use std::collections::HashMap;
use std::net::IpAddr;
use weir_compile::Need;
use weir_lang::model::Stack;
use weir_packet::{PacketMeta, Timestamp};

/// What a question for statistics needs of the program.
pub fn stats_need() -> Need {
    Need { packets: true, path: true, ..Need::default() }
}

/// The most hosts that are counted; beyond it, new ones are counted together.
const HOSTS_MAX: usize = 1 << 20;

/// The most paths of layers that are told apart; further ones count as the path of no layers.
const PATHS_MAX: usize = 1 << 14;

/// Statistics of a run.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Bytes captured.
    pub captured_bytes: u64,
    /// Time of the earliest packet.
    pub first: Option<Timestamp>,
    /// Time of the latest packet.
    pub last: Option<Timestamp>,
    /// Packets and wire bytes by whole path of layers.
    pub paths: HashMap<u128, (u64, u64)>,
    /// Packets and bytes sent and received per host.
    pub hosts: HashMap<IpAddr, [u64; 4]>,
    /// Packets of hosts beyond the bound.
    pub hosts_beyond: u64,
}

impl Stats {
    /// Counts a packet.
    pub fn packet(&mut self, packet: &PacketMeta, path: u128) {
        let bytes = u64::from(packet.wire_bytes);
        self.packets += 1;
        self.wire_bytes += bytes;
        self.captured_bytes += u64::from(packet.captured_bytes);
        self.first = Some(self.first.map_or(packet.time, |t| t.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |t| t.max(packet.time)));
        // Hostile nesting makes any number of them.
        let known = self.paths.len() < PATHS_MAX || self.paths.contains_key(&path);
        let count = self.paths.entry(if known { path } else { 0 }).or_default();
        *count = (count.0 + 1, count.1 + bytes);
    }

    /// Counts a connection's packets and bytes for its hosts.
    pub fn connection(&mut self, connection: &crate::Connection) {
        let ends = [(connection.orig_h, 0), (connection.resp_h, 1)];
        for (host, side) in ends {
            if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&host) {
                self.hosts_beyond += connection.packets[side];
                continue;
            }
            let count = self.hosts.entry(host).or_default();
            count[0] += connection.packets[side];
            count[1] += connection.ip_bytes[side];
            count[2] += connection.packets[1 - side];
            count[3] += connection.ip_bytes[1 - side];
        }
    }

    /// Packets and wire bytes per layer, from the paths.
    pub fn by_layer(&self, stack: &Stack) -> Vec<(String, u64, u64)> {
        let mut layers = vec![(0, 0); stack.layers.len()];
        for (&path, &(packets, bytes)) in &self.paths {
            let mut seen = line::layers(path);
            seen.sort_unstable();
            seen.dedup();
            for layer in seen {
                let count: &mut (u64, u64) = &mut layers[layer.0 as usize];
                *count = (count.0 + packets, count.1 + bytes);
            }
        }
        let names = stack.layers.iter().map(|l| l.protocol.filter_name.clone());
        names.zip(layers).filter(|(_, c)| c.0 > 0).map(|(n, (p, b))| (n, p, b)).collect()
    }

    /// The path of layers as text: `eth:ip:tcp`.
    pub fn path_name(stack: &Stack, path: u128) -> String {
        if path == 0 {
            return "?".into();
        }
        let names: Vec<&str> = line::layers(path)
            .iter()
            .map(|l| stack.layers[l.0 as usize].protocol.filter_name.as_str())
            .collect();
        names.join(":")
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.wire_bytes += other.wire_bytes;
        self.captured_bytes += other.captured_bytes;
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = [self.last, other.last].into_iter().flatten().max();
        for (path, (packets, bytes)) in &other.paths {
            let count = self.paths.entry(*path).or_default();
            *count = (count.0 + packets, count.1 + bytes);
        }
        for (host, counts) in &other.hosts {
            let mine = self.hosts.entry(*host).or_default();
            mine.iter_mut().zip(counts).for_each(|(m, c)| *m += c);
        }
        self.hosts_beyond += other.hosts_beyond;
    }
}
