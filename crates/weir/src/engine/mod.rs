//! The engine: subscriptions with a filter and a callback or handler for matching data. Several subscriptions
//! share one program, and one pass over the packets.
//!
//! ```no_run
//! use weir::Engine;
//! use weir::sessions::tls::TlsHandshake;
//!
//! let mut engine = Engine::new();
//! engine
//!     .subscribe("tls.sni matches \"[.]com$\"", |hello: &TlsHandshake| {
//!         println!("{}", hello.server_name().unwrap_or_default());
//!     })
//!     .expect("the filter is right");
//! let mut source = weir::io::CaptureReader::open(&["capture.pcap"]);
//! let outcome = engine.run(&mut source, 1).expect("the filters are right");
//! assert!(outcome.errors.is_empty());
//! ```
//!
//! | data | type | when |
//! |---|---|---|
//! | a packet of matching traffic | [`Frame`] | in capture order, once it is known to match |
//! | a session: TLS handshake, HTTP exchange … | its type in [`sessions`](crate::sessions) | when it is complete |
//! | all sessions of a type in a connection | [`SessionsOf`] | when the connection ends |
//! | a connection's record | [`Connection`](crate::Connection) | when the connection ends |
//! | user-defined state of a connection | a type that implements [`Track`] | when it ends, or [at intervals](Every) |
//! | a stream's bytes in order, as packets bring them, or in chunks | [`Segment`], [`StreamChunk`] | as they arrive |
//! | an event of the stack, if its own columns match | [`EventRow`] | after its packet was processed |
//! | the identity of the connection | [`Flow`] | with any of the others except packets and events |
//! | a stream's bytes in order | [`StreamHandler`](crate::stream::StreamHandler) | as they arrive, on the worker |
//!
//! A callback takes up to three of these. Callbacks run on the thread that called [`Engine::run`], in capture
//! order, whatever the number of workers. They may therefore borrow, and need no locks. Code that runs on the
//! workers is a [handler](Engine::subscribe_handler): one per worker, merged at the end.
//!
//! A panic in a callback or handler loses the result of that call only. It is caught and
//! [counted](Outcome::callback_panics), and the run continues, also for the same subscription: code that
//! keeps state must leave it usable when it panics. After [100](crate::CALLBACK_PANICS_MAX) panics the
//! callback is not called any more.

mod callback;
mod control;
mod entry;
pub(crate) mod of_program;
mod receive;
mod running;
#[cfg(test)]
mod tests;

pub use crate::handlers::bundle::{EventRow, Frame};
pub use crate::handlers::datum::{Datum, Needs, Segment, SessionData, SessionsOf, StreamBytes, StreamChunk};
pub use crate::handlers::handler::Handler;
pub use crate::handlers::track::{Every, Track, TrackPacket, Tracked};
pub use callback::{Callback, Next, Reply, RunEnd, TakeItems};
pub use control::{Control, Listed, WeakControl};

use crate::ask::compile::{Ask, Compiled, Compiler, Options};
use crate::ask::packet_key::PacketKey;
use crate::ask::question::Question;
use crate::handlers::handler;
use crate::handlers::isolation::{CallbackPanics, Isolation};
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::handlers::stream_handler::StreamHandler;
use crate::handlers::subscription::Subscription;
use crate::outcome::Outcome;
use crate::pipeline::{Counts, Operator, Packet, PacketFields, Pipeline, typed_question};
use crate::rows::shape::Shape;
use crate::run::run_changing;
use control::Requests;
use entry::Entry;
use receive::Receive;
use running::Running;
use std::sync::{Arc, Mutex};
use weir_engine::question_losses::QuestionLosses;
use weir_engine::stream::StreamParams;
use weir_io::CaptureReader;
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_packet::Source;
use weir_sessions::{RegisterError, SessionProtocol, UnknownSetting};

/// Subscriptions, and the program that answers them all. `'c`: what callbacks borrow.
pub struct Engine<'c> {
    compiler: Compiler,
    options: Options,
    /// A removed subscription keeps its place in the list, without questions.
    entries: Vec<Entry<'c>>,
    requests: Requests,
    /// Number of subscriptions so far.
    serial: u64,
    /// Losses of removed subscriptions.
    lost: u64,
    /// Panics of removed subscriptions whose places are used again.
    panics: Vec<CallbackPanics>,
}

impl Default for Engine<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an engine with {} subscriptions", self.subscriptions().count())
    }
}

impl<'c> Engine<'c> {
    /// An engine without subscriptions, over the stack that accepts any link type.
    pub fn new() -> Self {
        Self::with(Compiler::default(), Options::default())
    }

    /// An engine without subscriptions.
    pub fn with(compiler: Compiler, options: Options) -> Self {
        Self {
            compiler,
            options,
            entries: vec![],
            requests: Requests::default(),
            serial: 0,
            lost: 0,
            panics: vec![],
        }
    }

    /// The compiler of its filters.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Adds a user-defined session protocol: filters know its name and fields from now on, callbacks can take
    /// its sessions, and they have rows. Filters that `#[weir::subscribe]` checks know only the protocols of
    /// this library. Returns the number of the protocol.
    ///
    /// # Errors
    /// The conflict with a known protocol.
    pub fn register(&mut self, protocol: &'static SessionProtocol) -> Result<usize, RegisterError> {
        self.compiler.register(protocol)
    }

    /// Sets a parameter of a session protocol's parsers: see [`Compiler::configure`].
    ///
    /// # Errors
    /// No protocol has such a parameter.
    pub fn configure(&mut self, setting: &str, value: u64) -> Result<(), UnknownSetting> {
        self.compiler.configure(setting, value)
    }

    /// Adds a callback: [the table](self) shows the data that its parameter types select.
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn subscribe<A, F>(&mut self, filter: &str, callback: F) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + 'c,
        A: 'c,
    {
        self.subscribe_every(Every::Connection, filter, callback)
    }

    /// As [`subscribe`](Self::subscribe), with deliveries during a connection: `every` says how often, and
    /// the last one comes at its end. For records of connections and [tracked](Track) state.
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn subscribe_every<A, F>(
        &mut self,
        every: Every,
        filter: &str,
        callback: F,
    ) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + 'c,
        A: 'c,
    {
        let mut needs = Needs::over(self.compiler.sessions());
        F::needs(&mut needs);
        let deliver = callback::boxed(callback, needs.isolation.clone());
        self.add_callback(filter, needs, every, deliver)
    }

    /// Adds a subscription that was checked when the program was compiled: `#[weir::subscribe("filter")]`.
    ///
    /// # Errors
    /// If the engine's stack is not the one that the filter was checked for.
    pub fn add_checked<A, F>(&mut self, checked: Checked<A, F>) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + 'c,
        A: 'c,
    {
        let (stack, mine) = (checked.stack, &self.compiler.stack().name);
        if stack != mine {
            let message =
                format!("this filter was checked for the stack `{stack}`, and the engine's is `{mine}`");
            let help = format!("write `#[weir::subscribe(\"…\", stack = \"{mine}\")]`");
            let list = vec![Diagnostic::error("W0197", message).help(help)];
            return Err(Diagnostics { sources: Sources::new(), list });
        }
        self.subscribe(checked.filter, checked.callback)
    }

    /// Adds a callback that runs on threads of its own; `place` is their number, and the `room` of each one's
    /// queue: data is lost, and [counted](Outcome::lost), if the queue is full. A slow callback delays
    /// nothing else.
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn subscribe_on<A, F>(
        &mut self,
        place: (usize, usize),
        filter: &str,
        callback: F,
    ) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + Clone + Send + 'static,
        A: 'static,
    {
        let mut needs = Needs::over(self.compiler.sessions());
        F::needs(&mut needs);
        let isolation = needs.isolation.clone();
        let pool = callback::Pool::new(place, needs.isolation.clone(), move || {
            callback::boxed_send(callback.clone(), isolation.clone())
        });
        self.add_callback(filter, needs, Every::Connection, Box::new(pool))
    }

    /// Adds a handler: `make` creates one for each worker. The handlers are in the
    /// [outcome](Outcome::handlers).
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn subscribe_handler<H: Handler>(
        &mut self,
        filter: &str,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Subscription, Diagnostics> {
        let mut needs = Needs::over(self.compiler.sessions());
        H::needs(&mut needs);
        if needs.packets {
            // Packets are delivered to handlers as they arrive, so the filter cannot depend on later data.
            self.compiler.check_at_once(filter, self.options.bpf)?;
        }
        let isolation = needs.isolation.clone();
        let make = move || QuestionWorker::Handler(handler::isolated(make(), isolation.clone()));
        self.add(Entry::of_handler(filter, needs, Arc::new(make)))
    }

    /// Adds a [pipeline](crate::pipeline) over the packets that match a filter. `make` makes the operators of
    /// each worker, which take packets with these fields. `receiver` takes what all workers pass on, on the
    /// thread that calls [`run`](Self::run): items of a worker in their order, and the
    /// [time](weir_pipeline::Signal::Time) that all workers have reached. Panics of operators are isolated as
    /// those of handlers.
    ///
    /// # Errors
    /// All errors in the filter, a name that is no field, or a field of another type.
    pub fn subscribe_pipeline<F, O, R>(
        &mut self,
        filter: &str,
        fields: &[&str],
        make: impl Fn() -> Pipeline<Packet<F>, O> + Send + Sync + 'static,
        receiver: R,
    ) -> Result<Subscription, Diagnostics>
    where
        F: PacketFields,
        O: Operator<Packet<F>> + Send + 'static,
        O::Out: Send + 'static,
        R: Operator<O::Out> + 'c,
    {
        self.compiler.check_at_once(filter, self.options.bpf)?;
        let isolation = Isolation::default();
        let question = typed_question(&self.compiler, filter, fields, isolation.clone(), make);
        let question = question.map_err(|message| {
            let list = vec![Diagnostic::error("W0199", message)];
            Diagnostics { sources: Sources::new(), list }
        })?;
        let counts = Arc::new(Mutex::new(Counts::new()));
        let receive = Receive::<O::Out, R>::new(receiver, isolation.clone(), Arc::clone(&counts));
        self.add(Entry::of_items(vec![question], Box::new(receive)).of_pipeline(isolation, counts))
    }

    /// What the bounds of a pipeline's operators cut off in runs that have ended. Of other subscriptions,
    /// nothing.
    pub fn pipeline_counts(&self, subscription: Subscription) -> Counts {
        let entry = self.entries.get(subscription.place).filter(|entry| entry.serial == subscription.serial);
        entry.map_or_else(Counts::new, Entry::pipeline_counts)
    }

    /// Adds a handler of streams: `make` creates one for each worker. The handlers are in the
    /// [outcome](Outcome::handlers).
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn subscribe_streams<H: StreamHandler>(
        &mut self,
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Subscription, Diagnostics> {
        let isolation = Isolation::default();
        let question = Question::of_isolated_streams(filter, params, make, Some(isolation.clone()));
        self.add(Entry::of_handlers(question, isolation))
    }

    fn add_callback(
        &mut self,
        filter: &str,
        needs: Needs,
        every: Every,
        deliver: Box<dyn callback::Deliver + 'c>,
    ) -> Result<Subscription, Diagnostics> {
        if let Some(message) = needs.conflict(every) {
            let help = "docs/subscriptions.md has what can be had together; subscribe to each alone";
            let list = vec![Diagnostic::error("W0197", message).help(help)];
            return Err(Diagnostics { sources: Sources::new(), list });
        }
        self.add(Entry::of_callback(filter, needs, every, deliver))
    }

    /// Adds questions as one subscription; `take` receives the items of all of them, in one order.
    ///
    /// # Errors
    /// All errors in the filters.
    pub fn subscribe_questions(
        &mut self,
        questions: Vec<Question>,
        take: impl TakeItems + 'c,
    ) -> Result<Subscription, Diagnostics> {
        self.add(Entry::of_items(questions, Box::new(take)))
    }

    fn add(&mut self, entry: Entry<'c>) -> Result<Subscription, Diagnostics> {
        for part in &entry.parts {
            self.compiler.check_filter(&part.ask.filter, self.options.bpf)?;
            self.options.overload.priorities.insert(part.priority());
        }
        Ok(self.append(entry))
    }

    /// Adds a subscription whose filters have been checked.
    fn append(&mut self, mut entry: Entry<'c>) -> Subscription {
        let serial = self.serial;
        self.serial += 1;
        // The place of an old subscription is reused if no more answers to its questions can arrive.
        let parts = entry.parts.len();
        let is_free = |old: &Entry<'c>| old.is_free && old.parts.len() >= parts;
        let place = self.entries.iter().position(is_free).unwrap_or(self.entries.len());
        entry.serial = serial;
        match self.entries.get_mut(place) {
            Some(free) => {
                self.panics.extend(free.panics(place));
                entry.parts.resize_with(free.parts.len(), Question::nothing);
                *free = entry;
            }
            None => self.entries.push(entry),
        }
        Subscription { serial, place }
    }

    /// Removes a subscription that no program includes yet, and its place.
    fn forget(&mut self, subscription: Subscription) {
        if subscription.place + 1 == self.entries.len() {
            self.entries.pop();
        } else {
            self.entries[subscription.place].is_free = true;
        }
    }

    /// Removes a subscription. Returns whether it existed.
    pub fn unsubscribe(&mut self, subscription: Subscription) -> bool {
        let entry = self.entries.get_mut(subscription.place);
        let Some(entry) = entry.filter(|entry| entry.serial == subscription.serial && !entry.is_over) else {
            return false;
        };
        self.lost += entry.end();
        true
    }

    /// As [`unsubscribe`](Self::unsubscribe), during a run: earlier results are still delivered.
    fn dismiss(&mut self, subscription: Subscription) -> bool {
        let entry = self.entries.get_mut(subscription.place);
        let Some(entry) = entry.filter(|entry| entry.serial == subscription.serial && !entry.is_over) else {
            return false;
        };
        entry.leave();
        true
    }

    /// A control with which other threads add and remove subscriptions during a run.
    pub fn control(&self) -> Control {
        self.requests.control()
    }

    /// The subscriptions, each with its filter.
    pub fn subscriptions(&self) -> impl Iterator<Item = (Subscription, &str)> {
        let live = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_over);
        live.map(|(place, entry)| (Subscription { serial: entry.serial, place }, entry.filter()))
    }

    /// Compiles the program of its subscriptions.
    ///
    /// # Errors
    /// All errors in the subscriptions, or the reason why no code was generated.
    pub fn compile(&self) -> Result<Compiled, Diagnostics> {
        self.work().compile()
    }

    /// The input of a compilation.
    fn work(&self) -> Work {
        Work {
            compiler: self.compiler.clone(),
            options: self.options.clone(),
            asks: self.parts().map(|(_, part)| part.ask.clone()).collect(),
            make_workers: self.parts().map(|(_, part)| part.make.clone()).collect(),
            keys: self.parts().map(|(_, part)| part.key.clone()).collect(),
            losses: self.parts().map(|(_, part)| part.losses()).collect(),
        }
    }

    /// The shape of each question's items, for [`run`](crate::run()).
    pub fn shapes(&self) -> Vec<Shape> {
        self.parts().map(|(_, part)| part.shape).collect()
    }

    /// All questions in the order of compilation, each with its subscription. Questions of removed
    /// subscriptions keep their numbers, and ask for nothing.
    fn parts(&self) -> impl Iterator<Item = (usize, &Question)> {
        let entries = self.entries.iter().enumerate();
        entries.flat_map(|(index, entry)| entry.parts.iter().map(move |part| (index, part)))
    }

    /// Runs over a source with `workers` workers, until the source ends. Subscriptions stay.
    ///
    /// # Errors
    /// As [`compile`](Self::compile). Errors of the source are in the outcome.
    pub fn run(&mut self, source: &mut dyn Source, workers: usize) -> Result<Outcome, Diagnostics> {
        self.run_shown(source, workers, &mut |_| ())
    }

    /// As [`run`](Self::run); `progress` is called from time to time.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_shown(
        &mut self,
        source: &mut dyn Source,
        workers: usize,
        progress: &mut dyn FnMut(&dyn Source),
    ) -> Result<Outcome, Diagnostics> {
        let compiled = self.compile()?;
        Ok(self.run_compiled(compiled, source, workers, progress))
    }

    /// As [`run_shown`](Self::run_shown), with the program that [`compile`](Self::compile) returned for the
    /// current subscriptions.
    ///
    /// # Panics
    /// If the program was compiled for other subscriptions.
    pub fn run_compiled(
        &mut self,
        compiled: Compiled,
        source: &mut dyn Source,
        workers: usize,
        progress: &mut dyn FnMut(&dyn Source),
    ) -> Outcome {
        assert_eq!(compiled.question_count(), self.parts().count(), "the program of these subscriptions");
        let compiler = self.compiler.clone();
        let shapes = self.shapes();
        self.entries.iter_mut().for_each(|entry| entry.is_free = entry.is_over);
        self.requests.begin();
        let mut running = Running::of(self);
        let mut outcome = run_changing(&compiler, compiled, source, &shapes, workers, &mut running, progress);
        let (subscriptions, lost) = running.into_parts();
        // Callbacks that finish now may send requests, which would get no answer.
        self.requests.end();
        outcome.handlers.name(&subscriptions);
        let lost_at_end: u64 = self.entries.iter_mut().map(Entry::finish).sum();
        outcome.lost = lost + std::mem::take(&mut self.lost) + lost_at_end;
        let panics = self.entries.iter().enumerate().filter_map(|(place, entry)| entry.panics(place));
        outcome.callback_panics = self.panics.iter().cloned().chain(panics).collect();
        let mut first = 0;
        for entry in &mut self.entries {
            entry.finish_items(&outcome, first);
            first += entry.parts.len();
        }
        outcome
    }

    /// Runs over capture files, in the order of time, on one worker.
    ///
    /// # Errors
    /// As [`run`](Self::run); and the first error of the files, after all readable packets were processed.
    pub fn read<P: AsRef<std::path::Path>>(
        &mut self,
        files: impl IntoIterator<Item = P>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let files: Vec<P> = files.into_iter().collect();
        let outcome = self.run(&mut CaptureReader::open(&files), 1)?;
        outcome.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
    }

    /// The owner of each question.
    fn owners(&self) -> Vec<Owner> {
        let owners = |(place, entry): (usize, &Entry<'c>)| {
            let subscription = Subscription { serial: entry.serial, place };
            (0..entry.parts.len()).map(move |question| Owner { subscription, question })
        };
        self.entries.iter().enumerate().flat_map(owners).collect()
    }
}

/// The subscription of a question in the program, and the question's number there.
#[derive(Clone, Copy)]
struct Owner {
    subscription: Subscription,
    question: usize,
}

/// A subscription whose filter was checked when the program was compiled.
#[derive(Debug, Clone, Copy)]
pub struct Checked<A, F> {
    filter: &'static str,
    stack: &'static str,
    callback: F,
    takes: std::marker::PhantomData<fn(A)>,
}

impl<A, F: Callback<A>> Checked<A, F> {
    /// The constructor that `#[weir::subscribe]` expands to.
    #[doc(hidden)]
    pub const fn new(filter: &'static str, stack: &'static str, callback: F) -> Self {
        Self { filter, stack, callback, takes: std::marker::PhantomData }
    }
}

/// The input of a compilation, which can run on any thread.
struct Work {
    compiler: Compiler,
    options: Options,
    asks: Vec<Ask>,
    make_workers: Vec<Option<MakeQuestionWorker>>,
    keys: Vec<Option<Arc<PacketKey>>>,
    losses: Vec<Arc<QuestionLosses>>,
}

impl Work {
    fn compile(self) -> Result<Compiled, Diagnostics> {
        let mut compiled = self.compiler.compile(&self.asks, &self.options)?;
        let handlers = self.make_workers.iter().enumerate().filter(|(_, make)| make.is_some());
        let plan = Arc::make_mut(&mut compiled.plan);
        plan.at_once = handlers.map(|(question, _)| question).collect();
        for (question, losses) in plan.questions.iter_mut().zip(self.losses) {
            question.losses = losses;
        }
        Ok(Compiled { make_workers: self.make_workers, keys: self.keys, ..compiled })
    }
}
