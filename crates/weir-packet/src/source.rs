//! Packet sources: the trait, its statistics, and the one error type of reading packets.

use crate::{Burst, KernelFilters, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A source of packets: a capture file, standard input, an interface.
pub trait Source {
    /// Replaces the packets of `burst` and their extras by the next ones, at most
    /// [`BURST_PACKETS_MAX`](crate::BURST_PACKETS_MAX), all in one block. `burst` has packets exactly if the
    /// result is [`Poll::Packets`].
    ///
    /// A live source returns [`Poll::Idle`] instead of blocking, after a short wait of its own: the run loop
    /// then advances time, flushes rows, and checks for changed questions. A source that blocks instead
    /// delays all of these.
    ///
    /// # Errors
    /// Earlier calls have delivered the packets before the fault. After an error the source continues with
    /// the next file, if it has one; otherwise it returns [`Poll::End`].
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError>;

    /// Splits the source into `parts` sources, one per worker, which polls its part on its own thread.
    /// `None`: the source cannot be split, such as a capture file; one thread reads it and dispatches its
    /// packets. Called before the first poll.
    ///
    /// All packets between two hosts, in both directions and with all fragments, must come from the same
    /// part. If the two hosts have had no packet for longer than `idle_max`, they may get another part: no
    /// flow of theirs is left. `None`: some flows last as long as the run. A source that was split is at its
    /// end, and its own [`stats`](Self::stats) exclude those of its parts.
    ///
    /// # Errors
    /// If a part cannot be opened.
    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let _ = (parts, idle_max);
        Ok(None)
    }

    /// Passes the filters of the questions to the source, which may discard packets that they do not pass,
    /// and counts these packets ([`SourceStats::filtered`]). `None`: every packet is needed. Filters may
    /// change during the run. A source that cannot discard packets early ignores them.
    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        let _ = filters;
    }

    /// Packets received and dropped so far, as counted by the source itself. All zero for files, which drop
    /// nothing.
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    /// The nanoseconds by which the machine's clock was set, forward (positive) or back, between the packets
    /// of the last poll and those before; usually 0. Each step is reported once. Files have no clock.
    fn clock_step(&mut self) -> i64 {
        0
    }

    /// The time that all packets have reached, for a source that leaves packets out and keeps the clock of
    /// all of them: the last poll's packets belong to one tick of this clock, and so does an idle time.
    /// `None`: the packets of the source set the clock. Runs with several workers ignore this time.
    fn clock(&self) -> Option<Timestamp> {
        None
    }

    /// Bytes read so far, and the total if known, for a progress bar.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}

/// The result of [`Source::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// The burst has at least one packet.
    Packets,
    /// No packet waits. More may come.
    Idle {
        /// A time that the traffic has reached, on the clock that stamps the packets. Earlier packets may
        /// still follow. [`Timestamp::MIN`] if the source knows no time without packets, such as a regular
        /// file.
        now: Timestamp,
    },
    /// No packet will follow.
    End,
}

/// The counters of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Packets that reached the source, filtered and dropped ones included.
    pub received: u64,
    /// Packets that no question needs, discarded before they cost anything.
    pub filtered: u64,
    /// Bytes of those packets.
    pub filtered_bytes: u64,
    /// Packets that the kernel counted for connections of which nothing more is wanted, and discarded.
    pub counted: u64,
    /// Bytes of those packets.
    pub counted_bytes: u64,
    /// Packets that found the ring between the kernel, or the device, and the source full.
    pub ring_full: u64,
    /// Packets for which there was no free memory to receive into.
    pub no_buffer: u64,
    /// Packets that the kernel could not pass for other reasons, such as their length.
    pub refused: u64,
    /// Packets whose description by the kernel is invalid.
    pub invalid: u64,
    /// Packets that the device received with an error, such as a wrong checksum of the frame. Only devices
    /// that are captured without the kernel count them here.
    pub damaged: u64,
    /// Packets that network cards dropped before the kernel saw them. They are not among those `received`,
    /// and not all of them would have been for this source.
    pub card_dropped: u64,
    /// Packets that a sender of datagrams has sent, and that did not arrive, or not in time.
    pub missing: u64,
    /// Packets that left the ring of a recorder before they were read.
    pub overtaken: u64,
    /// Copies of packets ([`Copies`](crate::Copies)) that were counted.
    pub copies: u64,
    /// Copies of packets that were left out.
    pub copies_removed: u64,
    /// What became of datagrams, if packets come in datagrams.
    pub datagrams: DatagramStats,
    /// How often the kernel got another part of a split source for new pairs of hosts with some hash, because
    /// a part fell behind.
    pub places_moved: u64,
    /// Pairs of hosts that were assigned to another part than the one selected by their hash, because that
    /// part fell behind.
    pub pairs_moved: u64,
    /// Pairs of hosts that stayed on a part that fell behind, because too many had been moved.
    pub pairs_not_moved: u64,
}

impl SourceStats {
    /// Adds the counters of another source.
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.filtered += other.filtered;
        self.filtered_bytes += other.filtered_bytes;
        self.counted += other.counted;
        self.counted_bytes += other.counted_bytes;
        self.ring_full += other.ring_full;
        self.no_buffer += other.no_buffer;
        self.refused += other.refused;
        self.invalid += other.invalid;
        self.damaged += other.damaged;
        self.card_dropped += other.card_dropped;
        self.missing += other.missing;
        self.overtaken += other.overtaken;
        self.copies += other.copies;
        self.copies_removed += other.copies_removed;
        self.datagrams.add(other.datagrams);
        self.places_moved += other.places_moved;
        self.pairs_moved += other.pairs_moved;
        self.pairs_not_moved += other.pairs_not_moved;
    }

    /// Packets that the kernel discarded although nothing was lost, and their bytes.
    pub fn discarded(&self) -> [u64; 2] {
        [self.filtered + self.counted, self.filtered_bytes + self.counted_bytes]
    }

    /// Packets that the source dropped before a burst could take them, by reason: the name of the counter,
    /// its value, and one sentence about it.
    pub fn losses(&self) -> [(&'static str, u64, &'static str); 7] {
        let Self { ring_full, no_buffer, refused, invalid, damaged, missing, overtaken, .. } = *self;
        [
            ("source_ring_full", ring_full, "The ring between the kernel, or the device, and Weir was full."),
            ("source_no_buffer", no_buffer, "There was no free memory to receive into."),
            (
                "source_refused",
                refused,
                "The kernel could not pass the packet, for instance because of its length.",
            ),
            ("source_invalid", invalid, "The kernel's description of the packet was invalid."),
            ("source_damaged", damaged, "The device received the packet with an error."),
            ("source_missing", missing, "The packet was sent over UDP, and did not arrive, or not in time."),
            ("source_overtaken", overtaken, "The packet left the ring of a recorder before it was read."),
        ]
    }

    /// Packets that the source dropped before a burst could take them, for any reason. Those that network
    /// cards dropped are not among them.
    pub fn dropped(&self) -> u64 {
        self.losses().iter().map(|(_, count, _)| count).sum()
    }
}

/// What became of the datagrams that bring packets. Packets that are lost with datagrams are
/// [missing](SourceStats::missing).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramStats {
    /// Datagrams that arrived again.
    pub repeated: u64,
    /// Datagrams that arrived after their packets were given up as missing.
    pub late: u64,
    /// Datagrams of another form, or that contradict themselves.
    pub invalid: u64,
    /// Datagrams that the kernel dropped because the socket's buffer was full.
    pub dropped: u64,
    /// Streams of senders that were forgotten because there were too many.
    pub streams_forgotten: u64,
}

impl DatagramStats {
    /// Adds the counters of another source.
    pub fn add(&mut self, other: Self) {
        self.repeated += other.repeated;
        self.late += other.late;
        self.invalid += other.invalid;
        self.dropped += other.dropped;
        self.streams_forgotten += other.streams_forgotten;
    }

    /// The counters: the name of each, its value, and one sentence about it.
    pub fn counters(&self) -> [(&'static str, u64, &'static str); 5] {
        let Self { repeated, late, invalid, dropped, streams_forgotten } = *self;
        [
            ("datagrams_repeated", repeated, "The datagram arrived again."),
            ("datagrams_late", late, "The datagram arrived after its packets were given up as missing."),
            ("datagrams_invalid", invalid, "The datagram has another form, or contradicts itself."),
            ("datagrams_dropped", dropped, "The buffer of the socket was full."),
            (
                "streams_forgotten",
                streams_forgotten,
                "There were too many senders: one of them was forgotten.",
            ),
        ]
    }
}

/// The kind of a source's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// The file cannot be opened or read.
    Io,
    /// The file is not a capture in a known format.
    NotACapture,
    /// The file ends inside a record.
    Truncated,
    /// A record contradicts itself or its file.
    Corrupt,
    /// A kind of file or record that is not supported.
    Unsupported,
}

/// The place of an error, in the source's own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlace {
    /// A record of a capture.
    Capture {
        /// The file as the user named it; `-` for standard input.
        file: String,
        /// Packets of this file that were read before.
        packets_before: u64,
        /// Offset of the faulty record in the uncompressed file, bytes.
        offset_bytes: u64,
    },
    /// A network interface.
    Interface {
        /// The system's name of the interface.
        name: String,
    },
}

/// Where and why reading packets stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The kind of error.
    pub kind: SourceErrorKind,
    /// The place of the error.
    pub place: SourcePlace,
    /// The cause, and a remedy if there is one.
    pub message: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, place, message } = self;
        match (place, kind) {
            (SourcePlace::Interface { name }, _) => write!(f, "{name}: {message}"),
            (
                SourcePlace::Capture { file, packets_before: 0, .. },
                SourceErrorKind::Io | SourceErrorKind::NotACapture,
            ) => write!(f, "{file}: {message}"),
            (SourcePlace::Capture { file, packets_before, offset_bytes }, _) => {
                write!(f, "{file}: after packet {packets_before}, byte {offset_bytes}: {message}")
            }
        }
    }
}

impl std::error::Error for SourceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_the_place_as_their_source_names_it() {
        let print = |kind, place| SourceError { kind, place, message: "no".to_string() }.to_string();
        let capture = |packets_before| SourcePlace::Capture {
            file: "x.pcap".to_string(),
            packets_before,
            offset_bytes: 24,
        };
        assert_eq!(print(SourceErrorKind::Io, capture(0)), "x.pcap: no");
        assert_eq!(print(SourceErrorKind::Io, capture(1)), "x.pcap: after packet 1, byte 24: no");
        assert_eq!(print(SourceErrorKind::Corrupt, capture(0)), "x.pcap: after packet 0, byte 24: no");
        let interface = SourcePlace::Interface { name: "eth0".to_string() };
        assert_eq!(print(SourceErrorKind::Truncated, interface), "eth0: no");
    }
}
