//! Assigns packets to units of work: all packets of a unit are processed by one worker.
//!
//! A unit is usually one connection. Connections that share packets are one unit, the pair of hosts of the
//! outermost addresses: a tunnel over UDP and the connections inside the tunnel. Fragments belong to the unit
//! of their datagram, which its first fragment determines; the first fragments of a batch are known before
//! its packets are assigned. A packet that shows too late that two units belong together is *astray*: rows of
//! its connection or datagram may differ from those of a run with one worker.

use std::collections::{HashMap, VecDeque};
use weir_compile::{DISPATCH_SLOTS, DISPATCH_UNKNOWN};

/// Limits of the entries of each generation of a table …
const ENTRIES_MIN: usize = 1 << 10;
const ENTRIES_MAX: usize = 1 << 18;

/// … and the bytes of a worker's memory for each of these entries: all tables together take at most a
/// sixteenth of that memory, 64 bytes for each entry of four tables with two generations.
const MEMORY_PER_ENTRY: usize = 16 * 4 * 2 * 64;

/// The keys of a packet, as the program computes them from its bytes; 0: the packet has no such key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PacketKeys {
    /// The pair of hosts of the outermost addresses, and of the innermost ones: equal if the packet is in no
    /// tunnel.
    pub hosts: u64,
    pub inner_hosts: u64,
    /// The outermost connection, or [`DISPATCH_UNKNOWN`]; and the innermost one: equal if the packet has one
    /// connection.
    pub outermost: u64,
    pub innermost: u64,
    /// The outermost datagram of which the packet is a fragment, and the innermost one: equal if there is
    /// one.
    pub datagram: u64,
    pub inner_datagram: u64,
}

impl PacketKeys {
    /// The keys in the slots of a packet's record.
    pub fn of(outs: &[u64]) -> Self {
        let [hosts, outermost, innermost, datagram, inner_datagram, inner_hosts] =
            std::array::from_fn::<_, { DISPATCH_SLOTS.len() }, _>(|slot| outs[slot]);
        Self { hosts, inner_hosts, outermost, innermost, datagram, inner_datagram }
    }

    /// The datagrams of which the packet is a fragment, the innermost one first.
    fn datagrams(&self) -> impl Iterator<Item = u64> + use<> {
        let outer = Some(self.datagram).filter(|outer| *outer != self.inner_datagram);
        [self.inner_datagram].into_iter().chain(outer)
    }

    fn is_first_fragment(&self) -> bool {
        self.datagram != 0 && self.outermost != 0
    }
}

/// The units of packets.
pub(crate) struct Units {
    /// Connections that carry other connections.
    carriers: Recent<()>,
    /// Units of the connections that are part of a pair of hosts: others carry them, or fragments came out of
    /// order.
    joined: Recent<u64>,
    /// Units of datagrams that arrive in fragments, and whether their first fragment has arrived.
    datagrams: Recent<(u64, bool)>,
    /// The first fragments of the batch, by datagram; of several, the first one that has not arrived yet.
    first: HashMap<u64, VecDeque<PacketKeys>>,
    /// Pairs of hosts whose later fragments arrived before the first ones: their new connections are one
    /// unit.
    unordered: Recent<()>,
}

impl Units {
    /// No units yet. `memory_max`: bytes of memory of a worker.
    pub fn new(memory_max: usize) -> Self {
        let entries_max = (memory_max / MEMORY_PER_ENTRY).clamp(ENTRIES_MIN, ENTRIES_MAX);
        Self {
            carriers: Recent::new(entries_max),
            joined: Recent::new(entries_max),
            datagrams: Recent::new(entries_max),
            first: HashMap::new(),
            unordered: Recent::new(entries_max),
        }
    }

    /// Forgets the entries that were not used for a whole period.
    pub fn pass_period(&mut self) {
        self.carriers.pass_period();
        self.joined.pass_period();
        self.datagrams.pass_period();
        self.unordered.pass_period();
    }

    /// Number of entries that were forgotten because there were too many.
    pub fn forgotten(&self) -> u64 {
        let Self { carriers, joined, datagrams, unordered, .. } = self;
        carriers.forgotten + joined.forgotten + datagrams.forgotten + unordered.forgotten
    }

    /// Begins a batch of packets.
    pub fn begin_batch(&mut self) {
        self.first.clear();
    }

    /// Announces a packet of the batch, whose unit will be asked for later.
    pub fn expect(&mut self, keys: &PacketKeys) {
        if keys.is_first_fragment() {
            for datagram in keys.datagrams() {
                self.first.entry(datagram).or_default().push_back(*keys);
            }
        }
    }

    /// The unit of a packet; 0 for packets without addresses. `is_unit`: whether a connection may be a unit
    /// already. The second value says that the packet is astray.
    pub fn of(&mut self, keys: PacketKeys, is_unit: impl Fn(u64) -> bool) -> (u64, bool) {
        let (outer, inner) = (keys.datagram, keys.inner_datagram);
        if outer == 0 {
            return self.of_whole(keys, &is_unit);
        }
        let is_first = keys.is_first_fragment();
        for datagram in keys.datagrams().filter(|_| is_first) {
            if let Some(first) = self.first.get_mut(&datagram) {
                first.pop_front();
            }
        }
        let (unit, is_astray) = match is_first {
            true => self.of_whole(keys, &is_unit),
            false => self.of_later_fragment(keys, inner, &is_unit),
        };
        let mut whole = unit;
        if is_first {
            whole = self.begin_datagram(inner, whole);
        }
        // The packet is the first fragment of the outer datagram, and may contain a later one of the inner
        // datagram.
        if outer != inner {
            whole = self.begin_datagram(outer, whole);
        }
        (whole, is_astray || whole != unit)
    }

    /// The unit of a datagram whose first fragment belongs to `unit`. If later fragments came before, the
    /// datagram stays whole, and its connection does not.
    fn begin_datagram(&mut self, datagram: u64, unit: u64) -> u64 {
        let before = self.datagrams.get(datagram).filter(|(_, has_first)| !has_first);
        let whole = before.map_or(unit, |(unit, _)| unit);
        self.datagrams.insert(datagram, (whole, true));
        whole
    }

    /// The unit of a packet that is no fragment, or of a first fragment by itself.
    fn of_whole(&mut self, keys: PacketKeys, is_unit: &impl Fn(u64) -> bool) -> (u64, bool) {
        let PacketKeys { hosts, outermost, innermost, .. } = keys;
        match outermost == innermost {
            true if outermost == 0 => (hosts, false),
            // If a first fragment is too short for the header, the connection may be anywhere.
            false if outermost == DISPATCH_UNKNOWN => (hosts, keys.datagram != 0),
            true => (self.of_connection(hosts, outermost, is_unit), false),
            false => self.of_carried(hosts, outermost, innermost, is_unit),
        }
    }

    /// The unit of a fragment of `datagram` that is not the first one.
    fn of_later_fragment(
        &mut self,
        keys: PacketKeys,
        datagram: u64,
        is_unit: &impl Fn(u64) -> bool,
    ) -> (u64, bool) {
        if let Some((unit, _)) = self.datagrams.get(datagram) {
            return (unit, false);
        }
        let first = self.first.get(&datagram).and_then(|first| first.front().copied());
        let (unit, is_astray) = match first {
            Some(first) => self.of_whole(first, is_unit),
            None => {
                self.unordered.insert(keys.hosts, ());
                (keys.hosts, false)
            }
        };
        self.datagrams.insert(datagram, (unit, false));
        (unit, is_astray)
    }

    /// The unit of a packet with one connection.
    fn of_connection(&mut self, hosts: u64, connection: u64, is_unit: &impl Fn(u64) -> bool) -> u64 {
        if self.carriers.get(connection).is_some() {
            return hosts;
        }
        if let Some(unit) = self.joined.get(connection) {
            return unit;
        }
        if self.unordered.get(hosts).is_some() && !is_unit(connection) {
            self.joined.insert(connection, hosts);
            return hosts;
        }
        connection
    }

    /// The unit of a packet in which a connection carries another one.
    fn of_carried(
        &mut self,
        hosts: u64,
        carrier: u64,
        carried: u64,
        is_unit: &impl Fn(u64) -> bool,
    ) -> (u64, bool) {
        let is_new_carrier = self.carriers.get(carrier).is_none();
        self.carriers.insert(carrier, ());
        let before = self.joined.get(carried);
        self.joined.insert(carried, before.unwrap_or(hosts));
        let is_astray = match before {
            None => is_unit(carried),
            Some(unit) => unit != hosts,
        };
        (hosts, is_astray || is_new_carrier && is_unit(carrier))
    }
}

/// A bounded table that forgets entries which were not used for a whole period.
struct Recent<T> {
    now: HashMap<u64, T>,
    before: HashMap<u64, T>,
    entries_max: usize,
    /// Entries that made room for others.
    forgotten: u64,
}

impl<T: Copy> Recent<T> {
    fn new(entries_max: usize) -> Self {
        Self { now: HashMap::new(), before: HashMap::new(), entries_max, forgotten: 0 }
    }

    fn pass_period(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    fn get(&mut self, key: u64) -> Option<T> {
        if self.now.is_empty() && self.before.is_empty() {
            return None;
        }
        if let Some(value) = self.now.get(&key) {
            return Some(*value);
        }
        let value = self.before.get(&key).copied()?;
        self.insert(key, value);
        Some(value)
    }

    fn insert(&mut self, key: u64, value: T) {
        // The older half makes room.
        if self.now.len() >= self.entries_max && !self.now.contains_key(&key) {
            self.forgotten += self.before.keys().filter(|key| !self.now.contains_key(key)).count() as u64;
            self.pass_period();
        }
        self.now.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(hosts: u64, outermost: u64, innermost: u64, datagram: u64) -> PacketKeys {
        PacketKeys { hosts, inner_hosts: hosts, outermost, innermost, datagram, inner_datagram: datagram }
    }

    #[test]
    fn connections_of_two_hosts_are_units_of_their_own() {
        let mut units = Units::new(1 << 30);
        assert_eq!(units.of(keys(1, 10, 10, 0), |_| false), (10, false));
        assert_eq!(units.of(keys(1, 11, 11, 0), |_| false), (11, false));
        assert_eq!(units.of(keys(1, 0, 0, 0), |_| false), (1, false), "no connection");
        assert_eq!(units.of(keys(0, 0, 0, 0), |_| false), (0, false), "no addresses");
    }

    #[test]
    fn fragments_belong_to_the_connection_of_the_first_one() {
        let mut units = Units::new(1 << 30);
        assert_eq!(units.of(keys(1, 10, 10, 7), |_| false), (10, false));
        assert_eq!(units.of(keys(1, 0, 0, 7), |_| false), (10, false));
        assert_eq!(units.of(keys(1, 0, 0, 8), |_| false), (1, false), "its first fragment is missing");
        assert_eq!(
            units.of(keys(1, 10, 10, 8), |_| true),
            (1, true),
            "too late: the connection is elsewhere"
        );
        // New connections of hosts that send fragments in reverse order wait for them at one place.
        assert_eq!(units.of(keys(1, 12, 12, 0), |_| false), (1, false));
        assert_eq!(units.of(keys(1, 10, 10, 0), |unit| unit == 10), (10, false));
        assert_eq!(units.of(keys(2, 20, 20, 0), |_| false), (20, false));
    }

    #[test]
    fn the_first_fragments_of_a_batch_are_known_before() {
        let mut units = Units::new(1 << 30);
        let batch = [keys(1, 0, 0, 7), keys(1, 10, 10, 7), keys(1, 11, 11, 7), keys(1, 0, 0, 7)];
        units.begin_batch();
        batch.iter().for_each(|keys| units.expect(keys));
        let found = batch.map(|keys| units.of(keys, |_| true));
        // The second first fragment begins another datagram with the same identification.
        assert_eq!(found, [(10, false), (10, false), (11, false), (11, false)]);
    }

    #[test]
    fn fragments_in_fragments_belong_together() {
        let mut units = Units::new(1 << 30);
        let nested = |connection, outer, inner| PacketKeys {
            inner_datagram: inner,
            ..keys(1, connection, connection, outer)
        };
        // Both fragments of the inner datagram 2 come in two fragments each.
        let batch = [nested(10, 3, 2), nested(0, 3, 3), nested(0, 4, 2), nested(0, 4, 4)];
        assert_eq!(batch.map(|keys| units.of(keys, |_| false)), [(10, false); 4]);
    }

    #[test]
    fn a_first_fragment_without_a_whole_header_is_astray() {
        let mut units = Units::new(1 << 30);
        assert_eq!(units.of(keys(1, DISPATCH_UNKNOWN, 0, 7), |_| false), (1, true));
        assert_eq!(units.of(keys(1, 0, 0, 7), |_| false), (1, false));
        assert_eq!(
            units.of(keys(1, DISPATCH_UNKNOWN, 0, 0), |_| false),
            (1, false),
            "no row contains the packet"
        );
    }

    #[test]
    fn a_tunnel_and_the_connections_inside_are_one_unit() {
        let mut units = Units::new(1 << 30);
        assert_eq!(units.of(keys(1, 10, 50, 0), |_| false), (1, false));
        assert_eq!(
            units.of(keys(1, 11, 50, 0), |_| false),
            (1, false),
            "the other direction has other ports"
        );
        assert_eq!(units.of(keys(1, 10, 10, 0), |_| false), (1, false), "a packet of the tunnel itself");
        assert_eq!(units.of(keys(2, 20, 50, 0), |_| false), (2, true), "the tunnel's ends have changed");
        assert_eq!(units.of(keys(3, 50, 50, 0), |_| false), (1, false), "outside of the tunnel");
        assert_eq!(units.of(keys(1, 30, 51, 0), |unit| unit == 30), (1, true), "the tunnel was elsewhere");
    }

    #[test]
    fn tables_forget_and_are_bounded() {
        let mut recent = Recent::new(100);
        (0..300).for_each(|key| recent.insert(key, key));
        assert!(recent.now.len() <= 100 && recent.before.len() <= 100);
        assert_eq!((recent.get(0), recent.get(299), recent.forgotten), (None, Some(299), 100));
        let mut recent = Recent::new(100);
        recent.insert(1, 5);
        recent.pass_period();
        assert_eq!(recent.get(1), Some(5));
        recent.pass_period();
        recent.pass_period();
        assert_eq!(recent.get(1), None);
    }
}
