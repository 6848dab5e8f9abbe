//! The syntax tree of a text: names as written, every node with its span.

use crate::diag::Span;
use crate::model::{BinaryOp, EdgeKind, Held};
use std::time::Duration;

/// A name and its span.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name as written, including dots.
    pub text: String,
    /// Its span.
    pub span: Span,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// The addition to a library that the file belongs to: functions and tables are visible within one
    /// addition.
    pub addition: usize,
    /// `import "FILE"`: the text between the quotes, and its span.
    pub imports: Vec<(String, Span)>,
    /// In the order of the text.
    pub functions: Vec<Function>,
    /// In the order of the text.
    pub tables: Vec<Table>,
    /// In the order of the text.
    pub protocols: Vec<Protocol>,
    /// In the order of the text.
    pub extensions: Vec<Extension>,
    /// In the order of the text.
    pub stacks: Vec<Stack>,
    /// The parts that could not be parsed.
    pub unread: Vec<Unread>,
}

/// A part of a text that could not be parsed; its mistake was reported.
#[derive(Debug, Clone, Copy)]
pub struct Unread {
    /// The enclosing protocol, stack …
    pub item: Span,
    /// The part itself.
    pub part: Span,
}

/// `fn NAME(NAME, NAME) = EXPR`
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Name>,
    /// Its value.
    pub body: Expr,
}

/// `table NAME { N, N..N: N … otherwise: N }`
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// Rows: numbers and inclusive ranges, and their value.
    pub rows: Vec<(Vec<Range>, u64)>,
    /// The value of all other numbers; 0 if absent.
    pub otherwise: Option<u64>,
}

impl Function {
    /// Whether both have the same definition, independent of their spans.
    pub fn same(&self, other: &Function) -> bool {
        let params =
            |function: &Function| function.params.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
        params(self) == params(other) && self.body.same(&other.body)
    }
}

impl Table {
    /// Whether both have the same definition, independent of their spans.
    pub fn same(&self, other: &Table) -> bool {
        let rows = |table: &Table| {
            let bounds =
                |ranges: &[Range]| ranges.iter().map(|&(low, high, _)| (low, high)).collect::<Vec<_>>();
            table.rows.iter().map(|(ranges, value)| (bounds(ranges), *value)).collect::<Vec<_>>()
        };
        rows(self) == rows(other) && self.otherwise == other.otherwise
    }
}

/// The least and the greatest number, and the span.
pub type Range = (u64, u64, Span);

/// `protocol NAME as NAME, NAME { … }`
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Its name.
    pub name: Name,
    /// Its names in filters, the canonical one first.
    pub filter_names: Vec<Name>,
    /// The `//!` line above.
    pub doc: String,
    /// The clauses, in the order of the text.
    pub clauses: Vec<Clause>,
}

/// `extend NAME with NAME { … }`: additions to a protocol.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The protocol.
    pub of: Name,
    /// The name of the extension. A later extension of the same protocol with the same name replaces this
    /// one.
    pub name: Name,
    /// The clauses, in the order of the text.
    pub clauses: Vec<Clause>,
}

/// One clause of a protocol.
#[derive(Debug, Clone)]
pub struct Clause {
    /// The kind and contents of the clause.
    pub kind: ClauseKind,
    /// The span of its first word.
    pub span: Span,
}

/// The kind and contents of a clause.
#[derive(Debug, Clone)]
pub enum ClauseKind {
    /// `header { … }`
    Header(Vec<HeaderItem>),
    /// `alias NAME = NAME | NAME`
    Alias {
        /// Its name.
        name: Name,
        /// The fields.
        fields: Vec<Name>,
        /// One line of description.
        doc: String,
    },
    /// `let NAME = EXPR`
    Let(Let),
    /// `payload = rest` or `payload = rest[.. EXPR]`
    Payload(Option<Expr>),
    /// `instance (…) <-> (…) when EXPR`
    Instance {
        /// The key; that of the sender if it is two-sided.
        source: Vec<Expr>,
        /// The receiver's key.
        destination: Option<Vec<Expr>>,
        /// The packets that have an instance.
        condition: Option<Expr>,
        /// `reversed when EXPR`
        reversed: Option<Expr>,
    },
    /// `each side { … }`, `vars { … }`, `packet { … }`
    Vars {
        /// Their scope and lifetime.
        held: Held,
        /// The variables.
        vars: Vec<Var>,
        /// The protocol, or the extension, says which packets are steady: it has a `steady` clause.
        of_steady: bool,
    },
    /// `steady when EXPR { … }`
    Steady(Option<Expr>, Vec<Stmt>),
    /// `count { … }`
    Count(Vec<Stmt>),
    /// `join when EXPR`
    Join(Expr),
    /// `admit when EXPR`
    Admit(Expr),
    /// `assembled NAME = EXPR`
    Assembled(Name, Expr),
    /// `acknowledge EXPR when EXPR`
    Acknowledge(Expr, Option<Expr>),
    /// `context NAME, NAME`
    Context(Vec<Expr>),
    /// `tag NAME, NAME`
    Tag(Vec<Expr>),
    /// `confirm EXPR when EXPR`
    Confirm(Expr, Option<Expr>),
    /// `hold EXPR when EXPR`
    Hold(Expr, Option<Expr>),
    /// `end when EXPR`
    End(Expr),
    /// `on NAME { … }`
    On(Name, Vec<Stmt>),
    /// `prepare { … }`
    Prepare(Vec<Stmt>),
    /// `sequence at EXPR of payload …`
    Sequence(Box<Sequence>),
    /// `states { … }`
    States(Vec<State>),
    /// `on NAME: … -> … when …`
    Transition(Transition),
    /// `timeout …`
    Timeout(Vec<Timeout>),
    /// `event NAME on … { … }`
    Event(Event),
    /// `show "…"`
    Show(Vec<ShowPart>),
}

/// One item of a header's layout.
#[derive(Debug, Clone)]
pub enum HeaderItem {
    /// `peek? NAME as NAME: TYPE …`
    Field(Field),
    /// `_: u3`
    Skip {
        /// Its type.
        ty: Type,
        /// The span of the underscore.
        span: Span,
    },
    /// `NAME { … }`
    Group {
        /// The prefix of its fields.
        name: Name,
        /// The fields.
        items: Vec<HeaderItem>,
        /// The description of the group.
        doc: String,
    },
    /// `if EXPR { … } else { … }`
    If {
        /// A condition over earlier fields.
        condition: Expr,
        /// The items if the condition holds.
        then: Vec<HeaderItem>,
        /// The items otherwise.
        otherwise: Vec<HeaderItem>,
        /// The span of the word `if`.
        span: Span,
    },
    /// `NAME: run { … } until EXPR`
    Run {
        /// Its name.
        name: Name,
        /// Type of the tag; one byte by default.
        tag: Option<Type>,
        /// The items.
        items: Vec<RunItem>,
        /// The end of the run.
        until: Expr,
    },
}

/// `NAME as NAME = TAG stop { … }`
#[derive(Debug, Clone)]
pub struct RunItem {
    /// Its name.
    pub name: Name,
    /// Its second name.
    pub alias: Option<Name>,
    /// The tag and its span; `None` for `_`.
    pub tag: (Option<u64>, Span),
    /// The run ends after it.
    pub stop: bool,
    /// Layout after the tag.
    pub items: Vec<HeaderItem>,
}

/// A field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Its second name.
    pub alias: Option<Name>,
    /// The field does not move the cursor.
    pub peek: bool,
    /// Its type.
    pub ty: Type,
    /// `= N`, `where OP N`: the operator, the number, and the span.
    pub constraint: Option<(BinaryOp, u64, Span)>,
    /// One line of description.
    pub doc: String,
}

/// A type.
#[derive(Debug, Clone)]
pub struct Type {
    /// Its name.
    pub name: Name,
    /// The expression in brackets after `bytes`.
    pub length: Option<Box<Expr>>,
}

/// A variable: `NAME: TYPE = EXPR`
#[derive(Debug, Clone)]
pub struct Var {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: Type,
    /// Its initial value.
    pub first: Option<Expr>,
}

/// `let NAME = EXPR "…"`
#[derive(Debug, Clone)]
pub struct Let {
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: Expr,
    /// One line of description.
    pub doc: String,
}

/// A statement.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// `NAME = EXPR`, `NAME += EXPR`
    Assign {
        /// The assigned variable.
        target: Name,
        /// `+=`.
        add: bool,
        /// The value.
        value: Expr,
    },
    /// `if EXPR { … } else { … }`
    If {
        /// The condition.
        condition: Expr,
        /// The statements if the condition holds.
        then: Vec<Stmt>,
        /// The statements otherwise.
        otherwise: Vec<Stmt>,
    },
    /// `history LETTER [again] [when EXPR]`
    History {
        /// One letter.
        letter: Name,
        /// The letter is appended each time.
        again: bool,
        /// The condition; always if absent.
        condition: Option<Expr>,
    },
}

/// `sequence at EXPR of payload …`
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Number of the payload's first byte.
    pub at: Expr,
    /// `of NAME`; `None` is `of payload`.
    pub of: Option<Name>,
    /// `spanning EXPR`
    pub span: Option<Expr>,
    /// `window EXPR .. EXPR`
    pub window: Option<(Expr, Expr)>,
    /// `from first`
    pub from_first: bool,
    /// `overwrite`
    pub overwrite: bool,
    /// `distinct`
    pub distinct: Option<Span>,
    /// `wholes EXPR .. EXPR`, and its span.
    pub wholes: Option<(Expr, Expr, Span)>,
    /// The span of `headers only`.
    pub headers_only: Option<Span>,
    /// `when EXPR`
    pub condition: Option<Expr>,
}

/// `NAME: start accept`
#[derive(Debug, Clone)]
pub struct State {
    /// Its name.
    pub name: Name,
    /// `start`.
    pub start: bool,
    /// `accept`.
    pub accept: bool,
}

/// `on NAME: NAME, NAME -> NAME when EXPR idle DURATION`
#[derive(Debug, Clone)]
pub struct Transition {
    /// Its name.
    pub name: Name,
    /// States, or `any`.
    pub from: Vec<Name>,
    /// A state, or `restart`.
    pub to: Name,
    /// The condition; always if absent.
    pub condition: Option<Expr>,
    /// The maximum idle time after this transition; that of the state if absent.
    pub timeout: Option<(Duration, Span)>,
}

/// `DURATION in NAME, NAME` or `DURATION otherwise`
#[derive(Debug, Clone)]
pub struct Timeout {
    /// The idle time.
    pub after: Duration,
    /// The span of the duration.
    pub span: Span,
    /// The states; `None` for all others.
    pub states: Option<Vec<Name>>,
}

/// `event NAME on NAME, NAME when EXPR { … } with NAME, NAME after NAME, NAME "…"`
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: Name,
    /// Its causes.
    pub triggers: Vec<Name>,
    /// The interval of `on check 10s`.
    pub interval: Option<(Duration, Span)>,
    /// The event happens with each of these events.
    pub with: Vec<Name>,
    /// Events that are reported before it if they happen on the same packet.
    pub after: Vec<Name>,
    /// The event happens only if this holds.
    pub condition: Option<Expr>,
    /// The span of `assemble`.
    pub assemble: Option<Span>,
    /// The columns and their names.
    pub columns: Vec<(Name, Expr)>,
    /// One line of description.
    pub doc: String,
}

/// A part of `show "…"`.
#[derive(Debug, Clone)]
pub enum ShowPart {
    /// Literal text.
    Text(String),
    /// An expression in braces.
    Value(Expr),
}

/// An expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The kind and operands of the expression.
    pub kind: ExprKind,
    /// The span of the whole expression.
    pub span: Span,
}

/// The kind and operands of an expression.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A number, or `true` (1) and `false` (0).
    Number(u64),
    /// A name.
    Name(String),
    /// `not e`
    Not(Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `e in { a, b..c }`
    In(Box<Expr>, Vec<Range>),
    /// `if c then a else b`
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `f(a, b)`
    Call(Name, Vec<Expr>),
    /// `t[e]`
    Lookup(Name, Box<Expr>),
}

impl Expr {
    /// Whether both are the same expression, independent of their spans.
    pub fn same(&self, other: &Expr) -> bool {
        match (&self.kind, &other.kind) {
            (ExprKind::Number(a), ExprKind::Number(b)) => a == b,
            (ExprKind::Name(a), ExprKind::Name(b)) => a == b,
            (ExprKind::Not(a), ExprKind::Not(b)) => a.same(b),
            (ExprKind::Binary(op, a, b), ExprKind::Binary(other_op, c, d)) => {
                op == other_op && a.same(c) && b.same(d)
            }
            (ExprKind::In(a, one), ExprKind::In(b, two)) => {
                let bounds =
                    |ranges: &[Range]| ranges.iter().map(|&(low, high, _)| (low, high)).collect::<Vec<_>>();
                a.same(b) && bounds(one) == bounds(two)
            }
            (ExprKind::Choose(a, b, c), ExprKind::Choose(d, e, f)) => a.same(d) && b.same(e) && c.same(f),
            (ExprKind::Call(a, some), ExprKind::Call(b, others)) => {
                let mut pairs = some.iter().zip(others);
                a.text == b.text && some.len() == others.len() && pairs.all(|(one, other)| one.same(other))
            }
            (ExprKind::Lookup(a, one), ExprKind::Lookup(b, other)) => a.text == b.text && one.same(other),
            _ => false,
        }
    }

    /// Calls `visit` for every name in the expression.
    pub fn names<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        match &self.kind {
            ExprKind::Number(_) => {}
            ExprKind::Name(name) => visit(name),
            ExprKind::Not(inner) | ExprKind::In(inner, _) | ExprKind::Lookup(_, inner) => inner.names(visit),
            ExprKind::Call(_, args) => args.iter().for_each(|arg| arg.names(visit)),
            ExprKind::Binary(_, left, right) => {
                left.names(visit);
                right.names(visit);
            }
            ExprKind::Choose(condition, then, otherwise) => {
                condition.names(visit);
                then.names(visit);
                otherwise.names(visit);
            }
        }
    }
}

/// `stack NAME extends NAME { … }`
#[derive(Debug, Clone)]
pub struct Stack {
    /// Its name.
    pub name: Name,
    /// The stack that it extends.
    pub extends: Option<Name>,
    /// The `//!` line above.
    pub doc: String,
    /// `start LINK, LINK: NAME`
    pub starts: Vec<(Vec<Link>, Name)>,
    /// `layer NAME as NAME: NAME`: places in the stack.
    pub places: Vec<Place>,
    /// `repeat NAME N`
    pub repeats: Vec<(Name, u64, Span)>,
    /// `usual NAME, NAME -> NAME, NAME`
    pub usual: Vec<Vec<Name>>,
    /// `NAME, NAME -> NAME when EXPR`
    pub edges: Vec<Edge>,
    /// `sessions NAME as NAME`
    pub sessions: Vec<(Name, Name)>,
    /// `dispatch NAME <-> NAME, …`
    pub dispatch: Vec<(Name, Name)>,
}

/// A place in a stack.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its name.
    pub name: Name,
    /// Its name in filters.
    pub filter_name: Option<Name>,
    /// Its protocol.
    pub protocol: Name,
}

/// A link type: a LINKTYPE_ name or number.
#[derive(Debug, Clone)]
pub struct Link {
    /// The name as written.
    pub name: Name,
    /// The number, if one was written.
    pub number: Option<u64>,
}

/// An edge: which layer follows another one.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The layers below.
    pub from: Vec<Name>,
    /// The layer above.
    pub to: Name,
    /// `quoted`, `messages`, or neither.
    pub kind: EdgeKind,
    /// The condition; always if absent.
    pub condition: Option<Expr>,
}
