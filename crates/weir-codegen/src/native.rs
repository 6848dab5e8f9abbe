//! The module of machine code, its memory, and calls into it.

use crate::code::{Code, Memory};
use crate::host::{Bytes, Env};
use crate::lower::{DONE, DONE_WITH, ENTER, LOOKUP, Part, REJOIN, RESTART, Source};
use crate::plan::Plan;
use crate::{CompileError, Effort};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, ir};
use cranelift_frontend::FunctionBuilderContext;
use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weir_ir::abi::{Continuation, Host, Layout, Program, Resume, Step};
use weir_ir::graph::{Graph, Terminator};
use weir_ir::interpret::Interpreter;
use weir_ir::liveness::Crossing;
use weir_ir::patterns::Patterns;
use weir_ir::range::BUFFER_BYTES_MAX;
use weir_ir::verify::{Violation, verify};
use weir_packet::{DropReason, PacketMeta};

type Head =
    unsafe extern "C" fn(*mut Env<'_>, *const PacketMeta, *const u8, usize, *mut Continuation, u64) -> u64;
type Tail = unsafe extern "C" fn(
    *mut Env<'_>,
    *const PacketMeta,
    *const u8,
    usize,
    *mut Continuation,
    *mut u8,
    u64,
) -> u64;

/// Number of packets that are interpreted before machine code is made, with [`Effort::Late`]. Interpreting a
/// packet takes some 30 000 instructions of the processor; compiling the usual parts takes 300 million.
const INTERPRETED_PACKETS: usize = 2_048;

/// Number of packets after which the parts they ran are recompiled with more effort: only long runs get this
/// far.
const WARM_PACKETS: usize = 8_192;

/// Number of inputs of a deferred predicate that are passed without allocation.
const INPUTS_WITHOUT_ALLOCATION: usize = 32;

/// A compiled question. The crate's documentation explains why calls are sound.
///
/// Most captures need few parts of a program, so a part is compiled when a packet first needs it: the head of
/// the fast path for the first packet, the whole head for the first packet that leaves the fast path, a tail
/// for the first packet that reaches the lookup before it. With [`Effort::Late`], the interpreter runs the
/// first [`INTERPRETED_PACKETS`], and nothing is compiled for these.
///
/// With [`Effort::Growing`] and [`Effort::Late`], parts are compiled with the least effort. Parts that
/// thousands of packets run are compiled again in the background, with more effort.
pub struct NativeProgram {
    graph: Arc<Graph>,
    layout: Layout,
    plan: Plan,
    patterns: Arc<Patterns>,
    effort: Effort,
    /// Runs the first [`INTERPRETED_PACKETS`]; `None` if these are not interpreted.
    interpreter: Option<Interpreter>,
    /// The secret for binding continuations to the code of this program. No other code knows it.
    secret: u64,
    /// The secret for binding continuations to [`interpreter`](Self::interpreter): only the interpreter
    /// resumes the packets that it began.
    interpreter_secret: u64,
    fast_path: Option<FastPath>,
    head: PartCode,
    /// By lookup.
    tails: Vec<TailPart>,
    memory: Memory,
    /// Memory of recompiled parts; `None` if it could not be reserved.
    again: OnceLock<Option<Memory>>,
    /// Number of heads that were interpreted so far. [`INTERPRETED_PACKETS`] from the start without an
    /// interpreter.
    interpreted_heads: AtomicUsize,
    /// Packets so far, for a program that grows. Counting stops soon after twice [`WARM_PACKETS`].
    packets: AtomicUsize,
    /// Time of first compilations so far, in nanoseconds.
    compiling: AtomicU64,
}

/// The code of a part.
#[derive(Default)]
struct PartCode {
    first: OnceLock<Code>,
    again: OnceLock<Code>,
}

impl PartCode {
    /// The recompiled code, or else the first one.
    #[inline]
    fn best(&self) -> Option<&Code> {
        self.again.get().or_else(|| self.first.get())
    }
}

/// The tail after a lookup.
struct TailPart {
    code: PartCode,
    /// Size of the variables of the flow record that the tail receives.
    data_bytes: usize,
}

/// The fast path and its code.
struct FastPath {
    graph: Graph,
    plan: Plan,
    code: PartCode,
}

impl fmt::Debug for NativeProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeProgram")
            .field("graph", &self.graph.name)
            .field("code_bytes", &self.code_bytes())
            .finish_non_exhaustive()
    }
}

impl NativeProgram {
    pub(crate) fn new(graph: Graph, fast_path: Option<Graph>, effort: Effort) -> Result<Self, CompileError> {
        let start = Instant::now();
        probe_executable_memory()?;
        let patterns = Patterns::of(&graph).map_err(|e| CompileError::Pattern(e.to_string()))?;
        let plan = verified_plan(&graph)?;
        let (graph, patterns) = (Arc::new(graph), Arc::new(patterns));
        let interpret = || Interpreter::of(Arc::clone(&graph), Arc::clone(&patterns));
        let interpreter = (effort == Effort::Late).then(interpret);
        // A graph whose layers are not nested may have no valid fast path, which only costs speed.
        let fast_path = fast_path.and_then(|fast_path| FastPath::new(fast_path, &graph, &plan).ok());
        let parts = 2 + plan.crossings.len();
        let layout = Layout::of(&graph);
        let tail = |crossing: &Crossing| TailPart {
            code: PartCode::default(),
            data_bytes: layout.size(crossing.table),
        };
        let secret = RandomState::new().build_hasher().finish();
        let program = Self {
            again: OnceLock::new(),
            interpreted_heads: AtomicUsize::new(if interpreter.is_some() { 0 } else { INTERPRETED_PACKETS }),
            packets: AtomicUsize::new(0),
            memory: Memory::reserve(&graph, parts, isa(effort.first())?)?,
            tails: plan.crossings.iter().map(tail).collect(),
            layout,
            // Never 0, which means unbound.
            secret: secret | 1,
            interpreter_secret: (secret | 1) ^ 2,
            interpreter,
            head: PartCode::default(),
            compiling: AtomicU64::new(0),
            graph,
            plan,
            patterns,
            effort,
            fast_path,
        };
        if program.interpreter.is_none() {
            program.make(if program.fast_path.is_some() { Part::FastPath } else { Part::Head })?;
        }
        program.compiling.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(program)
    }

    /// Compiles a part that has no code yet.
    fn make(&self, part: Part) -> Result<(), CompileError> {
        let code = self.memory.compile(part, self.source(part))?;
        let _ = self.place(part).first.set(code);
        Ok(())
    }

    /// Whether a part is worth recompiling. Not if the fast path bypasses it, because few packets need it
    /// then.
    fn is_worth_more(&self, part: Part) -> bool {
        self.effort.grows()
            && match (part, &self.fast_path) {
                (Part::Head, Some(_)) => false,
                (Part::Tail(number), Some(fast_path)) => fast_path.leads_to(number),
                _ => true,
            }
    }

    /// The final effort of a part.
    fn effort(&self, part: Part) -> Effort {
        if self.is_worth_more(part) { Effort::Quick } else { self.effort.first() }
    }

    /// The code of a part.
    fn place(&self, part: Part) -> &PartCode {
        match (part, &self.fast_path) {
            (Part::FastPath, Some(fast_path)) => &fast_path.code,
            (Part::Tail(number), _) => &self.tails[number].code,
            _ => &self.head,
        }
    }

    fn source(&self, part: Part) -> Source<'_> {
        let (graph, plan) = match (part, &self.fast_path) {
            (Part::FastPath, Some(fast_path)) => (&fast_path.graph, &fast_path.plan),
            _ => (&*self.graph, &self.plan),
        };
        Source { graph, plan, layout: &self.layout, whole: &self.plan.crossings }
    }

    /// The code of a part, compiled on demand.
    ///
    /// # Panics
    /// If the part does not compile. That cannot happen: the graph passed the verifier and the plan, and the
    /// memory is reserved.
    #[inline]
    fn code(&self, part: Part) -> &Code {
        self.place(part).best().unwrap_or_else(|| self.first_code(part))
    }

    #[cold]
    fn first_code(&self, part: Part) -> &Code {
        self.place(part).first.get_or_init(|| {
            let start = Instant::now();
            let code = self.memory.compile(part, self.source(part));
            self.compiling.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            code.unwrap_or_else(|error| panic!("the {} of {}: {error}", part.name(), self.graph.name))
        })
    }

    /// Recompiles all parts that have run and are worth it. A part that fails to recompile keeps its old
    /// code.
    pub fn compile_again(&self) {
        let reserve = || {
            let parts = 1 + self.tails.len();
            isa(Effort::Quick).and_then(|isa| Memory::reserve(&self.graph, parts, isa)).ok()
        };
        let Some(memory) = self.again.get_or_init(reserve) else { return };
        for part in self.parts().filter(|&part| self.is_worth_more(part)) {
            let PartCode { first, again } = self.place(part);
            if first.get().is_some()
                && again.get().is_none()
                && let Ok(code) = memory.compile(part, self.source(part))
            {
                let _ = again.set(code);
            }
        }
    }

    fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let fast_path = self.fast_path.as_ref().map(|_| Part::FastPath);
        fast_path.into_iter().chain([Part::Head]).chain((0..self.tails.len()).map(Part::Tail))
    }

    /// The fast path, if there is one.
    pub fn fast_path(&self) -> Option<&Graph> {
        self.fast_path.as_ref().map(|fast_path| &fast_path.graph)
    }

    /// Time spent on verification and compilation so far.
    pub fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.compiling.load(Ordering::Relaxed))
    }

    /// Size of the machine code so far, in bytes.
    pub fn code_bytes(&self) -> usize {
        self.parts().filter_map(|part| self.place(part).best()).map(|code| code.bytes).sum()
    }

    /// The Cranelift input and the machine code of all functions. Compiles them again.
    pub fn code_text(&self) -> String {
        let mut text = String::new();
        for part in self.parts() {
            if let Err(error) = self.write_code(&mut text, part) {
                // It compiled before; the same graph, processor and effort give the same result.
                unreachable!("{}: {error}", part.name());
            }
        }
        text
    }

    fn write_code(&self, text: &mut String, part: Part) -> Result<(), CompileError> {
        let isa = isa(self.effort(part))?;
        let mut context = Context::new();
        context.set_disasm(true);
        let name = part.name();
        context.func.name = ir::UserFuncName::testcase(&name);
        let mut scratch = FunctionBuilderContext::new();
        self.source(part).lower(part, &mut context.func, &mut scratch, isa.frontend_config());
        let clif = context.func.display().to_string();
        let code = context
            .compile(&*isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(error.inner.to_string()))?;
        let bytes = code.code_buffer().len();
        let machine = code.vcode.as_deref().unwrap_or_default();
        let target = isa.triple();
        let written = write!(text, "; {name}\n{clif}\n; {name}: {bytes} bytes for {target}\n{machine}\n");
        written.map_err(|error| CompileError::Backend(error.to_string()))
    }

    #[inline]
    fn env<'a>(&'a self, k: *mut Continuation) -> Env<'a> {
        Env {
            numbers: ptr::null(),
            bytes: ptr::null(),
            graph: &self.graph,
            patterns: &self.patterns,
            host: None,
            flow_id: 0,
            flow_data: ptr::null_mut(),
            flow_bytes: 0,
            k,
            fault: None,
        }
    }

    #[inline]
    fn run_head(&self, k: &mut Continuation, packet: &PacketMeta, frame: &[u8]) -> u64 {
        if self.fast_path.is_some() && k.tries_fast_path() {
            let status = self.run((Part::FastPath, 0), &mut self.env(k), packet, frame);
            k.note_fast_path(status == REJOIN);
            if status != REJOIN {
                return status;
            }
        }
        self.run((Part::Head, 0), &mut self.env(k), packet, frame)
    }

    /// Runs a head from one of its entries.
    #[inline]
    fn run(&self, (part, entry): (Part, u64), env: &mut Env<'_>, packet: &PacketMeta, frame: &[u8]) -> u64 {
        let (code, k) = (self.code(part), env.k);
        // SAFETY: the code was compiled with the signature of `Head` in the host's calling convention and is
        // valid as long as the program. `packet`, `frame` and all references in `env` are borrowed until the
        // call returns. The graph was verified, so no load is outside them.
        let status = unsafe {
            let head = std::mem::transmute::<*const u8, Head>(code.address);
            head(env, packet, frame.as_ptr(), frame.len(), k, entry)
        };
        // SAFETY: `k` was borrowed for this whole call, and native code has returned.
        unsafe { raise(env, k) };
        status
    }

    /// Interprets the head for one of the first packets.
    #[cold]
    fn head_interpreted(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Step {
        self.interpreted_heads.fetch_add(1, Ordering::Relaxed);
        let interpreter = self.interpreter.as_ref().expect("without one, no heads are left to interpret");
        self.bind_interpreted(interpreter.head(packet, frame, k), frame, k)
    }

    /// Goes on with a packet whose head was interpreted.
    #[cold]
    fn resume_interpreted(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation) -> Step {
        let frame = at.frame;
        assert!(
            k.is_bound(self.interpreter_secret, frame),
            "resumed with another packet than the head ran on"
        );
        let interpreter = self.interpreter.as_ref().expect("its head bound the continuation");
        self.bind_interpreted(interpreter.resume(host, at, k), frame, k)
    }

    /// After a step of the interpreter: only the interpreter resumes.
    #[cold]
    fn bind_interpreted(&self, step: Step, frame: &[u8], k: &mut Continuation) -> Step {
        match &step {
            Step::Lookup => k.bind(self.interpreter_secret, frame),
            Step::Restart => {}
            Step::Done(_) => k.release(),
        }
        step
    }

    #[inline]
    fn step(&self, status: u64, frame: &[u8], k: &mut Continuation) -> Step {
        match status {
            LOOKUP => {
                k.bind(self.secret, frame);
                Step::Lookup
            }
            RESTART => Step::Restart,
            status => {
                k.release();
                match status {
                    DONE => Step::Done(None),
                    status => Step::Done(DropReason::from_number((status - DONE_WITH) as u8)),
                }
            }
        }
    }
}

impl Program for NativeProgram {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn head(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Step {
        assert_eq!(self.plan.inputs, (0, 0), "a residual filter is asked, it runs on no packet");
        let frame = bounded(frame);
        if self.interpreted_heads.load(Ordering::Relaxed) < INTERPRETED_PACKETS {
            return self.head_interpreted(packet, frame, k);
        }
        k.release();
        let status = self.run_head(k, packet, frame);
        self.step(status, frame, k)
    }

    fn resume(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation) -> Step {
        let number = k.resume();
        let frame = bounded(at.frame);
        if !k.is_bound(self.secret, frame) {
            return self.resume_interpreted(host, Resume { frame, ..at }, k);
        }
        let Resume { packet, flow, direction, is_new, .. } = at;
        let part = &self.tails[number];
        let tail = part.code.best().unwrap_or_else(|| self.first_code(Part::Tail(number)));
        let needed = part.data_bytes;
        assert!(flow.data.len() >= needed, "a flow record of {} of {needed} bytes", flow.data.len());
        let flow_data = flow.data.as_mut_ptr();
        let mut env =
            Env { host: Some(host), flow_id: flow.id, flow_data, flow_bytes: flow.data.len(), ..self.env(k) };
        let flags = u64::from(direction.is_responder()) | u64::from(is_new) << 1;
        let k: *mut Continuation = env.k;
        // SAFETY: as in `run`. The state in the continuation was saved by this program for this frame, and
        // the continuation keeps its buffers. The flow record is long enough for all its variables.
        let status = unsafe {
            let tail = std::mem::transmute::<*const u8, Tail>(tail.address);
            tail(&mut env, packet, frame.as_ptr(), frame.len(), k, flow_data, flags)
        };
        // SAFETY: as in `run`.
        unsafe { raise(&mut env, k) };
        let status = match status.checked_sub(ENTER) {
            // The values that the head needs there were saved as for a lookup.
            Some(entry) => self.run((Part::Head, 1 + entry), &mut env, packet, frame),
            None => status,
        };
        // SAFETY: `k` was borrowed for this whole call, and native code has returned.
        self.step(status, frame, unsafe { &mut *k })
    }

    fn note_packets(self: Arc<Self>, packets: usize) {
        if !self.effort.grows() || self.packets.load(Ordering::Relaxed) >= 2 * WARM_PACKETS {
            return;
        }
        let before = self.packets.fetch_add(packets, Ordering::Relaxed);
        // Recompiles once after many packets, and once more for the parts that were first needed in between.
        if [WARM_PACKETS, 2 * WARM_PACKETS].iter().any(|&warm| before < warm && before + packets >= warm) {
            // If no thread can be started, the code stays as it is.
            let name = "compile".to_string();
            let _ = std::thread::Builder::new().name(name).spawn(move || self.compile_again());
        }
    }

    fn ask(&self, numbers: &[u64], bytes: &[&[u8]], k: &mut Continuation) -> u64 {
        // Missing inputs are 0 or empty.
        let (numbers_max, bytes_max) = self.plan.inputs;
        let as_native = |bytes: &&[u8]| Bytes { address: bytes.as_ptr(), length: bounded(bytes).len() };
        let none = Bytes { address: ptr::null(), length: 0 };
        let numbers = Inputs::of(numbers.iter().copied(), numbers_max, 0);
        let bytes = Inputs::of(bytes.iter().map(as_native), bytes_max, none);
        k.release();
        let mut env = Env { numbers: numbers.as_ptr(), bytes: bytes.as_ptr(), ..self.env(k) };
        // A deferred predicate has no stack, and so no fast path.
        let status = self.run((Part::Head, 0), &mut env, &PacketMeta::default(), &[]);
        // There are no flows to look up.
        if status >= LOOKUP { 0 } else { k.terms }
    }
}

impl FastPath {
    /// Whether packets of the fast path continue in the tail after this lookup.
    fn leads_to(&self, lookup: usize) -> bool {
        self.graph.blocks.iter().any(|block| match block.terminator {
            Terminator::Rejoin { lookup: Some(number), .. } => number as usize == lookup,
            _ => false,
        })
    }

    /// Verifies the fast path and compares it with the whole graph: tails must load exactly the saved values.
    fn new(graph: Graph, whole: &Graph, plan: &Plan) -> Result<Self, CompileError> {
        let own = verified_plan(&graph)?;
        for block in graph.block_ids() {
            if let Terminator::Rejoin { lookup: Some(number), values, .. } = &graph.block(block).terminator {
                let saved = values.iter().map(|&v| graph.type_of(v));
                let loaded = plan.crossings.get(*number as usize).map(|crossing| &crossing.values);
                if !loaded.is_some_and(|loaded| saved.eq(loaded.iter().map(|&v| whole.type_of(v)))) {
                    return Err(CompileError::Unverified(format!("\n  {block} saves what no lookup does")));
                }
            }
        }
        Ok(Self { plan: own, graph, code: PartCode::default() })
    }
}

/// Resumes a caught panic. The saved values may be inconsistent then, so the continuation is released.
///
/// # Safety
/// Nothing else may use `k`.
#[inline]
unsafe fn raise(env: &mut Env<'_>, k: *mut Continuation) {
    if let Some(fault) = env.fault.take() {
        // SAFETY: guaranteed by the caller.
        unsafe { (*k).release() };
        std::panic::resume_unwind(fault);
    }
}

/// As many inputs as native code reads; on the stack if they are few.
enum Inputs<T> {
    Few([T; INPUTS_WITHOUT_ALLOCATION]),
    Many(Vec<T>),
}

impl<T: Copy> Inputs<T> {
    fn of(given: impl Iterator<Item = T>, max: usize, missing: T) -> Self {
        if max <= INPUTS_WITHOUT_ALLOCATION {
            let mut few = [missing; INPUTS_WITHOUT_ALLOCATION];
            few.iter_mut().zip(given).for_each(|(place, input)| *place = input);
            return Self::Few(few);
        }
        Self::Many(given.chain(std::iter::repeat(missing)).take(max).collect())
    }

    fn as_ptr(&self) -> *const T {
        match self {
            Self::Few(few) => few.as_ptr(),
            Self::Many(many) => many.as_ptr(),
        }
    }
}

/// The target, created once per process and effort.
fn isa(effort: Effort) -> Result<OwnedTargetIsa, CompileError> {
    static ISAS: [OnceLock<Result<OwnedTargetIsa, String>>; 5] = [const { OnceLock::new() }; 5];
    let make = || {
        let mut flags = settings::builder();
        let set = [
            ("opt_level", if effort == Effort::Thorough { "speed" } else { "none" }),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("regalloc_algorithm", if effort == Effort::Least { "single_pass" } else { "backtracking" }),
            ("probestack_strategy", "inline"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ];
        for (flag, value) in set {
            flags.set(flag, value).map_err(|error| format!("{flag}: {error}"))?;
        }
        let builder = cranelift_native::builder().map_err(str::to_owned)?;
        builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    };
    ISAS[effort as usize].get_or_init(make).clone().map_err(CompileError::UnknownProcessor)
}

/// Checks that written memory may be executed. Hardened systems forbid it, and the module would abort instead
/// of returning an error.
fn probe_executable_memory() -> Result<(), CompileError> {
    let forbidden = |error: region::Error| CompileError::NoExecutableMemory(error.to_string());
    let mut page = region::alloc(1, region::Protection::READ_WRITE).map_err(forbidden)?;
    let bytes = page.as_mut_ptr::<u8>();
    // SAFETY: the page belongs to this function, and was just made writable.
    unsafe { bytes.write(0) };
    // SAFETY: there is no reference to the page.
    unsafe { region::protect(bytes, 1, region::Protection::READ_EXECUTE) }.map_err(forbidden)
}

/// The plan of a graph, after verification.
fn verified_plan(graph: &Graph) -> Result<Plan, CompileError> {
    let verified = verify(graph).map_err(|violations| CompileError::Unverified(lines(&violations)))?;
    Plan::of(graph, verified)
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("\n  {violation}")).collect()
}

/// Truncates a buffer to the length that the proofs about loads assume: at most 32 bits.
fn bounded(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(BUFFER_BYTES_MAX as usize)]
}
