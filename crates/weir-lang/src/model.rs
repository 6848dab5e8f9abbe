//! The checked model: what the text of protocols and stacks means, names resolved, types known.
//!
//! The parser (`syntax`) yields a tree with spans; the checker (`check`) resolves every name and
//! yields this. Lowering to a graph reads only this. Field paths are dotted names inside their
//! protocol (`flags.syn`, `options.mss.value`); `filter_name` is the name that filters use.

use crate::diag::Span;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::Duration;

/// A protocol: one layer.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Its name in stacks.
    pub name: String,
    /// The name behind `protocol` in its text: where a stack has it under another name (`layer inner: ip`), what it
    /// is.
    pub declared: String,
    /// The first part of its fields' names in filters (`protocol fragment as ipv6.fraghdr`); `name` by default.
    pub filter_name: String,
    /// The `//!` line above it.
    pub doc: String,
    /// The layout, in order.
    pub header: Vec<HeaderItem>,
    /// All fields of the layout, of runs' items too, each with its place; `FieldId` indexes this.
    pub fields: Vec<Field>,
    /// Presence flags: run items (`options.mss`) and such, by path; `PresenceId` indexes this.
    pub presences: Vec<Presence>,
    /// Derived values, in an order in which each uses only earlier ones; `LetId` indexes this.
    pub lets: Vec<Let>,
    /// Multi-valued names (`alias addr = src | dst`).
    pub aliases: Vec<Alias>,
    /// `payload = rest` or `payload = rest[.. n]`; `None` without a payload clause.
    pub payload: Option<Payload>,
    /// How packets are grouped into instances.
    pub instance: Option<Instance>,
    /// Permanent variables; `VarId` indexes this.
    pub vars: Vec<Var>,
    /// Statements run on every packet of an instance, admitted or not; before all others.
    pub count: Vec<Stmt>,
    /// Which packets do anything to their instance beside being counted; `None`: all.
    pub admit: Option<Expr>,
    /// Statements run on every packet that is admitted, before sequence and states.
    pub prepare: Vec<Stmt>,
    /// The sequence of an instance (one per direction where the instance is two-sided).
    pub sequence: Option<Sequence>,
    /// States, the start first; empty without a state machine.
    pub states: Vec<State>,
    /// Transitions in the order of the text; the first whose condition holds is taken.
    pub transitions: Vec<Transition>,
    /// Idle time after which an instance ends, by state; the `otherwise` one last with no states.
    pub timeouts: Vec<Timeout>,
    /// Events.
    pub events: Vec<Event>,
    /// How a packet's line shows this layer, from `show "…"`.
    pub show: Vec<ShowPart>,
    /// Where `rest.length` or `layer.length` stands in it first.
    pub rest_length: Option<Span>,
    /// Where its name stands.
    pub span: Span,
}

/// Index into [`Protocol::fields`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub u16);
/// Index into [`Protocol::presences`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PresenceId(pub u16);
/// Index into [`Protocol::lets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetId(pub u16);
/// Index into [`Protocol::vars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u16);

/// One item of a header's layout.
#[derive(Debug, Clone)]
pub enum HeaderItem {
    /// A field at the cursor; moves the cursor past it.
    Field(FieldId),
    /// A field at the cursor that does not move it (`peek`).
    Peek(FieldId),
    /// A group as one number: a field over the items that follow, which lie in no more than eight bytes.
    Whole(FieldId),
    /// Bits that have no name.
    Skip {
        /// How many.
        bits: u32,
    },
    /// `if COND { … } else { … }`; both sides may be empty. Starts and ends on byte boundaries.
    If {
        /// Over earlier fields.
        condition: Expr,
        /// When it holds.
        then: Vec<HeaderItem>,
        /// When not.
        otherwise: Vec<HeaderItem>,
    },
    /// A type-length-value run.
    Run(Run),
}

/// `name: run { item = TAG { … } … } until LENGTH`: items in any order until `until` bytes of header.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its name (`options`).
    pub name: String,
    /// Bits of the tag that starts every item (8 unless declared `run u16`).
    pub tag_bits: u32,
    /// The items. At most one has no tag (`_`), and stands last.
    pub items: Vec<RunItem>,
    /// Offset from the start of the header at which the run ends, in bytes.
    pub until: Expr,
}

/// One kind of item of a run.
#[derive(Debug, Clone)]
pub struct RunItem {
    /// Set once such an item was met; the last one met gives its fields their values.
    pub presence: PresenceId,
    /// The tag; `None` for `_`.
    pub tag: Option<u64>,
    /// The run ends after such an item.
    pub stop: bool,
    /// Layout after the tag.
    pub items: Vec<HeaderItem>,
}

/// The type of a field.
#[derive(Debug, Clone)]
pub enum FieldType {
    /// 1 to 64 bits, most significant first; `little` for `u16le`, `u32le`, `u64le`.
    Unsigned {
        /// How many bits.
        bits: u32,
        /// Least significant byte first.
        little: bool,
    },
    /// Six bytes.
    Mac,
    /// Four bytes.
    Ipv4,
    /// Sixteen bytes.
    Ipv6,
    /// As many bytes as the expression says.
    Bytes(Expr),
    /// As many bytes as the expression says, which people read as text.
    Text(Expr),
    /// A number of as many bytes as the expression says, at most 8, most significant first.
    Counted(Expr),
}

/// A field of a header.
#[derive(Debug, Clone)]
pub struct Field {
    /// Dotted path inside the protocol.
    pub path: String,
    /// Another path for filters (`src_port as srcport`), also usable in expressions.
    pub alias: Option<String>,
    /// Its type.
    pub ty: FieldType,
    /// `= N` or `where >= N`: a packet that breaks it is malformed.
    pub constraint: Option<Constraint>,
    /// One line of meaning; may be empty.
    pub doc: String,
    /// Where its name stands.
    pub span: Span,
}

impl Field {
    /// Whether its path, or the second one, is `name`.
    pub fn is_called(&self, name: &str) -> bool {
        self.path == name || self.alias.as_deref() == Some(name)
    }
}

/// What a field's value must fulfil.
#[derive(Debug, Clone, Copy)]
pub struct Constraint {
    /// The comparison.
    pub op: BinaryOp,
    /// The constant on its right.
    pub value: u64,
}

/// A flag that filters can name but that is no field: `tcp.options.mss`.
#[derive(Debug, Clone)]
pub struct Presence {
    /// Dotted path inside the protocol.
    pub path: String,
    /// Another path for filters.
    pub alias: Option<String>,
}

/// A derived value.
#[derive(Debug, Clone)]
pub struct Let {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expr,
    /// One line of meaning; without one it is not offered to filters.
    pub doc: String,
    /// Where its name stands.
    pub span: Span,
}

/// A name for several fields: a filter on it holds if it holds for any of them.
#[derive(Debug, Clone)]
pub struct Alias {
    /// Its name.
    pub name: String,
    /// The fields.
    pub fields: Vec<FieldId>,
    /// One line of meaning.
    pub doc: String,
}

/// What follows the header.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Bytes of it; `None` for all that is left. Never reaches past the enclosing layer's payload.
    pub length: Option<Expr>,
}

/// The key of an instance.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Its parts, or those of the sender where it is two-sided.
    pub source: Vec<Expr>,
    /// Those of the receiver (`<->`); empty where the instance is one-sided.
    pub destination: Vec<Expr>,
    /// Only packets for which this holds have an instance.
    pub condition: Option<Expr>,
    /// Where it holds of an instance's first packet, that is the responder's.
    pub reversed: Option<Expr>,
}

/// A permanent variable.
#[derive(Debug, Clone)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// How long it lives, and of what there is one.
    pub held: Held,
    /// 8, 16, 32 or 64. Values assigned are cut to it.
    pub bits: u32,
    /// What it holds when an instance is made, in terms of its first packet; 0 where not said.
    pub first: Option<Expr>,
}

/// How long a variable lives, and of what there is one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// One for each direction of an instance (`each side`), reached by `me.` and `peer.`
    Side,
    /// One for each instance (`vars`), reached by its name.
    Instance,
    /// One for the packet (`packet`), reached by its name; it begins with its first value each time.
    Packet,
}

/// A statement of `prepare`.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// `me.x = e`; `me.x += e` is `Assign` of a sum.
    Assign {
        /// The variable.
        var: VarId,
        /// Whose.
        side: Side,
        /// The new value.
        value: Expr,
    },
    /// `if c { … } else { … }`.
    If {
        /// The condition.
        condition: Expr,
        /// When it holds.
        then: Vec<Stmt>,
        /// When not.
        otherwise: Vec<Stmt>,
    },
    /// `history S when c`: appends the letter once per direction; lower case for the responder.
    History {
        /// An upper-case letter.
        letter: char,
        /// When.
        condition: Expr,
    },
}

/// Whose variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sender of this packet.
    Me,
    /// The receiver of this packet.
    Peer,
    /// No side: one per instance.
    Both,
}

/// `sequence at AT of payload [spanning SPAN] [from first|0]`.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Sequence number of the payload's first byte.
    pub at: Expr,
    /// Bits of the number: arithmetic wraps there (32 for a `u32` field; 64: never wraps).
    pub bits: u32,
    /// What is put in order: a field of bytes; the payload by default.
    pub of: Option<FieldId>,
    /// Sequence numbers used up; the payload's length by default.
    pub span: Option<Expr>,
    /// The sequence starts at the first number seen; otherwise at 0.
    pub from_first: bool,
    /// Numbers outside are out of window: lower bound and length. Not checked without.
    pub window: Option<(Expr, Expr)>,
    /// Of bytes that come twice while they are kept the last count; else those that the receiver's policy says.
    pub overwrite: bool,
    /// In strict mode nothing is assembled where some of what comes was there before, but not all of it.
    pub distinct: bool,
    /// What is in order is made of wholes: with which packets they begin, and with which they end.
    pub wholes: Option<(Expr, Expr)>,
    /// Only the order is kept, no bytes.
    pub headers_only: bool,
    /// Packets for which it does not hold are not offered to the sequence.
    pub condition: Option<Expr>,
    /// The number of the other side's up to which the sender of the packet has all, where the condition holds: what
    /// is missing before it is not waited for.
    pub acknowledge: Option<(Expr, Option<Expr>)>,
}

/// A state.
#[derive(Debug, Clone)]
pub struct State {
    /// Its name.
    pub name: String,
    /// An instance in this state is complete; it lives on until its timeout.
    pub accept: bool,
}

/// A transition.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Its name.
    pub name: String,
    /// Indices of states; empty for `any`.
    pub from: Vec<usize>,
    /// The next state.
    pub to: Target,
    /// When.
    pub condition: Expr,
    /// The condition reads `ordered.` values: it is tried for packets as they become in order.
    pub ordered: bool,
    /// Idle time after which the instance ends once this was taken, until another one is; as its state says by
    /// default.
    pub timeout: Option<Duration>,
}

/// Where a transition leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Index of a state.
    State(usize),
    /// The instance ends and this packet starts a new one.
    Restart,
}

/// An idle timeout.
#[derive(Debug, Clone)]
pub struct Timeout {
    /// How long.
    pub after: Duration,
    /// In these states; empty for all others.
    pub states: Vec<usize>,
}

/// What makes an event happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The transition with this index.
    Transition(usize),
    /// Any packet of the protocol (of an instance, where it has one).
    Packet,
    /// A packet became in order in its sequence.
    Ordered,
    /// A packet brought only bytes that were there.
    Retransmission,
    /// A packet lay outside the window.
    OutOfWindow,
    /// A packet brought bytes that differ from those that are kept for their places.
    Inconsistent,
}

/// An event: hands its columns to whoever listens, and, with `assemble`, bytes in order to the next layer.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// What makes it happen.
    pub triggers: Vec<Trigger>,
    /// Indices of events: it happens with each of them.
    pub with: Vec<usize>,
    /// Indices of events that are told before it where they happen on the same packet.
    pub after: Vec<usize>,
    /// It only happens where this holds.
    pub condition: Option<Expr>,
    /// Hands up the bytes in order that have not been handed up.
    pub assemble: bool,
    /// Columns: name and value.
    pub columns: Vec<(String, Expr)>,
    /// One line of meaning.
    pub doc: String,
}

/// A part of what `show` prints.
#[derive(Debug, Clone)]
pub enum ShowPart {
    /// As it stands.
    Text(String),
    /// A value; a group of flags shows the names of those set.
    Value(Expr),
    /// A group of one-bit fields.
    Flags(Vec<FieldId>),
}

/// An expression. All numbers are unsigned, 64 bits wide.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A number, or true (1) and false (0).
    Number(u64),
    /// A field of this protocol's header. Addresses of 128 bits are pairs; only keys may use them.
    Field(FieldId),
    /// The same field of the packet that became in order (`ordered.f`).
    Ordered(FieldId),
    /// A derived value.
    Let(LetId),
    /// Whether a run item was there.
    Present(PresenceId),
    /// The nearest enclosing layer's field or derived value of this name (`below.src`).
    Below(String),
    /// A permanent variable.
    Var(VarId, Side),
    /// Bytes of the payload as the headers claim it (`payload.length`).
    PayloadLength,
    /// Bytes after the header, up to the end of the enclosing layer's payload (`rest.length`).
    RestLength,
    /// Bytes of the header, as it claims them (`header.length`).
    HeaderLength,
    /// Bytes from the header's start to the end of the enclosing layer's payload (`layer.length`): a header that claims
    /// more than there is has no more.
    LayerLength,
    /// Bytes from the header's start to where the expression stands (`cursor`).
    Cursor,
    /// The sum of so many bytes from an offset on, counted from the header's start, and a number, with carries added
    /// in (RFC 1071; `sum16(offset, length, number)`): 0 where the bytes are not all there, and else only where
    /// everything is 0.
    Sum16(Box<[Expr; 3]>),
    /// Reassembly is strict (`strict`): what a host would not take does not count.
    Strict,
    /// The instance is in this state (`state.open`), by its index.
    InState(usize),
    /// This packet goes from the originator to the responder (`originator`); `responder` is its `Not`.
    Originator,
    /// `not e`: 1 where e is 0.
    Not(Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `e in { a, b..c }`: inclusive ranges.
    In(Box<Expr>, Vec<(u64, u64)>),
    /// `if c then a else b`.
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// An operator. Comparisons and logic yield 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`, wrapping at 64 bits.
    Add,
    /// `-`, 0 where it would be negative.
    Sub,
    /// `*`, wrapping.
    Mul,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`, 0 from 64 on.
    Shl,
    /// `>>`, 0 from 64 on.
    Shr,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `and`
    LogicalAnd,
    /// `or`
    LogicalOr,
}

impl BinaryOp {
    /// Whether it says how two values compare.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// Events of a stack at most: those that are asked for are bits of a word.
pub const EVENTS_MAX: usize = 64;

/// Values of the chunks that a whole came in that messages may ask for at most.
pub const WHOLE_VALUES_MAX: usize = 3;

/// A stack: which layer follows which.
#[derive(Debug, Clone)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The `//!` line above it.
    pub doc: String,
    /// Its protocols; `LayerId` indexes this.
    pub layers: Vec<Layer>,
    /// First layer by LINKTYPE_ number.
    pub starts: Vec<(u16, LayerId)>,
    /// Edges, in the order of the text; from one layer the first whose condition holds is taken.
    pub edges: Vec<Edge>,
    /// Most packets have one layer of each list, in this order (`usual`): their first occurrence is worth code
    /// of its own. Empty where nothing is said.
    pub usual: Vec<Vec<LayerId>>,
    /// Symmetric keys for spreading packets over workers: the first layer met that has one decides.
    pub dispatch: Vec<(LayerId, FieldId, FieldId)>,
}

impl Stack {
    /// The layers that may follow a layer, itself only where it can occur again.
    pub fn reachable_from(&self, from: LayerId) -> FxHashSet<LayerId> {
        let (mut seen, mut work) = (FxHashSet::default(), vec![from]);
        while let Some(at) = work.pop() {
            let next = self.edges.iter().filter(|edge| edge.from == at).map(|edge| edge.to);
            work.extend(next.filter(|to| seen.insert(*to)));
        }
        seen
    }
}

/// Index into [`Stack::layers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerId(pub u16);

/// A protocol's place in a stack.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Its protocol, shared by all stacks that have it under its own name.
    pub protocol: Arc<Protocol>,
    /// The most times it may occur in one packet (`repeat`; 1 by default).
    pub repeat_max: u32,
}

/// How a layer follows another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EdgeKind {
    /// In the packet's payload.
    #[default]
    Payload,
    /// Quoted there (an ICMP error's): its fields count, its instances don't.
    Quoted,
    /// In the bytes that a direction has in order, one message after the other.
    Messages,
}

/// Which layer follows.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The layer whose payload it is.
    pub from: LayerId,
    /// What the payload is.
    pub to: LayerId,
    /// In terms of `from`.
    pub condition: Expr,
    /// How it follows.
    pub kind: EdgeKind,
    /// Where its condition has `rest.length` or `layer.length` first.
    pub rest_length: Option<Span>,
    /// Where it stands.
    pub span: Span,
}
