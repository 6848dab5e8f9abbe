//! Reference pages of protocols and stacks in Markdown, generated from their texts.

use crate::model::{BinaryOp, Expr, Field, FieldType, HeaderItem, Held, Protocol, Stack, Target, Trigger};
use std::fmt::Write;

/// The page of one protocol.
pub fn protocol(protocol: &Protocol) -> String {
    let mut page = format!("# {}\n\n{}\n", protocol.name, protocol.doc);
    header(&mut page, protocol);
    values(&mut page, protocol);
    instance(&mut page, protocol);
    states(&mut page, protocol);
    events(&mut page, protocol);
    page
}

/// The page of a stack: its start layers and its edges.
pub fn stack(stack: &Stack) -> String {
    let mut page = format!("# {}\n\n{}\n", stack.name, stack.doc);
    let name = |id: crate::model::LayerId| stack.layers[usize::from(id.0)].protocol.name.as_str();
    page.push_str("\n## Starts\n\n| link type | layer |\n|---|---|\n");
    for &(link, layer) in &stack.starts {
        page.push_str(&row([&weir_packet::LinkType(link).to_string(), name(layer)]));
    }
    page.push_str("\n## Layers\n\n| layer | meaning | at most | carries |\n|---|---|---|---|\n");
    for (index, layer) in stack.layers.iter().enumerate() {
        let mut carries: Vec<&str> = vec![];
        for edge in stack.edges.iter().filter(|edge| usize::from(edge.from.0) == index) {
            if !carries.contains(&name(edge.to)) {
                carries.push(name(edge.to));
            }
        }
        let (protocol, most) = (&layer.protocol, layer.repeat_max);
        page.push_str(&row([&protocol.name, &protocol.doc, &most.to_string(), &carries.join(" ")]));
    }
    page
}

fn header(page: &mut String, protocol: &Protocol) {
    if protocol.fields.is_empty() {
        return;
    }
    page.push_str("\n## Fields\n\n| field | also | type | meaning |\n|---|---|---|---|\n");
    for field in &protocol.fields {
        let also = field.alias.as_ref().map_or(String::new(), |alias| named(protocol, alias));
        let constraint = field.constraint.map_or(String::new(), |c| format!(", {} {}", sign(c.op), c.value));
        let path = named(protocol, &field.path);
        page.push_str(&row([&path, &also, &(type_name(field) + &constraint), &field.doc]));
    }
    let mut runs = vec![];
    collect_runs(&protocol.header, &mut runs);
    for (run, items) in runs {
        let presences = items.iter().map(|&p| named(protocol, &protocol.presences[p].path));
        let _ = writeln!(page, "\n`{run}` is a run of: {}.", presences.collect::<Vec<_>>().join(", "));
    }
}

fn collect_runs<'a>(items: &'a [HeaderItem], runs: &mut Vec<(&'a str, Vec<usize>)>) {
    for item in items {
        match item {
            HeaderItem::Run(run) => {
                let presences = run.items.iter().map(|item| usize::from(item.presence.0)).collect();
                runs.push((&run.name, presences));
            }
            HeaderItem::If { then, otherwise, .. } => {
                collect_runs(then, runs);
                collect_runs(otherwise, runs);
            }
            _ => {}
        }
    }
}

fn values(page: &mut String, protocol: &Protocol) {
    // A value without a description is internal to the protocol.
    let documented: Vec<_> = protocol.lets.iter().filter(|value| !value.doc.is_empty()).collect();
    if documented.is_empty() && protocol.aliases.is_empty() {
        return;
    }
    page.push_str("\n## Values\n\n| name | meaning |\n|---|---|\n");
    for value in documented {
        page.push_str(&row([&named(protocol, &value.name), &value.doc]));
    }
    for alias in &protocol.aliases {
        let fields = alias.fields.iter().map(|f| protocol.fields[usize::from(f.0)].path.as_str());
        let fields = fields.collect::<Vec<_>>().join(" or ");
        page.push_str(&row([&named(protocol, &alias.name), &format!("{} ({fields})", alias.doc)]));
    }
}

fn instance(page: &mut String, protocol: &Protocol) {
    let Some(instance) = &protocol.instance else { return };
    let sides = if instance.destination.is_empty() { "one side" } else { "two sides" };
    let sequence = match &protocol.sequence {
        Some(sequence) => {
            let wholes = if sequence.wholes.is_some() { ", in wholes of several chunks each" } else { "" };
            format!(", and orders bytes by {}-bit numbers{wholes}", sequence.bits)
        }
        None => String::new(),
    };
    let _ = writeln!(page, "\n## Instance\n\nKeeps instances with {sides}{sequence}.");
    if !protocol.vars.is_empty() {
        page.push_str("\n| variable | bits | per | initial value |\n|---|---|---|---|\n");
    }
    for var in &protocol.vars {
        let of = match var.held {
            Held::Side => "each side",
            Held::Instance => "the instance",
            Held::Packet => "the packet",
        };
        let first = match &var.first {
            None => "0".into(),
            Some(Expr::Number(number)) => number.to_string(),
            Some(_) => "from its first packet".into(),
        };
        let _ = writeln!(page, "| {} | {} | {of} | {first} |", var.name, var.bits);
    }
    for timeout in &protocol.timeouts {
        let states = timeout.states.iter().map(|&index| protocol.states[index].name.as_str());
        let states = states.collect::<Vec<_>>().join(", ");
        let when = match (states.is_empty(), protocol.timeouts.len()) {
            (true, 1) => String::new(),
            (true, _) => " otherwise".into(),
            (false, _) => format!(" in {states}"),
        };
        let _ = writeln!(page, "\nAn instance ends after {:?} without packets{when}.", timeout.after);
    }
}

fn states(page: &mut String, protocol: &Protocol) {
    if protocol.states.is_empty() {
        return;
    }
    page.push_str("\n## States\n\n| transition | from | to | time-out afterwards |\n|---|---|---|---|\n");
    let state = |index: usize| protocol.states[index].name.as_str();
    for transition in &protocol.transitions {
        let from: Vec<&str> = transition.from.iter().map(|&index| state(index)).collect();
        let from = if from.is_empty() { "any".into() } else { from.join(", ") };
        let to = match transition.to {
            Target::State(index) => state(index),
            Target::Restart => "a new instance",
            Target::Aside => "beside the instance",
        };
        let idle = transition.timeout.map_or(String::new(), |timeout| format!("{timeout:?}"));
        let _ = writeln!(page, "| {} | {from} | {to} | {idle} |", transition.name);
    }
    let accepted = protocol.states.iter().filter(|state| state.accept);
    let accepted: Vec<&str> = accepted.map(|state| state.name.as_str()).collect();
    let first = state(0);
    let ends = if accepted.is_empty() {
        String::new()
    } else {
        format!("; proper final states: {}", accepted.join(", "))
    };
    let _ = writeln!(page, "\nInitial state: {first}{ends}.");
}

fn events(page: &mut String, protocol: &Protocol) {
    if protocol.events.is_empty() {
        return;
    }
    page.push_str("\n## Events\n\n| event | when | columns | meaning |\n|---|---|---|---|\n");
    for event in &protocol.events {
        let triggers = event.triggers.iter().map(|trigger| match trigger {
            Trigger::Transition(index) => protocol.transitions[*index].name.clone(),
            Trigger::Packet => "a packet".into(),
            Trigger::Ordered => "bytes in order".into(),
            Trigger::Retransmission => "a retransmission".into(),
            Trigger::OutOfWindow => "bytes out of the window".into(),
            Trigger::Gap => "missing bytes".into(),
            Trigger::Join => "a packet with other tags".into(),
            Trigger::Aside => "a packet put aside".into(),
            Trigger::Inconsistent => "bytes that contradict others".into(),
            Trigger::End => "the end of an instance".into(),
            Trigger::Check(interval) => format!("every {} s", interval.as_secs_f64()),
        });
        let with_name = |before: &str, list: &[usize]| {
            let names = list.iter().map(|&at| format!("{before} {}", protocol.events[at].name));
            names.collect::<Vec<String>>()
        };
        let when = triggers.chain(with_name("with", &event.with)).chain(with_name("after", &event.after));
        let when = when.collect::<Vec<_>>().join(", ");
        let columns = event.columns.iter().map(|(name, _)| name.as_str());
        let columns = columns.chain(event.end_columns.iter().map(|(name, _)| name.as_str()));
        let columns = columns.collect::<Vec<_>>().join(" ");
        page.push_str(&row([&named(protocol, &event.name), &when, &columns, &event.doc]));
    }
}

/// A row of a table. Escapes `|`, which would end a cell.
pub fn row<const N: usize>(cells: [&str; N]) -> String {
    cells.iter().fold("|".to_string(), |row, cell| format!("{row} {} |", cell.replace('|', "\\|"))) + "\n"
}

/// The path as filters write it.
fn named(protocol: &Protocol, path: &str) -> String {
    format!("{}.{path}", protocol.filter_name)
}

fn type_name(field: &Field) -> String {
    match &field.ty {
        FieldType::Unsigned { bits: 1, .. } => "1 bit".into(),
        FieldType::Unsigned { bits, little: false } => format!("{bits} bits"),
        FieldType::Unsigned { bits, little: true } => format!("{bits} bits, least significant byte first"),
        FieldType::Mac => "MAC address".into(),
        FieldType::Ipv4 => "IPv4 address".into(),
        FieldType::Ipv6 => "IPv6 address".into(),
        FieldType::Bytes(_) => "bytes".into(),
        FieldType::Text(_) => "text".into(),
        FieldType::Counted(_) => "number of several bytes".into(),
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Eq => "always",
        BinaryOp::Ne => "never",
        BinaryOp::Lt => "less than",
        BinaryOp::Le => "at most",
        BinaryOp::Gt => "more than",
        BinaryOp::Ge => "at least",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;

    #[test]
    fn a_page_says_what_the_text_says() {
        let library = Library::builtin();
        let page = protocol(library.protocol("tcp").expect("it is shipped"));
        for part in [
            "| tcp.src_port | tcp.srcport | 16 bits | source port |",
            "| tcp.data_offset |  | 4 bits, at least 5 |",
            "`options` is a run of: tcp.options.end",
            "| tcp.port | source or destination port (src_port or dst_port) |",
            "Keeps instances with two sides, and orders bytes by 32-bit numbers.",
            "| again | any | a new instance |  |",
            "| vlan | 16 | the instance | from its first packet |",
            "| tcp.aborted | reset | seq ack | a reset |",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn a_bar_does_not_end_a_cell() {
        let mut library = Library::builtin();
        let text = "//! One\nprotocol one { header { a: u8 \"1|2\"  b: u8 \"b\" } payload = rest }";
        assert!(library.extend_with("one.weir", text).is_ok());
        let page = protocol(library.protocol("one").expect("it was added"));
        assert!(page.contains("| one.a |  | 8 bits | 1\\|2 |\n"), "{page}");
    }

    #[test]
    fn time_outs_without_states_are_said() {
        let library = Library::builtin();
        let page = protocol(library.protocol("udp").expect("it is shipped"));
        assert!(page.contains("\nAn instance ends after 60s without packets.\n"), "{page}");
    }

    #[test]
    fn a_stack_s_page_lists_every_layer_once() {
        let library = Library::builtin();
        let internet = library.stack("internet").expect("it is shipped");
        let page = stack(internet);
        for layer in &internet.layers {
            let start = format!("\n| {} |", layer.protocol.name);
            assert!(page.contains(&start), "{start}{page}");
        }
    }
}
