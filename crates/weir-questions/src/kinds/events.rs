//! `weir events`: the events that a stack declares, one row each.

use crate::form::Form;
use crate::kind::{Context, Counted, Group, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::make::made_rows;
use crate::spec::QuestionSpec;
use weir::{EventRows, EventSet, Need, Question, Shape, Want};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("events capture.pcap", "all events with columns"),
    ("events capture.pcap -e tcp.retransmission", "events of one kind"),
    ("events capture.pcap -e tcp 'ip.addr == 192.0.2.1'", "events of a layer, and of a host"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Events that the stack declares (fragments, resets, …), with their columns; the filter applies to each row";
    let kind = QuestionKind::new("events", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options: &["events"], group: Group::Runs, ..kind }
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let stack = context.compiler.stack();
    let events = EventRows::of(stack, &spec.events).map_err(|name| {
        let known = EventRows::of_set(stack, EventSet::EMPTY).events;
        let names: Vec<&str> = known.iter().map(|event| event.name.as_str()).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        Failure::new(format!("the stack `{}` has no event `{name}`; it has {known}", stack.name))
    })?;
    let need = Need { events: events.asked, ..Need::default() };
    let ask = weir::Ask { filter: spec.filter.clone(), need, want: Want::Events };
    let count_only = *context.form == Form::Count;
    let question = Question::new(ask, Shape { count_only, ..Shape::default() });
    // The ends of the connection take one column each; the event's own columns follow.
    let own = events.columns.iter().map(|column| column.name.clone()).filter(|name| !name.starts_with("id."));
    let (mut brief, own): (Vec<_>, Vec<_>) = own.partition(|name| matches!(&**name, "ts" | "event"));
    brief.extend(["orig".into(), "resp".into()]);
    brief.extend(own.into_iter().filter(|name| name != "uid"));
    let resolved = Resolved::new(vec![question], "", events.columns, made_rows);
    Ok(Resolved { counted: Counted::Matched, brief, ..resolved })
}
