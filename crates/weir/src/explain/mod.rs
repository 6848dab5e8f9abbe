//! Shows the stages of a filter's compilation as text.

pub(crate) mod detail;
mod lines;
mod machine;
mod packet;

pub use packet::packet;

use crate::ask::compile::Compiled;
use lines::{line, predicates};
use std::fmt::Write as _;
use weir_compile::StackCatalog;
use weir_compile::trie::{Node, Trie};
use weir_compile::weaken::is_expressible;
use weir_engine::plan::Want;
use weir_ir::graph::{Graph, Op, Terminator};
use weir_ir::interpret::Interpreter;
use weir_lang::filter::{Catalog, Literal, Predicate, Stage};
use weir_packet::{Burst, KernelFilters, LinkType};

/// A summary of all stages.
pub fn overview(compiled: &Compiled, catalog: &StackCatalog) -> String {
    let mut text = String::new();
    let has_one = compiled.questions.len() == 1;
    for (number, question) in compiled.questions.iter().enumerate() {
        let filter = question.filter.text.trim();
        let asked = if filter.is_empty() { "everything" } else { &question.filter.text };
        let label = if has_one { "question".to_string() } else { format!("question {number}") };
        line(&mut text, &label, &format!("{asked}      wants: {}", wants(compiled, number)));
    }
    line(&mut text, "kernel", &in_kernel(compiled, catalog));
    for (label, stage) in
        [("packet", Stage::Packet), ("conn", Stage::Connection), ("session", Stage::Session)]
    {
        let here: Vec<String> = predicates(compiled)
            .into_iter()
            .filter(|p| catalog.fields()[p.field].stage == stage)
            .map(|p| p.display(catalog).to_string())
            .collect();
        if !here.is_empty() {
            line(&mut text, label, &here.join("   "));
        }
    }
    text.push_str(&trie(compiled, catalog));
    if !compiled.values.is_empty() {
        let names: Vec<&str> = compiled.values.iter().map(|value| value.of.name(catalog)).collect();
        line(&mut text, "values", &format!("{}   (stored of each packet, for aggregates)", names.join(", ")));
    }
    let context = compiled.stack.context_names();
    let is_used = |table: &weir_ir::graph::TableDecl| table.two_sided && table.key.ends().context.is_some();
    if compiled.graph().tables.iter().any(is_used) {
        line(
            &mut text,
            "context",
            &format!("{}   (connections that differ in one of these are different)", context.join(", ")),
        );
    }
    let tables = &compiled.graph().tables;
    let shared: Vec<&str> = tables.iter().filter(|table| table.scattered).map(|table| &*table.name).collect();
    if !shared.is_empty() {
        let why = "packets of one instance may reach several workers; with `-j` they share a table, and the order of \
                   packets of different workers is not fixed";
        line(&mut text, "shared", &format!("{}   ({why})", shared.join(", ")));
    }
    for (index, (state, what)) in machine::machine(compiled).iter().enumerate() {
        line(&mut text, if index == 0 { "states" } else { "" }, &format!("{state:<7} {what}"));
    }
    line(&mut text, "passes", &passes(compiled));
    let (before, after) = (Size::of(&compiled.lowered_graph(catalog)), Size::of(compiled.graph()));
    line(&mut text, "program", &format!("{before} → {after}"));
    if let Some(fast_path) = compiled.native.as_ref().and_then(|native| native.fast_path()) {
        line(&mut text, "fast-path", &format!("{}   (the usual way, compiled first)", Size::of(fast_path)));
    }
    let how = match (&compiled.native, &compiled.engine) {
        (Some(_), _) => "native".into(),
        (None, Err(why)) => format!("interpreted ({why})"),
        (None, Ok(())) => "interpreted".into(),
    };
    line(
        &mut text,
        "code",
        &format!("{how}   (--stage parse|trie|ir|opt|kernel|device|fast-path|code shows each)"),
    );
    text
}

/// The names of the optimiser's passes, in their order.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    weir_ir::passes::PASSES.iter().map(|pass| pass.name).chain([crate::ask::compile::FAST_PATH])
}

/// The text of one stage.
pub fn stage(compiled: &Compiled, catalog: &StackCatalog, stage: &str) -> String {
    match stage {
        "parse" => {
            let filters = compiled.questions.iter().map(|question| &question.filter.expr);
            let mut text: String = filters.map(|filter| format!("{}\n", filter.display(catalog))).collect();
            text.push_str(&frame_tests(compiled));
            text
        }
        "trie" => trie(compiled, catalog),
        "ir" => compiled.lowered_graph(catalog).to_string(),
        "opt" => compiled.graph().to_string(),
        "kernel" => kernel_code(compiled),
        "device" => device_rules(compiled),
        "fast-path" => match compiled.native.as_ref().and_then(|native| native.fast_path()) {
            Some(fast_path) => fast_path.to_string(),
            None => "no fast path: nothing of the stack is usual, or everything\n".into(),
        },
        _ => match &compiled.native {
            Some(native) => native.code_text(),
            None => "no native code: the program is interpreted\n".into(),
        },
    }
}

/// The predicates that the kernel decides when packets come from links.
fn in_kernel(compiled: &Compiled, catalog: &StackCatalog) -> String {
    let Some(filters) = &compiled.kernel_filters else { return "every packet is needed".to_string() };
    let filter = match filters.filter(LinkType::ETHERNET, 0, true) {
        Ok(Some(filter)) => filter,
        Ok(None) => return "every packet is needed".to_string(),
        Err(why) => return format!("nothing is decided there: {why}"),
    };
    let is_packet = |p: &&Predicate| catalog.fields()[p.field].stage == Stage::Packet;
    let decided = predicates(compiled).into_iter().filter(is_packet).filter(|p| is_expressible(p, catalog));
    let decided: Vec<String> = decided.map(|p| p.display(catalog).to_string()).collect();
    let decided = match decided.is_empty() {
        true => "whether a packet is part of a connection".to_string(),
        false => decided.join("   "),
    };
    let taken_over = match filters.taken_over() {
        layers if layers.is_empty() => String::new(),
        layers => format!(
            "; counts packets of {} once nothing more is wanted of a connection",
            layers.join(" and ")
        ),
    };
    format!("{decided}{taken_over}   (on links, as {} instructions of eBPF)", filter.frame.len())
}

/// The rules by which devices of DPDK discard packets.
fn device_rules(compiled: &Compiled) -> String {
    let Some(filters) = &compiled.kernel_filters else { return "every packet is needed\n".to_string() };
    filters.header_rules().map_or_else(
        |why| format!("there are no rules for the questions: {why}\n"),
        |rules| rules.to_string(),
    )
}

/// The verdict about Ethernet frames as a graph, and as the code of a program of XDP.
fn kernel_code(compiled: &Compiled) -> String {
    let filters = compiled.kernel_filters.as_ref();
    let made = filters.and_then(|filters| {
        Some((filters.graph(LinkType::ETHERNET)?, filters.filter(LinkType::ETHERNET, 0, true).ok()??))
    });
    let Some((graph, filter)) = made else { return "the kernel passes every packet\n".into() };
    let mut text = format!("{graph}\n");
    for (number, instruction) in filter.frame.iter().enumerate() {
        let _ = writeln!(text, "{number:>5}  {instruction}");
    }
    text
}

/// The tests of whole frames (`frame satisfies "…"`), for each link type of the stack.
fn frame_tests(compiled: &Compiled) -> String {
    let mut text = String::new();
    for predicate in predicates(compiled) {
        let [Literal::Frame(test)] = &predicate.literals[..] else { continue };
        let _ = writeln!(text, "\n{}", test.text);
        for &(link, _) in &compiled.stack.starts {
            let link = LinkType(link);
            let shown = test.of(link).map_or("(not on this link)".to_string(), ToString::to_string);
            line(&mut text, &link.to_string(), &shown);
        }
    }
    text
}

/// The path of a packet through the graph, as lowered or after the passes: blocks, checks and loads.
pub fn trace(compiled: &Compiled, catalog: &StackCatalog, burst: &Burst, stage: &str) -> String {
    let graph = if stage == "opt" { compiled.graph().clone() } else { compiled.lowered_graph(catalog) };
    match Interpreter::new(graph) {
        Ok(interpreter) => {
            let steps = interpreter.trace(&burst.packets[0], burst.data(0));
            steps.iter().map(|step| format!("{step}\n")).collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

/// The effects of each pass, as signed numbers of what the pass added.
fn passes(compiled: &Compiled) -> String {
    let mut words = vec![];
    for effect in &compiled.report.passes {
        let a = effect.added;
        let parts = [
            (a.blocks, "blocks"),
            (a.insts, "insts"),
            (a.loads, "loads"),
            (a.checks, "checks"),
            (a.stateful, "stateful"),
        ];
        let shown: Vec<String> =
            parts.iter().filter(|p| p.0 != 0).map(|(n, what)| format!("{n:+} {what}")).collect();
        if !shown.is_empty() {
            words.push(format!("{} {}", effect.name, shown.join(" ")));
        }
    }
    words.join("   ")
}

/// The data that a question wants.
fn wants(compiled: &Compiled, question: usize) -> String {
    match compiled.plan.questions[question].want {
        Want::Packets => "packets".to_string(),
        Want::Connections => "connections".into(),
        Want::Sessions(protocols) => {
            let names = compiled.plan.sessions.names(protocols);
            names.map(|name| format!("{name} sessions")).collect::<Vec<_>>().join(", ")
        }
        Want::Streams(_) => "streams".into(),
        Want::Events => "events".into(),
        Want::Tracked(_) => "packets and sessions of connections".into(),
        Want::Nothing => "nothing".into(),
    }
}

/// The terms of the questions, as the tree that was lowered.
fn trie(compiled: &Compiled, catalog: &StackCatalog) -> String {
    fn print(text: &mut String, trie: &Trie, node: &Node, catalog: &StackCatalog, indent: &str) {
        for (index, &child) in node.children.iter().enumerate() {
            let (child, last) = (&trie.nodes[child], index + 1 == node.children.len());
            let stage = match child.stage {
                Some(stage) if Some(stage) != node.stage.or(Some(Stage::Packet)) => match stage {
                    Stage::Packet => "packet: ",
                    Stage::Row => "row: ",
                    Stage::Connection => "connection: ",
                    Stage::Session => "session: ",
                },
                _ => "",
            };
            let shown = child.predicate.map(|p| trie.predicates[p].display(catalog).to_string());
            let shown = shown.unwrap_or_default();
            let _ = write!(text, "{indent}{}{stage}{shown}", if last { "└─ " } else { "├─ " });
            answers(text, child);
            print(text, trie, child, catalog, &format!("{indent}{}", if last { "   " } else { "│  " }));
        }
    }
    fn answers(text: &mut String, node: &Node) {
        for question in &node.questions {
            let _ = write!(text, " → question {question}");
        }
        text.push('\n');
    }
    let trie = &compiled.trie;
    let mut text = format!("{:<10} packet", "trie");
    answers(&mut text, &trie.nodes[Trie::ROOT]);
    print(&mut text, trie, &trie.nodes[Trie::ROOT], catalog, "           ");
    text
}

/// The size of a graph.
struct Size {
    blocks: usize,
    instructions: usize,
    loads: usize,
    checks: usize,
    lookups: usize,
}

impl Size {
    fn of(graph: &Graph) -> Self {
        let insts = || graph.blocks.iter().flat_map(|b| &b.insts);
        let ends = |f: fn(&Terminator) -> bool| graph.blocks.iter().filter(|b| f(&b.terminator)).count();
        Self {
            blocks: graph.blocks.len(),
            instructions: insts().count(),
            loads: insts().filter(|i| matches!(i.op, Op::Load { .. })).count(),
            checks: ends(|t| matches!(t, Terminator::Check { .. })),
            lookups: ends(|t| matches!(t, Terminator::Lookup { .. })),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} blocks, {} instructions, {} loads, {} length checks, {} lookups",
            self.blocks, self.instructions, self.loads, self.checks, self.lookups
        )
    }
}
