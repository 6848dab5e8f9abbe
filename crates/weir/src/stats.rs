//! Statistics of a capture: packets and bytes per layer, sizes, timing, top talkers.

use crate::connection::Hosts;
use crate::format_packet::Path;
use crate::{Ask, Connection, Item};
use std::collections::HashMap;
use std::net::IpAddr;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_lang::model::{LayerId, Stack};
use weir_packet::{PacketMeta, Timestamp};

/// The needs of a question for packets and the paths of their layers.
pub fn path_need() -> Need {
    Need { packets: true, path: true, ..Need::default() }
}

/// The questions whose answers [`Stats`] adds up: packets with their layers, and connections, whose ends are the
/// talkers.
pub fn stats_asks(filter: &str) -> [Ask; 2] {
    let ask = |need, want| Ask { filter: filter.to_string(), need, want };
    [ask(path_need(), Want::Packets), ask(Need::default(), Want::Connections)]
}

/// Limit of hosts that are counted separately; further hosts are counted together.
const HOSTS_MAX: usize = 1 << 20;

/// Bytes of a host, while its table grows: twice the entry, and half as much of the smaller table.
const BYTES_PER_HOST: usize = 3 * size_of::<(IpAddr, Talk)>();

/// Limit of layer paths that are counted separately; further ones count as the path of no layers.
const PATHS_MAX: usize = 1 << 14;

/// Size classes of packets, as in RMON (RFC 2819, `etherStatsPkts64Octets` and following): the largest size of each
/// class, and its name. Larger packets belong to the last class.
const SIZES: [(u32, &str); 7] = [
    (63, "0-63"),
    (64, "64"),
    (127, "65-127"),
    (255, "128-255"),
    (511, "256-511"),
    (1023, "512-1023"),
    (1518, "1024-1518"),
];
/// The name of the class beyond [`SIZES`].
const SIZES_BEYOND: &str = "1519-";

/// Packets and their bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Traffic of a host in connections: packets and bytes of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Talk {
    /// Sent by the host.
    pub sent: Volume,
    /// Received by the host.
    pub received: Volume,
}

impl Talk {
    /// Both directions.
    pub fn both(&self) -> Volume {
        Volume {
            packets: self.sent.packets + self.received.packets,
            bytes: self.sent.bytes + self.received.bytes,
        }
    }
}

/// Statistics of a run.
#[derive(Debug, Clone)]
pub struct Stats {
    /// All packets.
    pub all: Volume,
    /// Bytes captured.
    pub captured_bytes: u64,
    /// Time of the earliest packet.
    pub first: Option<Timestamp>,
    /// Time of the latest packet.
    pub last: Option<Timestamp>,
    /// The longest time without a packet, nanoseconds, and when it began.
    pub largest_gap: Option<(u64, Timestamp)>,
    /// By whole path of layers.
    pub paths: HashMap<Path, Volume>,
    /// By size, in the classes of RMON.
    sizes: [Volume; SIZES.len() + 1],
    /// By host.
    pub hosts: HashMap<IpAddr, Talk>,
    /// All hosts beyond the limit together.
    pub hosts_beyond: Talk,
    hosts_max: usize,
}

impl Stats {
    /// Empty statistics, which use about `memory_max` bytes for hosts; at most a million hosts are counted separately.
    pub fn new(memory_max: usize) -> Self {
        Self {
            all: Volume::default(),
            captured_bytes: 0,
            first: None,
            last: None,
            largest_gap: None,
            paths: HashMap::new(),
            sizes: Default::default(),
            hosts: HashMap::new(),
            hosts_beyond: Talk::default(),
            hosts_max: HOSTS_MAX.min(memory_max / BYTES_PER_HOST),
        }
    }

    /// Counts an item of one of the questions of [`stats_asks`].
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Packet { meta, path, .. } => self.packet(meta, *path),
            Item::Connection(connection) => self.connection(connection),
            _ => {}
        }
    }

    /// Counts a packet.
    pub fn packet(&mut self, packet: &PacketMeta, path: Path) {
        let bytes = u64::from(packet.wire_bytes);
        self.all.add(1, bytes);
        self.captured_bytes += u64::from(packet.captured_bytes);
        if let Some(last) = self.last {
            let gap_ns = packet.time.since_ns(last);
            if gap_ns > self.largest_gap.map_or(0, |(longest, _)| longest) {
                self.largest_gap = Some((gap_ns, last));
            }
        }
        self.first = Some(self.first.map_or(packet.time, |t| t.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |t| t.max(packet.time)));
        let class = SIZES.partition_point(|&(largest, _)| largest < packet.wire_bytes);
        self.sizes[class].add(1, bytes);
        // Hostile nesting can produce any number of paths.
        let known = self.paths.len() < PATHS_MAX || self.paths.contains_key(&path);
        self.paths.entry(if known { path } else { Path::default() }).or_default().add(1, bytes);
    }

    /// Counts a connection's packets and bytes for its hosts, if they have IP addresses.
    pub fn connection(&mut self, connection: &Connection) {
        if connection.hosts != Hosts::Addresses {
            return;
        }
        let (packets, bytes) = (connection.packets, connection.ip_bytes);
        let direction = |side: usize| Volume { packets: packets[side], bytes: bytes[side] };
        if connection.orig_h == connection.resp_h {
            // A host that talks to itself has sent everything, and counts once.
            let mut sent = direction(0);
            sent.add(packets[1], bytes[1]);
            return self.host(connection.orig_h, sent, Volume::default());
        }
        for (host, side) in [(connection.orig_h, 0), (connection.resp_h, 1)] {
            self.host(host, direction(side), direction(1 - side));
        }
    }

    fn host(&mut self, host: IpAddr, sent: Volume, received: Volume) {
        let known = self.hosts.len() < self.hosts_max || self.hosts.contains_key(&host);
        let talk = if known { self.hosts.entry(host).or_default() } else { &mut self.hosts_beyond };
        talk.sent.add(sent.packets, sent.bytes);
        talk.received.add(received.packets, received.bytes);
    }

    /// Seconds from the earliest packet to the latest.
    pub fn duration_s(&self) -> f64 {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.since_ns(first) as f64 / 1e9,
            _ => 0.0,
        }
    }

    /// Volume by layer, computed from the paths.
    pub fn by_layer(&self, stack: &Stack) -> Vec<(String, Volume)> {
        let mut layers = vec![Volume::default(); stack.layers.len()];
        for (&path, &volume) in &self.paths {
            let mut seen: Vec<LayerId> = path.layers().collect();
            seen.sort_unstable();
            seen.dedup();
            for layer in seen {
                layers[layer.0 as usize].add(volume.packets, volume.bytes);
            }
        }
        let names = stack.layers.iter().map(|l| l.protocol.filter_name.clone());
        names.zip(layers).filter(|(_, volume)| volume.packets > 0).collect()
    }

    /// Volume by size class; the names are ranges of bytes on the wire.
    pub fn by_size(&self) -> impl Iterator<Item = (&'static str, Volume)> + '_ {
        let names = SIZES.iter().map(|&(_, name)| name).chain([SIZES_BEYOND]);
        names.zip(self.sizes).filter(|(_, volume)| volume.packets > 0)
    }

    /// The paths with the most bytes.
    pub fn top_paths(&self, count: usize) -> Vec<(Path, Volume)> {
        let mut paths: Vec<_> = self.paths.iter().map(|(&path, &volume)| (path, volume)).collect();
        paths.sort_unstable_by_key(|&(path, volume)| (std::cmp::Reverse(volume.bytes), path));
        paths.truncate(count);
        paths
    }

    /// The hosts with the most bytes, sent and received.
    pub fn top_talkers(&self, count: usize) -> Vec<(IpAddr, Talk)> {
        let mut hosts: Vec<_> = self.hosts.iter().map(|(&host, &talk)| (host, talk)).collect();
        hosts.sort_unstable_by_key(|&(host, talk)| (std::cmp::Reverse(talk.both().bytes), host));
        hosts.truncate(count);
        hosts
    }

    /// The path of layers as text: `eth:ip:tcp`.
    pub fn path_name(stack: &Stack, path: Path) -> String {
        let names: Vec<&str> =
            path.layers().map(|l| stack.layers[l.0 as usize].protocol.filter_name.as_str()).collect();
        if names.is_empty() { "?".into() } else { names.join(":") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn packet(time_ns: i64, wire_bytes: u32) -> PacketMeta {
        PacketMeta { time: Timestamp(time_ns), wire_bytes, captured_bytes: 40, ..PacketMeta::default() }
    }

    #[test]
    fn timing_is_of_the_earliest_and_the_latest() {
        let mut stats = Stats::new(usize::MAX);
        for time_ns in [5_000, 9_000, 2_000, 10_000, 17_000] {
            stats.packet(&packet(time_ns, 60), Path::default());
        }
        assert_eq!((stats.first, stats.last), (Some(Timestamp(2_000)), Some(Timestamp(17_000))));
        assert_eq!(stats.largest_gap, Some((7_000, Timestamp(10_000))), "a packet out of order ends no gap");
        assert_eq!(stats.duration_s(), 15e-6);
    }

    #[test]
    fn every_size_has_its_class() {
        let mut stats = Stats::new(usize::MAX);
        for size in [0, 63, 64, 65, 127, 128, 1518, 1519, 65_535] {
            stats.packet(&packet(0, size), Path::default());
        }
        let counts: Vec<_> = stats.by_size().map(|(name, volume)| (name, volume.packets)).collect();
        let wanted = [("0-63", 2), ("64", 1), ("65-127", 2), ("128-255", 1), ("1024-1518", 1), ("1519-", 2)];
        assert_eq!(counts, wanted);
    }

    #[test]
    fn hosts_beyond_the_bound_are_counted_together() {
        let mut stats = Stats::new(usize::MAX);
        let one = Volume { packets: 1, bytes: 100 };
        let host = |n: usize| IpAddr::V4(Ipv4Addr::from(n as u32));
        for n in 0..HOSTS_MAX + 2 {
            stats.host(host(n), one, Volume::default());
        }
        stats.host(host(7), one, one);
        assert_eq!(stats.hosts.len(), HOSTS_MAX);
        assert_eq!(stats.hosts_beyond.both(), Volume { packets: 2, bytes: 200 });
        let top = Talk { sent: Volume { packets: 2, bytes: 200 }, received: one };
        assert_eq!(stats.top_talkers(1), [(host(7), top)]);
    }

    #[test]
    fn paths_beyond_the_bound_are_counted_together() {
        let mut stats = Stats::new(usize::MAX);
        for path in 1..=PATHS_MAX as u64 + 2 {
            stats.packet(&packet(0, 60), Path::of_record(&[path, 0, 0, 0]));
        }
        assert_eq!(stats.paths[&Path::default()].packets, 2);
    }
}
