//! What receivers count.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_packet::{DatagramStats, SourceStats};

/// Numbers of a hostile sender stay below this, so that sums of them never overflow.
const COUNT_MAX: u64 = 1 << 56;

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What the receivers of a run have counted.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ArrivalCounts {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        /// What the receivers of a run count, shared with those who report the counts.
        #[derive(Debug, Default)]
        pub struct Arrivals {
            $($name: AtomicU64,)*
        }

        impl Arrivals {
            /// The counts so far.
            pub fn counts(&self) -> ArrivalCounts {
                ArrivalCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }

            /// Adds counts; no count exceeds 2⁵⁶.
            pub fn add(&self, more: &ArrivalCounts) {
                $(if more.$name > 0 {
                    let sum = |before: u64| Some(before.saturating_add(more.$name).min(COUNT_MAX));
                    // The update always has a value.
                    let _ = self.$name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
                })*
            }
        }
    };
}

counts! {
    /// Packets that were received.
    packets,
    /// Packets that a sender has sent, and that did not arrive, or not in time.
    packets_missing,
    /// Datagrams that arrived again.
    datagrams_repeated,
    /// Datagrams that arrived after their packets were given up as missing.
    datagrams_late,
    /// Datagrams of another form, or that contradict themselves.
    datagrams_invalid,
    /// Datagrams that the kernel dropped because the socket's buffer was full. Their packets are among those
    /// missing.
    datagrams_dropped,
    /// Streams that were forgotten because there were too many: losses between them and their next datagram
    /// are not noticed.
    streams_forgotten,
}

impl ArrivalCounts {
    /// The counters of a source that receives these packets.
    pub fn stats(&self) -> SourceStats {
        let datagrams = DatagramStats {
            repeated: self.datagrams_repeated,
            late: self.datagrams_late,
            invalid: self.datagrams_invalid,
            dropped: self.datagrams_dropped,
            streams_forgotten: self.streams_forgotten,
        };
        let missing = self.packets_missing;
        SourceStats { received: self.packets + missing, missing, datagrams, ..SourceStats::default() }
    }

    /// Adds to the packets that are missing.
    pub(crate) fn miss(&mut self, packets: u64) {
        self.packets_missing = self.packets_missing.saturating_add(packets).min(COUNT_MAX);
    }
}
