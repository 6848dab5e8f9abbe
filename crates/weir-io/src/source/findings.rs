//! Metadata that a reader finds in captures besides packets, for writers of pcapng and for reports.

use super::Interface;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit of bytes of [carried](Findings::carry) blocks that wait to be written. Beyond it, the oldest are
/// dropped and counted: [`Found::blocks_lost`].
const CARRIED_BYTES_MAX: usize = 64 << 20;

/// Bytes of memory that a carried block uses besides its own: its queue entry, and the allocator's overhead.
const CARRY_COST: usize = size_of::<Carry>() + 32;

/// Metadata that a reader found in its captures, besides packets.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The interfaces, in the order of their numbers in
    /// [`PacketMeta::interface`](weir_packet::PacketMeta::interface).
    pub interfaces: Vec<Interface>,
    /// See [`CaptureReader::blocks_skipped`](super::CaptureReader::blocks_skipped).
    pub blocks_skipped: u64,
    /// See [`CaptureReader::interfaces_beyond`](super::CaptureReader::interfaces_beyond).
    pub interfaces_beyond: u64,
    /// See [`CaptureReader::files_late`](super::CaptureReader::files_late).
    pub files_late: u64,
    /// Captures that begin inside a file, behind another one, as `cat a.pcap b.pcap` writes them. They are
    /// read.
    pub captures_joined: u64,
    /// Packets whose times are beyond the range of [`Timestamp`](weir_packet::Timestamp), the years 1677 to
    /// 2262. They have the time of the packet before.
    pub times_beyond: u64,
    /// Sections and interfaces that lost options: those of one exceeded 64 KiB, or those of all exceeded 16
    /// MiB, or one claimed more bytes than there were.
    pub options_cut: u64,
    /// Blocks of names and secrets that a pcapng writer did not write, because more than 64 MiB of them came
    /// before its next packet. A block that two writers miss counts twice.
    pub blocks_lost: u64,
    /// A writer [follows](Findings::follow) the findings, so lost options are missing in its output.
    pub is_followed: bool,
}

/// What a reader counts besides packets, in the terms of [`Found`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub blocks_skipped: u64,
    pub interfaces_beyond: u64,
    pub files_late: u64,
    pub options_cut: u64,
    pub captures_joined: u64,
    pub times_beyond: u64,
}

impl Counts {
    /// What was counted since there were `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            blocks_skipped: self.blocks_skipped - before.blocks_skipped,
            interfaces_beyond: self.interfaces_beyond - before.interfaces_beyond,
            files_late: self.files_late - before.files_late,
            options_cut: self.options_cut - before.options_cut,
            captures_joined: self.captures_joined - before.captures_joined,
            times_beyond: self.times_beyond - before.times_beyond,
        }
    }
}

impl Found {
    /// Adds what was counted.
    pub(crate) fn add(&mut self, counts: Counts) {
        self.blocks_skipped += counts.blocks_skipped;
        self.interfaces_beyond += counts.interfaces_beyond;
        self.files_late += counts.files_late;
        self.options_cut += counts.options_cut;
        self.captures_joined += counts.captures_joined;
        self.times_beyond += counts.times_beyond;
    }
}

/// The findings of a reader so far, shared with the pcapng writers of its packets. Clones share the same
/// data.
#[derive(Debug, Clone, Default)]
pub struct Findings(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    found: Mutex<Found>,
    carried: Mutex<Carried>,
    /// Number of blocks carried so far: a writer that has taken this many need not look at them.
    came: AtomicU64,
    /// A writer takes blocks of names and secrets.
    is_asked: Arc<AtomicBool>,
    lost: AtomicU64,
}

/// The most recent blocks of names and secrets, within the limit.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    blocks: VecDeque<Carry>,
    bytes: usize,
    /// Number of blocks dropped before the first one.
    gone: u64,
}

impl Carried {
    /// Adds a block.
    pub(crate) fn push(&mut self, block: Carry) {
        // If files overlap in time, a later block may have an earlier place; no block may wait behind another
        // one.
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

    /// Moves all blocks before this packet, whose number belongs to the whole input.
    pub(crate) fn renumber(&mut self, packet: u64) {
        self.blocks.iter_mut().for_each(|block| block.before = packet);
    }

    /// Moves the blocks before this packet, unless they are before an earlier one.
    pub(crate) fn stand_before(&mut self, packet: u64) {
        self.blocks.iter_mut().for_each(|block| block.before = block.before.min(packet));
    }

    /// Appends all of `other`.
    fn append(&mut self, other: Self) {
        if other.gone > 0 {
            // The limit did not even suffice for all of `other`.
            self.gone += self.blocks.len() as u64 + other.gone;
            self.blocks.clear();
            self.bytes = 0;
        }
        other.blocks.into_iter().for_each(|block| self.push(block));
    }
}

/// A pcapng block with metadata for the packets after it.
#[derive(Debug)]
pub(crate) struct Carry {
    /// Number of the packet that the block must precede.
    pub before: u64,
    /// The block, little-endian.
    pub bytes: Box<[u8]>,
}

impl Carry {
    /// Bytes of memory that the block uses.
    fn cost(&self) -> usize {
        self.bytes.len() + CARRY_COST
    }
}

/// The position of a pcapng writer in the findings: it receives the blocks found [after](Findings::follow)
/// its creation.
#[derive(Debug, Clone)]
pub struct Following {
    findings: Findings,
    /// Blocks taken, or dropped before that.
    taken: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    /// All findings so far, except blocks of names and secrets.
    pub fn found(&self) -> Found {
        let blocks_lost = self.0.lost.load(Ordering::Relaxed);
        Found { blocks_lost, is_followed: self.is_asked(), ..locked(&self.0.found).clone() }
    }

    /// Findings of a part of the input, kept for the writers of the whole.
    pub(crate) fn of_part(&self) -> Self {
        Self(Arc::new(Shared { is_asked: Arc::clone(&self.0.is_asked), ..Shared::default() }))
    }

    /// Removes and returns the blocks that are kept.
    pub(crate) fn take_carried(&self) -> Carried {
        std::mem::take(&mut locked(&self.0.carried))
    }

    /// Adds an interface behind those found so far.
    pub fn add_interface(&self, interface: Interface) {
        self.tell(|found| found.interfaces.push(interface));
    }

    /// The interface with this number.
    pub fn interface(&self, number: u16) -> Option<Interface> {
        locked(&self.0.found).interfaces.get(usize::from(number)).cloned()
    }

    /// Updates the findings.
    pub(crate) fn tell(&self, tell: impl FnOnce(&mut Found)) {
        tell(&mut locked(&self.0.found));
    }

    /// Keeps blocks of names and secrets from now on, for a pcapng writer that may begin later. Blocks that
    /// are kept already are delivered to it; blocks dropped before it takes them are lost.
    pub fn follow(&self) -> Following {
        self.0.is_asked.store(true, Ordering::Relaxed);
        Following { findings: self.clone(), taken: locked(&self.0.carried).gone }
    }

    /// Whether blocks of names and secrets are kept.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    /// Takes the blocks of `coming`, which is empty afterwards.
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
    /// The position of another writer, which begins now.
    #[must_use]
    pub fn anew(&self) -> Self {
        self.findings.follow()
    }

    /// The interface with this number.
    pub(crate) fn interface(&self, number: u16) -> Option<Interface> {
        self.findings.interface(number)
    }

    /// Takes the blocks that precede this packet.
    ///
    /// # Errors
    /// The first error of `each`; its block counts as taken.
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
