//! Generates the state of a protocol: keys, variables, preparation, sequence.

use super::Author;
use super::names::{Kind, Place};

impl Author<'_, '_> {
    /// The clause `instance …`, with one or two sides.
    pub(super) fn instance(&mut self) -> String {
        self.names.two_sided = self.choices.chance(60);
        let keys = if self.names.two_sided { self.two_keys() } else { self.key() };
        let when = if self.choices.chance(25) {
            format!(" when {}", self.condition(Place::Packet))
        } else {
            String::new()
        };
        let reversed = if self.names.two_sided && self.choices.chance(30) {
            format!(" reversed when {}", self.condition(Place::Packet))
        } else {
            String::new()
        };
        format!("instance {keys}{when}{reversed}")
    }

    /// A key with up to three parts.
    fn key(&mut self) -> String {
        let mut parts = vec![];
        for _ in 0..1 + self.choices.below(3) {
            let fields: Vec<(String, Kind)> =
                self.names.fields.iter().filter(|(_, kind)| *kind != Kind::Bytes).cloned().collect();
            parts.push(match self.choices.below(8) {
                6 if !self.names.below.is_empty() => {
                    let names = self.names.below.clone();
                    format!("below.{}", self.choices.pick(&names).0)
                }
                7 => self.number(Place::Packet, 2),
                _ if fields.is_empty() => self.choices.below(3).to_string(),
                _ => self.choices.pick(&fields).0,
            });
        }
        format!("({})", parts.join(", "))
    }

    /// The keys of two sides. Each has one wide part and one part of 32 bits, of the same kinds as on the
    /// other side.
    fn two_keys(&mut self) -> String {
        let (mut sender, mut receiver) = (vec![], vec![]);
        let wide = self.pair(|bits| bits > 32);
        let narrow = self.pair(|bits| bits <= 32);
        let (has_wide, has_narrow) = (self.choices.chance(50), self.choices.chance(70));
        for (pair, is_wanted) in [(wide, has_wide), (narrow, has_narrow)] {
            if let Some((one, two)) = pair.filter(|_| is_wanted) {
                sender.push(one);
                receiver.push(two);
            }
        }
        if sender.is_empty() {
            let depth = 1 + self.choices.below(2) as u32;
            sender.push(self.number(Place::Packet, depth) + " + 0");
            receiver.push(self.number(Place::Packet, depth) + " + 0");
        }
        format!("({}) <-> ({})", sender.join(", "), receiver.join(", "))
    }

    /// Two fields of one kind, or two fields of a layer below.
    fn pair(&mut self, fits: impl Fn(u32) -> bool) -> Option<(String, String)> {
        let below = self.names.below.iter().any(|(name, _)| name == "src");
        if fits(128) && below && self.choices.chance(70) {
            return Some(("below.src".into(), "below.dst".into()));
        }
        let is_key = |kind: Kind| kind != Kind::Bytes && fits(kind.key_bits());
        let fields: Vec<(String, Kind)> =
            self.names.fields.iter().filter(|(_, kind)| is_key(*kind)).cloned().collect();
        if let Some((_, kind)) = fields.iter().find(|(name, _)| name == "src")
            && self.choices.chance(80)
            && fits(kind.key_bits())
        {
            return Some(("src".into(), "dst".into()));
        }
        if fields.is_empty() {
            return None;
        }
        let (one, kind) = self.choices.pick(&fields);
        let like: Vec<String> =
            fields.iter().filter(|(_, other)| other.is_like(kind)).map(|(name, _)| name.clone()).collect();
        Some((one, self.choices.pick(&like)))
    }

    /// `each side`, `vars` and `packet`.
    pub(super) fn vars(&mut self) -> Vec<String> {
        let mut clauses = vec![];
        self.names.kept.clear();
        for word in ["each side", "vars", "packet"] {
            if word == "each side" && !self.names.two_sided || self.choices.chance(35) {
                continue;
            }
            let (mut list, mut names) = (String::new(), vec![]);
            for _ in 0..1 + self.choices.below(3) {
                let name = self.fresh("v");
                let ty = self.choices.pick(&["u8", "u8", "u16", "u32", "u64", "time", "interval"]);
                list += &format!(" {name}: {ty}");
                match self.choices.below(5) {
                    0 => list += &format!(" = {}", self.choices.number()),
                    1 => list += &format!(" = {}", self.number(Place::Packet, 2)),
                    2 => list += " = max",
                    _ => {}
                }
                list += &self.doc();
                if word == "each side" {
                    names.extend([format!("me.{name}"), format!("peer.{name}")]);
                } else {
                    names.push(name);
                }
            }
            self.names.kept.extend(names.iter().filter(|_| word != "packet").cloned());
            clauses.push((format!("{word} {{{list} }}"), names));
        }
        // Initial values must not use variables, so the names become known after all clauses.
        let (clauses, names): (Vec<String>, Vec<Vec<String>>) = clauses.into_iter().unzip();
        self.names.vars = names.concat();
        clauses
    }

    /// The keyword `word` and a block of statements.
    pub(super) fn block(&mut self, word: &str) -> String {
        let count = 1 + self.choices.below(4);
        format!("{word} {{\n{}    }}", self.stmts(count, 0))
    }

    /// Statements for gaps, which use what the instance keeps; `None` if it keeps nothing.
    pub(super) fn gap_block(&mut self) -> Option<String> {
        let kept = self.names.kept.clone();
        let [var, other] = (!kept.is_empty()).then(|| [(); 2].map(|()| self.choices.pick(&kept)))?;
        let letter =
            self.choices.pick(&["", "    history G again when VAR in { 1, 10 }"]).replace("VAR", &var);
        Some(format!("on gap {{\n        {var} += 1 + {other}\n    {letter}\n    }}"))
    }

    fn stmts(&mut self, count: usize, depth: usize) -> String {
        let indent = "    ".repeat(depth + 2);
        (0..count).map(|_| format!("{indent}{}\n", self.stmt(depth))).collect()
    }

    fn stmt(&mut self, depth: usize) -> String {
        match self.choices.below(8) {
            0..5 if !self.names.vars.is_empty() => {
                let vars = self.names.vars.clone();
                let (var, op) = (self.choices.pick(&vars), self.choices.pick(&["=", "+=", "+="]));
                let depth = self.choices.below(3) as u32;
                format!("{var} {op} {}", self.number(Place::Instance, depth))
            }
            5 | 6 if depth < 3 => {
                let condition = self.condition(Place::Instance);
                let count = self.choices.below(3);
                let then = self.stmts(count, depth + 1);
                let otherwise = match self.choices.below(3) {
                    0 => String::new(),
                    1 => format!(" else {{\n{} }}", self.stmts(1, depth + 1)),
                    _ => format!(
                        " else if {} {{\n{} }}",
                        self.condition(Place::Instance),
                        self.stmts(1, depth + 1)
                    ),
                };
                format!("if {condition} {{\n{then} }}{otherwise}")
            }
            _ => {
                let letter = self.choices.pick(&['A', 'B', 'C', 'S', 'Z']);
                let when = if self.choices.chance(70) {
                    format!(" when {}", self.condition(Place::Instance))
                } else {
                    String::new()
                };
                let again = self.choices.pick(&["", "", " again"]);
                format!("history {letter}{again}{when}")
            }
        }
    }

    /// `sequence …`, and whether the sequence keeps headers only, without bytes.
    pub(super) fn sequence(&mut self) -> (String, bool) {
        let numbers = self.names.fields_that(|kind| matches!(kind, Kind::Number(_)));
        let bytes = self.names.fields_that(|kind| kind == Kind::Bytes);
        let mut at = match numbers.is_empty() {
            true => self.number(Place::Instance, 1),
            false => self.choices.pick(&numbers),
        };
        if self.choices.chance(15) {
            at = format!("{at} + ({})", self.number(Place::Instance, 1));
        }
        let of =
            if bytes.is_empty() || self.choices.chance(60) { None } else { Some(self.choices.pick(&bytes)) };
        let mut text = format!("sequence at {at} of {}", of.as_deref().unwrap_or("payload"));
        if self.choices.chance(40) {
            let span = match self.choices.below(3) {
                0 => "1".to_string(),
                1 => format!("payload.length + ({} & 1)", self.operand(Place::Instance, 0)),
                _ => self.number(Place::Instance, 2),
            };
            text += &format!(" spanning {span}");
        }
        if self.choices.chance(30) {
            let low = self.operand(Place::Instance, 1);
            text += &format!(" window {low} .. {low} + {}", self.operand(Place::Instance, 1));
            self.has_window = true;
        }
        text += self.choices.pick(&["", " from first", " from first", " from 0"]);
        let may_have_wholes =
            self.names.two_sided && text.ends_with("first") && text.contains(" spanning 1 ");
        if may_have_wholes && self.choices.chance(60) {
            let [first, last] = [(); 2].map(|()| self.condition(Place::Instance));
            text += &format!(" wholes {first} .. {last}");
        }
        if self.choices.chance(30) {
            text += " overwrite";
        } else if !self.names.two_sided && !text.ends_with("first") && self.choices.chance(40) {
            text += " distinct";
        }
        let headers_only = self.choices.chance(25);
        if headers_only {
            text += " headers only";
        }
        if self.choices.chance(25) {
            text += &format!(" when {}", self.condition(Place::Instance));
        }
        // A waiting segment keeps at most four fields.
        let mut ordered = self.names.fields_that(Kind::is_number);
        while ordered.len() > 4 {
            ordered.remove(self.choices.below(ordered.len()));
        }
        self.names.ordered = ordered;
        (text, headers_only)
    }
}
