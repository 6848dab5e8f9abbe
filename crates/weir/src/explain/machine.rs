//! Shows the states of a connection that its questions need, out of probe, parse, track and over. The states
//! follow from the needs of the questions; no one declares them.

use crate::ask::compile::Compiled;
use weir_engine::plan::{Plan, Want};
use weir_ir::graph::{Graph, TableDecl, Terminator};
use weir_sessions::ProtocolSet;

fn has_lookup(graph: &Graph) -> bool {
    graph.blocks.iter().any(|block| matches!(block.terminator, Terminator::Lookup { .. }))
}

/// A line per state: its name, the work in it, the condition that ends it.
pub fn machine(compiled: &Compiled) -> Vec<(&'static str, String)> {
    let (plan, graph) = (&compiled.plan, compiled.graph());
    let tables: Vec<&str> =
        graph.tables.iter().filter(|table| table.observed).map(|table| &*table.name).collect();
    if tables.is_empty() {
        let states = match graph.tables.is_empty() || !has_lookup(graph) {
            true => "packets are decided one by one: no connection is looked up",
            false => "packets are decided one by one, with what was remembered of those before",
        };
        let hold = hold_of(plan).map(|text| ("hold", text));
        return [("none", states.into())].into_iter().chain(hold).collect();
    }
    let mut states = vec![];
    let carriers = carriers(plan, graph);
    if !plan.probed.is_empty() {
        let (parsed, named) = (names(plan, plan.parsed), names(plan, plan.probed - plan.parsed));
        let bytes_max = plan.limits.probe_bytes_max;
        let all = if parsed.is_empty() { &named } else { &parsed };
        let then = if parsed.is_empty() { "over" } else { "parse" };
        let mut text =
            format!("{all} over {carriers}, from the first {bytes_max} bytes of each side → {then}, or over");
        if !parsed.is_empty() && !named.is_empty() {
            text += &format!("; {named}: only recognised");
        }
        states.push(("probe", text));
    }
    if !plan.parsed.is_empty() {
        let parsed = names(plan, plan.parsed);
        states.push((
            "parse",
            format!("bytes in order to the parser of {parsed}, until it has all that it wants → over"),
        ));
    }
    let is_streamed = plan.questions.iter().any(|question| matches!(question.want, Want::Streams(_)));
    if is_streamed {
        states.push(("stream", "bytes in order to their subscribers, up to their cutoffs → over".into()));
    }
    if !plan.probed.is_empty() || is_streamed {
        states.push(("over", "no byte is put in order any more; packets are looked up and counted".into()));
    }
    states.extend(hold_of(plan).map(|text| ("hold", text)));
    if plan.records {
        let of = tables.join(", ");
        states.push(("track", format!("the record of each connection ({of}), until it is over → delivered")));
    }
    if states.is_empty() {
        states.push(("track", format!("connections ({}), for what packets say of them", tables.join(", "))));
    }
    states
}

/// What packets wait for, if they do.
fn hold_of(plan: &Plan) -> Option<String> {
    let what = match (plan.awaits_connections(), plan.holds_fragments()) {
        (false, false) => return None,
        (true, false) => "packets wait until their connection is decided",
        (false, true) => "fragments wait until their datagram is complete",
        (true, true) => {
            "packets wait until their connection is decided, fragments until their datagram is complete"
        }
    };
    Some(format!("{what} → delivered, or dropped"))
}

/// Names of protocols.
fn names(plan: &Plan, protocols: ProtocolSet) -> String {
    plan.sessions.names(protocols).collect::<Vec<_>>().join(", ")
}

/// The layers that may carry the probed protocols.
fn carriers(plan: &Plan, graph: &Graph) -> String {
    let may_carry = |table: &&TableDecl| {
        let transport = table.carries.as_ref().unwrap_or(&table.name);
        table.observed && !plan.probed_over(transport).is_empty()
    };
    let mut carriers: Vec<&str> = graph.tables.iter().filter(may_carry).map(|table| &*table.name).collect();
    carriers.sort_unstable();
    carriers.dedup();
    carriers.join(", ")
}
