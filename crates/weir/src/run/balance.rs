//! Assigns units of work (connections, usually) to workers: usually by hash; a new unit whose worker is
//! overloaded goes to the worker with the least work. A unit keeps its worker while it has flows, so all of a
//! stream is on one worker.
//!
//! After Scap (IMC'13, section 3.3), where the network card redirects single streams. Here [`Units`] keep
//! fragments, both directions and tunnels together. The assignment depends on the packets alone, not on the
//! speed of threads, so a run can be repeated.

use super::units::{PacketKeys, Units};
use std::collections::HashMap;
use std::time::Duration;
use weir_engine::counters::DispatchCounters;

/// Bits of the filter of known units: with a million units, one in twenty new ones is mistaken for a known
/// one and is not moved.
const SEEN_BITS: usize = 1 << 23;
/// Limit of units that are assigned to a worker other than their hash selects.
const MOVED_MAX: usize = 1 << 18;
/// A worker is overloaded from this percentage of the average work …
const TOO_MUCH_PERCENT: u64 = 125;
/// … once all workers together have this many units of work.
const WORK_MIN: u64 = 4096;
/// When all workers together have this many units of work, the counts are halved, so that recent work counts
/// more.
const WORK_MAX: u64 = 1 << 18;
/// Bytes that count as much work as a packet.
const BYTES_PER_PACKET: u64 = 1024;

/// Assigns packets to workers.
pub(crate) struct Balancer {
    /// Recent work of each worker, and of all workers.
    work: Vec<u64>,
    all_work: u64,
    /// Packets assigned to each worker.
    pub packets: Vec<u64>,
    /// Units seen in this period and in the previous one: a unit in neither has no flow any more.
    seen: [Box<[u64]>; 2],
    /// Length of a period in nanoseconds: the longest time-out. `None`: flows end only with the capture.
    period_ns: Option<i64>,
    /// Start of this period.
    began: Option<i64>,
    period: u32,
    moved: HashMap<u64, Moved>,
    units: Units,
    pub counters: DispatchCounters,
}

/// A unit that was assigned to another worker than its hash selects.
struct Moved {
    worker: u16,
    /// The period in which the unit was last seen; the maximum: the unit stays.
    period: u32,
}

impl Balancer {
    /// A balancer for `workers` workers, and flows with time-outs of at most `longest`; `None`: some flows
    /// have no time-out. `memory_max`: bytes of memory of a worker.
    pub fn new(workers: usize, longest: Option<Duration>, memory_max: usize) -> Self {
        Self {
            work: vec![0; workers],
            all_work: 0,
            packets: vec![0; workers],
            seen: [(); 2].map(|()| vec![0; SEEN_BITS / 64].into_boxed_slice()),
            period_ns: longest.map(|longest| i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX)),
            began: None,
            period: 0,
            moved: HashMap::new(),
            units: Units::new(memory_max),
            counters: DispatchCounters::default(),
        }
    }

    /// Advances the time to `now`, as for the workers.
    pub fn pass_time(&mut self, now: i64) {
        let Some(period_ns) = self.period_ns else { return };
        let began = *self.began.get_or_insert(now);
        if now.saturating_sub(began) <= period_ns {
            return;
        }
        self.began = Some(now);
        self.seen.swap(0, 1);
        self.seen[0].fill(0);
        self.period += 1;
        let last = self.period - 1;
        self.units.pass_period();
        self.moved.retain(|_, moved| moved.period >= last);
    }

    /// Begins a batch of packets.
    pub fn begin_batch(&mut self) {
        self.units.begin_batch();
    }

    /// Announces a packet of the batch, whose worker will be asked for later.
    pub fn expect(&mut self, keys: &PacketKeys) {
        self.units.expect(keys);
    }

    /// The worker of a packet. `ahead_ns`: how far the packet's time is ahead of the clock. A flow that is
    /// ahead by more than any time-out stays until the clock has passed it, so its unit keeps its worker.
    pub fn worker_of(&mut self, keys: PacketKeys, wire_bytes: u32, ahead_ns: i64) -> usize {
        let seen = &self.seen;
        let (unit, is_astray) = self.units.of(keys, |unit| has(seen, places(mix(unit))));
        self.counters.packets_astray += u64::from(is_astray);
        self.counters.units_forgotten = self.units.forgotten();
        self.worker_of_unit(unit, wire_bytes, ahead_ns)
    }

    /// The worker of a packet of this unit. 0 stands for packets without addresses.
    fn worker_of_unit(&mut self, unit: u64, wire_bytes: u32, ahead_ns: i64) -> usize {
        let mixed = mix(unit);
        let worker = if self.work.len() == 1 { 0 } else { self.place(unit, mixed) };
        if unit != 0 && self.period_ns.is_some_and(|period_ns| ahead_ns > period_ns) {
            self.pin(unit, worker);
        }
        let work = 1 + u64::from(wire_bytes) / BYTES_PER_PACKET;
        self.work[worker] += work;
        self.all_work += work;
        if self.all_work > WORK_MAX {
            self.work.iter_mut().for_each(|work| *work /= 2);
            self.all_work = self.work.iter().sum();
        }
        self.packets[worker] += 1;
        worker
    }

    /// Keeps a unit on a worker for the rest of the run.
    #[cold]
    fn pin(&mut self, unit: u64, worker: usize) {
        if self.moved.len() < MOVED_MAX || self.moved.contains_key(&unit) {
            self.moved.insert(unit, Moved { worker: worker as u16, period: u32::MAX });
        }
    }

    fn place(&mut self, unit: u64, mixed: u64) -> usize {
        let home = (((mixed >> 32) * self.work.len() as u64) >> 32) as usize;
        if unit == 0 {
            return home;
        }
        let is_known = self.note(mixed);
        if let Some(moved) = self.moved.get_mut(&unit) {
            moved.period = moved.period.max(self.period);
            return usize::from(moved.worker);
        }
        if is_known || !self.has_too_much(home) {
            return home;
        }
        if self.moved.len() >= MOVED_MAX {
            self.counters.units_not_moved += 1;
            return home;
        }
        let least = (0..self.work.len()).min_by_key(|&worker| self.work[worker]).unwrap_or(home);
        self.counters.units_moved += 1;
        self.moved.insert(unit, Moved { worker: least as u16, period: self.period });
        least
    }

    fn has_too_much(&self, worker: usize) -> bool {
        let average_by_100 = self.all_work * TOO_MUCH_PERCENT / self.work.len() as u64;
        self.all_work >= WORK_MIN && self.work[worker] * 100 > average_by_100
    }

    /// Records a unit. Returns whether it may have been recorded before.
    fn note(&mut self, mixed: u64) -> bool {
        let places = places(mixed);
        let is_known = has(&self.seen, places);
        for place in places {
            self.seen[0][place / 64] |= 1 << (place % 64);
        }
        is_known
    }
}

/// Spreads the bits of a unit's number.
fn mix(unit: u64) -> u64 {
    (unit ^ unit >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bits of a unit in the filter of known units: two, selected by the two halves of another mix.
fn places(mixed: u64) -> [usize; 2] {
    let more = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ mixed >> 29;
    [more as usize, (more >> 32) as usize].map(|place| place % SEEN_BITS)
}

/// Whether a unit with these bits may have been recorded.
fn has(seen: &[Box<[u64]>; 2], places: [usize; 2]) -> bool {
    seen.iter().any(|seen| places.iter().all(|place| seen[place / 64] >> (place % 64) & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 1 << 30;

    /// Keys as a stack produces them: any numbers except 0.
    fn pairs(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|n| n.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn most(work: &[u64]) -> f64 {
        *work.iter().max().expect("workers") as f64 * work.len() as f64 / work.iter().sum::<u64>() as f64
    }

    /// One pair has half of all packets, other pairs come and go. Returns the workers of each pair.
    fn run(balancer: &mut Balancer) -> HashMap<u64, Vec<usize>> {
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        for pair in pairs(20_000) {
            for _ in 0..4 {
                for pair in [7, pair] {
                    let worker = balancer.worker_of_unit(pair, 100, 0);
                    places.entry(pair).or_default().push(worker);
                }
            }
        }
        places
    }

    #[test]
    fn beside_a_pair_that_has_half_of_the_packets_new_ones_go_elsewhere() {
        let mut balancer = Balancer::new(4, Some(Duration::from_secs(1)), MEMORY);
        run(&mut balancer);
        // The worker of the large pair has half of the packets, twice the average, and no more.
        assert!(most(&balancer.packets) < 2.1, "{:?}", balancer.packets);
        let others = balancer.packets.iter().filter(|&&packets| packets < 80_000);
        assert!(others.clone().all(|&packets| packets > 20_000), "{:?}", balancer.packets);
        assert!(balancer.counters.units_moved > 1000);
    }

    #[test]
    fn a_pair_stays_where_it_began() {
        let mut balancer = Balancer::new(3, Some(Duration::from_secs(1)), MEMORY);
        for (pair, workers) in run(&mut balancer) {
            assert!(workers.iter().all(|worker| *worker == workers[0]), "{pair}: {workers:?}");
        }
    }

    #[test]
    fn where_all_have_the_same_to_do_the_hash_says_where() {
        let (mut one, mut other) = (Balancer::new(2, None, MEMORY), Balancer::new(2, None, MEMORY));
        for pair in pairs(50_000) {
            let worker = one.worker_of_unit(pair, 64, 0);
            assert_eq!(worker, other.worker_of_unit(pair, 64, 0));
        }
        assert_eq!(one.counters.units_moved, 0, "{:?}", one.packets);
    }

    #[test]
    fn who_was_away_for_longer_than_any_time_out_is_new() {
        let second = 1_000_000_000;
        let mut balancer = Balancer::new(2, Some(Duration::from_secs(1)), MEMORY);
        balancer.pass_time(0);
        let pair = pairs(100).find(|&pair| balancer.worker_of_unit(pair, 0, 0) == 0).expect("one of them");
        (balancer.work, balancer.all_work) = (vec![1 << 16, 0], 1 << 16);
        assert_eq!(balancer.worker_of_unit(pair, 0, 0), 0, "it is known");
        for (time, worker) in [(second + 1, 0), (3 * second, 0), (6 * second, 0)] {
            balancer.pass_time(time);
            assert_eq!(balancer.worker_of_unit(pair, 0, 0), worker, "seen in the period before");
        }
        balancer.pass_time(8 * second);
        balancer.pass_time(10 * second);
        assert_eq!(balancer.worker_of_unit(pair, 0, 0), 1, "not for two periods");
        balancer.work = vec![0, 1 << 16];
        balancer.pass_time(12 * second);
        assert_eq!(balancer.worker_of_unit(pair, 0, 0), 1, "and there it stays");
        balancer.pass_time(14 * second);
        balancer.pass_time(16 * second);
        assert_eq!((balancer.worker_of_unit(pair, 0, 0), balancer.moved.len()), (0, 0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut balancer = Balancer::new(2, None, MEMORY);
        for pair in pairs(2_000_000) {
            (balancer.work, balancer.all_work) = (vec![1 << 16, 0], 1 << 16);
            balancer.worker_of_unit(pair, 0, 0);
        }
        assert_eq!(balancer.moved.len(), MOVED_MAX);
        assert!(balancer.counters.units_not_moved > 0);
    }

    #[test]
    fn a_pair_whose_flow_is_ahead_of_the_clock_stays() {
        let second = 1_000_000_000;
        let mut balancer = Balancer::new(2, Some(Duration::from_secs(1)), MEMORY);
        balancer.pass_time(0);
        let pair = pairs(100).find(|&pair| balancer.worker_of_unit(pair, 0, 0) == 0).expect("one of them");
        balancer.worker_of_unit(pair, 0, 3600 * second);
        (balancer.work, balancer.all_work) = (vec![1 << 16, 0], 1 << 16);
        (0..9).for_each(|n| balancer.pass_time(n * 4 * second));
        assert_eq!(balancer.worker_of_unit(pair, 0, 0), 0);
    }
}
