//! Generates a whole file: functions, tables, protocols, stacks.

use super::Author;
use super::names::{Kind, Names, Place, Role};
use crate::choices::Choices;

/// A layer of the stack: its name, its protocol, and whether packets begin with it.
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) protocol: usize,
    starts: bool,
}

/// Whether the stack mentions the layer `at`: as a start, or in an edge.
pub(super) fn is_there(layers: &[Layer], edges: &[(usize, usize)], at: usize) -> bool {
    layers[at].starts || edges.iter().any(|&(from, to)| from == at || to == at)
}

/// A generated text.
pub(super) fn write(choices: &mut Choices<'_>) -> String {
    let count = 1 + choices.below(4);
    let mut layers: Vec<Layer> =
        (0..count).map(|at| Layer { name: format!("p{at}"), protocol: at, starts: at == 0 }).collect();
    if choices.chance(25) {
        layers.push(Layer { name: "x0".into(), protocol: choices.below(count), starts: false });
    }
    if count > 1 && choices.chance(15) {
        layers[1].starts = true;
    }
    // A layer that starts the stack has no layer below. All other layers may use the names that every start
    // has.
    let has_common = choices.chance(80);
    let wide = choices.chance(20);
    let mut text = String::new();
    let file = constants(choices, &mut text);
    let mut known = vec![];
    for at in 0..count {
        let starts = layers.iter().any(|layer| layer.protocol == at && layer.starts);
        let mut author = Author::new(choices, file.clone());
        if has_common && !starts {
            let is_number = !wide;
            author.names.below =
                vec![("src".into(), is_number), ("dst".into(), is_number), ("mark".into(), true)];
        }
        let common = has_common && (starts || author.choices.chance(60));
        text += &author.protocol(at, common.then_some(wide));
        known.push(author.names);
    }
    let (stack, extending, edges) = stacks(choices, &layers, &known);
    // Messages were added to this generator later. They come last, so the same bytes still give the same
    // other parts.
    let (messages, more) = super::messages::write(choices, &file, (&layers, &known, &edges), has_common);
    text + &messages + &stack + &more + "}\n" + &extending
}

/// Functions and tables, and their names.
fn constants(choices: &mut Choices<'_>, text: &mut String) -> Names {
    let mut names = Names::default();
    for at in 0..choices.below(3) {
        let rows: Vec<String> = (0..choices.below(4))
            .map(|row| format!("{}..{}: {}", row * 3, row * 3 + choices.below(3), choices.number()))
            .collect();
        let otherwise =
            if choices.chance(50) { format!("  otherwise: {}", choices.number()) } else { String::new() };
        *text += &format!("table n{at} {{ {}{otherwise} }}\n", rows.join("  "));
        names.tables.push(format!("n{at}"));
    }
    for at in 0..choices.below(3) {
        let params = ["a", "b", "c"][..1 + choices.below(3)].join(", ");
        let mut author = Author::new(choices, names.clone());
        author.names.params = params.split(", ").map(String::from).collect();
        let count = author.names.params.len();
        *text += &format!("fn k{at}({params}) = {}\n", author.number(Place::Function, 2));
        names.functions.push((format!("k{at}"), count));
    }
    names
}

impl Author<'_, '_> {
    /// `common`: if set, the protocol has the fields that layers above may use; the value is whether these
    /// fields may be too wide for arithmetic.
    pub(super) fn protocol(&mut self, at: usize, common: Option<bool>) -> String {
        let first = match self.names.role {
            Role::Layer => common.map_or(String::new(), |wide| self.common(wide)),
            // A message must not be empty.
            Role::Message | Role::Whole => self.field("", "u8", Kind::Number(8)) + "\n        ",
        };
        let mut clauses = vec![self.header(&first)];
        self.values(&mut clauses);
        if self.choices.chance(80) {
            self.remembered(&mut clauses);
        }
        if self.choices.chance(50) {
            clauses.push(self.show());
        }
        // Clauses may be in any order.
        for _ in 0..self.choices.below(4) {
            let last = clauses.pop().expect("a header at least");
            clauses.insert(self.choices.below(clauses.len() + 1), last);
        }
        let filter_name = if self.choices.chance(10) { format!(" as p{at}.q") } else { String::new() };
        let body: String = clauses.iter().map(|clause| format!("    {clause}\n")).collect();
        format!("//! Made up, number {at}\nprotocol p{at}{filter_name} {{\n{body}}}\n")
    }

    fn common(&mut self, wide: bool) -> String {
        let kinds = [
            ("u8", Kind::Number(8)),
            ("u8", Kind::Number(8)),
            ("u16", Kind::Number(16)),
            ("u4", Kind::Number(4)),
            ("u64", Kind::Number(64)),
            ("ipv4addr", Kind::Ipv4),
            ("macaddr", Kind::Mac),
            ("ipv6addr", Kind::Ipv6),
        ];
        let (word, kind) = self.choices.pick(&kinds[..if wide { 8 } else { 7 }]);
        let fields = [("src", kind), ("dst", kind), ("mark", Kind::Number(8))];
        self.names.fields.extend(fields.map(|(name, kind)| (name.to_string(), kind)));
        format!("src: {word}  dst: {word}  mark: u8\n        ")
    }

    /// Aliases, derived values and the payload.
    fn values(&mut self, clauses: &mut Vec<String>) {
        for _ in 0..self.choices.below(3) {
            let name = self.fresh("l");
            clauses.push(format!("let {name} = {}{}", self.number(Place::Payload, 3), self.doc()));
            self.names.early.push(name);
        }
        if self.choices.chance(85) {
            let length = match self.choices.below(4) {
                0 | 1 if self.names.role != Role::Message => String::new(),
                2 => format!("[.. {}]", self.number(Place::Payload, 2)),
                _ => format!("[.. {} & 63]", self.operand(Place::Payload, 1)),
            };
            clauses.push(format!("payload = rest{length}"));
            self.names.has_payload = true;
        }
        for _ in 0..self.choices.below(3) {
            let name = self.fresh("l");
            clauses.push(format!("let {name} = {}{}", self.number(Place::Packet, 3), self.doc()));
            self.names.late.push(name);
        }
        let fields = self.names.fields.clone();
        if !fields.is_empty() && self.choices.chance(30) {
            let (one, kind) = self.choices.pick(&fields);
            let like: Vec<String> = fields
                .iter()
                .filter(|(_, other)| other.is_like(kind))
                .map(|(name, _)| name.clone())
                .collect();
            let (name, two) = (self.fresh("a"), self.choices.pick(&like));
            clauses.push(format!("alias {name} = {one} | {two}{}", self.doc()));
        }
    }

    /// The instance, and the clauses that need one.
    fn remembered(&mut self, clauses: &mut Vec<String>) {
        clauses.push(self.instance());
        clauses.append(&mut self.vars());
        let has_states = self.choices.chance(65);
        if has_states {
            self.name_states();
        }
        if self.choices.chance(30) {
            clauses.push(self.block("count"));
        }
        if self.choices.chance(25) {
            clauses.push(format!("admit when {}", self.number(Place::Instance, 2)));
        }
        if self.choices.chance(70) {
            clauses.push(self.block("prepare"));
        }
        let has_sequence = self.names.has_payload && self.choices.chance(50);
        let mut keeps_bytes = true;
        if has_sequence {
            let (sequence, headers_only) = self.sequence();
            if sequence.contains("from first") && self.names.two_sided && self.choices.chance(40) {
                let when = format!(" when {}", self.condition(Place::Instance));
                let when = if self.choices.chance(50) { when } else { String::new() };
                clauses.push(format!("acknowledge {}{when}", self.number(Place::Instance, 1)));
            }
            clauses.push(sequence);
            keeps_bytes = !headers_only;
            if self.choices.chance(30) {
                clauses.push(self.block("on retransmission"));
            }
            if self.choices.chance(30) {
                clauses.extend(self.gap_block());
            }
        }
        let mut transitions = vec![];
        if has_states {
            clauses.push(self.states());
            let (mut list, names) = self.transitions();
            clauses.append(&mut list);
            transitions = names;
        }
        if self.choices.chance(90) {
            clauses.push(self.timeout());
        }
        if self.choices.chance(80) {
            clauses.append(&mut self.events(&transitions, has_sequence, keeps_bytes));
        }
        let in_order = clauses.iter().find(|clause| clause.starts_with("sequence"));
        if let Some(sequence) = in_order.filter(|sequence| sequence.contains("from first"))
            && self.names.two_sided
            && self.assembles_in_order
        {
            let is_whole = sequence.contains(" wholes ");
            self.names.carries = Some(if is_whole { Role::Whole } else { Role::Message });
        }
    }

    fn show(&mut self) -> String {
        let mut text = "p".to_string();
        for _ in 0..self.choices.below(4) {
            let groups = self.names.groups.clone();
            let value = match self.choices.below(3) {
                0 if !groups.is_empty() => self.choices.pick(&groups),
                1 => {
                    let all = self.names.fields_that(|_| true);
                    if all.is_empty() { "1".into() } else { self.choices.pick(&all) }
                }
                _ => self.number(Place::Packet, 1),
            };
            // A value in braces ends at the first closing brace.
            text += &if value.contains('}') { " x".to_string() } else { format!(" {{{value}}}") };
        }
        format!("show \"{text}\"")
    }
}

/// The stack without its closing brace; a stack that extends it, or nothing; the edges.
fn stacks(
    choices: &mut Choices<'_>,
    layers: &[Layer],
    known: &[Names],
) -> (String, String, Vec<(usize, usize)>) {
    let mut edges: Vec<(usize, usize)> = vec![];
    let repeats: Vec<bool> = layers.iter().map(|_| choices.chance(25)).collect();
    for from in 0..layers.len() {
        for to in 0..layers.len() {
            // A cycle must contain a layer that may be repeated.
            let is_bound = to > from || repeats[to] || repeats[from];
            let percent = if to == from + 1 { 90 } else { 25 };
            if is_bound && choices.chance(percent) {
                edges.push((from, to));
            }
        }
    }
    let is_there = |at: usize| is_there(layers, &edges, at);
    let mut text = "//! Of them\nstack s0 {\n".to_string();
    for layer in layers.iter().filter(|layer| layer.name.starts_with('x')) {
        let other = if choices.chance(30) { format!(" as {}.q", layer.name) } else { String::new() };
        text += &format!("    layer {}{other}: p{}\n", layer.name, layer.protocol);
    }
    for (link, layer) in (147..).zip(layers.iter().filter(|layer| layer.starts)) {
        text += &format!("    start {link}: {}\n", layer.name);
    }
    for (from, to) in &edges {
        text += &format!("    {}\n", edge(choices, &layers[*from], &layers[*to], known));
    }
    // One edge from several layers, which applies if no other edge does.
    if let Some(&(first, to)) = edges.first()
        && let Some(&(second, _)) = edges.iter().find(|edge| edge.1 == to && edge.0 != first)
    {
        text += &format!("    {}, {} -> {}\n", layers[first].name, layers[second].name, layers[to].name);
    }
    for at in (0..layers.len()).filter(|&at| repeats[at] && is_there(at)) {
        text += &format!("    repeat {} {}\n", layers[at].name, 2 + choices.below(3));
    }
    if !edges.is_empty() && choices.chance(30) {
        let (from, to) = choices.pick(&edges);
        let (other, _) = choices.pick(&edges);
        text += &format!("    usual {} -> {}, {}\n", layers[from].name, layers[to].name, layers[other].name);
    }
    for at in (0..layers.len()).filter(|&at| is_there(at)) {
        if choices.chance(20) {
            text += &dispatch(choices, &layers[at], &known[layers[at].protocol]);
        }
    }
    let mut extending = String::new();
    if !edges.is_empty() && choices.chance(15) {
        let (from, to) = choices.pick(&edges);
        extending = format!(
            "//! More of them\nstack s1 extends s0 {{\n    {}\n}}\n",
            edge(choices, &layers[from], &layers[to], known)
        );
    }
    (text, extending, edges)
}

fn edge(choices: &mut Choices<'_>, from: &Layer, to: &Layer, known: &[Names]) -> String {
    let quoted = if choices.chance(10) { "quoted " } else { "" };
    let condition = when(choices, &known[from.protocol], 60);
    match choices.chance(20) {
        true => format!("{} {{ -> {quoted}{}{condition} }}", from.name, to.name),
        false => format!("{} -> {quoted}{}{condition}", from.name, to.name),
    }
}

/// The condition of an edge from a protocol with these names, or an empty text.
pub(super) fn when(choices: &mut Choices<'_>, from: &Names, percent: usize) -> String {
    if !choices.chance(percent) {
        return String::new();
    }
    format!(" when {}", Author::new(choices, from.clone()).condition(Place::Edge))
}

fn dispatch(choices: &mut Choices<'_>, layer: &Layer, names: &Names) -> String {
    let keys: Vec<(String, Kind)> =
        names.fields.iter().filter(|(_, kind)| *kind != Kind::Bytes).cloned().collect();
    if keys.is_empty() {
        return String::new();
    }
    let (one, kind) = choices.pick(&keys);
    let like: Vec<String> =
        keys.iter().filter(|(_, other)| other.is_like(kind)).map(|(name, _)| name.clone()).collect();
    format!("    dispatch {0}.{one} <-> {0}.{1}\n", layer.name, choices.pick(&like))
}
