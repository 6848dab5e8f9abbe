//! The kernel's assignment of packets to workers: the tables of the [program](crate::fanout_program), and the
//! program itself, which all interfaces of a capture share. Both directions of a connection may therefore
//! come from two interfaces.

use crate::bpf::{HashMap, Program, ProgramKind, SharedWords};
use crate::fanout_program::{
    ENTRY_WORDS, KEY_WORDS, KNOWN, KNOWN_WORDS, PAIRS_MOVED, PAIRS_NOT_MOVED, PERIOD, PLACES, WORDS, WORKERS,
    program,
};
use std::io;
use std::sync::atomic::Ordering;
use weir_packet::SourceStats;

/// Pairs of hosts that are remembered at another worker than their home.
const MOVED_MAX: usize = 1 << 18;
/// Moved pairs that are looked at by one call of [`Placement::forget`]: 1024 take about a millisecond.
const LOOKS: usize = 1024;

/// A key of the table of moved pairs.
pub(crate) type Pair = [u64; KEY_WORDS];
/// A key that no pair has: numbers of pairs have 32 bits.
const NO_PAIR: Pair = [u64::MAX; KEY_WORDS];

/// The tables and the program.
#[derive(Debug)]
pub(crate) struct Placement {
    shared: SharedWords,
    moved: HashMap,
    program: Program,
    workers: usize,
}

impl Placement {
    /// All places are at home, and no pair is known.
    ///
    /// # Errors
    /// If the process lacks the right to load programs, or the kernel refuses it.
    pub fn new(workers: usize) -> io::Result<Self> {
        let (shared, moved) = (SharedWords::new(WORDS)?, HashMap::new([KEY_WORDS, ENTRY_WORDS], MOVED_MAX)?);
        let all = program(workers, shared.number(), moved.number());
        let program = Program::load(ProgramKind::Socket, &all)?;
        let placement = Self { shared, moved, program, workers };
        (0..PLACES).for_each(|place| placement.assign(place, place % workers));
        Ok(placement)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// New pairs of this place go to this worker from now on.
    pub fn assign(&self, place: usize, worker: usize) {
        self.shared.word(WORKERS + place).store(worker as u64, Ordering::Relaxed);
    }

    /// Begins another period. Pairs that were not seen in the last one are not known any more.
    pub fn pass_period(&self) {
        let next = self.shared.word(PERIOD).load(Ordering::Relaxed) + 1;
        for number in 0..KNOWN_WORDS {
            let word = KNOWN + 2 * number + (next % 2) as usize;
            self.shared.word(word).store(0, Ordering::Relaxed);
        }
        self.shared.word(PERIOD).store(next, Ordering::Release);
    }

    /// Removes moved pairs that were seen neither in this period nor in the last one. One call looks at a
    /// part of the table, from a pair on, or from the start. Returns the pair from which the next call
    /// continues; `None` at the end.
    pub fn forget(&self, from: Option<Pair>) -> Option<Pair> {
        let period = self.shared.word(PERIOD).load(Ordering::Relaxed);
        let mut pair = from.unwrap_or(NO_PAIR);
        for _ in 0..LOOKS {
            let (key, mut entry) = (pair, [0; ENTRY_WORDS]);
            let has_next = self.moved.next(&mut pair).unwrap_or(false);
            let is_old = self.moved.look_up(&key, &mut entry).is_ok() && entry[1] + 1 < period;
            if is_old {
                // If that fails, the next period tries again.
                let _ = self.moved.remove(&key);
            }
            if !has_next {
                return None;
            }
        }
        Some(pair)
    }

    /// The pairs that were moved, and those that were not because there was no room.
    pub fn stats(&self) -> SourceStats {
        let read = |word| self.shared.word(word).load(Ordering::Relaxed);
        SourceStats {
            pairs_moved: read(PAIRS_MOVED),
            pairs_not_moved: read(PAIRS_NOT_MOVED),
            ..SourceStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;

    /// A placement, if the process may make one.
    fn placement(workers: usize) -> Option<Placement> {
        Placement::new(workers).inspect_err(|error| eprintln!("skipped: needs CAP_BPF: {error}")).ok()
    }

    /// An Ethernet frame.
    fn frame(protocol: u16, network: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &protocol.to_be_bytes(), network, &[0; 20]].concat()
    }

    fn v4(a: [u8; 4], b: [u8; 4]) -> Vec<u8> {
        [&[0x45; 12][..], &a, &b].concat()
    }

    /// Both directions of the packets between a host and another one.
    fn pair(host: u32) -> [Vec<u8>; 2] {
        let (a, b) = (host.to_be_bytes(), [192, 0, 2, 7]);
        [(a, b), (b, a)].map(|(from, to)| frame(0x0800, &v4(from, to)))
    }

    impl Placement {
        fn worker_of(&self, frame: &[u8]) -> usize {
            self.program.run(frame, 1).expect("the kernel runs the program").0 as usize
        }

        /// The worker of both directions of a pair.
        fn worker_of_pair(&self, host: u32) -> usize {
            let [there, back] = pair(host).map(|frame| self.worker_of(&frame));
            assert_eq!(there, back, "both directions of {host:#x} have one worker");
            there
        }
    }

    #[test]
    fn pairs_are_at_home_in_all_headers() {
        let Some(placement) = placement(4) else { return };
        let mut packets = [0; 4];
        for host in 0..64u8 {
            let (a, b) = ([10, 0, 0, host], [192, 0, 2, 7]);
            let worker = placement.worker_of(&frame(0x0800, &v4(a, b)));
            packets[worker] += 1;
            let tagged = [&[0, 7, 0x08, 0x00][..], &v4(a, b)].concat();
            let twice = [&[0, 9, 0x81, 0x00][..], &tagged].concat();
            let session = [&[0x11, 0, 0, 1, 0, 90, 0, 0x21][..], &v4(b, a)].concat();
            let labels = [&[0, 1, 0, 64, 0, 1, 1, 64][..], &v4(a, b)].concat();
            for (protocol, network) in [
                (0x0800, &v4(b, a)),
                (0x8100, &tagged),
                (0x88a8, &twice),
                (0x8864, &session),
                (0x8847, &labels),
            ] {
                assert_eq!(placement.worker_of(&frame(protocol, network)), worker, "{protocol:#x}");
            }
            let v6 = |a: [u8; 16], b: [u8; 16]| frame(0x86dd, &[&[0x60; 8][..], &a, &b].concat());
            let (a, b) = ([host; 16], [0x20; 16]);
            assert_eq!(placement.worker_of(&v6(a, b)), placement.worker_of(&v6(b, a)));
        }
        assert!(packets.iter().all(|&count| count > 5), "{packets:?}");
        assert_eq!(placement.worker_of(&frame(0x0806, &[0; 28])), 0, "ARP");
        assert_eq!(placement.worker_of(&frame(0x8100, &[0, 7, 8, 0])[..22]), 0, "cut off");
        assert_eq!(placement.stats(), SourceStats::default());
    }

    /// All places of worker 0 go to worker 1.
    fn empty_first(placement: &Placement) {
        let mut places = Places::new(2);
        (0..200)
            .flat_map(|_| places.look(&[100, 0]))
            .for_each(|(place, worker)| placement.assign(place, worker));
    }

    #[test]
    fn only_new_pairs_follow_a_place() {
        let Some(placement) = placement(2) else { return };
        let homes: Vec<usize> = (0..500).map(|host| placement.worker_of_pair(host)).collect();
        let of_first = homes.iter().filter(|&&home| home == 0).count();
        assert!((150..350).contains(&of_first), "{of_first}");
        empty_first(&placement);
        assert!(
            (0..500).all(|host| placement.worker_of_pair(host) == homes[host as usize]),
            "known pairs stay"
        );
        // One in twenty is mistaken for a known one only if a million are known.
        assert!((500..1000).all(|host| placement.worker_of_pair(host) == 1), "new pairs move");
        let moved = placement.stats().pairs_moved;
        assert!((150..350).contains(&moved), "those whose home is the other worker are not counted: {moved}");
        // The places return; moved pairs stay where they are.
        (0..PLACES).for_each(|place| placement.assign(place, place % 2));
        assert!((500..1000).all(|host| placement.worker_of_pair(host) == 1));
        assert!((0..500).all(|host| placement.worker_of_pair(host) == homes[host as usize]));
        assert!((1000..2000).any(|host| placement.worker_of_pair(host) == 0), "others are at home again");
        assert_eq!(placement.stats(), SourceStats { pairs_moved: moved, ..SourceStats::default() });
    }

    #[test]
    fn pairs_are_forgotten_after_two_periods_without_packets() {
        let Some(placement) = placement(2) else { return };
        let forget = || {
            let mut from = placement.forget(None);
            while let Some(pair) = from {
                from = placement.forget(Some(pair));
            }
        };
        let host = (0..100).find(|&host| placement.worker_of_pair(host) == 0).expect("one of them");
        empty_first(&placement);
        for _ in 0..3 {
            placement.pass_period();
            assert_eq!(placement.worker_of_pair(host), 0, "seen in the period before");
        }
        placement.pass_period();
        placement.pass_period();
        assert_eq!(placement.worker_of_pair(host), 1, "not for two periods: a new pair");
        (2000..6000).for_each(|host| assert_eq!(placement.worker_of_pair(host), 1));
        let moved = placement.stats().pairs_moved;
        (0..PLACES).for_each(|place| placement.assign(place, place % 2));
        for _ in 0..3 {
            placement.pass_period();
            forget();
            assert_eq!(placement.worker_of_pair(host), 1, "seen in the period before, at its new worker");
        }
        placement.pass_period();
        placement.pass_period();
        forget();
        assert!(!placement.moved.next(&mut NO_PAIR.clone()).expect("it can be read"), "the table is empty");
        assert_eq!(placement.worker_of_pair(host), 0, "at home again");
        assert_eq!(placement.stats().pairs_moved, moved);
    }

    /// Pairs beyond the bound stay at home, once and for all.
    #[test]
    fn pairs_that_find_no_room_stay() {
        let Some(placement) = placement(2) else { return };
        (0..MOVED_MAX as u64)
            .for_each(|pair| placement.moved.insert(&[pair << 32 | 1], &[1, 0]).expect("room"));
        let _ = placement.shared.word(PAIRS_MOVED).fetch_add(1, Ordering::Relaxed);
        empty_first(&placement);
        let workers: Vec<usize> = (0..100).map(|host| placement.worker_of_pair(host)).collect();
        let stayed = workers.iter().filter(|&&worker| worker == 0).count();
        assert_eq!(placement.stats().pairs_not_moved, stayed as u64, "each counts once");
        assert!(stayed > 20, "{stayed}");
        placement.moved.remove(&[1]).expect("it is there");
        assert!(
            (0..100).all(|host| placement.worker_of_pair(host) == workers[host as usize]),
            "they are known"
        );
    }
}
