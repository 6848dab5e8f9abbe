//! Statistics of a capture: packets and bytes per layer, sizes, timing, top talkers.

use crate::flow::connection::Hosts;
use crate::rows::format_packet::Path;
use crate::{Ask, Connection, Item};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_lang::model::{LayerId, Stack};
use weir_packet::{PacketMeta, Timestamp};

/// The needs of a question for packets and the paths of their layers.
pub fn path_need() -> Need {
    Need { packets: true, path: true, ..Need::default() }
}

/// The questions whose answers [`Stats`] adds up: packets with their layers, and connections, whose ends are
/// the talkers.
pub fn stats_asks(filter: &str) -> [Ask; 2] {
    let ask = |need, want| Ask { filter: filter.to_string(), need, want };
    [ask(path_need(), Want::Packets), ask(Need::default(), Want::Connections)]
}

/// Limit of hosts, of conversations and of names that are counted separately; further ones are counted
/// together.
const ENTRIES_MAX: usize = 1 << 20;

/// Limit of services that are counted separately.
const SERVICES_MAX: usize = 1 << 12;

/// Longer names are cut, as in a hostile `Host` header; a name in DNS has at most 255 bytes (RFC 1035,
/// section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Limit of layer paths that are counted separately: hostile nesting can produce any number of paths.
const PATHS_MAX: usize = 1 << 14;

/// Size classes of packets, as in RMON (RFC 2819, `etherStatsPkts64Octets` and following): the largest size
/// of each class, and its name. Larger packets belong to the last class.
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

/// Connections, and their packets and bytes of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// Number of connections.
    pub count: u64,
    /// Their traffic.
    pub volume: Volume,
}

impl Connections {
    fn add(&mut self, connection: &Connection) {
        self.count += 1;
        self.volume.add(connection.packets.iter().sum(), connection.ip_bytes.iter().sum());
    }
}

/// Counts by subject, for a bounded number of subjects.
#[derive(Debug, Clone)]
pub struct Tally<K, C> {
    counts: HashMap<K, C>,
    /// All subjects beyond the limit together.
    pub beyond: C,
    max: usize,
}

impl<K: Hash + Eq + Ord + Clone, C: Default + Copy> Tally<K, C> {
    /// No counts, for as many subjects as fit into `memory_max` bytes; each needs `more` bytes beside its
    /// entry.
    fn new(memory_max: usize, more: usize) -> Self {
        // While a table grows, it has twice the entries, and the smaller table exists as well.
        let max = ENTRIES_MAX.min(memory_max / (3 * size_of::<(K, C)>() + more));
        Self::bounded(max)
    }

    /// No counts, for at most this many subjects.
    pub fn bounded(max: usize) -> Self {
        Self { counts: HashMap::new(), beyond: C::default(), max }
    }

    /// The count of a subject, or of those beyond the limit.
    pub fn of(&mut self, subject: K) -> &mut C {
        let known = self.counts.len() < self.max || self.counts.contains_key(&subject);
        if known { self.counts.entry(subject).or_default() } else { &mut self.beyond }
    }

    /// The number of subjects that are counted separately.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The subjects and their counts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &C)> {
        self.counts.iter()
    }

    /// The subjects with the largest counts.
    pub fn top<S: Ord>(&self, count: usize, size: impl Fn(&C) -> S) -> Vec<(K, C)> {
        let mut all: Vec<(&K, &C)> = self.counts.iter().collect();
        let order = |one: &(&K, &C), other: &(&K, &C)| {
            size(other.1).cmp(&size(one.1)).then_with(|| one.0.cmp(other.0))
        };
        if all.len() > count {
            all.select_nth_unstable_by(count, order);
            all.truncate(count);
        }
        all.sort_unstable_by(order);
        all.into_iter().map(|(subject, count)| (subject.clone(), *count)).collect()
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
    pub paths: Tally<Path, Volume>,
    /// By size, in the classes of RMON.
    sizes: [Volume; SIZES.len() + 1],
    /// By host.
    pub hosts: Tally<IpAddr, Talk>,
    /// By pair of hosts, the smaller address first.
    pub conversations: Tally<(IpAddr, IpAddr), Connections>,
    /// By application protocol; without one, by transport protocol: `ssl`, `unknown tcp`.
    pub services: Tally<String, Connections>,
    /// Sessions by the name of their server.
    pub names: Tally<String, u64>,
}

impl Default for Stats {
    /// Empty statistics without a bound by memory.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Stats {
    /// Empty statistics, which use about `memory_max` bytes.
    pub fn new(memory_max: usize) -> Self {
        let services = Tally { max: SERVICES_MAX, ..Tally::new(usize::MAX, 0) };
        let paths = Tally { max: PATHS_MAX, ..Tally::new(usize::MAX, 0) };
        Self {
            all: Volume::default(),
            captured_bytes: 0,
            first: None,
            last: None,
            largest_gap: None,
            paths,
            sizes: Default::default(),
            hosts: Tally::new(memory_max / 3, 0),
            conversations: Tally::new(memory_max / 3, 0),
            services,
            names: Tally::new(memory_max / 3, NAME_BYTES_MAX),
        }
    }

    /// Counts an item of one of the questions of [`stats_asks`].
    pub fn take(&mut self, item: &Item<'_>) {
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
        self.paths.of(path).add(1, bytes);
    }

    /// Counts a connection's packets and bytes for its hosts, if they have IP addresses.
    pub fn connection(&mut self, connection: &Connection) {
        let service = match &connection.service {
            Some(service) => service.to_string(),
            None => format!("unknown {}", connection.proto),
        };
        self.services.of(service).add(connection);
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
        let (a, b) = (connection.orig_h, connection.resp_h);
        self.conversations.of((a.min(b), a.max(b))).add(connection);
        for (host, side) in [(connection.orig_h, 0), (connection.resp_h, 1)] {
            self.host(host, direction(side), direction(1 - side));
        }
    }

    /// Counts a session with a server of this name.
    pub fn name(&mut self, name: &str) {
        *self.names.of(name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_string()) += 1;
    }

    fn host(&mut self, host: IpAddr, sent: Volume, received: Volume) {
        let talk = self.hosts.of(host);
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
        for (&path, &volume) in &self.paths.counts {
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
        self.paths.top(count, |volume| volume.bytes)
    }

    /// The hosts with the most bytes, sent and received.
    pub fn top_talkers(&self, count: usize) -> Vec<(IpAddr, Talk)> {
        self.hosts.top(count, |talk| talk.both().bytes)
    }

    /// The path of layers as text: `eth:ip:tcp`.
    pub fn path_name(stack: &Stack, path: Path) -> String {
        let mut name = String::new();
        path.push_name(stack, &mut name);
        name
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
        let mut stats = Stats::new(64 << 10);
        let one = Volume { packets: 1, bytes: 100 };
        let host = |n: usize| IpAddr::V4(Ipv4Addr::from(n as u32));
        let max = stats.hosts.max;
        assert!((50..1000).contains(&max), "{max} hosts for a third of 64 KiB");
        for n in 0..max + 2 {
            stats.host(host(n), one, Volume::default());
        }
        stats.host(host(7), one, one);
        assert_eq!(stats.hosts.len(), max);
        assert_eq!(stats.hosts.beyond.both(), Volume { packets: 2, bytes: 200 });
        let top = Talk { sent: Volume { packets: 2, bytes: 200 }, received: one };
        assert_eq!(stats.top_talkers(1), [(host(7), top)]);
        let order: Vec<_> = stats.top_talkers(3).into_iter().map(|(host, _)| host).collect();
        assert_eq!(order, [7, 0, 1].map(host), "equal hosts are in the order of their addresses");
    }

    #[test]
    fn paths_beyond_the_bound_are_counted_together() {
        let mut stats = Stats::new(usize::MAX);
        for path in 1..=PATHS_MAX as u64 + 2 {
            stats.packet(&packet(0, 60), Path::of_record(&[path, 0, 0, 0]));
        }
        assert_eq!((stats.paths.len(), stats.paths.beyond.packets), (PATHS_MAX, 2));
    }

    #[test]
    fn long_names_are_cut() {
        let mut stats = Stats::new(usize::MAX);
        stats.name(&"é".repeat(40_000));
        assert_eq!(stats.names.top(1, |count| *count), [("é".repeat(NAME_BYTES_MAX / 2), 1)]);
    }
}
