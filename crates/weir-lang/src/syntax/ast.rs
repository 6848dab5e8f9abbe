//! The tree that the parser makes of a text: names as written, everything with its span.

use crate::diag::Span;
use crate::model::{BinaryOp, EdgeKind, Held};
use std::time::Duration;

/// A name and where it stands.
#[derive(Debug, Clone)]
pub struct Name {
    /// As written, dots included.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// Which addition to a library it came with: functions and tables are known to what came with them.
    pub addition: usize,
    /// `import "FILE"`: the text between the quotes, and where it stands.
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
    /// What is missing, as it could not be read.
    pub unread: Vec<Unread>,
}

/// A part of a text that could not be read; what is wrong with it was said.
#[derive(Debug, Clone, Copy)]
pub struct Unread {
    /// The protocol, stack … that it stands in.
    pub item: Span,
    /// Itself.
    pub part: Span,
}

/// `fn NAME(NAME, NAME) = EXPR`
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// What it is a function of.
    pub params: Vec<Name>,
    /// Its value.
    pub body: Expr,
}

/// `table NAME { N, N..N: N … otherwise: N }`
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// Numbers and inclusive ranges, and what stands behind their colon.
    pub rows: Vec<(Vec<Range>, u64)>,
    /// The value of all other numbers; 0 without.
    pub otherwise: Option<u64>,
}

impl Function {
    /// Whether both say the same, wherever they stand.
    pub fn same(&self, other: &Function) -> bool {
        let params =
            |function: &Function| function.params.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
        params(self) == params(other) && self.body.same(&other.body)
    }
}

impl Table {
    /// Whether both say the same, wherever they stand.
    pub fn same(&self, other: &Table) -> bool {
        let rows = |table: &Table| {
            let bounds =
                |ranges: &[Range]| ranges.iter().map(|&(low, high, _)| (low, high)).collect::<Vec<_>>();
            table.rows.iter().map(|(ranges, value)| (bounds(ranges), *value)).collect::<Vec<_>>()
        };
        rows(self) == rows(other) && self.otherwise == other.otherwise
    }
}

/// The least and the greatest number, and where they stand.
pub type Range = (u64, u64, Span);

/// `protocol NAME as NAME { … }`
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Its name.
    pub name: Name,
    /// Its name in filters.
    pub filter_name: Option<Name>,
    /// The `//!` line above.
    pub doc: String,
    /// What is inside, in the order of the text.
    pub clauses: Vec<Clause>,
}

/// `extend NAME with NAME { … }`: what is added to a protocol.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The protocol.
    pub of: Name,
    /// Its own name, by which another may replace it.
    pub name: Name,
    /// What is inside, in the order of the text.
    pub clauses: Vec<Clause>,
}

/// One clause of a protocol.
#[derive(Debug, Clone)]
pub struct Clause {
    /// What it says.
    pub kind: ClauseKind,
    /// The word that starts it.
    pub span: Span,
}

/// What a clause says.
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
        /// One line of meaning.
        doc: String,
    },
    /// `let NAME = EXPR`
    Let(Let),
    /// `payload = rest` or `payload = rest[.. EXPR]`
    Payload(Option<Expr>),
    /// `instance (…) <-> (…) when EXPR`
    Instance {
        /// The only or the sender's key.
        source: Vec<Expr>,
        /// The receiver's.
        destination: Option<Vec<Expr>>,
        /// Which packets have one.
        condition: Option<Expr>,
        /// `reversed when EXPR`
        reversed: Option<Expr>,
    },
    /// `each side { … }`, `vars { … }`, `packet { … }`
    Vars {
        /// How long they live, and of what there is one each.
        held: Held,
        /// The variables.
        vars: Vec<Var>,
    },
    /// `count { … }`
    Count(Vec<Stmt>),
    /// `admit when EXPR`
    Admit(Expr),
    /// `acknowledge EXPR when EXPR`
    Acknowledge(Expr, Option<Expr>),
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
        /// Where the underscore stands.
        span: Span,
    },
    /// `NAME { … }`
    Group {
        /// The prefix of its fields.
        name: Name,
        /// The fields.
        items: Vec<HeaderItem>,
        /// What they are together.
        doc: String,
    },
    /// `if EXPR { … } else { … }`
    If {
        /// Over earlier fields.
        condition: Expr,
        /// When it holds.
        then: Vec<HeaderItem>,
        /// When not.
        otherwise: Vec<HeaderItem>,
        /// The word `if`.
        span: Span,
    },
    /// `NAME: run { … } until EXPR`
    Run {
        /// Its name.
        name: Name,
        /// Type of the tag; one byte without.
        tag: Option<Type>,
        /// The items.
        items: Vec<RunItem>,
        /// Where it ends.
        until: Expr,
    },
}

/// `NAME as NAME = TAG stop { … }`
#[derive(Debug, Clone)]
pub struct RunItem {
    /// Its name.
    pub name: Name,
    /// Its other name.
    pub alias: Option<Name>,
    /// The tag and where it stands; no number for `_`.
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
    /// Its other name.
    pub alias: Option<Name>,
    /// It does not move the cursor.
    pub peek: bool,
    /// Its type.
    pub ty: Type,
    /// `= N`, `where OP N`: the operator, the number, where it stands.
    pub constraint: Option<(BinaryOp, u64, Span)>,
    /// One line of meaning.
    pub doc: String,
}

/// A type.
#[derive(Debug, Clone)]
pub struct Type {
    /// Its word.
    pub name: Name,
    /// What stands in brackets after `bytes`.
    pub length: Option<Box<Expr>>,
}

/// A variable: `NAME: TYPE = EXPR`
#[derive(Debug, Clone)]
pub struct Var {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: Type,
    /// What it holds at first.
    pub first: Option<Expr>,
}

/// `let NAME = EXPR "…"`
#[derive(Debug, Clone)]
pub struct Let {
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: Expr,
    /// One line of meaning.
    pub doc: String,
}

/// A statement.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// `NAME = EXPR`, `NAME += EXPR`
    Assign {
        /// What is assigned to.
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
        /// When it holds.
        then: Vec<Stmt>,
        /// When not.
        otherwise: Vec<Stmt>,
    },
    /// `history LETTER [when EXPR]`
    History {
        /// One letter.
        letter: Name,
        /// When; always without.
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
    /// `wholes EXPR .. EXPR`, and where that stands.
    pub wholes: Option<(Expr, Expr, Span)>,
    /// Where `headers only` stands, if it does.
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
    /// When; always without.
    pub condition: Option<Expr>,
    /// How long the instance may be idle from then on; as its state says without.
    pub timeout: Option<(Duration, Span)>,
}

/// `DURATION in NAME, NAME` or `DURATION otherwise`
#[derive(Debug, Clone)]
pub struct Timeout {
    /// How long.
    pub after: Duration,
    /// Where the duration stands.
    pub span: Span,
    /// The states; `None` for all others.
    pub states: Option<Vec<Name>>,
}

/// `event NAME on NAME, NAME when EXPR { … } with NAME, NAME after NAME, NAME "…"`
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: Name,
    /// What makes it happen.
    pub triggers: Vec<Name>,
    /// Events with each of which it happens.
    pub with: Vec<Name>,
    /// Events that are told before it, where they happen on the same packet.
    pub after: Vec<Name>,
    /// It only happens where this holds.
    pub condition: Option<Expr>,
    /// Where `assemble` stands, if it does.
    pub assemble: Option<Span>,
    /// The columns and their names.
    pub columns: Vec<(Name, Expr)>,
    /// One line of meaning.
    pub doc: String,
}

/// A part of `show "…"`.
#[derive(Debug, Clone)]
pub enum ShowPart {
    /// As it stands.
    Text(String),
    /// In braces.
    Value(Expr),
}

/// An expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// What an expression says.
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
    /// Whether both say the same, wherever they stand.
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

    /// Calls `visit` for every name inside.
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
    /// The stack that it adds to.
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
    /// As written.
    pub name: Name,
    /// The number, where one was written.
    pub number: Option<u64>,
}

/// Which layer follows.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The layers below.
    pub from: Vec<Name>,
    /// The layer above.
    pub to: Name,
    /// `quoted`, `messages`, or neither.
    pub kind: EdgeKind,
    /// When; always without.
    pub condition: Option<Expr>,
}
