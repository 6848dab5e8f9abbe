//! Pipelines in succession: each method adds an operator.

use crate::counts::{Counts, counts_of};
use crate::each::{Filter, FlatMap, Inspect, Map, Print};
use crate::flows::{FlowHandler, FlowTable};
use crate::group::Group;
use crate::operator::{Each, Operator, Pass, Port, Then};
use crate::queue::Queue;
use crate::reduce::Reduce;
use crate::signal::Signal;
use crate::window::{Tumbling, Window};
use std::hash::Hash;
use std::io::{Stdout, Write};
use std::marker::PhantomData;
use std::time::Duration;

/// A pipeline with one more operator.
pub type Longer<In, O, N> = Pipeline<In, Then<O, N>>;

/// Operators in succession, from items of the type `In` on. A pipeline is an operator, so that pipelines are
/// parts of others.
///
/// ```
/// use std::time::Duration;
/// use weir_pipeline::{Pipeline, Tumbling};
///
/// // Bytes of each port in each second, from 1000 bytes on.
/// let pipeline = Pipeline::<(i64, u16, u64), _>::new()
///     .window(Tumbling::every(Duration::from_secs(1)).unwrap(), |(time, ..)| *time)
///     .reduce(|(_, port, _)| *port, || 0, |bytes, (.., len)| *bytes += len)
///     .filter(|port| port.state >= 1000)
///     .map(|port| (port.window.unwrap().0, port.key, port.state));
/// let packets = [(0, 80, 900), (5, 443, 1400), (7, 80, 600), (1_000_000_000, 80, 70)];
/// assert_eq!(pipeline.collect(packets), [(0, Some(80), 1500), (0, Some(443), 1400)]);
/// ```
pub struct Pipeline<In, O> {
    operator: O,
    input: PhantomData<fn(In)>,
}

impl<In, O: Clone> Clone for Pipeline<In, O> {
    fn clone(&self) -> Self {
        Self { operator: self.operator.clone(), input: PhantomData }
    }
}

impl<In, O> std::fmt::Debug for Pipeline<In, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl<In> Pipeline<In, Pass> {
    /// A pipeline that passes on what it takes.
    pub fn new() -> Self {
        Self { operator: Pass, input: PhantomData }
    }
}

impl<In> Default for Pipeline<In, Pass> {
    fn default() -> Self {
        Self::new()
    }
}

impl<In, O: Operator<In>> Pipeline<In, O> {
    /// Adds any operator.
    pub fn then<N: Operator<O::Out>>(self, next: N) -> Longer<In, O, N> {
        Pipeline { operator: Then { first: self.operator, second: next }, input: PhantomData }
    }

    /// Passes on items for which `keep` is true.
    pub fn filter<F: FnMut(&O::Out) -> bool>(self, keep: F) -> Longer<In, O, Filter<F>> {
        self.then(Filter(keep))
    }

    /// Passes on what `make` makes of each item.
    pub fn map<U, F: FnMut(O::Out) -> U>(self, make: F) -> Longer<In, O, Map<F>> {
        self.then(Map(make))
    }

    /// Passes on the items that `make` makes of each item; an `Option` has at most one.
    pub fn flat_map<I: IntoIterator, F: FnMut(O::Out) -> I>(self, make: F) -> Longer<In, O, FlatMap<F>> {
        self.then(FlatMap(make))
    }

    /// Shows each item to `look`.
    pub fn inspect<F: FnMut(&O::Out)>(self, look: F) -> Longer<In, O, Inspect<F>> {
        self.then(Inspect(look))
    }

    /// Divides items into [windows](Window); `time` says the time of an item, in nanoseconds since 1970.
    pub fn window<F: FnMut(&O::Out) -> i64>(
        self,
        windows: Tumbling,
        time: F,
    ) -> Longer<In, O, Window<O::Out, F>> {
        self.then(Window::new(windows, time))
    }

    /// Keeps [a state for each key](Reduce), which begins with what `begin` makes and to which `add` adds
    /// each item.
    pub fn reduce<K, S, G, B, F>(self, key: G, begin: B, add: F) -> Longer<In, O, Reduce<K, S, G, B, F>>
    where
        K: Hash + Eq,
        G: FnMut(&O::Out) -> K,
        B: FnMut() -> S,
        F: FnMut(&mut S, O::Out),
    {
        self.then(Reduce::new(key, begin, add))
    }

    /// Collects up to `items_max` [items of a key](Group).
    pub fn group<K, G>(self, items_max: usize, key: G) -> Longer<In, O, Group<K, O::Out, G>>
    where
        K: Hash + Eq + Clone,
        G: FnMut(&O::Out) -> K,
    {
        self.then(Group::new(items_max, key))
    }

    /// Calls a handler for the items of [each flow](FlowTable), which ends after this time without items.
    pub fn flows<H: FlowHandler<O::Out>>(
        self,
        idle: Duration,
        handler: H,
    ) -> Longer<In, O, FlowTable<H::Key, H::State, H>> {
        self.then(FlowTable::new(idle, handler))
    }

    /// Writes each item to the standard output, as a line.
    pub fn print(self) -> Longer<In, O, Print<Stdout>>
    where
        O::Out: std::fmt::Display,
    {
        self.print_to(std::io::stdout())
    }

    /// Writes each item to this output, as a line.
    pub fn print_to<W: Write>(self, to: W) -> Longer<In, O, Print<W>>
    where
        O::Out: std::fmt::Display,
    {
        self.then(Print::to(to))
    }

    /// The rest of the pipeline runs on a thread of its own, behind [a queue](Queue) with room for `capacity`
    /// items.
    pub fn queue<R>(self, capacity: usize, rest: R) -> Longer<In, O, Queue<O::Out>>
    where
        O::Out: Send + 'static,
        R: Operator<O::Out> + Send + 'static,
    {
        self.then(Queue::new(capacity, rest))
    }

    /// Runs the pipeline: what it passes on goes to `out`.
    pub fn run_into<P: Port<O::Out>>(self, out: P) -> Running<In, O, P> {
        Running { operator: self.operator, out, input: PhantomData }
    }

    /// Runs the pipeline over these items, to the end; `each` receives what it passes on.
    pub fn for_each(self, items: impl IntoIterator<Item = In>, each: impl FnMut(O::Out)) {
        let mut running = self.run_into(Each(each));
        items.into_iter().for_each(|item| running.put(item));
        running.finish();
    }

    /// Runs the pipeline over these items, to the end. Returns all that it passes on.
    pub fn collect(self, items: impl IntoIterator<Item = In>) -> Vec<O::Out> {
        let mut running = self.run_into(vec![]);
        items.into_iter().for_each(|item| running.put(item));
        running.finish()
    }
}

impl<In, O: Operator<In>> Operator<In> for Pipeline<In, O> {
    type Out = O::Out;

    #[inline]
    fn take(&mut self, item: In, out: &mut impl Port<O::Out>) {
        self.operator.take(item, out);
    }

    #[inline]
    fn signal(&mut self, signal: Signal, out: &mut impl Port<O::Out>) {
        self.operator.signal(signal, out);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.operator.counters(tell);
    }
}

/// A pipeline that runs: a port for its items.
pub struct Running<In, O, P> {
    operator: O,
    out: P,
    input: PhantomData<fn(In)>,
}

impl<In, O, P> std::fmt::Debug for Running<In, O, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl<In, O: Operator<In>, P: Port<O::Out>> Running<In, O, P> {
    /// Ends the pipeline. Returns the port that received what it passed on.
    pub fn finish(mut self) -> P {
        self.operator.signal(Signal::End, &mut self.out);
        self.out
    }

    /// What the bounds of the operators cut off so far; of a part behind a queue, once the pipeline has
    /// ended.
    pub fn counts(&self) -> Counts {
        counts_of(|tell| self.operator.counters(tell))
    }

    /// The port that receives what the pipeline passes on.
    pub fn out(&mut self) -> &mut P {
        &mut self.out
    }
}

impl<In, O: Operator<In>, P: Port<O::Out>> Port<In> for Running<In, O, P> {
    #[inline]
    fn put(&mut self, item: In) {
        self.operator.take(item, &mut self.out);
    }

    fn signal(&mut self, signal: Signal) {
        self.operator.signal(signal, &mut self.out);
    }
}
