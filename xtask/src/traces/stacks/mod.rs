//! Traces for stacks without programs in the lab: many concurrent flows, large and small packets, with some
//! loss and reordering, so that reassembly has work.
//!
//! This file has the shared parts: turns of flows, losses, receiver state. `conversation.rs` is TCP,
//! `tunnelled.rs` puts it into tunnels; `sctp.rs` and `quic.rs` are protocols of their own.

mod conversation;
pub mod quic;
pub mod sctp;
pub mod tunnelled;

use std::collections::VecDeque;
use std::path::Path;

use crate::shell::Result;
use crate::traces::frame::Trace;
use weir_testing::Random;

/// Size of each trace at scale 1.
const TRACE_BYTES: f64 = 250e6;
/// Interval of frames: full frames every 8 µs are 1.5 Gbit/s.
const STEP_US: u64 = 8;
/// Number of concurrent flows.
const FLOWS: usize = 200;
/// Maximum number of packets that a flow sends per turn.
const TURN_PACKETS_MAX: u64 = 8;

/// One flow, which generates its packets one by one.
trait Flow {
    /// The next frame; `None` at the end of the flow.
    fn next(&mut self, random: &mut Random, filler: &Filler) -> Option<Vec<u8>>;
}

/// Writes the flows' frames in turns; `open` starts a slot's flow, and its successor after its end.
fn record<F: Flow>(
    file: &Path,
    scale: f64,
    seed: u64,
    mut open: impl FnMut(usize, &mut Random) -> F,
) -> Result {
    let mut random = Random::new(seed);
    let filler = Filler::new(&mut random);
    let mut trace = Trace::create(file, STEP_US)?;
    let mut flows: Vec<F> = (0..FLOWS).map(|slot| open(slot, &mut random)).collect();
    while trace.bytes < (TRACE_BYTES * scale) as u64 {
        let slot = random.below(FLOWS as u64) as usize;
        for _ in 0..1 + random.below(TURN_PACKETS_MAX) {
            match flows[slot].next(&mut random, &filler) {
                Some(frame) => trace.put(&frame)?,
                None => flows[slot] = open(slot, &mut random),
            }
        }
    }
    trace.finish()
}

/// Arbitrary bytes, generated once.
struct Filler(Vec<u8>);

impl Filler {
    fn new(random: &mut Random) -> Self {
        Self((0..1 << 16).flat_map(|_| random.bits().to_le_bytes()).collect())
    }

    /// `count` bytes, the same for the same position.
    fn bytes(&self, place: u64, count: usize) -> &[u8] {
        let from = place as usize % (self.0.len() - count);
        &self.0[from..from + count]
    }
}

/// Probabilities of losses and reordering for packets of a flight, in permille.
struct Trouble {
    /// Lost before the recorder: seen only as a retransmission.
    lost: u64,
    /// Overtaken by later packets.
    late: u64,
    /// Lost after the recorder: seen twice.
    again: u64,
}

impl Trouble {
    /// A path on which TCP still performs well.
    const SOME: Self = Self { lost: 4, late: 4, again: 3 };

    /// The flight from the recorder's view.
    fn meet<T: Clone>(&self, flight: Vec<T>, random: &mut Random) -> VecDeque<T> {
        let mut seen: VecDeque<T> = VecDeque::with_capacity(flight.len() + 1);
        // Delayed packets, with the number of packets that overtake them.
        let mut later: Vec<(u64, T)> = vec![];
        for packet in flight {
            let pick = random.below(1000);
            if pick < self.lost {
                later.push((3 + random.below(10), packet));
                continue;
            }
            if pick < self.lost + self.late {
                later.push((1, packet));
                continue;
            }
            if pick < self.lost + self.late + self.again {
                later.push((3 + random.below(10), packet.clone()));
            }
            seen.push_back(packet);
            later.retain_mut(|(behind, packet)| {
                *behind -= 1;
                if *behind == 0 {
                    seen.push_back(packet.clone());
                }
                *behind > 0
            });
        }
        seen.extend(later.into_iter().map(|(_, packet)| packet));
        seen
    }
}

/// The receiver's state: everything below `next`, and out-of-order ranges.
#[derive(Default)]
struct Received {
    next: u64,
    /// Ranges after gaps: start, end; sorted and disjoint.
    early: Vec<(u64, u64)>,
}

impl Received {
    fn take(&mut self, from: u64, to: u64) {
        self.early.push((from, to));
        self.early.sort_unstable();
        let mut apart: Vec<(u64, u64)> = vec![];
        for &(from, to) in &self.early {
            match apart.last_mut() {
                _ if from <= self.next => self.next = self.next.max(to),
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        self.early = apart;
    }
}

#[cfg(test)]
mod tests {
    use super::{Received, Trouble};
    use weir_testing::Random;

    #[test]
    fn what_came_early_counts_once_the_gap_is_filled() {
        let mut received = Received::default();
        for (from, to, next, early) in [(0, 2, 2, 0), (4, 5, 2, 1), (5, 7, 2, 1), (9, 10, 2, 2), (2, 4, 7, 1)]
        {
            received.take(from, to);
            assert_eq!((received.next, received.early.len()), (next, early), "after {from}..{to}");
        }
    }

    #[test]
    fn trouble_loses_nothing_for_good() {
        let trouble = Trouble { lost: 100, late: 100, again: 100 };
        let seen = trouble.meet((0..1000).collect(), &mut Random::new(1));
        let mut kinds: Vec<i32> = seen.iter().copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 1000);
        assert!(seen.len() > 1000 && !seen.iter().is_sorted());
    }
}
