//! What a reader meets in its captures beside packets, as others come to know it: who writes pcapng, and who reports.

use super::Interface;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of [carried](Findings::carry) blocks that wait to be written. Beyond them the oldest go, and are
/// counted: [`Found::blocks_lost`].
const CARRIED_BYTES_MAX: usize = 64 << 20;

/// Bytes of memory that a carried block takes beside its own: its place in the queue, and what an allocator adds.
const CARRY_COST: usize = size_of::<Carry>() + 32;

/// What a reader met in its captures, beside packets.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The interfaces, in the order of their numbers in [`PacketMeta::interface`](weir_packet::PacketMeta::interface).
    pub interfaces: Vec<Interface>,
    /// See [`CaptureReader::blocks_skipped`](super::CaptureReader::blocks_skipped).
    pub blocks_skipped: u64,
    /// See [`CaptureReader::interfaces_beyond`](super::CaptureReader::interfaces_beyond).
    pub interfaces_beyond: u64,
    /// See [`CaptureReader::files_late`](super::CaptureReader::files_late).
    pub files_late: u64,
    /// Sections and interfaces of whose options some are not kept: those of one were longer than 64 KiB, or those of all
    /// than 16 MiB, or one claimed more bytes than there were.
    pub options_cut: u64,
    /// Blocks of names and secrets that a writer of pcapng did not write, as more than 64 MiB of them came before its
    /// next packet. A block that two writers lack counts twice.
    pub blocks_lost: u64,
    /// Somebody [follows](Findings::follow) it: what is lost of options is missing in what they write.
    pub is_followed: bool,
}

/// What a reader met so far, shared between it and those who write pcapng of its packets. A clone shows the same.
#[derive(Debug, Clone, Default)]
pub struct Findings(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    found: Mutex<Found>,
    carried: Mutex<Carried>,
    /// Blocks carried so far: who has taken as many needs no look at them.
    came: AtomicU64,
    /// Somebody takes blocks of names and secrets.
    is_asked: AtomicBool,
    lost: AtomicU64,
}

/// Blocks of names and secrets: as many of the last ones as there is room for.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    blocks: VecDeque<Carry>,
    bytes: usize,
    /// Those that went before the first one.
    gone: u64,
}

impl Carried {
    /// A block comes.
    pub(crate) fn push(&mut self, block: Carry) {
        // Of files that overlap a later block may have an earlier place; none is to wait behind another one.
        let behind = |other: &&mut Carry| other.before > block.before;
        self.blocks.iter_mut().rev().take_while(behind).for_each(|other| other.before = block.before);
        self.bytes += block.cost();
        self.blocks.push_back(block);
        while self.bytes > CARRIED_BYTES_MAX
            && let Some(oldest) = self.blocks.pop_front()
        {
            self.bytes -= oldest.cost();
            self.gone += 1;
        }
    }

    /// They stand before this packet, if not before an earlier one.
    pub(crate) fn stand_before(&mut self, packet: u64) {
        self.blocks.iter_mut().for_each(|block| block.before = block.before.min(packet));
    }

    /// All of `other`, which come behind these.
    fn append(&mut self, other: Self) {
        if other.gone > 0 {
            // There was no room for all of these alone.
            self.gone += self.blocks.len() as u64 + other.gone;
            self.blocks.clear();
            self.bytes = 0;
        }
        other.blocks.into_iter().for_each(|block| self.push(block));
    }
}

/// A block of pcapng that is not of packets and tells something about those behind it.
#[derive(Debug)]
pub(crate) struct Carry {
    /// Number of a packet that it must stand before.
    pub before: u64,
    /// The block, little-endian.
    pub bytes: Box<[u8]>,
}

impl Carry {
    /// Bytes of memory that it takes.
    fn cost(&self) -> usize {
        self.bytes.len() + CARRY_COST
    }
}

/// What somebody takes who writes pcapng: what the reader meets from [then](Findings::follow) on.
#[derive(Debug, Clone)]
pub struct Following {
    findings: Findings,
    /// Blocks taken, or gone before.
    taken: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    /// All that was met so far, but for blocks of names and secrets.
    pub fn found(&self) -> Found {
        let blocks_lost = self.0.lost.load(Ordering::Relaxed);
        Found { blocks_lost, is_followed: self.is_asked(), ..locked(&self.0.found).clone() }
    }

    /// The interface of this number.
    pub(crate) fn interface(&self, number: u16) -> Option<Interface> {
        locked(&self.0.found).interfaces.get(usize::from(number)).cloned()
    }

    /// What was met is brought up to date.
    pub(crate) fn tell(&self, tell: impl FnOnce(&mut Found)) {
        tell(&mut locked(&self.0.found));
    }

    /// From now on blocks of names and secrets are kept, for a writer of pcapng that may begin later. Those that are there
    /// are yet to be taken; those that go before it does are lost.
    pub fn follow(&self) -> Following {
        self.0.is_asked.store(true, Ordering::Relaxed);
        Following { findings: self.clone(), taken: locked(&self.0.carried).gone }
    }

    /// Whether blocks of names and secrets are kept.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    /// Blocks come; `coming` is empty then.
    pub(crate) fn carry(&self, coming: &mut Carried) {
        if coming.blocks.is_empty() && coming.gone == 0 {
            return;
        }
        let coming = std::mem::take(coming);
        let came = coming.blocks.len() as u64 + coming.gone;
        locked(&self.0.carried).append(coming);
        self.0.came.fetch_add(came, Ordering::Release);
    }
}

impl Following {
    /// The interface of this number.
    pub(crate) fn interface(&self, number: u16) -> Option<Interface> {
        self.findings.interface(number)
    }

    /// Takes the blocks that stand before this packet.
    ///
    /// # Errors
    /// The first that `each` answers; that block counts as taken.
    pub(crate) fn take_before<E>(
        &mut self,
        packet: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (shared, taken) = (&self.findings.0, &mut self.taken);
        if shared.came.load(Ordering::Acquire) <= *taken {
            return Ok(());
        }
        let carried = locked(&shared.carried);
        if let Some(lost) = carried.gone.checked_sub(*taken) {
            shared.lost.fetch_add(lost, Ordering::Relaxed);
            *taken = carried.gone;
        }
        let next = (*taken - carried.gone) as usize;
        for block in carried.blocks.range(next..).take_while(|block| block.before <= packet) {
            *taken += 1;
            each(&block.bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carry(findings: &Findings, blocks: &[(u64, usize)]) {
        let mut coming = Carried::default();
        blocks
            .iter()
            .for_each(|&(before, length)| coming.push(Carry { before, bytes: vec![0; length].into() }));
        findings.carry(&mut coming);
    }

    fn take(following: &mut Following, packet: u64) -> Vec<usize> {
        let mut lengths = vec![];
        let took = following.take_before(packet, |block| {
            lengths.push(block.len());
            Ok::<_, ()>(())
        });
        took.expect("nothing is wrong");
        lengths
    }

    #[test]
    fn blocks_are_taken_once_and_before_their_packet() {
        let findings = Findings::default();
        assert!(!findings.is_asked());
        let (mut one, mut other) = (findings.follow(), findings.follow());
        assert!(findings.is_asked());
        carry(&findings, &[(1, 10), (5, 20)]);
        carry(&findings, &[(5, 30), (9, 40)]);
        assert_eq!(take(&mut one, 4), [10]);
        assert_eq!(take(&mut one, 5), [20, 30]);
        assert!(take(&mut one, 5).is_empty());
        assert_eq!(take(&mut one, u64::MAX), [40]);
        assert_eq!(take(&mut other, 9), [10, 20, 30, 40], "each takes its own");
        assert_eq!(findings.found().blocks_lost, 0);
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_lost_and_counted() {
        let findings = Findings::default();
        let (mut quick, mut slow) = (findings.follow(), findings.follow());
        for number in 0..5 {
            carry(&findings, &[(number, CARRIED_BYTES_MAX / 4 - CARRY_COST)]);
            assert_eq!(take(&mut quick, number).len(), 1);
        }
        assert_eq!(findings.found().blocks_lost, 0, "who takes them in time loses none");
        assert_eq!(take(&mut slow, 9).len(), 4);
        assert_eq!(findings.found().blocks_lost, 1);
        assert_eq!(take(&mut findings.follow(), 9).len(), 4, "who comes late takes what is there");
        assert_eq!(findings.found().blocks_lost, 1);
    }

    #[test]
    fn so_many_at_a_time_displace_what_waited() {
        let findings = Findings::default();
        let mut taken = findings.follow();
        carry(&findings, &[(1, 10)]);
        carry(&findings, &[(2, CARRIED_BYTES_MAX / 2 - CARRY_COST); 5]);
        assert_eq!(take(&mut taken, 9), [CARRIED_BYTES_MAX / 2 - CARRY_COST; 2]);
        assert_eq!(findings.found().blocks_lost, 4);
        carry(&findings, &[(3, 20)]);
        assert_eq!(take(&mut taken, 9), [20], "places go on behind those that were lost");
    }

    #[test]
    fn a_block_for_which_there_is_no_room_is_counted() {
        let findings = Findings::default();
        let mut following = findings.follow();
        carry(&findings, &[(1, 10)]);
        carry(&findings, &[(2, CARRIED_BYTES_MAX)]);
        carry(&findings, &[(3, 30)]);
        assert_eq!(take(&mut following, 9), [30]);
        assert_eq!(findings.found().blocks_lost, 2);
        let mut many = findings.follow();
        carry(&findings, &vec![(4, 0); CARRIED_BYTES_MAX / CARRY_COST + 9]);
        assert!(take(&mut many, 9).len() <= CARRIED_BYTES_MAX / CARRY_COST, "empty ones take room, too");
    }
}
