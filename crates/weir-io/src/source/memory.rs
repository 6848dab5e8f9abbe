//! A source of packets from memory that is idle at given times: for tests, and for programs that make packets.

use std::collections::VecDeque;
use std::sync::Arc;
use weir_packet::{
    BURST_PACKETS_MAX, Block, Burst, LinkType, PacketMeta, Poll, Source, SourceError, SourceStats, Timestamp,
};

/// A packet in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPacket {
    /// Time of capture.
    pub time: Timestamp,
    /// Link type of `frame`.
    pub link: LinkType,
    /// Length on the wire; at least the length of `frame` is taken.
    pub wire_bytes: u32,
    /// The captured bytes.
    pub frame: Vec<u8>,
}

/// What one poll answers.
#[derive(Debug, Clone)]
enum Step {
    Packets(Vec<MemoryPacket>),
    Idle(Timestamp),
}

impl Step {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Packets(packets) if packets.is_empty())
    }
}

/// Answers its polls with given packets and given idle times, in the given order. Virtual time: it never waits. Copies the
/// bytes of each burst.
#[derive(Debug, Clone, Default)]
pub struct MemorySource {
    steps: VecDeque<Step>,
    spread: Option<fn(&MemoryPacket) -> usize>,
    /// Packets handed out.
    packets: u64,
}

impl MemorySource {
    /// A source that is at its end.
    pub fn new() -> Self {
        Self::default()
    }

    /// It can be split: `spread` numbers the part that a packet is of, modulo their count. Every part is idle where
    /// the whole is.
    #[must_use]
    pub fn split_by(mut self, spread: fn(&MemoryPacket) -> usize) -> Self {
        self.spread = Some(spread);
        self
    }

    /// Then packets come, in bursts as large as possible.
    #[must_use]
    pub fn then_packets(mut self, packets: impl IntoIterator<Item = MemoryPacket>) -> Self {
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            self.steps.push_back(Step::Packets(packets.by_ref().take(BURST_PACKETS_MAX).collect()));
        }
        self
    }

    /// Then no packet waits, and it is `now`.
    #[must_use]
    pub fn then_idle(mut self, now: Timestamp) -> Self {
        self.steps.push_back(Step::Idle(now));
        self
    }
}

impl Source for MemorySource {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        let packets = match self.steps.pop_front() {
            None => return Ok(Poll::End),
            Some(Step::Idle(now)) => return Ok(Poll::Idle { now }),
            Some(Step::Packets(packets)) => packets,
        };
        let mut bytes = vec![];
        for packet in packets {
            self.packets += 1;
            let captured_bytes = packet.frame.len() as u32;
            burst.packets.push(PacketMeta {
                time: packet.time,
                number: self.packets,
                offset: bytes.len() as u32,
                captured_bytes,
                wire_bytes: packet.wire_bytes.max(captured_bytes),
                link: packet.link,
                interface: 0,
            });
            bytes.extend(packet.frame);
        }
        burst.block = Arc::new(Block::shared(bytes));
        Ok(Poll::Packets)
    }

    fn split(&mut self, parts: usize) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let Some(spread) = self.spread else { return Ok(None) };
        let steps = std::mem::take(&mut self.steps);
        let part = |index| {
            let share = |step: &Step| match step {
                Step::Idle(now) => Some(Step::Idle(*now)),
                Step::Packets(packets) => {
                    let own = packets.iter().filter(|packet| spread(packet) % parts == index);
                    Some(Step::Packets(own.cloned().collect())).filter(|step| !step.is_empty())
                }
            };
            let steps = steps.iter().filter_map(share).collect();
            Box::new(Self { steps, spread: None, packets: 0 }) as Box<dyn Source + Send>
        };
        Ok(Some((0..parts).map(part).collect()))
    }

    fn stats(&self) -> SourceStats {
        SourceStats { received: self.packets, dropped: 0 }
    }
}
