//! The checked model: the meaning of protocols and stacks, with names resolved and types known.
//!
//! The parser (`syntax`) returns a tree with spans; the checker (`check`) resolves every name and returns
//! this model. Lowering to a graph reads only the model. Field paths are dotted names inside their protocol
//! (`flags.syn`, `options.mss.value`); `filter_name` is the prefix that filters use.

use crate::diag::Span;
use std::sync::Arc;
use std::time::Duration;

/// A protocol: one layer.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Its name in stacks.
    pub name: String,
    /// The name after `protocol` in its text. It differs from `name` if a stack declares the protocol under
    /// another name (`layer inner: ip`).
    pub declared: String,
    /// The first part of its fields' names in filters (`protocol fragment as ipv6.fraghdr`); `name` by
    /// default.
    pub filter_name: String,
    /// Further such names (`protocol ip as ip, ipv4`).
    pub other_filter_names: Vec<String>,
    /// The `//!` line above it.
    pub doc: String,
    /// The layout, in order.
    pub header: Vec<HeaderItem>,
    /// All fields of the layout, including those of run items; `FieldId` indexes this.
    pub fields: Vec<Field>,
    /// Presence flags by path, such as run items (`options.mss`); `PresenceId` indexes this.
    pub presences: Vec<Presence>,
    /// Derived values, in an order in which each uses only earlier ones; `LetId` indexes this.
    pub lets: Vec<Let>,
    /// Multi-valued names (`alias addr = src | dst`).
    pub aliases: Vec<Alias>,
    /// `payload = rest` or `payload = rest[.. n]`; `None` without a payload clause.
    pub payload: Option<Payload>,
    /// Numbers (fields and derived values) that distinguish the instances of this layer and of the layers
    /// above it, besides the parts of their keys.
    pub context: Vec<ValueId>,
    /// As `context`, but the directions of a connection may differ in them ([`join`](Self::join)).
    pub tags: Vec<ValueId>,
    /// The key that assigns packets to instances.
    pub instance: Option<Instance>,
    /// Variables; `VarId` indexes this.
    pub vars: Vec<Var>,
    /// The packets with other tags that belong to the instance: the condition is evaluated for a packet that
    /// finds no instance with its own tags. `None`: none.
    pub join: Option<Expr>,
    /// Statements that run on every packet of an instance, admitted or not, before all others.
    pub count: Vec<Stmt>,
    /// The packets that are admitted, that is, may change their instance and are not only counted; `None`:
    /// all.
    pub admit: Option<Expr>,
    /// Statements that run on every admitted packet, before sequence and states.
    pub prepare: Vec<Stmt>,
    /// The packets that the kernel may count by itself, and what they change; `None`: no packets.
    pub steady: Option<Steady>,
    /// Statements that run on an admitted packet if this happens to it: [`Trigger::Retransmission`] or
    /// [`Trigger::OutOfWindow`]; and those that run for each gap, on a packet or at the end of the instance:
    /// [`Trigger::Gap`].
    pub on: Vec<(Trigger, Vec<Stmt>)>,
    /// The sequence of an instance (one per direction if the instance is two-sided).
    pub sequence: Option<Sequence>,
    /// States, the start first; empty without a state machine.
    pub states: Vec<State>,
    /// Transitions in the order of the text; the first whose condition holds is taken.
    pub transitions: Vec<Transition>,
    /// Idle time after which an instance ends, by state; the `otherwise` entry is last and has no states.
    pub timeouts: Vec<Timeout>,
    /// Events.
    pub events: Vec<Event>,
    /// The layer's part of a packet's line, from `show "…"`.
    pub show: Vec<ShowPart>,
    /// The first use of `rest.length` or `layer.length`.
    pub rest_length: Option<Span>,
    /// The span of its name.
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

/// A named value of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueId {
    /// A field.
    Field(FieldId),
    /// A derived value.
    Let(LetId),
}

impl ValueId {
    /// The value as an expression of its protocol.
    pub fn expr(self) -> Expr {
        match self {
            Self::Field(field) => Expr::Field(field),
            Self::Let(value) => Expr::Let(value),
        }
    }
}

/// One item of a header's layout.
#[derive(Debug, Clone)]
pub enum HeaderItem {
    /// A field at the cursor; moves the cursor past it.
    Field(FieldId),
    /// A field at the cursor that does not move it (`peek`).
    Peek(FieldId),
    /// A group as one number: a field over the items that follow, which span at most eight bytes.
    Whole(FieldId),
    /// Unnamed bits.
    Skip {
        /// Their number.
        bits: u32,
    },
    /// `if COND { … } else { … }`; both branches may be empty. Starts and ends on byte boundaries.
    If {
        /// A condition over earlier fields.
        condition: Expr,
        /// The items if the condition holds.
        then: Vec<HeaderItem>,
        /// The items otherwise.
        otherwise: Vec<HeaderItem>,
    },
    /// A type-length-value run.
    Run(Run),
}

/// `name: run { item = TAG { … } … } until LENGTH`: items in any order, up to `until` bytes from the header's
/// start.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its name (`options`).
    pub name: String,
    /// Bits of the tag that starts every item (8 unless declared `run u16`).
    pub tag_bits: u32,
    /// The items. At most one has no tag (`_`), and it is the last.
    pub items: Vec<RunItem>,
    /// Offset from the start of the header at which the run ends, in bytes.
    pub until: Expr,
}

/// One kind of item of a run.
#[derive(Debug, Clone)]
pub struct RunItem {
    /// Set once such an item was parsed. The fields have the values of the last one.
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
        /// The number of bits.
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
    /// Bytes; the expression gives their number.
    Bytes(Expr),
    /// Bytes that are shown as text; the expression gives their number.
    Text(Expr),
    /// A number of at most 8 bytes, most significant first; the expression gives the number of bytes.
    Counted(Expr),
}

/// A field of a header.
#[derive(Debug, Clone)]
pub struct Field {
    /// Dotted path inside the protocol.
    pub path: String,
    /// A second path (`src_port as srcport`), for filters and expressions.
    pub alias: Option<String>,
    /// Its type.
    pub ty: FieldType,
    /// `= N` or `where >= N`: a packet that violates it is malformed.
    pub constraint: Option<Constraint>,
    /// One line of description; may be empty.
    pub doc: String,
    /// The span of its name.
    pub span: Span,
}

impl Field {
    /// Whether `name` is the field's first or second path.
    pub fn is_called(&self, name: &str) -> bool {
        self.path == name || self.alias.as_deref() == Some(name)
    }
}

/// A constraint on a field's value.
#[derive(Debug, Clone, Copy)]
pub struct Constraint {
    /// The comparison.
    pub op: BinaryOp,
    /// The constant on the right side.
    pub value: u64,
}

/// A flag that filters can use but that is not a field: `tcp.options.mss`.
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
    /// One line of description. A value without one is not a filter field.
    pub doc: String,
    /// The span of its name.
    pub span: Span,
}

/// A name for several fields: a filter on it holds if it holds for any of them.
#[derive(Debug, Clone)]
pub struct Alias {
    /// Its name.
    pub name: String,
    /// The fields.
    pub fields: Vec<FieldId>,
    /// One line of description.
    pub doc: String,
}

/// The bytes after the header.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Its length in bytes; `None` for all remaining bytes. It never exceeds the enclosing layer's payload.
    pub length: Option<Expr>,
}

/// The key of an instance.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The key's parts; those of the sender if the key is two-sided.
    pub source: Vec<Expr>,
    /// The receiver's parts (`<->`); empty if the key is one-sided.
    pub destination: Vec<Expr>,
    /// Only packets that match have an instance.
    pub condition: Option<Expr>,
    /// If an instance's first packet matches, its sender is the responder.
    pub reversed: Option<Expr>,
}

/// A variable.
#[derive(Debug, Clone)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// Its scope and lifetime.
    pub held: Held,
    /// 8, 16, 32 or 64. Assigned values are truncated to this width.
    pub bits: u32,
    /// What its number means.
    pub unit: Unit,
    /// The value at the instance's creation, in terms of its first packet; the default is 0.
    pub first: Option<Expr>,
    /// The text that declares the variable says how steady packets change it.
    pub of_steady: bool,
}

/// The packets that change nothing of their instance but the sums of `count`, the place in the sequence, and
/// what the statements assign.
#[derive(Debug, Clone, Default)]
pub struct Steady {
    /// The conditions, all of which hold for these packets.
    pub conditions: Vec<Expr>,
    /// The assignments.
    pub statements: Vec<Stmt>,
}

/// The variable of each side that counts the steady packets that the kernel has counted by itself.
pub const COUNTED: &str = "counted";

/// The meaning of a variable's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    None,
    /// Nanoseconds since 1970 (`time`); absent while 0.
    Time,
    /// Nanoseconds (`interval`); absent while 0.
    Interval,
}

/// The scope and lifetime of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// One per direction of an instance (`each side`), accessed by `me.` and `peer.`
    Side,
    /// One per instance (`vars`), accessed by its name.
    Instance,
    /// One per packet (`packet`), accessed by its name; reset to its initial value for each packet.
    Packet,
}

/// A statement of `count` or `prepare`.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// `me.x = e`; `me.x += e` is `Assign` of a sum.
    Assign {
        /// The variable.
        var: VarId,
        /// The side that owns the variable.
        side: Side,
        /// The new value.
        value: Expr,
    },
    /// `if c { … } else { … }`.
    If {
        /// The condition.
        condition: Expr,
        /// The statements if the condition holds.
        then: Vec<Stmt>,
        /// The statements otherwise.
        otherwise: Vec<Stmt>,
    },
    /// `history S when c`: appends the letter once per direction; lower case for the responder.
    History {
        /// An upper-case letter.
        letter: char,
        /// `history S again`: appends the letter each time.
        again: bool,
        /// The condition.
        condition: Expr,
    },
}

/// The owner of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sender of this packet.
    Me,
    /// The receiver of this packet.
    Peer,
    /// No side: one variable per instance.
    Both,
}

/// `sequence at AT of payload [spanning SPAN] [from first|0]`.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Sequence number of the payload's first byte.
    pub at: Expr,
    /// Width of the number in bits: arithmetic wraps at this width (32 for a `u32` field; 64: never wraps).
    pub bits: u32,
    /// The ordered bytes: a field, or the payload by default.
    pub of: Option<FieldId>,
    /// The number of sequence numbers used; the payload's length by default.
    pub span: Option<Expr>,
    /// The sequence starts at the first number seen; otherwise at 0.
    pub from_first: bool,
    /// Numbers outside are out of window: lower bound and length. `None`: no check.
    pub window: Option<(Expr, Expr)>,
    /// Whether the last copy wins if bytes arrive twice while they are buffered. Otherwise the receiver's
    /// policy decides.
    pub overwrite: bool,
    /// In strict mode, nothing is assembled if a segment repeats some earlier bytes but not all of them.
    pub distinct: bool,
    /// The in-order bytes consist of wholes: the conditions of the packets that begin and end a whole.
    pub wholes: Option<(Expr, Expr)>,
    /// The sequence keeps the order, and no bytes.
    pub headers_only: bool,
    /// Packets that do not match are not inserted into the sequence.
    pub condition: Option<Expr>,
    /// The number before which the sender of the packet has received all bytes of the other side, if the
    /// condition holds: missing bytes before it are not waited for.
    pub acknowledge: Option<(Expr, Option<Expr>)>,
    /// The first number of the other side, as the sender of the packet knows it, if the condition holds. It
    /// replaces the first number seen, unless numbers of the other side have passed.
    pub confirm: Option<(Expr, Option<Expr>)>,
    /// Derived values of an assembled datagram, which layers above have in the place of those of the packet
    /// that completed it.
    pub assembled: Vec<(LetId, Expr)>,
    /// The number of the packet's own numbers that count only once the other side has acknowledged some of
    /// them, if the condition holds.
    pub hold: Option<(Expr, Option<Expr>)>,
    /// A packet for which the condition holds ends both sides, without a number of its own: what follows
    /// waits until it is acknowledged.
    pub end: Option<Expr>,
}

/// A state.
#[derive(Debug, Clone)]
pub struct State {
    /// Its name.
    pub name: String,
    /// An instance in this state is complete; it exists until its time-out.
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
    /// The condition.
    pub condition: Expr,
    /// The condition uses `ordered.` values: it is evaluated for packets once they are in order.
    pub ordered: bool,
    /// Idle time after which the instance ends, from this transition until the next one; the state's time-out
    /// by default.
    pub timeout: Option<Duration>,
}

/// The target of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Index of a state.
    State(usize),
    /// The instance ends and this packet starts a new one.
    Restart,
    /// The packet waits beside the instance, which does not change: it belongs to the instance that follows.
    Aside,
}

impl Target {
    /// Whether the packet does not belong to the instance: such transitions are decided before all others.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Target::Restart | Target::Aside)
    }
}

/// An idle timeout.
#[derive(Debug, Clone)]
pub struct Timeout {
    /// The idle time.
    pub after: Duration,
    /// The states it applies to; empty for all others.
    pub states: Vec<usize>,
}

/// A cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The transition with this index.
    Transition(usize),
    /// Any packet of the protocol (of an instance, if the protocol has one).
    Packet,
    /// A packet became in order in its sequence.
    Ordered,
    /// A packet contained only bytes that were already received.
    Retransmission,
    /// A packet was outside of the window.
    OutOfWindow,
    /// A packet showed that bytes before queued ones are missing.
    Gap,
    /// A packet was put aside.
    Aside,
    /// A packet with other tags joined the instance.
    Join,
    /// A packet contained bytes that differ from the buffered bytes at their position.
    Inconsistent,
    /// The instance ended. There is no packet, so such an event has [`end_columns`](Event::end_columns) and
    /// no condition.
    End,
    /// This time has passed since the last check of all instances. There is no packet, as for
    /// [`End`](Self::End).
    Check(Duration),
}

/// The value of a column of an event that is read from the instance: `on end`, or `on check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndValue {
    /// A variable of the instance; for `each side`, `me` is the originator and `peer` the responder.
    Var(VarId, Side),
    /// The name of the state.
    State,
}

/// An event: reports its columns to subscribers and, with `assemble`, delivers in-order bytes to the next
/// layer.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its causes.
    pub triggers: Vec<Trigger>,
    /// Indices of events: this event happens with each of them.
    pub with: Vec<usize>,
    /// Indices of events that are reported before it if they happen on the same packet.
    pub after: Vec<usize>,
    /// The event happens only if this holds.
    pub condition: Option<Expr>,
    /// Delivers the in-order bytes that have not been delivered.
    pub assemble: bool,
    /// Columns: name and value.
    pub columns: Vec<(String, Expr)>,
    /// Columns of an event `on end` or `on check`, which has no other columns.
    pub end_columns: Vec<(String, EndValue)>,
    /// One line of description.
    pub doc: String,
}

impl Event {
    /// Whether the event reports the end of an instance.
    pub fn is_end(&self) -> bool {
        self.triggers == [Trigger::End]
    }

    /// The interval in which the event reports all instances.
    pub fn interval(&self) -> Option<Duration> {
        match self.triggers[..] {
            [Trigger::Check(interval)] => Some(interval),
            _ => None,
        }
    }

    /// Whether the event belongs to no packet: its columns are read from the instance.
    pub fn is_of_instance(&self) -> bool {
        self.is_end() || self.interval().is_some()
    }
}

/// A part of what `show` prints.
#[derive(Debug, Clone)]
pub enum ShowPart {
    /// Literal text.
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
    /// A field of this protocol's header. Only keys may use addresses of 128 bits.
    Field(FieldId),
    /// The same field of the packet that is in order now (`ordered.f`).
    Ordered(FieldId),
    /// A derived value.
    Let(LetId),
    /// Whether a run item is present.
    Present(PresenceId),
    /// The nearest enclosing layer's field or derived value of this name (`below.src`).
    Below(String),
    /// A variable.
    Var(VarId, Side),
    /// The payload's length in bytes, as the headers claim it (`payload.length`).
    PayloadLength,
    /// Bytes after the header, up to the end of the enclosing layer's payload (`rest.length`).
    RestLength,
    /// The header's length in bytes, as the header claims it (`header.length`).
    HeaderLength,
    /// Bytes from the header's start to the end of the enclosing layer's payload (`layer.length`). A header
    /// that claims more bytes than are present does not increase it.
    LayerLength,
    /// Bytes from the header's start to the place of the expression (`cursor`).
    Cursor,
    /// The one's complement sum (RFC 1071) of a number of bytes from an offset, counted from the header's
    /// start, and of a number: `sum16(offset, length, number)`. The result is 0 if the bytes are not all
    /// captured, and otherwise only if all operands are 0.
    Sum16(Box<[Expr; 3]>),
    /// Whether a number of bytes from an offset, counted as for [`Sum16`](Self::Sum16), are a list of items
    /// as IP's options are (RFC 791, section 3.1): `items_fit(offset, length)`. Also true if the bytes are
    /// not all captured.
    ItemsFit(Box<[Expr; 2]>),
    /// Time of capture in nanoseconds since 1970 (`packet.time`).
    Time,
    /// Whether reassembly is strict (`strict`): segments that a host would reject are not admitted.
    Strict,
    /// Whether nothing more is wanted of the instance (`unwanted`): its variables and states are no longer
    /// kept.
    Unwanted,
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
    /// `-`, 0 if the result would be negative.
    Sub,
    /// `*`, wrapping.
    Mul,
    /// `/`, 0 if the divisor is 0.
    Div,
    /// `%`, 0 if the divisor is 0.
    Rem,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`, 0 for shifts of 64 and more.
    Shl,
    /// `>>`, 0 for shifts of 64 and more.
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

impl Expr {
    /// The conditions of which `and` makes this one.
    pub fn conjuncts(self) -> Vec<Expr> {
        match self {
            Expr::Binary(BinaryOp::LogicalAnd, a, b) => {
                let mut all = a.conjuncts();
                all.append(&mut b.conjuncts());
                all
            }
            other => vec![other],
        }
    }
}

impl BinaryOp {
    /// Whether the operator compares two values.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// Maximum number of events of a stack.
pub const EVENTS_MAX: usize = 256;

/// Maximum number of values of a whole's chunks that messages may use.
pub const WHOLE_VALUES_MAX: usize = 3;

/// A stack: which layer follows which.
#[derive(Debug, Clone)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The `//!` line above it.
    pub doc: String,
    /// Its layers; `LayerId` indexes this.
    pub layers: Vec<Layer>,
    /// First layer by LINKTYPE_ number.
    pub starts: Vec<(u16, LayerId)>,
    /// Edges in the order of the text; from a layer, the first edge whose condition holds is taken.
    pub edges: Vec<Edge>,
    /// The usual path (`usual`): most packets have one layer of each list, in this order. The first
    /// occurrences are compiled separately. Empty without a `usual` clause.
    pub usual: Vec<Vec<LayerId>>,
    /// Symmetric keys that distribute packets over workers: the first layer of a packet that has a key
    /// decides.
    pub dispatch: Vec<(LayerId, FieldId, FieldId)>,
    /// Whether instances on different interfaces are different.
    pub by_interface: bool,
}

/// Index into [`Stack::layers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerId(pub u16);

/// A protocol's place in a stack.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Its protocol, shared by all stacks that use it under its own name.
    pub protocol: Arc<Protocol>,
    /// The most times it may occur in one packet (`repeat`; 1 by default).
    pub repeat_max: u32,
    /// The layer whose session protocols its bytes carry (`sessions mine as tcp`), if that is not the layer
    /// itself.
    pub carries: Option<String>,
}

impl Layer {
    /// The name of the layer whose session protocols its bytes carry.
    pub fn transport(&self) -> &str {
        self.carries.as_ref().unwrap_or(&self.protocol.declared)
    }
}

/// How a layer follows another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EdgeKind {
    /// In the packet's payload.
    #[default]
    Payload,
    /// In a quoted packet (of an ICMP error): fields are parsed, but there are no instances.
    Quoted,
    /// In the in-order bytes of a direction, as consecutive messages.
    Messages,
}

/// An edge of the stack: which layer follows another one.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The layer whose payload it is.
    pub from: LayerId,
    /// The layer in the payload.
    pub to: LayerId,
    /// The condition, in terms of `from`.
    pub condition: Expr,
    /// How it follows.
    pub kind: EdgeKind,
    /// The first use of `rest.length` or `layer.length` in its condition.
    pub rest_length: Option<Span>,
    /// The edge's span.
    pub span: Span,
}
