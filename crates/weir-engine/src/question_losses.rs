//! What each question has lost in the engine because a bound was reached. The losses of the output of a
//! question are not known here.
//!
//! The counters belong to the question, not to a worker or a plan: they go on when the program of a run is
//! replaced, and whoever asked the question reads them at any time. Workers touch them only when something is
//! lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// The losses of a question, which all workers count.
#[derive(Debug, Default)]
pub struct QuestionLosses {
    undecided_packets: AtomicU64,
    stream_bytes: AtomicU64,
    stream_segments: AtomicU64,
    rows_merged: AtomicU64,
    rows_left_out: AtomicU64,
}

/// The losses of a question at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossCounts {
    /// Packets that the question might have received, given up before their connection was decided or their
    /// datagram was complete, because too many packets were held.
    pub undecided_packets: u64,
    /// Bytes of streams that the question receives, or might have received, discarded because memory was
    /// short.
    pub stream_bytes: u64,
    /// Out-of-order segments of such streams, discarded because memory was short.
    pub stream_segments: u64,
    /// Rows of sessions beyond the allowance of their connection that are part of another row: they equal it
    /// but for times and counters.
    pub rows_merged: u64,
    /// Rows of sessions that were not written. Their connection had already caused as many bytes of rows as
    /// its traffic allows.
    pub rows_left_out: u64,
}

impl LossCounts {
    /// Adds the losses of another question.
    pub fn add(&mut self, other: Self) {
        self.undecided_packets += other.undecided_packets;
        self.stream_bytes += other.stream_bytes;
        self.stream_segments += other.stream_segments;
        self.rows_merged += other.rows_merged;
        self.rows_left_out += other.rows_left_out;
    }
}

impl QuestionLosses {
    /// The losses so far.
    pub fn counts(&self) -> LossCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LossCounts {
            undecided_packets: read(&self.undecided_packets),
            stream_bytes: read(&self.stream_bytes),
            stream_segments: read(&self.stream_segments),
            rows_merged: read(&self.rows_merged),
            rows_left_out: read(&self.rows_left_out),
        }
    }

    pub(crate) fn add_undecided(&self) {
        self.undecided_packets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.stream_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts rows that are part of another one.
    pub fn add_merged(&self, rows: u64) {
        self.rows_merged.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts rows that are left out.
    pub fn add_left_out(&self, rows: u64) {
        self.rows_left_out.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn add_segment(&self) {
        self.stream_segments.fetch_add(1, Ordering::Relaxed);
    }
}
