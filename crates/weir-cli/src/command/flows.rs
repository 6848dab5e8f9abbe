//! `weir flows`: connections, with the columns of Zeek's conn.log.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::form::Form;
use crate::rows::made_rows;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, QuestionKind, Resolved, Subcommand};
use weir::{ColumnMask, Compiler, Need, Question, Shape, Want, connection_columns};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("flows capture.pcap", "every connection"),
    ("flows capture.pcap 'tcp.port == 443 and conn.duration > 60s'", "long connections to a port"),
    ("flows capture.pcap --sort -resp_bytes --limit 10", "the largest downloads"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Connections, one row each at their end: Zeek's conn.log";
    Subcommand::new("flows", about, |mut args: Ask, all| {
        let spec = args.spec("flows")?;
        ask::answer_one(&args.input, &spec, args.output.stats, all)
    })
    .with_question(QuestionKind::new(resolve))
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
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
    let count_only = *context.form == Form::Count;
    let need = Need { service: !count_only, ..Need::default() };
    let ask = weir::Ask { filter: spec.filter.clone(), need, want: Want::Connections };
    let question = Question::new(ask, Shape { count_only, as_rows: true, ..Shape::default() });
    let columns = connection_columns(context.compiler.stack());
    // Whoever describes a protocol wants to see its columns.
    let usual = connection_columns(Compiler::default().stack());
    let own = columns.iter().filter(|column| !usual.contains(column)).map(|column| column.name.clone());
    let own: Vec<_> = own.collect();
    let mut resolved = Resolved::new(vec![question], "conn", columns, made_rows).with_brief(BRIEF);
    resolved.brief.extend(own);
    let resolved = resolved.with_shown_columns(ColumnMask::NONE);
    Ok(Resolved { counted: Counted::Matched, ..resolved })
}
