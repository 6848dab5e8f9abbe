//! Lowering: turns a stack and its questions into one graph.
//!
//! Every layer becomes a region with a single entry block, whatever the previous layer; `buf`, `offset` and
//! `end` say where its header starts. A layer's region: `header` (checks, loads, constraints), `predicate`
//! (predicates of filters), `instance` (lookup, preparation, sequence, states, events), then the edges to the
//! layers above. A packet ends in one of the blocks of `finish`, in which the values of the predicates are
//! combined into terms.
//!
//! Lowering generates everything in the stack except what is known to hold for no packet (`strict`); the
//! passes remove what no question needs.

mod detail;
mod dispatch;
mod event;
mod expr;
mod finish;
mod fragment_terms;
mod frame_test;
mod gap;
mod groups;
mod header;
mod instance;
mod key;
mod lookup;
mod messages;
mod open_terms;
mod packet_line;
mod predicate;
mod ranges;
mod sample;
mod sequence;
mod steady;
mod tunnel;
mod values;
mod wholes;

use crate::catalog::StackCatalog;
use crate::question::{Need, Question};
use crate::trie::{ClassSet, Trie};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use steady::ForKernel;
use weir_ir::build::{Builder, Variable, to};
use weir_ir::graph::{BinaryOp, Block, Graph, Meta, Op, Out, Terminator, Type, Value};
use weir_lang::diag::Diagnostic;
use weir_lang::model::{EdgeKind, FieldId, Layer, LayerId, Stack};
use weir_lang::reach::Reach;
use weir_packet::{DropReason, LinkType};

pub use detail::NoteOf;
pub use dispatch::{DISPATCH_SLOTS, DISPATCH_UNKNOWN, HEADER_SLOTS, HeaderKind, header_in};
pub use event::as_key;
pub use header::RUN_ITEMS_MAX;

pub use messages::{MESSAGES_MAX, in_messages};
pub use packet_line::{EXCERPT_SLOTS, OutValue, PATH_BITS, PATH_LAYERS_MAX, PATH_WORDS, SHOW_SLOTS_MAX};
pub(crate) use predicate::{compare_part, compare_words};
pub use sequence::ORDERED_MAX;
pub use values::{PacketValue, VALUES_MAX};
pub use weir_ir::engine_var::HISTORY_LETTERS_MAX;

/// Maximum number of layers of a stack: the path of a packet has [`PATH_BITS`] per layer number.
pub const LAYERS_MAX: usize = (1 << PATH_BITS) - 2;

/// The result of lowering.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// The graph, before any pass.
    pub graph: Graph,
    /// The terms of the questions, and the meaning of the bits of a packet's terms.
    pub trie: Trie,
    /// The meaning of the slots of the packet's record.
    pub outs: Vec<OutValue>,
    /// The layer that each table belongs to.
    pub tables: Vec<LayerId>,
    /// Classes to which every packet belongs.
    pub unconditional: ClassSet,
    /// Number of `show` parts for which the packet's record has no slot.
    pub parts_left_out: usize,
    /// The values of packets in the packet's record.
    pub values: Vec<PacketValue>,
    /// The meanings of the program's notes, by the number of [`Op::Note`]; none unless detail is needed.
    pub notes: Vec<NoteOf>,
}

/// Lowers `questions` over `stack`.
///
/// # Errors
/// If the stack has too many layers, or the questions exceed a limit of one program.
pub fn lower(stack: &Stack, catalog: &StackCatalog, questions: &[Question]) -> Result<Lowered, Diagnostic> {
    lower_as(stack, catalog, questions, None)
}

/// Lowers `questions` for the kernel: of an instance's work the graph has only the part for connections that
/// the kernel has taken over ([`Steady`](weir_lang::model::Steady)). `looked_up`: the layers whose instances
/// the program of the questions looks up.
///
/// # Errors
/// As [`lower`].
pub fn lower_for_kernel(
    stack: &Stack,
    catalog: &StackCatalog,
    questions: &[Question],
    looked_up: Vec<LayerId>,
) -> Result<Lowered, Diagnostic> {
    lower_as(stack, catalog, questions, Some(ForKernel::new(looked_up)))
}

fn lower_as(
    stack: &Stack,
    catalog: &StackCatalog,
    questions: &[Question],
    for_kernel: Option<ForKernel>,
) -> Result<Lowered, Diagnostic> {
    if stack.layers.len() > LAYERS_MAX {
        return Err(too_many_layers(stack));
    }
    let trie = Trie::of(questions, catalog)?;
    let mut lower = Lower::new(stack, catalog, questions, &trie);
    lower.for_kernel = for_kernel;
    lower.run();
    let unconditional = trie.nodes[Trie::ROOT].class.into_iter().collect();
    let values = lower.packet_values();
    let (outs, tables, parts_left_out, notes) = (lower.outs, lower.tables, lower.parts_left_out, lower.notes);
    let graph = lower.b.finish();
    Ok(Lowered { graph, trie, outs, tables, unconditional, parts_left_out, values, notes })
}

fn too_many_layers(stack: &Stack) -> Diagnostic {
    Diagnostic::error(
        "W0191",
        format!("stack `{}` has {} layers; at most {LAYERS_MAX}", stack.name, stack.layers.len()),
    )
    .help("split it: a stack need only hold the layers that its questions meet")
}

/// A number of up to 128 bits in two words.
type Pair = (Value, Value);

/// The variables of one layer.
#[derive(Debug, Clone, Default)]
struct LayerVars {
    /// Low and high word of each field; high only for 128 bits.
    fields: Vec<(Variable, Option<Variable>)>,
    /// By field: whether a conditional field is present.
    field_present: Vec<Option<Variable>>,
    /// Offset and size of each field.
    field_at: Vec<(Variable, Variable)>,
    lets: Vec<Option<Variable>>,
    /// By derived value: whether all fields that it uses are present. Only set if a filter tests a derived
    /// value.
    lets_known: Vec<Variable>,
    presences: Vec<Variable>,
    start: Option<Variable>,
    header_bytes: Option<Variable>,
    payload_at: Option<Variable>,
    payload_bytes: Option<Variable>,
    rest_bytes: Option<Variable>,
    layer_bytes: Option<Variable>,
}

/// The state of lowering.
struct Lower<'a> {
    b: Builder,
    stack: &'a Stack,
    catalog: &'a StackCatalog,
    questions: &'a [Question],
    trie: &'a Trie,
    need: Need,
    /// The buffer, the offset of the current layer in it, and the end of the enclosing payload.
    buf: Variable,
    offset: Variable,
    end: Variable,
    quoted: Variable,
    /// The layers so far, the innermost in the lowest bits, the lowest word first.
    path: [Variable; PATH_WORDS],
    layers: Vec<Rc<LayerVars>>,
    entries: Vec<Block>,
    /// Low and high word of each `below.NAME` at this point.
    below: Rc<BTreeMap<String, (Variable, Variable)>>,
    predicates: Vec<groups::PredicateVars>,
    groups: Vec<groups::PredicateGroup>,
    finish: finish::FinishBlocks,
    reach: Reach,
    /// By layer: the fields of the key of its connections.
    key_fields: Vec<Vec<(LayerId, FieldId)>>,
    /// By layer: whether it occurred.
    seen: Vec<Variable>,
    /// Number of bytes from the header's start to the current position, for expressions in the header.
    cursor: Option<Value>,
    flow: Option<instance::FlowContext>,
    /// By layer: whether its instances must be tracked even for packets that satisfy no term.
    asked: Vec<bool>,
    /// By layer: what the layers above it decide about its connections. If any decide something: the first of
    /// the slots for the terms that hold before the next connection begins.
    open: Vec<open_terms::Open>,
    outer: Option<Out>,
    /// The slot for the layer by which a connection carries another one.
    tunnel: Option<Out>,
    /// The layers by which connections carry others; none if no question asks.
    tunnels: Vec<LayerId>,
    /// The slots of the second and further words of terms.
    further_terms: Range<u32>,
    /// The terms of fragments, if a question about packets needs them.
    fragment_terms: Option<fragment_terms::FragmentTerms>,
    /// The state of messages, if the stack has any, and the layers that are messages or inside them.
    messages: Option<messages::MessageVars>,
    in_messages: FxHashSet<LayerId>,
    /// By layer: its loops.
    fuels: Vec<Range<u32>>,
    outs: Vec<OutValue>,
    parts_left_out: usize,
    notes: Vec<NoteOf>,
    tables: Vec<LayerId>,
    /// Whether the number of the packet's hosts is known.
    sampled: Option<Variable>,
    /// The keys by which packets are assigned to workers, if the program computes these.
    dispatch: Option<dispatch::DispatchVars>,
    /// Where headers are, if the program finds them.
    headers: Option<dispatch::HeaderVars>,
    /// Set if the graph is for the kernel.
    for_kernel: Option<ForKernel>,
    values: values::Values,
}

/// The stream offset, per side, beyond which no question needs bytes; `None` if a question needs all bytes.
fn cutoff_of(questions: &[Question]) -> Option<[u64; 2]> {
    let cutoffs =
        questions.iter().map(|q| q.need).filter(Need::bytes).map(|need| match need.sessions.is_empty() {
            true => need.cutoff,
            false => None,
        });
    cutoffs.reduce(|a, b| a.zip(b).map(|([a, b], [c, d])| [a.max(c), b.max(d)])).flatten()
}

impl<'a> Lower<'a> {
    fn new(stack: &'a Stack, catalog: &'a StackCatalog, questions: &'a [Question], trie: &'a Trie) -> Self {
        let names: Vec<&str> = questions.iter().map(|q| q.filter.text.as_str()).collect();
        let mut b = Builder::new(Graph { name: names.join(" | "), ..Graph::default() });
        let need = questions.iter().fold(Need::default(), |n, q| Need {
            packets: n.packets | q.need.packets,
            lines: n.lines | q.need.lines,
            detail: n.detail | q.need.detail,
            path: n.path | q.need.path,
            connections: n.connections | q.need.connections,
            variables: n.variables | q.need.variables,
            service: n.service | q.need.service,
            tunnels: n.tunnels | q.need.tunnels,
            streams: n.streams | q.need.streams,
            cutoff: None,
            sessions: n.sessions | q.need.sessions,
            events: n.events | q.need.events,
            odd: n.odd | q.need.odd,
            dispatch: n.dispatch | q.need.dispatch,
            headers: n.headers | q.need.headers,
            verdicts: n.verdicts | q.need.verdicts,
            strict: n.strict | q.need.strict,
            values: n.values,
            at_once: n.at_once | q.need.at_once,
        });
        let need = Need { cutoff: cutoff_of(questions), ..need };
        let [buf, offset, end] = [Type::Buf, Type::Int, Type::Int].map(|ty| b.variable(ty));
        let path = [Type::Int; PATH_WORDS].map(|ty| b.variable(ty));
        let quoted = b.variable(Type::Bool);
        Self {
            buf,
            offset,
            end,
            quoted,
            path,
            b,
            stack,
            catalog,
            questions,
            trie,
            need,
            layers: vec![],
            entries: vec![],
            below: Rc::default(),
            predicates: vec![],
            groups: vec![],
            finish: finish::FinishBlocks::default(),
            reach: Reach::of(stack),
            key_fields: vec![],
            seen: vec![],
            cursor: None,
            flow: None,
            asked: vec![],
            open: vec![],
            outer: None,
            tunnel: None,
            tunnels: vec![],
            further_terms: 0..0,
            fragment_terms: None,
            messages: None,
            in_messages: FxHashSet::default(),
            fuels: vec![],
            outs: vec![],
            parts_left_out: 0,
            notes: vec![],
            tables: vec![],
            sampled: None,
            dispatch: None,
            headers: None,
            for_kernel: None,
            values: values::Values::default(),
        }
    }

    fn run(&mut self) {
        self.asked = self.find_asked();
        self.open = self.find_open();
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        self.key_fields = layers.map(|id| self.find_key_fields(id)).collect();
        self.declare();
        let last_gaps = self.lower_start();
        for index in 0..self.stack.layers.len() {
            let first = self.b.graph.fuels;
            let id = LayerId(index as u16);
            self.finish.set_inside(self.in_messages.contains(&id));
            self.lower_layer(id);
            self.fuels.push(first..self.b.graph.fuels);
        }
        self.finish.set_inside(false);
        if let Some(first) = last_gaps {
            self.lower_last_gaps(first);
        }
        self.lower_between_messages();
        for entry in self.entries.clone() {
            self.b.seal(entry);
        }
        self.lower_finish();
    }

    fn layer(&self, id: LayerId) -> &'a Layer {
        &self.stack.layers[id.0 as usize]
    }

    fn vars(&self, id: LayerId) -> Rc<LayerVars> {
        Rc::clone(&self.layers[id.0 as usize])
    }

    fn declare(&mut self) {
        for layer in &self.stack.layers {
            let entry = self.b.block();
            self.entries.push(entry);
            let vars = self.declare_layer(layer);
            self.layers.push(Rc::new(vars));
        }
        let below = below_names(self.stack, self.stack.layers.iter()).into_iter();
        let below = below.map(|name| (name, (self.b.variable(Type::Int), self.b.variable(Type::Int))));
        self.below = Rc::new(below.collect());
        self.declare_predicates();
        self.declare_finish();
        self.declare_messages();
        self.declare_outs();
    }

    /// Lowers the edges from the entry to the first layer, by link type. Returns the block for gaps at the
    /// ends of instances, if a layer heeds them.
    fn lower_start(&mut self) -> Option<Block> {
        let frame = self.b.one(Op::Frame);
        let wire = self.b.one(Op::Meta(Meta::WireBytes));
        let zero = self.b.int(0);
        self.b.write(self.buf, frame);
        self.b.write(self.offset, zero);
        self.b.write(self.end, wire);
        self.path.into_iter().for_each(|word| self.b.write(word, zero));
        let no = self.b.bool(false);
        self.b.write(self.quoted, no);
        self.lower_first_context();
        self.lower_first_dispatch();
        self.lower_first_headers();
        self.lower_first_steady();
        self.lower_no_values();
        self.lower_frame_predicates();
        self.lower_none_beside();
        let link = self.b.one(Op::Meta(Meta::Link));
        let mut cases = vec![];
        for &(number, layer) in &self.stack.starts {
            let gate = self.b.block();
            cases.push((number, gate, layer));
        }
        let last_gaps = self.last_gaps_case();
        let targets = cases.iter().map(|&(n, gate, _)| (u64::from(n), to(gate)));
        let targets = targets.chain(last_gaps.map(|(link, block)| (link, to(block)))).collect();
        let unknown = to(self.finish.of(Some(DropReason::UnknownLink)));
        self.b.end(Terminator::Switch { value: link, cases: targets, otherwise: unknown });
        for (link, gate, layer) in cases {
            self.b.seal(gate);
            self.b.switch_to(gate);
            self.lower_frame_tests(LinkType(link));
            self.enter(layer);
        }
        last_gaps.map(|(_, block)| block)
    }

    /// Enters a layer, unless no term can still hold there and the packet's effects on instances are not
    /// used.
    fn enter(&mut self, layer: LayerId) {
        let entry = self.entries[layer.0 as usize];
        match self.alive_at(layer, predicate::Above::All) {
            Some(alive) if !self.is_asked_above(layer) => {
                let dead = self.finish.of(None);
                self.b.branch(alive, entry, dead);
            }
            _ => self.b.jump(entry),
        }
    }

    fn lower_layer(&mut self, id: LayerId) {
        self.b.switch_to(self.entries[id.0 as usize]);
        if self.reach.contains(id, id) {
            let (first, max) = (self.b.block(), self.layer(id).repeat_max);
            let fuel = self.b.again(max, first, self.finish.of(Some(DropReason::NestingLimit)));
            if let Some(level) = self.stack.usual.iter().position(|level| level.contains(&id)) {
                self.b.graph.usual.resize(self.stack.usual.len(), vec![]);
                self.b.graph.usual[level].push(fuel);
            }
            self.b.seal(first);
            self.b.switch_to(first);
        }
        self.lower_outer_terms(id);
        self.lower_tunnel(id);
        self.lower_unknown_dispatch(id);
        self.lower_header(id);
        self.lower_payload(id);
        if self.is_message(id) {
            self.lower_message_end(id);
        }
        self.lower_lets(id);
        self.note_layer_end(id);
        self.lower_path(id);
        self.lower_predicates(id);
        self.lower_show(id);
        self.lower_values(id);
        self.lower_context(id);
        self.lower_headers(id);
        if self.need.dispatch {
            self.lower_dispatch(id);
        } else if !self.lower_instance(id) {
            return;
        }
        self.export_below(id);
        self.lower_edges(id);
    }

    fn lower_path(&mut self, id: LayerId) {
        let (own, others) = (self.b.int(PATH_BITS), self.b.int(64 - PATH_BITS));
        let mut below = self.b.int(u64::from(id.0) + 1);
        for word in self.path {
            let value = self.b.read(word);
            let carried = self.b.binary(BinaryOp::Shr, value, others);
            let shifted = self.b.binary(BinaryOp::Shl, value, own);
            let value = self.b.binary(BinaryOp::Or, shifted, below);
            self.b.write(word, value);
            below = carried;
        }
    }

    /// Lowers the edges from a layer's payload to the next layer.
    fn lower_edges(&mut self, id: LayerId) {
        let vars = self.vars(id);
        let payload_at = vars.payload_at.expect("declared for every layer");
        let at = self.b.read(payload_at);
        self.b.write(self.offset, at);
        for edge in self.stack.edges.iter().filter(|e| e.from == id && e.kind != EdgeKind::Messages) {
            let (take, next) = (self.b.block(), self.b.block());
            let holds = self.truth(id, &edge.condition);
            self.b.branch(holds, take, next);
            self.b.seal(take);
            self.b.seal(next);
            self.b.switch_to(take);
            if edge.kind == EdgeKind::Quoted {
                let yes = self.b.bool(true);
                self.b.write(self.quoted, yes);
            }
            self.enter(edge.to);
            self.b.switch_to(next);
        }
        let done = self.finish.of(None);
        self.b.jump(done);
    }

    /// Sets the values of `below.` for the layers above this one.
    fn export_below(&mut self, id: LayerId) {
        let protocol = &self.layer(id).protocol;
        let below = Rc::clone(&self.below);
        for (name, &(low, high)) in below.iter() {
            let named = |f: &weir_lang::model::Field| f.is_called(name);
            let pair = if let Some(f) = protocol.fields.iter().position(named) {
                Some(self.field_pair(id, FieldId(f as u16)))
            } else if let Some(l) = protocol.lets.iter().position(|l| l.name == *name) {
                let value = self.let_value(id, l);
                Some((self.b.int(0), value))
            } else {
                None
            };
            if let Some((h, l)) = pair {
                self.b.write(low, l);
                self.b.write(high, h);
            }
        }
    }
}

/// Every name that one of these layers reads with `below.`, and the context of keys if the stack has any.
fn below_names<'a>(stack: &Stack, layers: impl Iterator<Item = &'a Layer>) -> Vec<String> {
    let mut names = FxHashSet::default();
    if stack.by_interface || stack.layers.iter().any(|layer| !layer.protocol.context.is_empty()) {
        names.insert(key::BELOW_CONTEXT.to_owned());
    }
    if stack.layers.iter().any(|layer| !layer.protocol.tags.is_empty()) {
        names.insert(key::BELOW_TAGS.to_owned());
    }
    for layer in layers {
        crate::walk::for_each_expr(&layer.protocol, &mut |e| {
            if let weir_lang::model::Expr::Below(name) = e {
                names.insert(name.clone());
            }
        });
    }
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    names
}
