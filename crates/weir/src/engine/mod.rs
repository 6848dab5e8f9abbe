//! Questions for programs: a filter, and a callback or handler that is given what it asks for. Several share one program,
//! and one pass over the packets.
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
//! | what is given | type | when |
//! |---|---|---|
//! | a packet of matching traffic | [`Frame`] | in the order of the capture, once it is known to match |
//! | a session: TLS handshake, HTTP exchange … | its type in [`sessions`](crate::sessions) | when it is whole |
//! | all sessions of a connection, of a type | [`SessionsOf`] | when the connection is over |
//! | a connection's record | [`Connection`](crate::Connection) | when it is over |
//! | what a program of its own keeps of each connection | a type that is [`Track`] | when it is over, or [every so often](Every) |
//! | a stream's bytes in order, as packets bring them, or in chunks | [`Segment`], [`StreamChunk`] | as they come |
//! | an event of the stack, if its own columns are as asked | [`EventRow`] | when its packet is through |
//! | which connection it is | [`Flow`] | with any of the others but packets and events |
//! | a stream's bytes in order | [`StreamHandler`](crate::stream::StreamHandler) | as they come, on the worker |
//!
//! A callback takes up to three of these. Callbacks run on the thread that called [`Engine::run`], in the order of the
//! capture whatever the number of workers: so they may borrow, and lock nothing. What is to run where the packets
//! are is a [handler](Engine::subscribe_handler): one per worker, merged at the end.

mod bundle;
mod callback;
mod control;
mod datum;
mod entry;
mod handler;
mod of_program;
mod running;
#[cfg(test)]
mod tests;
mod track;

pub use bundle::{EventRow, Frame};
pub use callback::{Callback, Next, Reply, RunEnd, TakeItems};
pub use control::{Control, Listed};
pub use datum::{Datum, Needs, Segment, SessionData, SessionsOf, StreamBytes, StreamChunk};
pub use handler::Handler;
pub use of_program::run;
pub use track::{Every, Track, TrackPacket, Tracked};

pub(crate) use handler::HandlerSink;
pub(crate) use track::TrackSink;

use crate::compile::{Ask, Compiled, Compiler, Options};
use crate::item::Shape;
use crate::outcome::Outcome;
use crate::question::Question;
use crate::run::run_changing;
use crate::stream_handler::StreamHandler;
use crate::subscription::Subscription;
use crate::worker_sink::{MakeWorkerSink, WorkerSink};
use control::Requests;
use entry::Entry;
use running::Running;
use std::sync::Arc;
use weir_engine::stream::StreamParams;
use weir_io::CaptureReader;
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_packet::Source;
use weir_sessions::{RegisterError, SessionProtocol, UnknownSetting};

/// Subscriptions, and the program that answers them all. `'c`: what callbacks borrow.
pub struct Engine<'c> {
    compiler: Compiler,
    options: Options,
    /// A subscription that was taken away keeps its place, and asks for nothing.
    entries: Vec<Entry<'c>>,
    requests: Requests,
    /// Subscriptions so far.
    serial: u64,
    /// What those lost that were taken away.
    lost: u64,
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
    /// No subscription yet, over the stack that takes whatever comes.
    pub fn new() -> Self {
        Self::with(Compiler::default(), Options::default())
    }

    /// No subscription yet.
    pub fn with(compiler: Compiler, options: Options) -> Self {
        Self { compiler, options, entries: vec![], requests: Requests::default(), serial: 0, lost: 0 }
    }

    /// What compiles its filters.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Adds a session protocol of one's own: its name and fields are known to filters from now on, callbacks can take its sessions, and they
    /// have rows. Filters that `#[weir::subscribe]` checks know the protocols of this library only. Returns its number.
    ///
    /// # Errors
    /// Why it can't stand beside the protocols that are known.
    pub fn register(&mut self, protocol: &'static SessionProtocol) -> Result<usize, RegisterError> {
        self.compiler.register(protocol)
    }

    /// Sets something for the parsers of a session protocol: see [`Compiler::configure`].
    ///
    /// # Errors
    /// No protocol has such a setting.
    pub fn configure(&mut self, setting: &str, value: u64) -> Result<(), UnknownSetting> {
        self.compiler.configure(setting, value)
    }

    /// Adds a callback: what it takes says what it is given (see [the table](self)).
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
    pub fn subscribe<A, F>(&mut self, filter: &str, callback: F) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + 'c,
        A: 'c,
    {
        self.subscribe_every(Every::Connection, filter, callback)
    }

    /// As [`subscribe`](Self::subscribe), and while connections last: what is known of one when it is over is given
    /// every so often, and at its end. For records of connections and what is [tracked](Track) of them.
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
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
        self.add_callback(filter, needs, every, callback::boxed(callback))
    }

    /// Adds a subscription that was checked when the program was compiled: `#[weir::subscribe("filter")]`.
    ///
    /// # Errors
    /// Where the engine's stack is not the one that the filter was checked for.
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

    /// Adds a callback that runs on threads of its own: what it is given goes there through a queue of `room` places,
    /// and is lost, and [counted](Outcome::lost), where that is full. A slow callback holds up nobody.
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
    pub fn subscribe_on<A, F>(
        &mut self,
        (threads, room): (usize, usize),
        filter: &str,
        callback: F,
    ) -> Result<Subscription, Diagnostics>
    where
        F: Callback<A> + Clone + Send + 'static,
        A: 'static,
    {
        let mut needs = Needs::over(self.compiler.sessions());
        F::needs(&mut needs);
        let pool = callback::Pool::new(threads, room, move || callback::boxed_send(callback.clone()));
        self.add_callback(filter, needs, Every::Connection, Box::new(pool))
    }

    /// Adds a handler: `make` makes one for each worker. They are in the [outcome](Outcome::handlers).
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
    pub fn subscribe_handler<H: Handler>(
        &mut self,
        filter: &str,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Subscription, Diagnostics> {
        let mut needs = Needs::over(self.compiler.sessions());
        H::needs(&mut needs);
        if needs.packets {
            // They are handed over where they are found: what is known only later can't choose them.
            self.compiler.check_at_once(filter, self.options.bpf)?;
        }
        self.add(Entry::of_handler(filter, needs, Arc::new(move || WorkerSink::Handler(Box::new(make())))))
    }

    /// Adds a handler of streams: `make` makes one for each worker. They are in the [outcome](Outcome::handlers).
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
    pub fn subscribe_streams<H: StreamHandler>(
        &mut self,
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Subscription, Diagnostics> {
        self.add(Entry::of_handlers(Question::of_streams(filter, params, make)))
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

    /// Adds questions as one subscription; `take` is given the items of all of them, in one order.
    ///
    /// # Errors
    /// Everything that is wrong with the filters.
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
            let priorities = &mut self.options.overload.priorities;
            *priorities = (*priorities).max(part.priority().saturating_add(1));
        }
        Ok(self.append(entry))
    }

    /// Adds a subscription whose filters have been checked.
    fn append(&mut self, mut entry: Entry<'c>) -> Subscription {
        let serial = self.serial;
        self.serial += 1;
        // In a place that nobody's answers can come to any more.
        let parts = entry.parts.len();
        let is_free = |old: &Entry<'c>| old.is_free && old.parts.len() >= parts;
        let place = self.entries.iter().position(is_free).unwrap_or(self.entries.len());
        entry.serial = serial;
        match self.entries.get_mut(place) {
            Some(free) => {
                entry.parts.resize_with(free.parts.len(), Question::nothing);
                *free = entry;
            }
            None => self.entries.push(entry),
        }
        Subscription { serial, place }
    }

    /// A subscription that no program was made of leaves its place, which no answers can come to.
    fn forget(&mut self, subscription: Subscription) {
        if subscription.place + 1 == self.entries.len() {
            self.entries.pop();
        } else {
            self.entries[subscription.place].is_free = true;
        }
    }

    /// Takes a subscription away. Whether there was one.
    pub fn unsubscribe(&mut self, subscription: Subscription) -> bool {
        let entry = self.entries.get_mut(subscription.place);
        let Some(entry) = entry.filter(|entry| entry.serial == subscription.serial && !entry.is_over) else {
            return false;
        };
        self.lost += entry.end();
        true
    }

    /// As [`unsubscribe`](Self::unsubscribe), while a run goes on: what was found for it is yet to be handed out.
    fn dismiss(&mut self, subscription: Subscription) -> bool {
        let entry = self.entries.get_mut(subscription.place);
        let Some(entry) = entry.filter(|entry| entry.serial == subscription.serial && !entry.is_over) else {
            return false;
        };
        entry.leave();
        true
    }

    /// What other threads add and take away subscriptions with, while a run goes on.
    pub fn control(&self) -> Control {
        self.requests.control()
    }

    /// The subscriptions, each with its filter.
    pub fn subscriptions(&self) -> impl Iterator<Item = (Subscription, &str)> {
        let live = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_over);
        live.map(|(place, entry)| (Subscription { serial: entry.serial, place }, entry.filter()))
    }

    /// The program of its subscriptions.
    ///
    /// # Errors
    /// Everything that is wrong with them, or why there is no code.
    pub fn compile(&self) -> Result<Compiled, Diagnostics> {
        self.work().compile()
    }

    /// What there is to compile.
    fn work(&self) -> Work {
        Work {
            compiler: self.compiler.clone(),
            options: self.options.clone(),
            asks: self.parts().map(|(_, part)| part.ask.clone()).collect(),
            sinks: self.parts().map(|(_, part)| part.make.clone()).collect(),
        }
    }

    /// The shape of what each of its questions is given, for [`run`](crate::run()).
    pub fn shapes(&self) -> Vec<Shape> {
        self.parts().map(|(_, part)| part.shape).collect()
    }

    /// Every question, in the order in which they are compiled, with its subscription. Those that were taken away
    /// keep their numbers, and ask for nothing.
    fn parts(&self) -> impl Iterator<Item = (usize, &Question)> {
        let entries = self.entries.iter().enumerate();
        entries.flat_map(|(index, entry)| entry.parts.iter().map(move |part| (index, part)))
    }

    /// Runs it over a source with so many workers, until that is over. Subscriptions stay.
    ///
    /// # Errors
    /// As [`compile`](Self::compile). Faults of the source are in the outcome.
    pub fn run(&mut self, source: &mut dyn Source, workers: usize) -> Result<Outcome, Diagnostics> {
        self.run_shown(source, workers, &mut |_| ())
    }

    /// As [`run`](Self::run); `progress` is called now and then.
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

    /// As [`run_shown`](Self::run_shown), with the program that [`compile`](Self::compile) made of the subscriptions there are.
    ///
    /// # Panics
    /// If the program is one of other subscriptions.
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
        // Callbacks that end now may ask for something: nobody would answer them.
        self.requests.end();
        outcome.handlers.name(&subscriptions);
        let (mut first, mut lost) = (0, lost + std::mem::take(&mut self.lost));
        for entry in &mut self.entries {
            lost += entry.finish(&outcome, first);
            first += entry.parts.len();
        }
        outcome.lost = lost;
        outcome
    }

    /// Runs it over capture files, in the order of time, on one worker.
    ///
    /// # Errors
    /// As [`run`](Self::run); and the first fault of the files, once all that could be read was.
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

/// The subscription that a question of the program belongs to, and the number of the question there.
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
    /// What `#[weir::subscribe]` expands to.
    #[doc(hidden)]
    pub const fn new(filter: &'static str, stack: &'static str, callback: F) -> Self {
        Self { filter, stack, callback, takes: std::marker::PhantomData }
    }
}

/// A program that is to be made, on whatever thread.
struct Work {
    compiler: Compiler,
    options: Options,
    asks: Vec<Ask>,
    sinks: Vec<Option<MakeWorkerSink>>,
}

impl Work {
    fn compile(self) -> Result<Compiled, Diagnostics> {
        let compiled = self.compiler.compile(&self.asks, &self.options)?;
        Ok(Compiled { sinks: self.sinks, ..compiled })
    }
}
