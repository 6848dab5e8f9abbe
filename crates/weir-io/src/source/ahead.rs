//! Packets that were read before their turn, because packets of another input come first.

use std::sync::Arc;
use weir_packet::{Burst, PacketMeta};

/// Packets read ahead, and how many of them were delivered.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    burst: Burst,
    handed_out: usize,
}

impl Ahead {
    /// All packets of `burst`.
    pub fn of(burst: Burst) -> Self {
        Self { burst, handed_out: 0 }
    }

    /// The burst, for reuse of its memory; its packets are valid no more.
    pub fn into_burst(self) -> Burst {
        self.burst
    }

    /// The next packet; `None` if all packets were delivered.
    pub fn next(&self) -> Option<&PacketMeta> {
        self.burst.packets.get(self.handed_out)
    }

    /// Delivers packets: at least one, up to the first that is not `is_before` the turn of others. There must
    /// be a next packet.
    pub fn hand_out(&mut self, is_before: impl Fn(&PacketMeta) -> bool, burst: &mut Burst) {
        let rest = &self.burst.packets[self.handed_out..];
        let count = rest.iter().skip(1).take_while(|packet| is_before(packet)).count() + 1;
        burst.clear();
        burst.extend_from(&self.burst, self.handed_out..self.handed_out + count);
        if !Arc::ptr_eq(&burst.block, &self.burst.block) {
            burst.block = Arc::clone(&self.burst.block);
        }
        self.handed_out += count;
    }
}
