//! What a worker knows of a pipeline.

use crate::items::yields::{RowPlace, Yields};
use weir_compile::PacketValue;
use weir_engine::subscriber::SeenPacket;

/// The part of a pipeline on a worker, with its types erased.
pub(crate) trait WorkerPipeline: Send {
    /// Finds the values in the records of a program.
    fn find(&mut self, values: &[PacketValue]);

    /// Takes a packet. Results go to the question at `place`.
    fn packet(&mut self, place: RowPlace, packet: &SeenPacket<'_>, yields: &mut Yields);

    /// The worker's time is `now`, in nanoseconds since 1970; `i64::MAX` at the end of the run.
    fn pass_time(&mut self, place: RowPlace, now: i64, yields: &mut Yields);

    /// The machine's clock was set by this many nanoseconds.
    fn step_clock(&mut self, step_ns: i64);
}
