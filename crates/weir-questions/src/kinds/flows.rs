//! `weir flows`: connections, with the columns of Zeek's conn.log.

use crate::form::Form;
use crate::kind::{Context, Counted, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::ndpi;
use crate::rows::make::{Rows, made_rows};
use crate::spec::QuestionSpec;
use weir::lang::filter::names_of;
use weir::{ColumnMask, Compiler, Need, Question, Shape, Want, connection_columns};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("flows capture.pcap", "every connection"),
    ("flows capture.pcap 'tcp.port == 443 and conn.duration > 60s'", "long connections to a port"),
    ("flows capture.pcap --sort -resp_bytes --limit 10", "the largest downloads"),
    (
        "flows capture.pcap 'ndpi.protocol == \"TLS.Google\"'",
        "connections of a service, by the system's nDPI",
    ),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Connections, one row each at their end: Zeek's conn.log";
    let kind = QuestionKind::new("flows", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options: &["ndpi"], keeps: |spec| spec.ndpi || asks_for_ndpi(&spec.filter), ..kind }
}

/// Whether a filter tests what nDPI finds.
fn asks_for_ndpi(filter: &str) -> bool {
    names_of(filter).iter().any(|name| ndpi::is_about(name))
}

/// The columns of a table.
const BRIEF: &[&str] = &[
    "ts",
    "orig",
    "resp",
    "proto",
    "service",
    "duration",
    "orig_bytes",
    "resp_bytes",
    "conn_state",
    "rtt",
    "orig_retrans",
    "resp_retrans",
];

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let mut columns = connection_columns(context.compiler.stack());
    // Whoever describes a protocol wants to see its columns.
    let usual = connection_columns(Compiler::default().stack());
    let own = columns.iter().filter(|column| !usual.contains(column)).map(|column| column.name.clone());
    let mut brief: Vec<_> = own.collect();
    let with_ndpi = [&columns[..], &ndpi::columns().collect::<Vec<_>>()].concat();
    let split = ndpi::row_fields(&with_ndpi).split_filter(context.compiler, &spec.filter, context.bpf);
    let (filter, asked) = match split {
        // Mistakes in other fields are reported with those of the other questions, once all are compiled.
        Err(_) if !asks_for_ndpi(&spec.filter) => (spec.filter.clone(), None),
        split => split?,
    };
    // Rows that are filtered must be made before they can be counted.
    let count_only = *context.form == Form::Count && asked.is_none();
    let needed = asked.as_ref().map_or(ColumnMask::NONE, |asked| asked.columns());
    let is_filtered = asked.is_some();
    let (question, rows): (_, Box<dyn Rows>) = if (spec.ndpi || is_filtered) && !count_only {
        columns = with_ndpi;
        brief.extend(ndpi::BRIEF.map(Into::into));
        ndpi::question(&filter, asked, context.memory_max)?
    } else {
        let need = Need { service: !count_only, ..Need::default() };
        let ask = weir::Ask { filter, need, want: Want::Connections };
        let shape = Shape { count_only, as_rows: true, ..Shape::default() };
        (Question::new(ask, shape), Box::new(made_rows))
    };
    let mut resolved = Resolved::new(vec![question], "conn", columns, made_rows).with_brief(BRIEF);
    resolved.rows = rows;
    resolved.brief.extend(brief);
    let resolved = resolved.with_shown_columns(needed);
    let counted = if is_filtered { Counted::Rows } else { Counted::Matched };
    Ok(Resolved { counted, ..resolved })
}
