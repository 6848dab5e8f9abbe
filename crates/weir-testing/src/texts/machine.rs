//! Generates states, transitions, timeouts and events.

use super::Author;
use super::names::{Kind, Place};

const DURATIONS: [&str; 7] = ["0s", "1ms", "1s", "5s", "1m", "5m", "1h"];

impl Author<'_, '_> {
    pub(super) fn name_states(&mut self) {
        let count = 2 + self.choices.below(3);
        self.names.states = (0..count).map(|_| self.fresh("s")).collect();
    }

    pub(super) fn states(&mut self) -> String {
        let start = self.choices.below(self.names.states.len());
        let states = self.names.states.clone();
        let list: Vec<String> = states
            .iter()
            .enumerate()
            .map(|(at, name)| match (at == start && start > 0, self.choices.chance(30)) {
                (true, true) => format!("{name}: start accept"),
                (true, false) => format!("{name}: start"),
                (false, true) => format!("{name}: accept"),
                (false, false) => name.clone(),
            })
            .collect();
        format!("states {{ {} }}", list.join("  "))
    }

    /// The transitions, and the names of those that events may refer to.
    pub(super) fn transitions(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut clauses, mut names) = (vec![], vec![]);
        let states = self.names.states.clone();
        for _ in 0..1 + self.choices.below(5) {
            let name = self.fresh("t");
            let from = match self.choices.below(4) {
                0 => "any".to_string(),
                1 => format!("{}, {}", self.choices.pick(&states), self.choices.pick(&states)),
                _ => self.choices.pick(&states),
            };
            let restarts = self.choices.chance(12);
            let to = if restarts { "restart".to_string() } else { self.choices.pick(&states) };
            let mut clause = format!("on {name}: {from} -> {to}");
            if restarts || self.choices.chance(80) {
                clause += &format!(" when {}", self.condition(Place::Ordered));
            }
            if !restarts && self.choices.chance(20) {
                clause += &format!(" idle {}", self.choices.pick(&DURATIONS));
            }
            clauses.push(clause);
            // Events cannot refer to a restart.
            names.extend((!restarts).then_some(name));
        }
        (clauses, names)
    }

    pub(super) fn timeout(&mut self) -> String {
        let mut text = "timeout".to_string();
        let states = self.names.states.clone();
        for state in &states {
            if self.choices.chance(25) {
                text += &format!(" {} in {state}", self.choices.pick(&DURATIONS));
            }
        }
        text + &format!(" {} otherwise", self.choices.pick(&DURATIONS))
    }

    /// Events on transitions and on ordered packets.
    pub(super) fn events(
        &mut self,
        transitions: &[String],
        has_sequence: bool,
        keeps_bytes: bool,
    ) -> Vec<String> {
        let mut triggers = transitions.to_vec();
        triggers.extend(["packet".into(), "packet".into()]);
        if has_sequence {
            triggers
                .extend(["ordered", "ordered", "retransmission", "gap", "inconsistent"].map(String::from));
            triggers.extend(self.has_window.then(|| "out_of_window".to_string()));
        }
        let (mut clauses, mut known) = (vec![], vec![]);
        for _ in 0..1 + self.choices.below(4) {
            let (clause, name) = self.event(&triggers, transitions, &known, has_sequence, keeps_bytes);
            clauses.push(clause);
            known.push(name);
            self.count += 1;
        }
        if self.choices.chance(40) {
            clauses.extend(self.end_event(!transitions.is_empty()));
        }
        clauses
    }

    /// An event `on end`; `None` if the instance keeps nothing.
    fn end_event(&mut self, has_states: bool) -> Option<String> {
        let mut values = self.names.kept.clone();
        values.extend(has_states.then(|| "state".to_string()));
        if values.is_empty() {
            return None;
        }
        let columns =
            (0..1 + self.choices.below(3)).map(|at| format!("c{at} = {}", self.choices.pick(&values)));
        let columns: Vec<String> = columns.collect();
        self.count += 1;
        let doc = self.doc();
        Some(format!("event z{} on end {{ {} }}{doc}", self.count, columns.join(", ")))
    }

    fn event(
        &mut self,
        triggers: &[String],
        transitions: &[String],
        known: &[String],
        has_sequence: bool,
        keeps_bytes: bool,
    ) -> (String, String) {
        let mut on: Vec<String> =
            (0..1 + self.choices.below(2)).map(|_| self.choices.pick(triggers)).collect();
        on.dedup();
        let with = !known.is_empty() && self.choices.chance(25);
        let has_on = !with || self.choices.chance(30);
        let mut text = String::new();
        if has_on {
            text += &format!(" on {}", on.join(self.choices.pick(&[", ", " or "])));
        }
        if with {
            text += &format!(" with {}", self.choices.pick(known));
        }
        // An event that may occur several times per packet cannot use `after`. Names of such events begin
        // with `o`.
        let repeats = has_on && on.iter().any(|trigger| of_pieces(trigger)) || text.contains(" with o");
        let after = if !repeats && !known.is_empty() && self.choices.chance(30) {
            format!(" after {}", self.choices.pick(known))
        } else {
            String::new()
        };
        let is_ordered = has_on && !with && on.iter().all(|trigger| of_pieces(trigger));
        let place = if is_ordered { Place::Ordered } else { Place::Instance };
        let has_when = self.choices.chance(35);
        if has_when {
            text += &format!(" when {}", self.condition(place));
        }
        let only_transitions = on.iter().all(|trigger| transitions.contains(trigger));
        let on_transition = on.iter().any(|trigger| transitions.contains(trigger));
        let may_assemble =
            self.names.has_payload && keeps_bytes && has_on && !with && (has_sequence || !on_transition);
        let may_assemble = may_assemble && (!has_when || only_transitions || !has_sequence);
        let may_assemble = may_assemble && (self.names.two_sided || !on.iter().any(|on| on == "ordered"));
        let mut columns = vec![];
        if may_assemble && self.choices.chance(60) {
            columns.push("assemble".to_string());
            self.assembles_in_order |= has_sequence && on.iter().any(|on| on == "ordered");
        }
        for at in 0..self.choices.below(4) {
            let wide: Vec<String> =
                self.names.fields_that(|kind| matches!(kind, Kind::Ipv6 | Kind::Mac | Kind::Ipv4));
            let bytes = self.names.fields_that(|kind| kind == Kind::Bytes);
            let value = match self.choices.below(5) {
                0 if !wide.is_empty() => self.choices.pick(&wide),
                2 if !bytes.is_empty() => self.choices.pick(&bytes),
                1 if !self.names.below.is_empty() => {
                    let names = self.names.below.clone();
                    format!("below.{}", self.choices.pick(&names).0)
                }
                _ => self.number(place, 2),
            };
            columns.push(format!("c{at} = {value}"));
        }
        if !columns.is_empty() {
            text += &format!(" {{ {} }}", columns.join(", "));
        }
        let doc = self.doc();
        let name = format!("{}{}", if repeats { "o" } else { "e" }, self.count);
        (format!("event {name}{text}{after}{doc}"), name)
    }
}

/// Whether a trigger happens for packets whose bytes are in order now.
fn of_pieces(trigger: &str) -> bool {
    matches!(trigger, "ordered" | "gap")
}
