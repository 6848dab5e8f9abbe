//! States, transitions, timeouts and events.

use super::codes;
use super::expr::{Place, Resolver};
use super::order;
use super::protocol::Clauses;
use super::scope::{Scope, duplicate};
use crate::diag::{Diagnostic, Span};
use crate::model::{
    EVENTS_MAX, EndValue, Event, Expr, FieldId, Held, Protocol, State, Target, Timeout, Transition, Trigger,
};
use crate::syntax::ast;
use rustc_hash::FxHashMap;
use std::time::Duration;

/// Causes of events that are not transitions. A transition may be called `end` or `check`: events `on end`
/// then mean the transition.
const TRIGGERS: [(&str, Trigger); 9] = [
    ("packet", Trigger::Packet),
    ("ordered", Trigger::Ordered),
    ("retransmission", Trigger::Retransmission),
    ("out_of_window", Trigger::OutOfWindow),
    ("gap", Trigger::Gap),
    ("aside", Trigger::Aside),
    ("inconsistent", Trigger::Inconsistent),
    ("end", Trigger::End),
    // With the interval of the event.
    ("check", Trigger::Check(Duration::ZERO)),
];

/// Intervals between checks of all instances.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Maximum number of fields stored with a waiting packet of a sequence.
pub(crate) const ORDERED_FIELDS_MAX: usize = 4;

/// Maximum number of states of one protocol.
pub(crate) const STATES_MAX: usize = 256;

/// Checks the clauses after the header's, and adds them to `protocol`.
pub(super) fn check(
    clauses: &Clauses<'_>,
    protocol: &mut Protocol,
    scope: &mut Scope,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut checker = Checker {
        protocol,
        scope,
        diagnostics,
        states: FxHashMap::default(),
        transitions: FxHashMap::default(),
        states_missing: false,
    };
    checker.states(clauses);
    for (span, transition) in &clauses.transitions {
        checker.transition(*span, transition, clauses.states.is_some());
    }
    checker.find_unreachable();
    checker.timeouts(clauses);
    let mut events: FxHashMap<&str, Span> = FxHashMap::default();
    if let Some(excess) = clauses.events.get(EVENTS_MAX) {
        let message = format!("a protocol has at most {EVENTS_MAX} events");
        checker.diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(excess.name.span));
        return;
    }
    for event in &clauses.events {
        if let Some(first) = events.insert(&event.name.text, event.name.span) {
            checker.diagnostics.push(duplicate(&event.name.text, first, event.name.span));
        }
        if let (None, Some(span)) = (clauses.instance_span, event.assemble) {
            let help = "say how packets are grouped: `instance (src, dst)`";
            checker.error(codes::MISSING_CLAUSE, "`assemble` needs an instance", span, help);
        }
        checker.event(event);
    }
    checker.find_too_many_ordered();
    order::check(&clauses.events, checker.protocol, checker.diagnostics);
}

/// The states in the order of their indices, the start first.
fn start_first(trees: &[ast::State]) -> impl Iterator<Item = &ast::State> {
    let start = trees.iter().position(|state| state.start).unwrap_or(0);
    let others = trees.iter().enumerate().filter(move |(at, _)| *at != start).map(|(_, state)| state);
    trees.get(start).into_iter().chain(others)
}

/// The names of states by index, as [`check`] assigns them if there is no mistake.
pub(super) fn state_names(trees: &[ast::State]) -> Vec<String> {
    start_first(trees).map(|state| state.name.text.clone()).collect()
}

struct Checker<'a> {
    protocol: &'a mut Protocol,
    scope: &'a mut Scope,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Index and span of each state.
    states: FxHashMap<String, (usize, Span)>,
    transitions: FxHashMap<String, (usize, Span)>,
    /// A state's name was invalid: reachability of states is unknown.
    states_missing: bool,
}

impl Checker<'_> {
    fn error(&mut self, code: &'static str, message: impl Into<String>, span: Span, help: &str) {
        self.diagnostics.push(Diagnostic::error(code, message).at(span).help(help));
    }

    fn resolver(&mut self, place: Place) -> Resolver<'_> {
        Resolver { scope: self.scope, place, diagnostics: self.diagnostics }
    }

    fn states(&mut self, clauses: &Clauses<'_>) {
        let Some((clause, trees)) = clauses.states else { return };
        if !self.scope.has_instance {
            let help = "say how packets are grouped: `instance (src, dst)`";
            self.error(codes::MISSING_CLAUSE, "`states` needs an instance", clause, help);
        }
        if trees.is_empty() {
            self.error(
                codes::EXPECTED,
                "no state is declared",
                clause,
                "write `states { first: start  last: accept }`",
            );
        }
        let mut starts = trees.iter().filter(|state| state.start);
        if let (Some(first), Some(second)) = (starts.next(), starts.next()) {
            self.diagnostics.push(
                Diagnostic::error(codes::DUPLICATE, "two states are the start")
                    .at(second.name.span)
                    .label(first.name.span, "first here"),
            );
        }
        for state in start_first(trees) {
            self.state(state);
        }
    }

    fn state(&mut self, state: &ast::State) {
        let name = &state.name;
        if matches!(name.text.as_str(), "any" | "restart" | "aside" | "start" | "accept")
            || name.text.contains('.')
        {
            let message = format!("no state can be called `{}`", name.text);
            self.error(codes::RESERVED_NAME, message, name.span, "give it another name");
        } else if let Some((_, first)) = self.states.get(&name.text) {
            self.diagnostics.push(duplicate(&name.text, *first, name.span));
        } else if self.protocol.states.len() >= STATES_MAX {
            let message = format!("a protocol has at most {STATES_MAX} states");
            self.diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(name.span));
        } else {
            self.states.insert(name.text.clone(), (self.protocol.states.len(), name.span));
            self.protocol.states.push(State { name: name.text.clone(), accept: state.accept });
        }
    }

    fn find_state(&mut self, name: &ast::Name) -> Option<usize> {
        if let Some((index, _)) = self.states.get(&name.text) {
            return Some(*index);
        }
        self.states_missing = true;
        let names: Vec<&str> = self.protocol.states.iter().map(|state| state.name.as_str()).collect();
        let diagnostic =
            Diagnostic::error(codes::UNKNOWN_STATE, format!("there is no state `{}`", name.text))
                .at(name.span)
                .help("declare it in `states { … }`")
                .did_you_mean(&name.text, names);
        self.diagnostics.push(diagnostic);
        None
    }

    fn transition(&mut self, clause: Span, tree: &ast::Transition, has_states: bool) {
        let name = &tree.name;
        if TRIGGERS.iter().any(|(text, trigger)| *text == name.text && !is_of_instance(trigger)) {
            let message =
                format!("no transition can be called `{}`: it is the name of a built-in trigger", name.text);
            self.error(codes::RESERVED_NAME, message, name.span, "give it another name");
        }
        if let Some((_, first)) = self.transitions.get(&name.text) {
            self.diagnostics.push(duplicate(&name.text, *first, name.span));
        }
        if !has_states {
            self.error(
                codes::MISSING_CLAUSE,
                "a transition needs states",
                clause,
                "add `states { first: start … }`",
            );
            return;
        }
        let any = tree.from.iter().find(|from| from.text == "any");
        if let Some(any) = any.filter(|_| tree.from.len() > 1) {
            self.error(codes::BAD_CLAUSE, "`any` stands alone", any.span, "it means every state");
        }
        let from = if any.is_some() {
            Vec::new()
        } else {
            tree.from.iter().filter_map(|from| self.find_state(from)).collect()
        };
        let from_known = any.is_some() || !from.is_empty();
        let to = match tree.to.text.as_str() {
            "restart" => Some(Target::Restart),
            "aside" => Some(Target::Aside),
            _ => self.find_state(&tree.to).map(Target::State),
        };
        let is_elsewhere = to.is_some_and(Target::is_elsewhere);
        if to == Some(Target::Aside) && !self.scope.two_sided {
            let help = "give it `instance (…) <-> (…)`";
            self.error(codes::MISSING_CLAUSE, "`aside` needs an instance with two sides", tree.to.span, help);
        }
        let (condition, always) = match &tree.condition {
            Some(condition) => {
                let value = self.resolver(Place::Transition).condition(condition);
                (value.expr, value.range.is_always())
            }
            None => (Expr::Number(1), true),
        };
        let ordered = uses_ordered(&condition);
        if from_known {
            self.find_covered(&from, is_elsewhere, name.span);
        }
        let index = self.protocol.transitions.len();
        self.transitions.entry(name.text.clone()).or_insert((index, name.span));
        // Kept even if a state is unknown, so that events that refer to the transition cause no further
        // errors.
        let condition = if always && !ordered { Expr::Number(1) } else { condition };
        if let Some((_, span)) = tree.timeout.filter(|_| is_elsewhere) {
            let help = "the new instance has the time-out of its state";
            let message = format!("`{}`: the packet does not belong to the instance", tree.to.text);
            self.error(codes::BAD_CLAUSE, message, span, help);
        }
        let unknown = if self.protocol.states.is_empty() { Target::Restart } else { Target::State(0) };
        let to = to.unwrap_or(unknown);
        let timeout = tree.timeout.map(|(after, _)| after);
        let name = name.text.clone();
        self.protocol.transitions.push(Transition { name, from, to, condition, ordered, timeout });
    }

    /// Warns if an earlier transition is taken from all these states for every packet. Transitions to
    /// `restart` and `aside` are tried before all others, and not for the packet that starts a new instance,
    /// so they hide only each other.
    fn find_covered(&mut self, from: &[usize], is_elsewhere: bool, span: Span) {
        let always =
            self.protocol.transitions.iter().filter(|one| {
                matches!(one.condition, Expr::Number(1)) && one.to.is_elsewhere() == is_elsewhere
            });
        let earlier: Vec<&Transition> = always.collect();
        let covered =
            |state: usize| earlier.iter().find(|one| one.from.is_empty() || one.from.contains(&state));
        let mut wanted =
            if from.is_empty() { (0..self.protocol.states.len()).collect() } else { from.to_vec() };
        wanted.sort_unstable();
        let takers: Option<Vec<&str>> =
            wanted.iter().map(|&state| covered(state).map(|one| one.name.as_str())).collect();
        if let Some(taker) = takers.as_ref().and_then(|takers| takers.first()) {
            let first = self.transitions.get(*taker).map(|(_, span)| *span);
            let diagnostic =
                Diagnostic::warning(codes::DEAD_TRANSITION, "this transition is never taken").at(span);
            let diagnostic = match first {
                Some(first) => diagnostic.label(first, "always taken before it"),
                None => diagnostic,
            };
            self.diagnostics.push(diagnostic.help(
                "the first transition whose condition holds is taken: add a `when` to it, or move it down",
            ));
        }
    }

    fn find_unreachable(&mut self) {
        if self.states_missing {
            return;
        }
        let count = self.protocol.states.len();
        let mut reached = vec![false; count];
        let mut open = if count > 0 { vec![0] } else { Vec::new() };
        while let Some(state) = open.pop() {
            if std::mem::replace(&mut reached[state], true) {
                continue;
            }
            for one in &self.protocol.transitions {
                if (one.from.is_empty() || one.from.contains(&state))
                    && let Target::State(to) = one.to
                {
                    open.push(to);
                }
            }
        }
        for (state, _) in self.protocol.states.iter().zip(reached).filter(|(_, reached)| !reached) {
            let span = self.states.get(&state.name).map_or(self.protocol.span, |(_, span)| *span);
            self.diagnostics.push(
                Diagnostic::warning(
                    codes::UNREACHABLE_STATE,
                    format!("no transition leads to `{}`", state.name),
                )
                .at(span),
            );
        }
    }

    /// A waiting packet stores only a few fields: reports an excess.
    fn find_too_many_ordered(&mut self) {
        let transitions = self.protocol.transitions.iter().map(|transition| &transition.condition);
        let columns =
            self.protocol.events.iter().flat_map(|event| event.columns.iter().map(|(_, value)| value));
        let conditions = self.protocol.events.iter().filter_map(|event| event.condition.as_ref());
        let mut fields = vec![];
        for expr in transitions.chain(columns).chain(conditions) {
            ordered_fields(expr, &mut fields);
        }
        if fields.len() > ORDERED_FIELDS_MAX {
            let message = format!("{} fields are stored until a packet is in order", fields.len());
            let help = format!("at most {ORDERED_FIELDS_MAX} different fields may be used with `ordered.`");
            let span = self.protocol.span;
            self.error(codes::TOO_MUCH, message, span, &help);
        }
    }

    fn timeouts(&mut self, clauses: &Clauses<'_>) {
        let mut covered = vec![false; self.protocol.states.len()];
        let mut otherwise: Option<Timeout> = None;
        if let Some((clause, trees)) = clauses.timeouts {
            if !self.scope.has_instance {
                let help = "say how packets are grouped: `instance (src, dst)`";
                self.error(codes::MISSING_CLAUSE, "`timeout` needs an instance", clause, help);
            }
            for tree in trees {
                let Some(names) = &tree.states else {
                    if otherwise.is_some() {
                        self.error(
                            codes::DUPLICATE,
                            "there is a timeout for all other states already",
                            tree.span,
                            "say for which states: `5s in opening`",
                        );
                    }
                    otherwise = Some(Timeout { after: tree.after, states: Vec::new() });
                    continue;
                };
                let mut states = Vec::new();
                for name in names {
                    let Some(state) = self.find_state(name) else { continue };
                    if std::mem::replace(&mut covered[state], true) {
                        let message = format!("`{}` has a timeout already", name.text);
                        self.error(codes::DUPLICATE, message, name.span, "keep one of them");
                    }
                    states.push(state);
                }
                // An empty list would mean all other states.
                if !states.is_empty() {
                    self.protocol.timeouts.push(Timeout { after: tree.after, states });
                }
            }
        }
        let says_all = otherwise.is_some() || clauses.has_two_timeouts;
        let ends = says_all || (!covered.is_empty() && covered.iter().all(|covered| *covered));
        if let Some(span) = clauses.instance_span.filter(|_| !ends) {
            self.diagnostics.push(
                Diagnostic::warning(codes::NO_TIMEOUT, "no timeout ends these instances")
                    .at(span)
                    .help("add `timeout 1m`, or `1m otherwise` to the timeouts that are there"),
            );
        }
        self.protocol.timeouts.extend(otherwise);
    }

    /// Checks `assemble` and `ordered.` of an event against its causes.
    fn occasions(&mut self, tree: &ast::Event, triggers: &[Trigger]) {
        if let Some(span) = tree.assemble {
            if self.protocol.payload.is_none() {
                self.error(codes::ASSEMBLE, "there is no payload to assemble", span, "add `payload = rest`");
            } else if !self.scope.has_sequence
                && triggers.iter().any(|trigger| matches!(trigger, Trigger::Transition(_)))
            {
                let help = "add `sequence at … of payload`, or let the event happen `on packet`";
                self.error(
                    codes::ASSEMBLE,
                    "without a sequence only each packet's own payload can be assembled",
                    span,
                    help,
                );
            }
        }
        let is_ordered = triggers.contains(&Trigger::Ordered);
        if let Some(span) =
            tree.assemble.filter(|_| is_ordered && self.scope.has_instance && !self.scope.two_sided)
        {
            let help = "let the event happen on a transition: `on last: fragments -> complete when ordered.more == 0`";
            self.error(
                codes::ASSEMBLE,
                "a one-sided instance delivers its bytes once they are complete",
                span,
                help,
            );
        }
        if let Some(span) =
            tree.assemble.filter(|_| self.protocol.sequence.as_ref().is_some_and(|s| s.headers_only))
        {
            let help = "leave `headers only` out of the sequence, or `assemble` out of the event";
            self.error(codes::ASSEMBLE, "a sequence of headers keeps no bytes", span, help);
        }
        let is_transition = |trigger: &Trigger| matches!(trigger, Trigger::Transition(_));
        if let (Some(span), Some(_)) = (tree.assemble, &tree.condition)
            && self.scope.has_sequence
            && !triggers.iter().all(is_transition)
        {
            let help = "put the `when` on the sequence: packets that do not match are not ordered";
            self.error(codes::ASSEMBLE, "in-order bytes are delivered regardless of `when`", span, help);
        }
    }

    fn event(&mut self, tree: &ast::Event) {
        if let Some((_, first)) = self.scope.symbols.get(&tree.name.text) {
            let message = format!("`{}` already exists: filters could not tell them apart", tree.name.text);
            self.diagnostics.push(
                Diagnostic::error(codes::DUPLICATE, message)
                    .label(tree.name.span, "again here")
                    .label(*first, "first here")
                    .help("give the event another name"),
            );
        } else if tree.name.text == "payload" || tree.name.text.contains('.') {
            let message = format!("no event can be called `{}`", tree.name.text);
            self.error(codes::RESERVED_NAME, message, tree.name.span, "give it another name");
        }
        let triggers: Vec<Trigger> = tree.triggers.iter().filter_map(|name| self.trigger(name)).collect();
        if let Some(trigger) = triggers.iter().copied().find(is_of_instance) {
            return self.instance_event(tree, trigger);
        }
        if let Some((_, span)) = tree.interval {
            let help = "write `on check 10s` to report all instances every 10 seconds";
            self.error(codes::BAD_CLAUSE, "only `check` has an interval", span, help);
        }
        self.occasions(tree, &triggers);
        // An event that is reported only on `ordered` or `gap` can use the packet whose turn it is.
        let on_ordered = triggers.iter().all(|trigger| matches!(trigger, Trigger::Ordered | Trigger::Gap));
        let is_ordered = tree.with.is_empty() && !triggers.is_empty() && on_ordered;
        let place = if is_ordered { Place::Transition } else { Place::Instance };
        let condition = tree.condition.as_ref().map(|c| self.resolver(place).condition(c).expr);
        let mut columns: Vec<(String, Expr)> = Vec::new();
        let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
        for (name, value) in &tree.columns {
            if let Some(first) = seen.insert(&name.text, name.span) {
                self.diagnostics.push(duplicate(&name.text, first, name.span));
            }
            let found = self.resolver(place).value(value);
            self.scope.mark_shown(&found.expr);
            columns.push((name.text.clone(), found.expr));
        }
        self.protocol.events.push(Event {
            name: tree.name.text.clone(),
            triggers,
            with: Vec::new(),
            after: Vec::new(),
            condition,
            assemble: tree.assemble.is_some(),
            columns,
            end_columns: Vec::new(),
            doc: tree.doc.clone(),
        });
    }

    /// An event `on end`, or `on check`. No packet belongs to it, so its columns are only what the instance
    /// holds, and nothing is evaluated for it.
    fn instance_event(&mut self, tree: &ast::Event, trigger: Trigger) {
        let name = &tree.name.text;
        let (word, place) = match trigger {
            Trigger::End => ("end", "at the end of an instance"),
            _ => ("check", "between packets"),
        };
        if tree.triggers.len() > 1 {
            let help = format!("declare two events: {place} there is no packet");
            self.error(codes::BAD_CLAUSE, format!("`{word}` stands alone"), tree.triggers[0].span, &help);
        }
        if !self.scope.has_instance {
            let help = "say how packets are grouped: `instance (src, dst)`";
            self.error(
                codes::MISSING_CLAUSE,
                format!("`{word}` needs an instance"),
                tree.triggers[0].span,
                help,
            );
        }
        if let Some(condition) = &tree.condition {
            let help = format!("select its rows with a filter on its columns: `{name}.column > 3`");
            self.error(
                codes::BAD_CLAUSE,
                format!("an event `on {word}` has no `when`"),
                condition.span,
                &help,
            );
        }
        if let Some(span) = tree.assemble {
            let help = "let an event `on ordered` or on a transition assemble";
            self.error(codes::ASSEMBLE, format!("{place} nothing is assembled"), span, help);
        }
        if let Some(other) = tree.with.iter().chain(&tree.after).next() {
            let help = "leave `with` and `after` out: all other events of the instance were reported before";
            let message = format!("an event `on {word}` happens with no other event");
            self.error(codes::BAD_CLAUSE, message, other.span, help);
        }
        let trigger = match (trigger, tree.interval) {
            (Trigger::End, Some((_, span))) => {
                let help = "write `on check 10s` to report all instances every 10 seconds";
                self.error(codes::BAD_CLAUSE, "only `check` has an interval", span, help);
                trigger
            }
            (Trigger::End, None) => trigger,
            (_, Some((interval, span))) => {
                if !INTERVALS.contains(&interval) {
                    let help = "give an interval from 1s to 24h";
                    self.error(codes::BAD_CLAUSE, "this is no interval between checks", span, help);
                }
                Trigger::Check(interval)
            }
            (_, None) => {
                let help = "say how often: `on check 10s`";
                self.error(codes::MISSING_CLAUSE, "`check` needs an interval", tree.triggers[0].span, help);
                Trigger::Check(*INTERVALS.start())
            }
        };
        let mut end_columns = Vec::new();
        let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
        for (name, value) in &tree.columns {
            // `me.zeros` alone is called `zeros`.
            let text =
                name.text.strip_prefix("me.").or(name.text.strip_prefix("peer.")).unwrap_or(&name.text);
            if let Some(first) = seen.insert(text, name.span) {
                self.diagnostics.push(duplicate(text, first, name.span));
            }
            if let Some(found) = self.end_value(value, place) {
                end_columns.push((text.to_string(), found));
            }
        }
        self.protocol.events.push(Event {
            name: name.clone(),
            triggers: vec![trigger],
            with: Vec::new(),
            after: Vec::new(),
            condition: None,
            assemble: false,
            columns: Vec::new(),
            end_columns,
            doc: tree.doc.clone(),
        });
    }

    /// A column of an event `on end` or `on check`: a variable of the instance, or `state`.
    fn end_value(&mut self, value: &ast::Expr, place: &str) -> Option<EndValue> {
        let name = match &value.kind {
            ast::ExprKind::Name(name) => name.as_str(),
            _ => "",
        };
        if name == "state" && self.scope.find(name).is_none() {
            if self.protocol.states.is_empty() {
                let help = "declare `states { … }`, or leave `state` out";
                self.error(codes::MISSING_CLAUSE, "`state` needs states", value.span, help);
            }
            return Some(EndValue::State);
        }
        let before = self.diagnostics.len();
        let found = self.resolver(Place::Instance).value(value).expr;
        match found {
            // A name that does not exist is reported by itself.
            _ if self.diagnostics.len() > before => None,
            Expr::Var(var, side) if self.protocol.vars[usize::from(var.0)].held != Held::Packet => {
                Some(EndValue::Var(var, side))
            }
            _ => {
                let message = format!("{place} there is no packet: only its variables and `state` are known");
                let help = "keep the value in a variable: `vars { last: u32 }` and `prepare { last = … }`";
                self.error(codes::NOT_HERE, message, value.span, help);
                None
            }
        }
    }

    fn trigger(&mut self, name: &ast::Name) -> Option<Trigger> {
        let transition = self.transitions.get(&name.text).map(|(index, _)| *index);
        let meant = |(word, trigger): &&(&str, Trigger)| {
            *word == name.text && (!is_of_instance(trigger) || transition.is_none())
        };
        let Some((_, trigger)) = TRIGGERS.iter().find(meant) else {
            if let Some(index) = transition {
                let is_elsewhere = self.protocol.transitions[index].to.is_elsewhere();
                if is_elsewhere && !self.protocol.states.is_empty() {
                    let help = "let it happen `on packet`, with the transition's condition";
                    self.error(
                        codes::BAD_CLAUSE,
                        "the packet does not belong to the instance, which reports no events",
                        name.span,
                        help,
                    );
                }
                return Some(Trigger::Transition(index));
            }
            let known: Vec<String> = self.transitions.keys().cloned().collect();
            let mut known: Vec<&str> =
                known.iter().map(String::as_str).chain(TRIGGERS.map(|(word, _)| word)).collect();
            known.sort_unstable();
            let diagnostic = Diagnostic::error(
                codes::UNKNOWN_TRIGGER,
                format!("there is no transition or trigger `{}`", name.text),
            )
            .at(name.span)
            .help(
                "events happen on transitions, and on `packet`, `ordered`, `retransmission`, `out_of_window`, \
                 `gap`, `inconsistent`, `end`, and `check 10s`",
            )
            .did_you_mean(&name.text, known);
            self.diagnostics.push(diagnostic);
            return None;
        };
        let needs_sequence = !matches!(trigger, Trigger::Packet | Trigger::Aside) && !is_of_instance(trigger);
        if needs_sequence && !self.scope.has_sequence {
            let message = format!("`{}` needs a sequence", name.text);
            self.error(codes::MISSING_CLAUSE, message, name.span, "add `sequence at … of payload`");
        } else if *trigger == Trigger::OutOfWindow
            && self.protocol.sequence.as_ref().is_some_and(|sequence| sequence.window.is_none())
        {
            let help = "add `window low .. low + length` to the sequence";
            self.error(codes::MISSING_CLAUSE, "`out_of_window` needs a window", name.span, help);
        }
        Some(*trigger)
    }
}

/// Whether the trigger belongs to no packet.
fn is_of_instance(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::End | Trigger::Check(_))
}

/// Whether a condition depends on its packet being in order.
fn uses_ordered(expr: &Expr) -> bool {
    let mut fields = vec![];
    ordered_fields(expr, &mut fields);
    !fields.is_empty()
}

/// Collects the fields that `expr` reads from a packet in order.
fn ordered_fields(expr: &Expr, fields: &mut Vec<FieldId>) {
    match expr {
        Expr::Ordered(field) if !fields.contains(field) => fields.push(*field),
        Expr::Not(inner) | Expr::In(inner, _) => ordered_fields(inner, fields),
        Expr::Binary(_, a, b) => [a, b].into_iter().for_each(|inner| ordered_fields(inner, fields)),
        Expr::Choose(a, b, c) => [a, b, c].into_iter().for_each(|inner| ordered_fields(inner, fields)),
        _ => {}
    }
}
