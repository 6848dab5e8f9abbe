//! Compiles questions to a program: checks filters, lowers one graph, runs passes, generates code.

use super::deferred_predicate::{alternative_plan, deferred_predicates};
use super::kernel_filters::QuestionFilters;
use super::ordering::Ordering;
use super::packet_key::PacketKey;
use super::processors::Processors;
use super::program::{Executor, make_program};
use super::{contradiction, vocabulary};
use crate::flow::connection;
use crate::flow::end_places::EndPlaces;
use crate::flow::places::Places;
use crate::flow::record::Record;
use crate::flow::tunnel_names::TunnelNames;
use crate::handlers::question_worker::MakeQuestionWorker;
use crate::rows::events::never_told;
use crate::rows::odd;
use crate::watch::Watch;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};
use weir_codegen::Effort;
use weir_compile::catalog::SAMPLE;
use weir_compile::events::EventSet;
use weir_compile::trie::Trie;
use weir_compile::{
    FieldKey, Lowered, Need, OutValue, PacketValue, Question, StackCatalog, VALUES_MAX, ValueOf, lower,
};
use weir_engine::plan::{
    ClassSet, ConnectionValue, Limits, Plan, QuestionPlan, QuestionSet, RemainderSet, Want,
};
use weir_engine::sequence::Policies;
use weir_engine::stream::OverloadParams;
use weir_ir::abi::Program;
use weir_ir::graph::{Graph, Table};
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_lang::filter::{self, Catalog, Expr, Filter, Predicate};
use weir_lang::model::Stack;
use weir_lang::{ContextChanges, Library};
use weir_packet::{Batch, KernelFilters, LinkType, Timestamp};
use weir_sessions::{
    ContentStore, ProtocolSet, RegisterError, SessionProtocol, SessionRegistry, UnknownSetting,
};

/// Options of the compilation and of the run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The executor of the program.
    pub engine: Executor,
    /// Passes to leave out, by name; `all` leaves out all of them.
    pub without_passes: Vec<String>,
    /// Whether filters have the syntax of pcap-filter(7).
    pub bpf: bool,
    /// Changes to the context that distinguishes connections with equal addresses and ports.
    pub context: ContextChanges,
    /// Bounds of the run.
    pub limits: Limits,
    /// Bounds on the memory of streams, per worker.
    pub overload: OverloadParams,
    /// The policies for overlapping segments and fragments, by receiver.
    pub policies: Policies,
    /// The time of the first packet of the captures, which `frame.time_relative` refers to.
    pub first_time: Option<Timestamp>,
    /// Protocols that are given: `tcp.port == 8443: tls`, a filter that names ports, and a session protocol.
    pub decode_as: Vec<String>,
    /// Whether to count the cycles that each stage takes.
    pub timed: bool,
    /// The order in which a run over several workers delivers items.
    pub ordering: Ordering,
    /// The processors that the threads of the run are bound to.
    pub processors: Processors,
    /// The share of connections that the questions are about, in 65536ths: connections are selected by their
    /// hosts. `None`: all.
    pub sample: Option<u32>,
    /// Whether to make filters for the kernel: for runs over links.
    pub narrow: bool,
    /// Packets of a connection that nobody needs, before the kernel gets the connection, on links. `None`: 8,
    /// because giving and taking back cost as much as some packets.
    pub quiet_packets: Option<u8>,
    /// Connections that a worker gives to the kernel at a time, at most, on links. `None`: 16 384.
    pub kernel_flows_max: Option<usize>,
    /// Shows the counters of the run while it goes on.
    pub watch: Option<Watch>,
}

/// The default of [`Options::quiet_packets`].
const QUIET_PACKETS: u8 = 8;
/// The default of [`Options::kernel_flows_max`].
const KERNEL_FLOWS_MAX: usize = 1 << 14;

/// One question: a filter, and the data that is wanted of matching traffic.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The filter's text; empty for everything.
    pub filter: String,
    /// The data that the program must keep for the question.
    pub need: Need,
    /// The data that the question receives.
    pub want: Want,
}

/// The time that each step took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// Parsing and checking filters.
    pub parse: Duration,
    /// Lowering to a graph.
    pub lower: Duration,
    /// All passes.
    pub optimize: Duration,
    /// Generating machine code.
    pub code: Duration,
}

/// A compiled set of questions.
#[derive(Clone)]
pub struct Compiled {
    /// The plan that the engine executes.
    pub(crate) plan: Arc<Plan>,
    /// By table: the places of the numbers of connection records.
    pub(crate) places: Arc<Vec<Places>>,
    /// The questions as passed to [`Compiler::compile`].
    pub(crate) asks: Vec<Ask>,
    /// The checked filters, with the data that is kept for each.
    pub(crate) questions: Vec<Question>,
    /// The events that each question receives.
    pub(crate) events: Vec<EventSet>,
    /// The terms of the questions, and the meaning of the bits of a packet's terms.
    pub(crate) trie: Trie,
    /// The contents of the slots of a packet's record.
    pub(crate) outs: Vec<OutValue>,
    /// The values of packets that aggregates use.
    pub(crate) values: Vec<PacketValue>,
    /// The effects of the passes.
    pub(crate) report: weir_ir::passes::Report,
    /// The stack.
    pub(crate) stack: Stack,
    /// The options of the compilation.
    pub(crate) options: Options,
    /// Warnings about the filters.
    pub(crate) warnings: Diagnostics,
    /// The time that each step took.
    pub(crate) timing: Timing,
    /// `Ok` if the program is native code; else the reason why not.
    pub(crate) engine: Result<(), String>,
    /// The native program, whose machine code and intermediate form can be printed on demand.
    pub(crate) native: Option<Arc<weir_codegen::NativeProgram>>,
    /// The filters for the kernel.
    pub(crate) kernel_filters: Option<Arc<QuestionFilters>>,
    /// Constructors of worker parts, by question; `None` for questions without any.
    pub(crate) make_workers: Vec<Option<MakeQuestionWorker>>,
    /// The keys of packets, by question.
    pub(crate) keys: Vec<Option<Arc<PacketKey>>>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("questions", &self.questions).finish_non_exhaustive()
    }
}

impl Compiled {
    /// The graph as lowered, before the passes. Lowers the questions again. `catalog` is that of the
    /// compiler.
    pub(crate) fn lowered_graph(&self, catalog: &StackCatalog) -> Graph {
        let lowered = lower(&self.stack, catalog, &self.questions);
        lowered.expect("what was lowered once is lowered again").graph
    }

    /// The graph after the passes.
    pub fn graph(&self) -> &Graph {
        self.plan.program.graph()
    }

    /// The number of questions that the program answers.
    pub fn question_count(&self) -> usize {
        self.questions.len()
    }

    /// The stack that the questions were compiled over.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Warnings about the filters.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// The filters for the kernel, if the options ask for them; `None` if every packet is needed.
    pub fn kernel_filters(&self) -> Option<Arc<dyn KernelFilters>> {
        self.kernel_filters.clone().map(|filters| filters as Arc<dyn KernelFilters>)
    }

    /// The graph of the filters for the kernel, for frames of a link type; for tests.
    #[doc(hidden)]
    pub fn kernel_graph(&self, link: LinkType) -> Option<Graph> {
        self.kernel_filters.as_ref()?.graph(link)
    }

    /// The time that each step took.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Whether the program is native code.
    pub fn is_native(&self) -> bool {
        self.engine.is_ok()
    }

    /// The time spent on machine code so far: parts of the program are compiled when the first packet needs
    /// them.
    pub fn code_time(&self) -> Duration {
        self.native.as_ref().map_or(self.timing.code, |native| native.compile_time())
    }

    /// The plan that the engine executes; for tests and benchmarks that drive a worker themselves.
    #[doc(hidden)]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}

/// Compiles questions over its protocols. Clones are cheap: they share protocols and catalog until one of
/// them adds a text or a protocol.
#[derive(Debug, Clone)]
pub struct Compiler {
    library: Arc<Library>,
    stack: String,
    sessions: Arc<SessionRegistry>,
    /// The catalog of the stack in use; created at its first use, once for all clones.
    catalog: Arc<OnceLock<StackCatalog>>,
}

impl Default for Compiler {
    /// The compiler for the built-in protocols, whose texts are read once per process.
    fn default() -> Self {
        static BUILTIN: LazyLock<Compiler> = LazyLock::new(|| Compiler {
            library: Arc::new(Library::builtin()),
            stack: "internet".into(),
            sessions: Arc::clone(SessionRegistry::builtin()),
            catalog: Arc::default(),
        });
        BUILTIN.clone()
    }
}

impl Compiler {
    /// Adds protocols and stacks from the text of a `.weir` file, replacing those of the same names; the last
    /// stack of the text becomes the stack in use.
    ///
    /// # Errors
    /// All errors in the text.
    pub fn add(&mut self, file_name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
        let warnings = Arc::make_mut(&mut self.library).extend_with(file_name, text)?;
        self.use_latest();
        Ok(warnings)
    }

    /// As [`add`](Self::add); imports are read from files, relative to `file_name`.
    ///
    /// # Errors
    /// All errors in the texts, and files that cannot be read.
    pub fn add_file(&mut self, file_name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
        let read = &mut |path: &std::path::Path| weir_lang::read_text(path);
        let warnings = Arc::make_mut(&mut self.library).extend_with_imports(file_name, text, read)?;
        self.use_latest();
        Ok(warnings)
    }

    /// Adds a session protocol: filters know its name and fields from now on, and its sessions have rows.
    /// Returns the number of the protocol.
    ///
    /// # Errors
    /// The conflict with a known protocol.
    pub fn register(&mut self, protocol: &'static SessionProtocol) -> Result<usize, RegisterError> {
        let number = Arc::make_mut(&mut self.sessions).register(protocol)?;
        self.catalog = Arc::default();
        Ok(number)
    }

    /// Sets a parameter of a session protocol's parsers by its name (`redis.text_bytes_max`), for programs
    /// compiled from now on. [`SessionRegistry::settings`] lists the parameters.
    ///
    /// # Errors
    /// If no protocol has a parameter of this name.
    pub fn configure(&mut self, setting: &str, value: u64) -> Result<(), UnknownSetting> {
        Arc::make_mut(&mut self.sessions).configure(setting, value)
    }

    /// Sets the store for the contents of files (bodies of HTTP, attachments of mail). The parsers of
    /// programs that are compiled afterwards write each content to the store: see [`ContentStore`].
    pub fn pass_contents_to(&mut self, store: Arc<dyn ContentStore>) {
        Arc::make_mut(&mut self.sessions).pass_contents_to(store);
    }

    /// The parsers of programs that are compiled afterwards pass sessions on before they end, too, to
    /// [tasks about connections](crate::flow_task): see [`SessionRegistry::yield_early`].
    pub fn yield_early_sessions(&mut self, body_bytes: u64) {
        Arc::make_mut(&mut self.sessions).yield_early(body_bytes);
    }

    /// The known session protocols.
    pub fn sessions(&self) -> &Arc<SessionRegistry> {
        &self.sessions
    }

    fn use_latest(&mut self) {
        self.catalog = Arc::default();
        if let Some(stack) = self.library.latest_stacks().last() {
            self.stack = stack.to_string();
        }
    }

    /// Selects the stack in use.
    ///
    /// # Errors
    /// The names of all stacks, if no stack has this name.
    pub fn use_stack(&mut self, name: &str) -> Result<(), String> {
        match self.library.stack(name) {
            Some(_) => {
                self.stack = name.to_string();
                self.catalog = Arc::default();
                Ok(())
            }
            None => {
                let known: Vec<&str> = self.library.stacks().iter().map(|s| s.name.as_str()).collect();
                Err(format!("there is no stack `{name}`; there are: {}", known.join(", ")))
            }
        }
    }

    /// The stack in use.
    pub fn stack(&self) -> &Stack {
        self.library.stack(&self.stack).expect("only stacks of the library are used")
    }

    /// The known protocols and stacks.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The fields that filters can name.
    pub fn catalog(&self) -> &StackCatalog {
        self.catalog.get_or_init(|| StackCatalog::of(self.stack(), &self.sessions))
    }

    /// Checks a filter that will become part of another one, so that diagnostics show its own text.
    ///
    /// # Errors
    /// All errors in the filter.
    pub fn check_filter(&self, filter: &str, bpf: bool) -> Result<(), Diagnostics> {
        self.filter(filter, bpf).map(drop)
    }

    /// The questions with their filters checked, and warnings about probable mistakes.
    fn check(
        &self,
        asks: &[Ask],
        catalog: &StackCatalog,
        options: &Options,
    ) -> Result<(Vec<Question>, Diagnostics), Diagnostics> {
        let mut warnings = Diagnostics::default();
        let mut questions = vec![];
        let mut told = HashSet::new();
        if asks.len() > QUESTIONS_MAX {
            let message = format!("{} questions; one program answers at most {QUESTIONS_MAX}", asks.len());
            return Err(without_source(Diagnostic::error("W0192", message).help("ask them in several runs")));
        }
        let values: HashSet<ValueOf> = asks.iter().flat_map(|ask| ask.need.values.iter()).collect();
        if values.len() > VALUES_MAX {
            let message = format!(
                "aggregates use {} fields of packets; one program has room for {VALUES_MAX}",
                values.len()
            );
            return Err(without_source(Diagnostic::error("W0199", message).help("ask them in several runs")));
        }
        for ask in asks {
            if ask.want == Want::Nothing {
                questions.push(Question { filter: Filter::never(), need: Need::default() });
                continue;
            }
            let mut filter = self.filter(&ask.filter, options.bpf)?;
            let first = options.first_time.map(|time| time.0);
            catalog.with_first_time(&mut filter, first).map_err(|span| {
                let message =
                    "the time of the first packet is not known: the input is no file, or has no packets";
                let help = "compare the time of day: `frame.time >= \"2026-11-21 02:00:00\"`";
                let list = vec![Diagnostic::error("W0199", message).at(span).help(help)];
                Diagnostics { sources: sources_of(&ask.filter), list }
            })?;
            filter.warnings.extend(contradiction::only_in_rows(&filter.expr, catalog, &self.sessions));
            match ask.want {
                Want::Events => {
                    filter.warnings.extend(never_told(&filter, ask.need.events, (catalog, self.stack())));
                }
                Want::Sessions(_) => {
                    // Several logs may share one filter, which then applies to the sessions that it names.
                    let same = asks.iter().filter(|other| other.filter == ask.filter);
                    let asked = same.filter_map(|other| match other.want {
                        Want::Sessions(asked) => Some(asked),
                        _ => None,
                    });
                    let asked = asked.fold(ProtocolSet::EMPTY, |all, one| all | one);
                    let sessions = contradiction::Asked { catalog, registry: &self.sessions, asked };
                    filter.warnings.extend(sessions.contradictions(&filter.expr));
                }
                _ => {}
            }
            let mut own = filter.warnings.clone();
            let place = |one: &Diagnostic| one.spans.first().map(|(span, _)| (span.start, span.end));
            own.retain(|one| told.insert((ask.filter.as_str(), one.code, place(one), one.message.clone())));
            if !own.is_empty() {
                let source = warnings.sources.add("filter", ask.filter.as_str());
                own.iter_mut().flat_map(|one| &mut one.spans).for_each(|(span, _)| span.source = source);
                warnings.list.append(&mut own);
            }
            if let Some(share) = options.sample {
                self.take_sample(&mut filter, share)?;
            }
            ask_records(ask, &mut filter, (catalog, self.stack()))?;
            let mut need = self.complete_need(ask, &filter);
            need.strict = options.limits.strict;
            need.verdicts = ask.want.has_verdicts();
            refuse_late(ask, &filter, catalog)?;
            questions.push(Question { filter, need });
        }
        Ok((questions, warnings))
    }

    /// Compiles a filter over the names of the stack.
    pub(crate) fn filter(&self, text: &str, bpf: bool) -> Result<Filter, Diagnostics> {
        let catalog = self.catalog();
        let filter = if bpf { filter::compile_bpf(text, catalog) } else { filter::compile(text, catalog) };
        let mut filter = filter.map_err(|list| {
            let mut wrong = Diagnostics { sources: sources_of(text), list };
            self.name_stacks(&mut wrong);
            wrong
        })?;
        let known = vocabulary::Known { stack: self.stack(), catalog, sessions: &self.sessions };
        filter.warnings.extend(vocabulary::unknown(&filter, known));
        Ok(filter)
    }

    /// Lets a filter hold for a share of connections only, in 65536ths.
    fn take_sample(&self, filter: &mut Filter, share: u32) -> Result<(), Diagnostics> {
        if self.stack().dispatch.is_empty() {
            let message = format!("the stack `{}` does not say which fields are hosts", self.stack().name);
            let help = "a stack names them in its `dispatch` clause";
            return Err(without_source(Diagnostic::error("W0188", message).help(help)));
        }
        let sample = self.filter(&format!("{SAMPLE} < {share}"), false)?;
        let added = filter.predicates.len();
        filter.predicates.extend(sample.predicates);
        filter.terms.iter_mut().for_each(|term| term.predicates.push(added));
        let whole = std::mem::replace(&mut filter.expr, Expr::True);
        filter.expr = match whole {
            Expr::True => sample.expr,
            whole => Expr::And(vec![whole, sample.expr]),
        };
        Ok(())
    }

    /// Adds to errors about unknown names which other stack has the name.
    fn name_stacks(&self, wrong: &mut Diagnostics) {
        let (library, own) = (&self.library, self.stack.as_str());
        let Diagnostics { sources, list } = wrong;
        let mut catalogs: Vec<(&str, StackCatalog)> = Vec::new();
        for one in list.iter_mut().filter(|one| one.code == filter::UNKNOWN_FIELD) {
            let Some((span, _)) = one.spans.first() else { continue };
            if let Some(several) = several_events(sources.slice(*span), library, own) {
                one.help = Some(several);
                continue;
            }
            if catalogs.is_empty() {
                let others = library.stacks().iter().filter(|stack| stack.name != own);
                let catalog = |stack| StackCatalog::of(stack, &self.sessions);
                catalogs = others.map(|stack| (stack.name.as_str(), catalog(stack))).collect();
            }
            let name = sources.slice(*span);
            if let Some((stack, _)) = catalogs.iter().find(|(_, catalog)| catalog.find(name).is_some()) {
                one.help = Some(format!("`--stack {stack}` knows it; `weir stacks` lists them"));
            }
        }
    }

    /// Adds to the needs of a question those of its predicates on connections and sessions.
    fn complete_need(&self, ask: &Ask, filter: &Filter) -> Need {
        let (mut need, catalog) = (ask.need, self.catalog());
        if let Want::Sessions(protocols) | Want::Tracked(protocols) = ask.want {
            need.sessions |= protocols;
        }
        need.packets |= ask.want == Want::Packets;
        need.connections |= matches!(ask.want, Want::Connections | Want::Tracked(_));
        if let Want::Streams(params) = ask.want {
            need.streams = true;
            need.cutoff = Some(params.cutoff).filter(|&cutoff| cutoff != [u64::MAX; 2]);
        }
        for predicate in &filter.predicates {
            match catalog.key(predicate.field) {
                FieldKey::Connection(column) => {
                    need.connections = true;
                    let column = connection::COLUMNS.get(usize::from(column));
                    need.service |= column.is_some_and(|column| column.name == "service");
                }
                FieldKey::Session(p) | FieldKey::SessionField(p, _) => need.sessions.insert(usize::from(p)),
                _ => {}
            }
        }
        if need.service {
            // The service of a connection is recognised from its bytes.
            need.sessions |= self.sessions.all();
        }
        need
    }

    /// Checks a filter for data that is delivered as it arrives.
    ///
    /// # Errors
    /// All errors in the filter, and predicates that are known only later.
    pub fn check_at_once(&self, filter: &str, bpf: bool) -> Result<(), Diagnostics> {
        let catalog = self.catalog();
        let checked = self.filter(filter, bpf)?;
        let ask = Ask { filter: filter.to_string(), need: Need::default(), want: Want::Events };
        refuse_late(&ask, &checked, catalog)
    }

    /// Compiles questions to a program.
    ///
    /// # Errors
    /// All errors in the filters, or the reason why no code was generated.
    pub fn compile(&self, asks: &[Ask], options: &Options) -> Result<Compiled, Diagnostics> {
        let catalog = self.catalog();
        let start = Instant::now();
        let (questions, mut warnings) = self.check(asks, catalog, options)?;
        let forced = self.forced(&options.decode_as)?;
        let parsed = Instant::now();
        let changed = match options.context.is_empty() {
            true => None,
            false => Some(self.stack().with_context(&options.context).map_err(without_source)?),
        };
        let stack = changed.as_ref().unwrap_or(self.stack());
        let lowered = lower(stack, catalog, &questions)
            .map_err(|d| Diagnostics { sources: sources_of(&asks[0].filter), list: vec![d] })?;
        let lowered_at = Instant::now();
        warnings.list.extend(parts_left_out(&lowered));
        let Lowered { mut graph, trie, outs, values, tables, unconditional, .. } = lowered;
        let passes = pass_options(options);
        let report = weir_ir::passes::optimize(&mut graph, &passes);
        let fast_path = make_fast_path(&graph, options, &passes);
        let optimized = Instant::now();
        let made = make_program(graph, fast_path, options.engine, first_effort(options));
        let (program, native, engine) = made.map_err(|message| {
            let help = "what is asked, or the stack, is too much for one program: ask in several runs, or put \
                        alternatives into one expression: `frame matches \"one|two\"`";
            without_source(Diagnostic::error("W0199", message).help(help))
        })?;
        let timing = Timing {
            parse: parsed - start,
            lower: lowered_at - parsed,
            optimize: optimized - lowered_at,
            code: optimized.elapsed(),
        };
        let (asked, wanted) = session_masks(asks, &questions, &trie, catalog);
        let probed = asked | self.sessions.carriers_of(asked);
        let ends = EndPlaces::new(stack, &tables);
        let places = Arc::new(places_of(&*program, &self.sessions, &ends));
        let asked_events = questions.iter().fold(EventSet::EMPTY, |all, question| all | question.need.events);
        let mut plan = Plan {
            questions: asks.iter().map(|a| QuestionPlan::new(a.want)).collect(),
            alternatives: trie.alternatives.iter().map(alternative_plan).collect(),
            row: deferred_predicates(&trie.alternatives, |bit| &bit.row, (catalog, options.engine)),
            connection: deferred_predicates(
                &trie.alternatives,
                |bit| &bit.connection,
                (catalog, options.engine),
            ),
            session: deferred_predicates(&trie.alternatives, |bit| &bit.session, (catalog, options.engine)),
            classes: trie.classes.iter().map(|class| class.iter().copied().collect()).collect(),
            verdicts: RemainderSet::EMPTY,
            sessions: Arc::clone(&self.sessions),
            forced,
            probes: self.sessions.probes(),
            asked,
            probed,
            parsed: wanted | self.sessions.carriers_of(probed),
            wanted,
            connection_value: connection_value(&places),
            ends: ends.asked(program.graph(), program.layout(), asked_events),
            program,
            unconditional: ClassSet::from_words(unconditional.words()),
            records: questions.iter().any(|q| q.need.connections || q.need.variables),
            odd: questions.iter().any(|q| q.need.odd).then(|| odd::events_of(stack)),
            limits: options.limits,
            overload: options.overload,
            policies: Arc::new(options.policies.clone()),
            timed: options.timed,
            at_once: QuestionSet::EMPTY,
            kernel: None,
        };
        plan.verdicts = plan.verdict_bits();
        let is_narrow = options.narrow && !trie.wants_every_packet();
        let kernel_filters = is_narrow.then(|| QuestionFilters {
            questions: questions.clone(),
            program: Arc::clone(&plan.program),
            tables: tables.clone(),
            stack: stack.clone(),
            catalog: Arc::clone(&self.catalog),
            passes: passes.clone(),
            kernel: Arc::default(),
            quiet_packets: options.quiet_packets.unwrap_or(QUIET_PACKETS),
            flows_max: options.kernel_flows_max.unwrap_or(KERNEL_FLOWS_MAX),
            made: OnceLock::new(),
        });
        plan.kernel = kernel_filters.as_ref().map(|filters| Arc::clone(&filters.kernel));
        if plan.holds_packets() {
            plan.share_with_held_packets();
        }
        Ok(Compiled {
            asks: asks.to_vec(),
            plan: Arc::new(plan),
            events: questions.iter().map(|q| q.need.events).collect(),
            places,
            questions,
            trie,
            outs,
            values,
            report,
            stack: stack.clone(),
            options: options.clone(),
            warnings,
            timing,
            engine,
            native,
            kernel_filters: kernel_filters.map(Arc::new),
            make_workers: vec![],
            keys: vec![],
        })
    }
}

/// The graph of the fast path, if there is one and the options do not exclude it.
fn make_fast_path(graph: &Graph, options: &Options, passes: &weir_ir::passes::Options) -> Option<Graph> {
    let is_left_out = |pass: &String| pass == FAST_PATH || pass == "all";
    if options.engine == Executor::Interpreter || options.without_passes.iter().any(is_left_out) {
        return None;
    }
    let mut fast_path = weir_ir::fast_path::fast_path_of(graph)?;
    weir_ir::passes::optimize(&mut fast_path, passes);
    Some(fast_path)
}

/// By table: the places of the numbers of connection records.
fn places_of(program: &dyn Program, sessions: &Arc<SessionRegistry>, ends: &EndPlaces<'_>) -> Vec<Places> {
    let (graph, layout) = (program.graph(), program.layout());
    let names = (sessions, &TunnelNames::of(ends.stack()));
    let tables = (0..graph.tables.len() as u32).map(Table);
    tables.map(|table| Places::of(graph, layout, table, names, ends)).collect()
}

/// A function that reads columns of connection records for deferred filters.
fn connection_value(places: &Arc<Vec<Places>>) -> Arc<ConnectionValue> {
    let places = Arc::clone(places);
    Arc::new(move |flow, column| {
        let mut one = Batch::new(1);
        Record::of(flow, &places[flow.table.index()]).write_column(column, &mut one.add());
        one.cell(0, 0).value().into_owned()
    })
}

/// The name that excludes the fast path, used like the name of a pass.
pub(crate) const FAST_PATH: &str = "fast-path";

/// Limit of questions per program.
pub(crate) const QUESTIONS_MAX: usize = 1_024;

/// A warning if a packet's record has too few slots for the values that layers show.
fn parts_left_out(lowered: &Lowered) -> Option<Diagnostic> {
    let message = match lowered.parts_left_out {
        0 => return None,
        parts => {
            format!("{parts} parts of the layers' `show` clauses are left out of the lines about packets")
        }
    };
    let help = "a line has room for some 250 values; shorten the `show` clauses of the stack";
    Some(Diagnostic::warning("W0194", message).help(help))
}

/// Lets predicates on columns of events `on end` apply to the connection's record, unless the question is
/// about rows of events.
///
/// # Errors
/// Columns that no record has, and such an event as a condition by itself: every instance ends.
fn ask_records(
    ask: &Ask,
    filter: &mut Filter,
    (catalog, stack): (&StackCatalog, &Stack),
) -> Result<(), Diagnostics> {
    let is_of_events = !ask.need.events.is_empty();
    let mut list = vec![];
    for predicate in &mut filter.predicates {
        let name = &catalog.fields()[predicate.field].name;
        let (message, help) = match catalog.key(predicate.field) {
            FieldKey::EndColumn(layer, event, column) if !is_of_events => {
                match catalog.record_field(layer, event, column) {
                    Some(field) => {
                        predicate.field = field;
                        continue;
                    }
                    None => (
                        format!(
                            "`{name}` is no column of connections: its instances have one side, or are parts of other connections"
                        ),
                        format!(
                            "`weir events -e {}` has it",
                            name.rsplit_once('.').map_or("", |(event, _)| event)
                        ),
                    ),
                }
            }
            FieldKey::End(layer, _) => {
                let layer = &stack.layers[usize::from(layer.0)].protocol.filter_name;
                let help = match is_of_events {
                    true => format!("`-e {name}` asks for its rows"),
                    false => format!("`{layer}` selects all of them; compare a column of the event"),
                };
                (format!("every instance of `{layer}` ends: `{name}` selects nothing"), help)
            }
            _ => continue,
        };
        list.push(Diagnostic::error("W0197", message).at(predicate.span).help(help));
    }
    match list.is_empty() {
        true => Ok(()),
        false => Err(Diagnostics { sources: sources_of(&ask.filter), list }),
    }
}

/// How the first packets are run. A link does not wait for slow ones.
fn first_effort(options: &Options) -> Effort {
    let is_file = options.engine == Executor::Auto && !options.narrow;
    if is_file { Effort::Late } else { Effort::Growing }
}

/// Rejects predicates that are known only later in filters for data that is delivered as it arrives. Bytes of
/// streams can wait for such predicates, but not if their packets are wanted, too.
fn refuse_late(ask: &Ask, filter: &Filter, catalog: &StackCatalog) -> Result<(), Diagnostics> {
    let is_of_row = |p: &Predicate| {
        !ask.need.events.is_empty() && matches!(catalog.key(p.field), FieldKey::EndColumn(..))
    };
    let late = |p: &&Predicate| catalog.fields()[p.field].stage != filter::Stage::Packet && !is_of_row(p);
    let is_at_once = match ask.want {
        Want::Streams(params) => params.packets,
        Want::Packets => ask.need.at_once,
        want => want == Want::Events,
    };
    let Some(predicate) = filter.predicates.iter().find(late).filter(|_| is_at_once) else {
        return Ok(());
    };
    let message =
        "events, packets of streams, of handlers and of aggregates are delivered before this field is known";
    let help = "select them by fields of packets, such as addresses and ports";
    let list = vec![Diagnostic::error("W0193", message).at(predicate.span).help(help)];
    Err(Diagnostics { sources: sources_of(&ask.filter), list })
}

/// An error that concerns no text.
pub(crate) fn without_source(wrong: Diagnostic) -> Diagnostics {
    Diagnostics { sources: Sources::new(), list: vec![wrong] }
}

/// The filter's text as the only source of its diagnostics.
pub(crate) fn sources_of(text: &str) -> Sources {
    let mut sources = Sources::new();
    sources.add("filter", text);
    sources
}

/// The events of a stack that `name` may mean, if it names no layer and several layers have an event of that
/// name.
fn several_events(name: &str, library: &Library, own: &str) -> Option<String> {
    let alone = name.split('.').next().unwrap_or(name);
    let layers = library.stack(own)?.layers.iter();
    let having = layers.filter(|layer| layer.protocol.events.iter().any(|event| event.name == alone));
    let names: Vec<String> = having.map(|layer| format!("`{}.{name}`", layer.protocol.filter_name)).collect();
    (names.len() > 1).then(|| format!("several layers have such an event: write {}", names.join(" or ")))
}

/// The session protocols to recognise, and those to parse.
fn session_masks(
    asks: &[Ask],
    questions: &[Question],
    trie: &Trie,
    catalog: &StackCatalog,
) -> (ProtocolSet, ProtocolSet) {
    let asked = questions.iter().fold(ProtocolSet::EMPTY, |all, q| all | q.need.sessions);
    let mut parsed = ProtocolSet::EMPTY;
    for ask in asks {
        if let Want::Sessions(protocols) | Want::Tracked(protocols) = ask.want {
            parsed |= protocols;
        }
    }
    for predicate in trie.alternatives.iter().flat_map(|b| &b.session) {
        match catalog.key(predicate.field) {
            FieldKey::Session(p) | FieldKey::SessionField(p, _) => parsed.insert(usize::from(p)),
            _ => {}
        }
    }
    (asked, parsed)
}

fn pass_options(options: &Options) -> weir_ir::passes::Options {
    let without = &options.without_passes;
    let all = without.iter().any(|p| p == "all");
    let names = weir_ir::passes::PASSES.iter().map(|p| p.name.to_string());
    weir_ir::passes::Options { without: if all { names.collect() } else { without.clone() } }
}
