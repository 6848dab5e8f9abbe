//! One protocol: checks each clause, in the order of their dependencies.

use super::codes;
use super::constants::Constants;
use super::expr::{Place, Resolver};
use super::scope::{BelowUse, Kind, Scope, Symbol, duplicate, sequence_bits};
use super::{layout, lets, machine, types};
use crate::diag::{Diagnostic, Span};
use crate::model::{
    Alias, BinaryOp, COUNTED, Expr, FieldId, FieldType, Held, Payload, Protocol, Sequence, ShowPart, Side,
    Steady, Stmt, Trigger, Unit, Var, VarId,
};
use crate::syntax::ast::{self, Clause, ClauseKind};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Maximum number of variables of one protocol.
pub(crate) const VARS_MAX: usize = 256;

/// Checks a protocol. With mistakes in `diagnostics`, the result is usable only to find more mistakes.
pub(super) fn check(
    tree: &ast::Protocol,
    constants: &Rc<Constants>,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Protocol, Vec<BelowUse>) {
    let clauses = Clauses::sort(&tree.clauses, diagnostics);
    let scope = Scope {
        protocol: tree.name.text.clone(),
        constants: Rc::clone(constants),
        has_payload: clauses.payload.is_some(),
        has_sequence: clauses.sequence.is_some(),
        has_instance: clauses.instance.is_some(),
        two_sided: clauses.instance.is_some_and(|(_, _, destination, _)| destination.is_some()),
        states: clauses.states.map_or_else(Vec::new, |(_, trees)| machine::state_names(trees)),
        ..Scope::default()
    };
    let mut checker = Checker { scope, protocol: empty(tree), groups: FxHashMap::default(), diagnostics };
    if tree.name.text.contains('.') {
        checker.diagnostics.push(
            Diagnostic::error(codes::RESERVED_NAME, "the name of a protocol has no dots")
                .at(tree.name.span)
                .help("`protocol x as y.z` names it for filters"),
        );
    }
    let own_name = tree.filter_names.is_empty().then_some(&tree.name);
    for filter_name in tree.filter_names.iter().chain(own_name).filter(|name| is_word_of_filters(&name.text))
    {
        let message = format!("`{}` is a reserved word in filters", filter_name.text);
        let diagnostic = Diagnostic::error(codes::RESERVED_NAME, message).at(filter_name.span);
        checker
            .diagnostics
            .push(diagnostic.help("give it another name; `protocol x as y` names it for filters alone"));
    }
    for derived in &clauses.lets {
        checker.scope.later.insert(derived.name.text.clone(), derived.name.span);
    }
    checker.header(clauses.header);
    checker.vars(&clauses.vars);
    checker.counted(&clauses.steadies);
    for (name, fields, _) in &clauses.aliases {
        checker.scope.declare(&name.text, Symbol::Alias, name.span, checker.diagnostics);
        // Derived values may compare aliases. That the fields have one type is checked once all names are
        // known.
        let fields = fields.iter().filter_map(|field| match checker.scope.find(&field.text) {
            Some(Symbol::Field(id)) => Some(id),
            _ => None,
        });
        let fields = fields.collect();
        checker.scope.aliases.insert(name.text.clone(), fields);
    }
    checker.lets(&clauses.lets, clauses.payload);
    checker.first_values(&clauses.vars);
    checker.aliases(&clauses.aliases);
    checker.payload(clauses.payload);
    checker.context(&clauses.contexts, &clauses.tags);
    checker.instance(clauses.instance);
    if let Some((span, _)) = clauses.joins.first().filter(|_| !checker.scope.two_sided) {
        let help = "give it `instance (…) <-> (…)`";
        checker.error(codes::MISSING_CLAUSE, "`join` needs an instance with two sides", *span, help);
    }
    checker.protocol.join = checker.conjunction("join", &clauses.joins);
    checker.protocol.count = checker.blocks("count", &clauses.counts);
    checker.protocol.admit = checker.conjunction("admit", &clauses.admits);
    checker.protocol.prepare = checker.blocks("prepare", &clauses.prepares);
    checker.steady(&clauses.steadies);
    let has_window = clauses.sequence.is_some_and(|(_, sequence)| sequence.window.is_some());
    let has_aside = clauses.transitions.iter().any(|(_, transition)| transition.to.text == "aside");
    checker.on(&clauses.ons, has_window, has_aside);
    checker.sequence(clauses.sequence);
    checker.assembled(&clauses.assembled);
    checker.acknowledge(clauses.acknowledge);
    checker.confirm(clauses.confirm);
    checker.hold(clauses.hold);
    checker.end(clauses.end);
    checker.show(clauses.show);
    let Checker { mut scope, mut protocol, diagnostics, .. } = checker;
    machine::check(&clauses, &mut protocol, &mut scope, diagnostics);
    protocol.rest_length = scope.rest_length;
    (protocol, scope.below)
}

/// Operators of filters, and fields that every packet has in filters.
fn is_word_of_filters(name: &str) -> bool {
    matches!(name, "frame" | "conn") || crate::filter::is_operator(name)
}

fn empty(tree: &ast::Protocol) -> Protocol {
    let filter_name = tree.filter_names.first().unwrap_or(&tree.name);
    let others = tree.filter_names.iter().skip(1);
    Protocol {
        name: tree.name.text.clone(),
        declared: tree.name.text.clone(),
        filter_name: filter_name.text.clone(),
        other_filter_names: others.map(|name| name.text.clone()).collect(),
        doc: tree.doc.clone(),
        header: Vec::new(),
        fields: Vec::new(),
        presences: Vec::new(),
        lets: Vec::new(),
        aliases: Vec::new(),
        payload: None,
        context: Vec::new(),
        tags: Vec::new(),
        instance: None,
        vars: Vec::new(),
        count: Vec::new(),
        join: None,
        admit: None,
        prepare: Vec::new(),
        steady: None,
        on: Vec::new(),
        sequence: None,
        states: Vec::new(),
        transitions: Vec::new(),
        timeouts: Vec::new(),
        events: Vec::new(),
        show: Vec::new(),
        rest_length: None,
        span: tree.name.span,
    }
}

/// Span, lifetime, and variables.
type VarsTree<'a> = (Span, Held, &'a [ast::Var], bool);
/// Span and statements.
type BlockTree<'a> = (Span, &'a [ast::Stmt]);
/// Span, a number of the other side, and the condition.
type NumberTree<'a> = (Span, &'a ast::Expr, Option<&'a ast::Expr>);
/// Span, the two keys, the condition, and the condition under which the first packet is the responder's.
pub(super) type InstanceTree<'a> =
    (Span, &'a [ast::Expr], Option<&'a [ast::Expr]>, [Option<&'a ast::Expr>; 2]);

/// Span, condition and statements.
type SteadyTree<'a> = (Span, Option<&'a ast::Expr>, &'a [ast::Stmt]);

/// The clauses by kind. Of clauses that are allowed once, the first is kept.
#[derive(Default)]
pub(super) struct Clauses<'a> {
    header: &'a [ast::HeaderItem],
    aliases: Vec<(&'a ast::Name, &'a [ast::Name], &'a str)>,
    lets: Vec<&'a ast::Let>,
    payload: Option<&'a Option<ast::Expr>>,
    contexts: Vec<&'a ast::Expr>,
    tags: Vec<&'a ast::Expr>,
    instance: Option<InstanceTree<'a>>,
    vars: Vec<VarsTree<'a>>,
    joins: Vec<(Span, &'a ast::Expr)>,
    counts: Vec<BlockTree<'a>>,
    admits: Vec<(Span, &'a ast::Expr)>,
    prepares: Vec<BlockTree<'a>>,
    steadies: Vec<SteadyTree<'a>>,
    ons: Vec<(&'a ast::Name, &'a [ast::Stmt])>,
    sequence: Option<(Span, &'a ast::Sequence)>,
    assembled: Vec<(&'a ast::Name, &'a ast::Expr)>,
    acknowledge: Option<NumberTree<'a>>,
    confirm: Option<NumberTree<'a>>,
    hold: Option<NumberTree<'a>>,
    end: Option<(Span, &'a ast::Expr)>,
    pub(super) states: Option<(Span, &'a [ast::State])>,
    pub(super) transitions: Vec<(Span, &'a ast::Transition)>,
    pub(super) timeouts: Option<(Span, &'a [ast::Timeout])>,
    /// There is a second `timeout` clause, which may hold what the first one lacks.
    pub(super) has_two_timeouts: bool,
    pub(super) events: Vec<&'a ast::Event>,
    pub(super) instance_span: Option<Span>,
    show: &'a [ast::ShowPart],
}

impl<'a> Clauses<'a> {
    fn sort(clauses: &'a [Clause], diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut sorted = Clauses::default();
        let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
        for clause in clauses {
            let span = clause.span;
            let once = match &clause.kind {
                ClauseKind::Header(_) => Some("header"),
                ClauseKind::Payload(_) => Some("payload"),
                ClauseKind::Instance { .. } => Some("instance"),
                ClauseKind::Sequence(_) => Some("sequence"),
                ClauseKind::Acknowledge(..) => Some("acknowledge"),
                ClauseKind::Confirm(..) => Some("confirm"),
                ClauseKind::Hold(..) => Some("hold"),
                ClauseKind::End(_) => Some("end"),
                ClauseKind::States(_) => Some("states"),
                ClauseKind::Timeout(_) => Some("timeout"),
                ClauseKind::Show(_) => Some("show"),
                _ => None,
            };
            if let Some(name) = once {
                if let Some(first) = seen.get(name) {
                    diagnostics.push(duplicate(name, *first, span));
                    sorted.has_two_timeouts |= name == "timeout";
                    continue;
                }
                seen.insert(name, span);
            }
            match &clause.kind {
                ClauseKind::Header(items) => sorted.header = items,
                ClauseKind::Alias { name, fields, doc } => sorted.aliases.push((name, fields, doc)),
                ClauseKind::Let(derived) => sorted.lets.push(derived),
                ClauseKind::Payload(length) => sorted.payload = Some(length),
                ClauseKind::Context(names) => sorted.contexts.extend(names),
                ClauseKind::Tag(names) => sorted.tags.extend(names),
                ClauseKind::Instance { source, destination, condition, reversed } => {
                    let conditions = [condition.as_ref(), reversed.as_ref()];
                    sorted.instance = Some((span, source, destination.as_deref(), conditions));
                    sorted.instance_span = Some(span);
                }
                ClauseKind::Vars { held, vars, of_steady } => {
                    sorted.vars.push((span, *held, vars, *of_steady))
                }
                ClauseKind::Count(stmts) => sorted.counts.push((span, stmts)),
                ClauseKind::Join(condition) => sorted.joins.push((span, condition)),
                ClauseKind::Admit(condition) => sorted.admits.push((span, condition)),
                ClauseKind::Prepare(stmts) => sorted.prepares.push((span, stmts)),
                ClauseKind::Steady(condition, stmts) => {
                    sorted.steadies.push((span, condition.as_ref(), stmts))
                }
                ClauseKind::On(trigger, stmts) => sorted.ons.push((trigger, stmts)),
                ClauseKind::Sequence(sequence) => sorted.sequence = Some((span, sequence)),
                ClauseKind::Assembled(name, value) => sorted.assembled.push((name, value)),
                ClauseKind::Acknowledge(at, condition) => {
                    sorted.acknowledge = Some((span, at, condition.as_ref()));
                }
                ClauseKind::Confirm(at, condition) => sorted.confirm = Some((span, at, condition.as_ref())),
                ClauseKind::Hold(count, condition) => sorted.hold = Some((span, count, condition.as_ref())),
                ClauseKind::End(condition) => sorted.end = Some((span, condition)),
                ClauseKind::States(states) => sorted.states = Some((span, states)),
                ClauseKind::Transition(transition) => sorted.transitions.push((span, transition)),
                ClauseKind::Timeout(timeouts) => sorted.timeouts = Some((span, timeouts)),
                ClauseKind::Event(event) => sorted.events.push(event),
                ClauseKind::Show(parts) => sorted.show = parts,
            }
        }
        sorted
    }
}

pub(super) struct Checker<'a> {
    pub(super) scope: Scope,
    pub(super) protocol: Protocol,
    groups: FxHashMap<String, Vec<FieldId>>,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    pub(super) fn resolver(&mut self, place: Place) -> Resolver<'_> {
        Resolver { scope: &mut self.scope, place, diagnostics: self.diagnostics }
    }

    pub(super) fn error(&mut self, code: &'static str, message: impl Into<String>, span: Span, help: &str) {
        self.diagnostics.push(Diagnostic::error(code, message).at(span).help(help));
    }

    fn needs_instance(&mut self, clause: &str, span: Span) {
        if !self.scope.has_instance {
            let message = format!("`{clause}` needs an instance");
            self.error(
                codes::MISSING_CLAUSE,
                message,
                span,
                "say how packets are grouped: `instance (src, dst)`",
            );
        }
    }

    fn header(&mut self, items: &[ast::HeaderItem]) {
        let layout = layout::check(items, &mut self.scope, self.diagnostics);
        self.scope.later.clear();
        self.protocol.header = layout.items;
        self.protocol.fields = layout.fields;
        self.protocol.presences = layout.presences;
        self.groups = layout.groups;
    }

    fn vars(&mut self, clauses: &[VarsTree<'_>]) {
        for &(span, held, vars, of_steady) in clauses {
            let clause = match held {
                Held::Side => "each side",
                Held::Instance => "vars",
                Held::Packet => "packet",
            };
            self.needs_instance(clause, span);
            if held == Held::Side && self.scope.has_instance && !self.scope.two_sided {
                let help = "variables of an instance with one key belong in `vars { … }`";
                self.error(codes::MISSING_CLAUSE, "`each side` needs an instance with two sides", span, help);
            }
            for var in vars {
                self.var(held, &var.name, &var.ty, of_steady);
            }
        }
    }

    /// Initial values of variables, checked after derived values.
    fn first_values(&mut self, clauses: &[VarsTree<'_>]) {
        for &(_, held, vars, _) in clauses {
            for tree in vars {
                let Some(first) = &tree.first else { continue };
                let known = |var: &Var| var.name == tree.name.text && var.held == held;
                let Some(at) = self.protocol.vars.iter().position(known) else { continue };
                self.protocol.vars[at].first = Some(self.first_value(first, self.protocol.vars[at].bits));
            }
        }
    }

    /// An expression over the first packet, or `max`, the greatest number of the variable's width.
    fn first_value(&mut self, first: &ast::Expr, bits: u32) -> Expr {
        match &first.kind {
            ast::ExprKind::Name(name) if name == "max" && self.scope.find(name).is_none() => {
                Expr::Number(u64::MAX >> (64 - bits))
            }
            _ => self.resolver(Place::Packet).number(first).expr,
        }
    }

    fn var(&mut self, held: Held, name: &ast::Name, ty: &ast::Type, of_steady: bool) {
        let each_side = held == Held::Side;
        let (bits, unit) = match (ty.name.text.as_str(), types::named_type(&ty.name.text)) {
            _ if ty.length.is_some() => (0, Unit::None),
            ("time", _) => (64, Unit::Time),
            ("interval", _) => (64, Unit::Interval),
            (_, Some(FieldType::Unsigned { bits: bits @ (8 | 16 | 32 | 64), little: false })) => {
                (bits, Unit::None)
            }
            _ => (0, Unit::None),
        };
        if bits == 0 {
            let message = "a variable is a u8, u16, u32 or u64, a time or an interval";
            self.error(codes::UNKNOWN_TYPE, message, ty.name.span, "write `u32`");
        }
        let bits = if bits == 0 { 64 } else { bits };
        if self.protocol.vars.len() >= VARS_MAX {
            let message = format!("a protocol has at most {VARS_MAX} variables");
            self.error(codes::TOO_MUCH, message, name.span, "each instance holds all of them");
            return;
        }
        let id = VarId(self.protocol.vars.len() as u16);
        if self.scope.sides.contains_key(&name.text)
            || each_side && self.protocol.vars.iter().any(|var| var.name == name.text)
        {
            let message = format!("`{}` is already declared", name.text);
            self.error(codes::DUPLICATE, message, name.span, "give it another name");
        } else if !each_side {
            self.scope.declare(&name.text, Symbol::Var(id), name.span, self.diagnostics);
        } else if name.text.contains('.') {
            self.error(
                codes::RESERVED_NAME,
                "the name of a variable has no dots",
                name.span,
                "write `_` instead",
            );
        } else {
            self.scope.sides.insert(name.text.clone(), id);
        }
        if held == Held::Packet {
            self.scope.packet_vars.insert(id);
        }
        self.protocol.vars.push(Var { name: name.text.clone(), held, bits, unit, first: None, of_steady });
    }

    fn lets(&mut self, lets: &[&ast::Let], payload: Option<&Option<ast::Expr>>) {
        let length = payload.and_then(Option::as_ref);
        self.protocol.lets = lets::check(lets, length, &mut self.scope, self.diagnostics);
    }

    fn aliases(&mut self, aliases: &[(&ast::Name, &[ast::Name], &str)]) {
        for &(name, fields, doc) in aliases {
            let mut found: Vec<FieldId> = Vec::new();
            for field in fields {
                let value = ast::Expr { kind: ast::ExprKind::Name(field.text.clone()), span: field.span };
                match self.resolver(Place::Packet).value(&value).expr {
                    Expr::Field(id) => found.push(id),
                    // The resolver reported the unknown name.
                    Expr::Number(_) => {}
                    _ => self.error(
                        codes::TYPE,
                        format!("`{}` is no field", field.text),
                        field.span,
                        "an alias names fields",
                    ),
                }
            }
            let kinds = &self.scope.kinds;
            let kind_of = |id: &FieldId| kinds[usize::from(id.0)];
            if let Some(odd) = found.iter().find(|id| kind_of(id) != kind_of(&found[0])) {
                let (first, second) = (kind_of(&found[0]).describe(), kind_of(odd).describe());
                let message =
                    format!("the fields of `{}` have different types: {first} and {second}", name.text);
                self.error(
                    codes::TYPE,
                    message,
                    name.span,
                    "filters compare all of them with the same value",
                );
            }
            self.scope.aliases.insert(name.text.clone(), found.clone());
            self.protocol.aliases.push(Alias {
                name: name.text.clone(),
                fields: found,
                doc: doc.to_string(),
            });
        }
    }

    fn payload(&mut self, payload: Option<&Option<ast::Expr>>) {
        let Some(length) = payload else { return };
        let length = length.as_ref().map(|length| self.resolver(Place::Payload).number(length).expr);
        self.protocol.payload = Some(Payload { length });
    }

    fn stmts(&mut self, stmts: &[ast::Stmt], place: Place) -> Vec<Stmt> {
        stmts.iter().filter_map(|stmt| self.stmt(stmt, place)).collect()
    }

    fn stmt(&mut self, stmt: &ast::Stmt, place: Place) -> Option<Stmt> {
        match stmt {
            ast::Stmt::Assign { target, add, value } => {
                let value = self.resolver(place).number(value).expr;
                let (var, side) = self.target(target, place)?;
                let value = if *add {
                    Expr::Binary(BinaryOp::Add, Box::new(Expr::Var(var, side)), Box::new(value))
                } else {
                    value
                };
                Some(Stmt::Assign { var, side, value })
            }
            ast::Stmt::If { condition, then, otherwise } => {
                let condition = self.resolver(place).condition(condition).expr;
                Some(Stmt::If {
                    condition,
                    then: self.stmts(then, place),
                    otherwise: self.stmts(otherwise, place),
                })
            }
            ast::Stmt::History { letter, again, condition } => {
                let condition = condition
                    .as_ref()
                    .map_or(Expr::Number(1), |condition| self.resolver(place).condition(condition).expr);
                let mut letters = letter.text.chars();
                match (letters.next(), letters.next()) {
                    (Some(letter @ 'A'..='Z'), None) => {
                        Some(Stmt::History { letter, again: *again, condition })
                    }
                    _ => {
                        let help = "the responder's letters are lower case";
                        self.error(codes::BAD_CLAUSE, "a history is of letters A to Z", letter.span, help);
                        None
                    }
                }
            }
        }
    }

    fn target(&mut self, target: &ast::Name, place: Place) -> Option<(VarId, Side)> {
        let value = ast::Expr { kind: ast::ExprKind::Name(target.text.clone()), span: target.span };
        match self.resolver(place).value(&value).expr {
            Expr::Var(var, side) => Some((var, side)),
            // The resolver reported the unknown name.
            Expr::Number(_) => None,
            _ => {
                let message = format!("`{}` can't be assigned to", target.text);
                let help = "variables can: declare one in `each side { … }` or `vars { … }`";
                self.error(codes::NOT_HERE, message, target.span, help);
                None
            }
        }
    }

    /// The statements of all blocks of one kind, in the order of the text.
    fn blocks(&mut self, word: &str, blocks: &[BlockTree<'_>]) -> Vec<Stmt> {
        let mut all = Vec::new();
        for &(span, stmts) in blocks {
            self.needs_instance(word, span);
            all.append(&mut self.stmts(stmts, Place::Instance));
        }
        all
    }

    /// Statements that depend on what the sequence finds. `has_window`: the sequence has a window.
    /// `has_aside`: a transition puts packets aside.
    fn on(&mut self, blocks: &[(&ast::Name, &[ast::Stmt])], has_window: bool, has_aside: bool) {
        const KNOWN: [&str; 5] = ["retransmission", "out_of_window", "gap", "aside", "join"];
        for &(name, stmts) in blocks {
            let trigger = match name.text.as_str() {
                "retransmission" => Trigger::Retransmission,
                "out_of_window" => Trigger::OutOfWindow,
                "gap" => Trigger::Gap,
                "aside" => Trigger::Aside,
                "join" => Trigger::Join,
                other => {
                    self.stmts(stmts, Place::Instance);
                    let message = format!("no statements can run on `{other}`");
                    let diagnostic = Diagnostic::error(codes::UNKNOWN_TRIGGER, message).at(name.span);
                    let help = "statements run on `retransmission`, `out_of_window`, `gap`, `aside` and `join`; a transition is `on name: from -> to`";
                    self.diagnostics.push(diagnostic.help(help).did_you_mean(other, KNOWN));
                    continue;
                }
            };
            let place = if trigger == Trigger::Gap { Place::Gap } else { Place::Instance };
            let stmts = self.stmts(stmts, place);
            if trigger == Trigger::Aside {
                if !has_aside {
                    let help = "add `on name: from -> aside when …`";
                    self.error(codes::MISSING_CLAUSE, "no transition leads to `aside`", name.span, help);
                }
            } else if trigger == Trigger::Join {
                if self.protocol.join.is_none() {
                    let message = "nothing joins the instance";
                    self.error(codes::MISSING_CLAUSE, message, name.span, "add `join when …`");
                }
            } else if !self.scope.has_sequence {
                let message = format!("`{}` needs a sequence", name.text);
                self.error(codes::MISSING_CLAUSE, message, name.span, "add `sequence at … of payload`");
            } else if trigger == Trigger::OutOfWindow && !has_window {
                let help = "add `window low .. low + length` to the sequence";
                self.error(codes::MISSING_CLAUSE, "`out_of_window` needs a window", name.span, help);
            }
            self.protocol.on.push((trigger, stmts));
        }
    }

    /// The conjunction of all clauses of one kind.
    fn conjunction(&mut self, word: &str, clauses: &[(Span, &ast::Expr)]) -> Option<Expr> {
        let mut all: Option<Expr> = None;
        for &(span, condition) in clauses {
            self.needs_instance(word, span);
            let condition = self.resolver(Place::Instance).condition(condition).expr;
            all = Some(match all {
                Some(others) => Expr::Binary(BinaryOp::LogicalAnd, Box::new(others), Box::new(condition)),
                None => condition,
            });
        }
        all
    }

    /// The variable `counted` of protocols that say which packets are steady.
    fn counted(&mut self, clauses: &[SteadyTree<'_>]) {
        let Some(&(span, ..)) = clauses.first() else { return };
        if !self.scope.two_sided {
            let help = "give it `instance (…) <-> (…)`";
            self.error(codes::MISSING_CLAUSE, "`steady` needs an instance with two sides", span, help);
            return;
        }
        let name = |text: &str| ast::Name { text: text.to_string(), span };
        let ty = ast::Type { name: name("u64"), length: None };
        self.var(Held::Side, &name(COUNTED), &ty, true);
    }

    /// The packets that change no more of an instance than counters and what the statements assign.
    fn steady(&mut self, clauses: &[SteadyTree<'_>]) {
        if clauses.is_empty() {
            return;
        }
        let mut steady = Steady::default();
        for &(_, condition, stmts) in clauses {
            let condition = condition.map(|one| self.resolver(Place::Instance).condition(one).expr);
            steady.conditions.extend(condition.into_iter().flat_map(Expr::conjuncts));
            for stmt in stmts {
                if let ast::Stmt::If { condition, .. } = stmt {
                    let help = "put the condition behind `steady when`";
                    self.error(codes::BAD_CLAUSE, "`steady` has no `if`", condition.span, help);
                }
            }
            steady.statements.append(&mut self.stmts(stmts, Place::Instance));
        }
        self.protocol.steady = Some(steady);
    }

    fn sequence(&mut self, sequence: Option<(Span, &ast::Sequence)>) {
        let Some((clause, tree)) = sequence else { return };
        self.needs_instance("sequence", clause);
        let of = tree.of.as_ref().and_then(|name| self.bytes_field(name));
        if tree.of.is_none() && self.protocol.payload.is_none() {
            let help = "add `payload = rest`";
            self.error(codes::MISSING_CLAUSE, "a sequence of payload needs a payload", clause, help);
        }
        if let Some(span) = tree.distinct
            && (tree.from_first || tree.overwrite || self.scope.two_sided)
        {
            let help =
                "it requires a datagram in pieces: a one-sided instance, `from 0`, without `overwrite`";
            self.error(codes::BAD_CLAUSE, "`distinct` is not allowed in this sequence", span, help);
        }
        let at = self.resolver(Place::Instance).number(&tree.at).expr;
        let span = tree.span.as_ref().map(|span| self.resolver(Place::Instance).number(span).expr);
        let window = tree.window.as_ref().and_then(|(low, high)| self.window(low, high));
        let wholes = tree.wholes.as_ref().map(|wholes| self.wholes(tree, wholes));
        let condition =
            tree.condition.as_ref().map(|condition| self.resolver(Place::Instance).condition(condition).expr);
        let bits = sequence_bits(&at, &self.protocol.fields, &self.protocol.lets);
        self.protocol.sequence = Some(Sequence {
            at,
            bits,
            of,
            span,
            from_first: tree.from_first,
            window,
            overwrite: tree.overwrite,
            distinct: tree.distinct.is_some(),
            wholes,
            headers_only: tree.headers_only.is_some(),
            condition,
            assembled: vec![],
            acknowledge: None,
            confirm: None,
            hold: None,
            end: None,
        });
    }

    /// The conditions of the packets that begin and end a whole. Each packet has one number of the sequence,
    /// so wholes are never split inside a packet.
    fn wholes(
        &mut self,
        tree: &ast::Sequence,
        (first, last, span): &(ast::Expr, ast::Expr, Span),
    ) -> (Expr, Expr) {
        let is_one = tree.span.as_ref().is_some_and(|span| matches!(span.kind, ast::ExprKind::Number(1)));
        if !is_one || !tree.from_first || !self.scope.two_sided {
            let help = "it requires numbered chunks: `instance (…) <-> (…)`, `spanning 1`, `from first`";
            let message = "`wholes` is not allowed in this sequence";
            self.error(codes::BAD_CLAUSE, message, *span, help);
        }
        let mut condition = |tree| self.resolver(Place::Instance).condition(tree).expr;
        (condition(first), condition(last))
    }

    /// Derived values that layers above an assembled datagram have in the place of those of its last packet.
    fn assembled(&mut self, clauses: &[(&ast::Name, &ast::Expr)]) {
        for &(name, value) in clauses {
            let named = ast::Expr { kind: ast::ExprKind::Name(name.text.clone()), span: name.span };
            let target = self.resolver(Place::Packet).value(&named).expr;
            let value = self.resolver(Place::Instance).number(value).expr;
            let one_sided = !self.scope.two_sided;
            match (target, &mut self.protocol.sequence) {
                (Expr::Let(target), Some(sequence)) if one_sided => sequence.assembled.push((target, value)),
                // The resolver reported the unknown name.
                (Expr::Number(_), _) => {}
                (Expr::Let(_), _) => {
                    let help = "it requires `instance (…)` with one side, and `sequence at … of … from 0`";
                    self.error(codes::MISSING_CLAUSE, "nothing is assembled", name.span, help);
                }
                _ => {
                    let message = format!("`{}` is no derived value", name.text);
                    self.error(codes::TYPE, message, name.span, "`let` derives a value");
                }
            }
        }
    }

    /// The number up to which the other side's bytes are acknowledged.
    fn acknowledge(&mut self, clause: Option<NumberTree<'_>>) {
        let Some(number) = self.number_of_packet(clause) else { return };
        if let Some(sequence) = self.sequence_from_first(clause, "acknowledged") {
            sequence.acknowledge = Some(number);
        }
    }

    /// The other side's first number.
    fn confirm(&mut self, clause: Option<NumberTree<'_>>) {
        let Some(number) = self.number_of_packet(clause) else { return };
        if let Some(sequence) = self.sequence_from_first(clause, "confirmed") {
            sequence.confirm = Some(number);
        }
    }

    /// The number of a packet's own numbers that count only once they are acknowledged.
    fn hold(&mut self, clause: Option<NumberTree<'_>>) {
        let Some(count) = self.number_of_packet(clause) else { return };
        if let Some(sequence) = self.sequence_from_first(clause, "held") {
            sequence.hold = Some(count);
        }
    }

    /// The condition for the last packet of a side.
    fn end(&mut self, clause: Option<(Span, &ast::Expr)>) {
        let Some((span, condition)) = clause else { return };
        let condition = self.resolver(Place::Transition).condition(condition).expr;
        match &mut self.protocol.sequence {
            Some(sequence) if sequence.from_first => sequence.end = Some(condition),
            _ => {
                let help = "give it `sequence at … of … from first`";
                let message = "only a sequence that starts at its first number ends";
                self.error(codes::MISSING_CLAUSE, message, span, help);
            }
        }
    }

    fn number_of_packet(&mut self, clause: Option<NumberTree<'_>>) -> Option<(Expr, Option<Expr>)> {
        let (_, at, condition) = clause?;
        let at = self.resolver(Place::Instance).number(at).expr;
        let condition = condition.map(|condition| self.resolver(Place::Instance).condition(condition).expr);
        Some((at, condition))
    }

    /// The sequence that a clause on the other side's numbers refers to, or a mistake. `done`: the clause's
    /// participle.
    fn sequence_from_first(&mut self, clause: Option<NumberTree<'_>>, done: &str) -> Option<&mut Sequence> {
        let is_fit = self.scope.two_sided && self.protocol.sequence.as_ref().is_some_and(|s| s.from_first);
        if !is_fit {
            let help = "give it `instance (…) <-> (…)` and `sequence at … of … from first`";
            let message = format!("only a sequence of two sides that starts at its first number is {done}");
            self.error(codes::MISSING_CLAUSE, message, clause?.0, help);
            return None;
        }
        self.protocol.sequence.as_mut()
    }

    /// The bytes field that a sequence orders.
    fn bytes_field(&mut self, name: &ast::Name) -> Option<FieldId> {
        let value = ast::Expr { kind: ast::ExprKind::Name(name.text.clone()), span: name.span };
        let value = self.resolver(Place::Packet).value(&value);
        match value.expr {
            Expr::Field(field) if value.kind == Kind::Bytes => Some(field),
            // The resolver reported the unknown name.
            Expr::Number(_) => None,
            _ => {
                let message = format!("`{}` is no field of bytes", name.text);
                let help = "a sequence orders the payload, or a field `bytes[…]`";
                self.error(codes::TYPE, message, name.span, help);
                None
            }
        }
    }

    /// `LOW .. LOW + LENGTH`: only this form is correct when numbers wrap.
    fn window(&mut self, low: &ast::Expr, high: &ast::Expr) -> Option<(Expr, Expr)> {
        if let ast::ExprKind::Binary(BinaryOp::Add, start, length) = &high.kind
            && start.same(low)
        {
            let low = self.resolver(Place::Instance).number(low).expr;
            return Some((low, self.resolver(Place::Instance).number(length).expr));
        }
        let help = "write `window low .. low + length`";
        self.error(codes::BAD_CLAUSE, "the end of a window is its start plus a length", high.span, help);
        None
    }

    fn show(&mut self, parts: &[ast::ShowPart]) {
        for part in parts {
            let part = match part {
                ast::ShowPart::Text(text) => ShowPart::Text(text.clone()),
                ast::ShowPart::Value(value) => self.shown(value),
            };
            self.protocol.show.push(part);
        }
    }

    fn shown(&mut self, value: &ast::Expr) -> ShowPart {
        if let ast::ExprKind::Name(name) = &value.kind
            && let Some(fields) = self.groups.get(name)
        {
            let flag = |id: &FieldId| {
                matches!(self.protocol.fields[usize::from(id.0)].ty, FieldType::Unsigned { bits: 1, .. })
            };
            if fields.iter().all(flag) {
                return ShowPart::Flags(fields.clone());
            }
            if let Some(Symbol::Field(whole)) = self.scope.find(name) {
                return ShowPart::Value(Expr::Field(whole));
            }
            let message = format!("`{name}` is not a group of flags");
            self.error(
                codes::TYPE,
                message,
                value.span,
                "a group is shown by the names of its one-bit fields",
            );
            return ShowPart::Flags(Vec::new());
        }
        let found = self.resolver(Place::Packet).value(value);
        self.scope.mark_shown(&found.expr);
        ShowPart::Value(found.expr)
    }
}
