//! What is noted about connections.
//!
//! * `weir weird`: what was odd about connections and packets, one row for each kind and connection: Zeek's
//!   weird.log.
//! * `weir tunnel`: connections that carry others, with a row at the begin and one at the end: Zeek's
//!   tunnel.log.

use crate::form::Form;
use crate::kind::{Context, Counted, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::make::made_rows;
use crate::spec::QuestionSpec;
use weir::sessions::ProtocolSet;
use weir::{Need, Notes, Question, Shape, Want, odd_columns, odd_events, odd_names, tunnel_columns};

/// Examples of command lines.
const WEIRD: &[(&str, &str)] = &[
    ("weird capture.pcap", "what was odd, by connection"),
    ("weird capture.pcap --mode strict", "with the segments that receivers reject"),
    ("weird capture.pcap 'ip.addr == 192.0.2.1' --format json", "about a host, for other programs"),
];

/// Examples of command lines.
const TUNNEL: &[(&str, &str)] = &[
    ("tunnel capture.pcap", "connections that carry others: GTP, VXLAN, Teredo"),
    ("tunnel capture.pcap 'udp.port == 4789' --format json", "on a port, for other programs"),
];

/// The types of questions.
pub fn kinds() -> [QuestionKind; 2] {
    let about = "What was odd: packets that were not understood, segments that were refused, bounds that were reached \
                 (weird.log)";
    let weird = QuestionKind::new("weird", about, resolve_weird).with_examples(WEIRD);
    let about = "Tunnels: connections that carry other connections (tunnel.log)";
    let tunnel = QuestionKind::new("tunnel", about, resolve_tunnels).with_examples(TUNNEL);
    let options = &["all_rows"];
    [QuestionKind { notes: Some(names()), options, ..weird }, QuestionKind { options, ..tunnel }]
}

/// All names that rows may have.
fn names() -> String {
    let mut names: Vec<&str> = odd_names().into_iter().map(|(name, ..)| name).collect();
    names.dedup();
    format!("Names: {}.\ndocs/weird.md explains them.", names.join(", "))
}

fn resolve_weird(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let ask = |need, want| weir::Ask { filter: spec.filter.clone(), need, want };
    let compiler = context.compiler;
    // Sessions are parsed although nobody receives them: parsers have bounds, too.
    let connections = ask(Need { odd: true, ..Need::default() }, Want::Tracked(compiler.sessions().all()));
    // What has no connection matches no condition.
    let notes = Some(Notes::Odd { others: spec.filter.trim().is_empty() });
    let all_rows = spec.all_rows || *context.form == Form::Count;
    let shape = Shape { notes, all_rows, as_rows: true, ..Shape::default() };
    let mut questions = vec![Question::new(connections, shape)];
    // The engine notes these events with their connection; nobody receives them.
    let events = odd_events(compiler.stack());
    if !events.is_empty() {
        let ask =
            weir::Ask { filter: String::new(), ..ask(Need { events, ..Need::default() }, Want::Events) };
        questions.push(Question::new(ask, Shape { count_only: true, ..Shape::default() }));
    }
    let resolved = Resolved::new(questions, "weird", odd_columns(), made_rows);
    let brief = &["ts", "orig", "resp", "name", "addl", "count", "source"];
    Ok(Resolved { counted: Counted::Rows, ..resolved }.with_brief(brief))
}

fn resolve_tunnels(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let need = Need { tunnels: true, ..Need::default() };
    let ask = weir::Ask { filter: spec.filter.clone(), need, want: Want::Tracked(ProtocolSet::EMPTY) };
    let all_rows = spec.all_rows || *context.form == Form::Count;
    let shape = Shape { notes: Some(Notes::Tunnels), all_rows, as_rows: true, ..Shape::default() };
    let resolved = Resolved::new(vec![Question::new(ask, shape)], "tunnel", tunnel_columns(), made_rows);
    let brief = &["ts", "orig", "resp", "tunnel_type", "action", "connections"];
    Ok(Resolved { counted: Counted::Rows, ..resolved }.with_brief(brief))
}
