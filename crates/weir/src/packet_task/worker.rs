//! A task on a worker.

use super::values::TaskValues;
use crate::ask::question::Question;
use crate::handlers::worker_pipeline::WorkerPipeline;
use crate::items::task_rows::TaskRows;
use crate::items::yields::{RowPlace, Yields};
use crate::pipeline::packet_question;
use crate::rows::values::{Part, Place, fill};
use std::borrow::Cow;
use std::sync::Arc;
use weir_compile::PacketValue;
use weir_engine::subscriber::SeenPacket;
use weir_packet::PacketMeta;

/// Takes the packets of a question on one worker. Each worker has its own, which may move to another thread
/// between two calls.
pub trait PacketTask: Send {
    /// Takes a packet.
    fn packet(&mut self, packet: &TaskPacket<'_>, rows: &mut TaskRows<'_>);

    /// The worker's time is `now`, in nanoseconds since 1970: called after each burst of packets, and while
    /// no packets arrive. `i64::MAX` at the end of the run, `i64::MIN` before the first time is known.
    fn pass_time(&mut self, now: i64, rows: &mut TaskRows<'_>);

    /// The machine's clock was set by this many nanoseconds.
    fn step_clock(&mut self, step_ns: i64);
}

/// A packet of a task.
#[derive(Debug)]
pub struct TaskPacket<'a> {
    /// Capture time, number and lengths.
    pub meta: &'a PacketMeta,
    /// The words of the fields: see [`TaskField::words`](super::TaskField::words).
    pub words: &'a [u64],
    /// A bit for each field that the packet has.
    pub known: u64,
    /// The key, and the index of its [layout](super::KeyLayout::tables). `None` if the task states no key, or
    /// the packet has none.
    pub key: Option<(usize, &'a [u8])>,
    /// The ends of the packet were exchanged in the key, which is the same for both directions.
    pub is_swapped: bool,
    seen: &'a SeenPacket<'a>,
}

impl<'a> TaskPacket<'a> {
    /// The captured bytes as they were on the wire. Copied only if a VLAN tag is restored.
    pub fn frame(&self) -> Cow<'a, [u8]> {
        self.seen.frame()
    }
}

/// A task, and the places of its values in the records of a program.
struct TaskWorker {
    values: Arc<TaskValues>,
    task: Box<dyn PacketTask>,
    columns: usize,
    key_places: Vec<Place>,
    places: Vec<Place>,
    key_words: Vec<u64>,
    words: Vec<u64>,
    key: Vec<u8>,
}

impl WorkerPipeline for TaskWorker {
    fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        let mut places: Vec<Place> = self.values.parts().map(place).collect();
        let of_key = self.values.key().map_or(0, |key| key.has_parts());
        self.places = places.split_off(of_key);
        self.key_places = places;
    }

    #[inline]
    fn packet(&mut self, place: RowPlace, packet: &SeenPacket<'_>, yields: &mut Yields) {
        let Self { values, task, key_words, words, key, .. } = self;
        let known = fill(&self.places, words, packet.outs);
        let of_key = fill(&self.key_places, key_words, packet.outs);
        let written = values.key().and_then(|layout| layout.write(key_words, of_key, key));
        let packet = TaskPacket {
            meta: packet.meta,
            words,
            known,
            key: written.map(|(table, _)| (table, key.as_slice())),
            is_swapped: written.is_some_and(|(_, is_swapped)| is_swapped),
            seen: packet,
        };
        task.packet(&packet, &mut TaskRows::of(place, yields, self.columns));
    }

    fn pass_time(&mut self, place: RowPlace, now: i64, yields: &mut Yields) {
        self.task.pass_time(now, &mut TaskRows::of(place, yields, self.columns));
    }

    fn step_clock(&mut self, step_ns: i64) {
        self.task.step_clock(step_ns);
    }
}

impl TaskValues {
    /// The question whose packets are taken by tasks: `make` makes that of each worker. Their rows have this
    /// number of columns.
    ///
    /// # Errors
    /// If the values are more than a program has room for.
    pub fn question(
        &self,
        filter: &str,
        columns: usize,
        make: impl Fn() -> Box<dyn PacketTask> + Send + Sync + 'static,
    ) -> Result<Question, String> {
        let values = Arc::new(self.clone());
        let of_workers = Arc::clone(&values);
        let make = move || {
            let values = Arc::clone(&of_workers);
            let key_words = vec![0; values.key().map_or(0, |key| key.words())];
            let (words, task) = (vec![0; values.words()], make());
            let (key_places, places, key) = (vec![], vec![], vec![]);
            Box::new(TaskWorker { values, task, columns, key_places, places, key_words, words, key }) as _
        };
        packet_question(filter, values.parts(), make)
    }
}
