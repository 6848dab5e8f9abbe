//! The part of a pipeline on a worker.

use crate::handlers::isolation::Isolation;
use crate::handlers::worker_pipeline::WorkerPipeline;
use crate::items::item::Item;
use crate::items::pipeline_part::PipelinePart;
use crate::items::yielded::Yielded;
use crate::items::yields::{RowPlace, Yields};
use std::sync::Mutex;
use weir_compile::PacketValue;
use weir_engine::subscriber::SeenPacket;
use weir_packet::PacketMeta;
use weir_pipeline::{Counts, Operator, Signal};

/// Items that wait to be passed on.
const OUT_MAX: usize = 256;

/// Makes items of packets.
pub(crate) trait Feed: Send {
    /// The items.
    type Item<'a>
    where
        Self: 'a;

    /// Finds the values in the records of a program.
    fn find(&mut self, values: &[PacketValue]);

    /// The item of a packet, if it has one.
    fn item<'a>(&'a mut self, meta: &PacketMeta, outs: &[u64]) -> Option<Self::Item<'a>>;
}

/// When operators are told the time, and when what they passed on is reported.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Times {
    /// Not before the end.
    End,
    /// Once for each interval of this length, in nanoseconds.
    Ticks(u64),
    /// The time is told after each burst of packets, and reported once for each interval of this length.
    Bursts(u64),
}

/// A feed, and the operators that take its items.
pub(crate) struct PipelineWorker<F, O, T> {
    pub feed: F,
    pub operator: O,
    pub times: Times,
    /// The interval in which the worker's time was.
    tick: Option<i64>,
    /// The time that the operators were told.
    told: i64,
    /// How often the clock was set.
    restarts: u64,
    /// A packet came.
    has_begun: bool,
    /// The clock was set since the operators were told the time.
    is_set: bool,
    out: Vec<T>,
    /// For operators of a user: catches their panics.
    isolation: Option<Isolation>,
}

impl<F, O, T> PipelineWorker<F, O, T> {
    pub fn new(feed: F, operator: O, times: Times, isolation: Option<Isolation>) -> Self {
        Self {
            feed,
            operator,
            times,
            tick: None,
            told: i64::MIN,
            restarts: 0,
            has_begun: false,
            is_set: false,
            out: vec![],
            isolation,
        }
    }

    /// Passes on what the operators passed on.
    fn pass_on(&mut self, place: RowPlace, counts: Counts, yields: &mut Yields)
    where
        T: Send + 'static,
    {
        let items = Mutex::new(Box::new(std::mem::take(&mut self.out)) as _);
        let (time, restarts) = (self.told, self.restarts);
        let part = PipelinePart { worker: 0, workers: 1, time, restarts, items, counts };
        yields.push(place.order, Yielded::Item(place.question, Item::Pipeline(Box::new(part))));
    }
}

/// Calls operators; those of a user within their isolation.
fn call(isolation: Option<&Isolation>, operators: impl FnOnce()) {
    match isolation {
        Some(isolation) => isolation.call(operators).unwrap_or(()),
        None => operators(),
    }
}

impl<F, O, T> WorkerPipeline for PipelineWorker<F, O, T>
where
    F: Feed,
    O: for<'a> Operator<F::Item<'a>, Out = T> + Send,
    T: Send + 'static,
{
    fn find(&mut self, values: &[PacketValue]) {
        self.feed.find(values);
    }

    #[inline]
    fn packet(&mut self, place: RowPlace, packet: &SeenPacket<'_>, yields: &mut Yields) {
        if !std::mem::replace(&mut self.has_begun, true) && matches!(self.times, Times::Bursts(_)) {
            // Items have a watermark, so that a wrong time of the first one counts for nothing.
            let (operator, out) = (&mut self.operator, &mut self.out);
            call(self.isolation.as_ref(), || signal_of::<F, O, T>(operator, Signal::Time(i64::MIN), out));
        }
        let Some(item) = self.feed.item(packet.meta, packet.outs) else { return };
        let (operator, out) = (&mut self.operator, &mut self.out);
        call(self.isolation.as_ref(), || operator.take(item, out));
        if self.out.len() >= OUT_MAX {
            self.pass_on(place, Counts::new(), yields);
        }
    }

    fn pass_time(&mut self, place: RowPlace, now: i64, yields: &mut Yields) {
        let is_end = now == i64::MAX;
        let mut is_reported = is_end;
        if !is_end {
            let tick_ns = match self.times {
                // Before the first packets are read, the time is not known.
                _ if now == i64::MIN => return,
                Times::End => return,
                Times::Ticks(ns) | Times::Bursts(ns) => ns,
            };
            let tick = now.div_euclid(i64::try_from(tick_ns).unwrap_or(i64::MAX));
            is_reported = self.tick.replace(tick) != Some(tick) || self.is_set;
            if !is_reported && matches!(self.times, Times::Ticks(_)) {
                return;
            }
        }
        let signal = match std::mem::take(&mut self.is_set) {
            _ if is_end => Signal::End,
            true => Signal::Restart(now),
            false => Signal::Time(now),
        };
        self.restarts += u64::from(matches!(signal, Signal::Restart(_)));
        self.told = now;
        let (operator, out) = (&mut self.operator, &mut self.out);
        // An operator is one for each lifetime of the items; the signal does not depend on it.
        call(self.isolation.as_ref(), || signal_of::<F, O, T>(operator, signal, out));
        if is_reported {
            let counts = if is_end { counts_of::<F, O, T>(&self.operator) } else { Counts::new() };
            self.pass_on(place, counts, yields);
        }
    }

    fn step_clock(&mut self, _: i64) {
        self.is_set = true;
    }
}

fn signal_of<'a, F, O, T>(operator: &mut O, signal: Signal, out: &mut Vec<T>)
where
    F: Feed + 'a,
    O: Operator<F::Item<'a>, Out = T>,
{
    Operator::<F::Item<'a>>::signal(operator, signal, out);
}

fn counts_of<'a, F, O, T>(operator: &O) -> Counts
where
    F: Feed + 'a,
    O: Operator<F::Item<'a>, Out = T>,
{
    let mut counts = Counts::new();
    Operator::<F::Item<'a>>::counters(operator, &mut |name, count| {
        *counts.entry(name).or_default() += count;
    });
    counts
}
