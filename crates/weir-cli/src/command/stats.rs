//! `weir stats`: statistics of a capture.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::form::Form;
use crate::report_lines::{self, ReportLines};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use crate::summary::{self, COLUMNS, MEMORY_PART, SummaryRows};
use weir::{Question, Shape, Stats};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("stats capture.pcap", "a report"),
    ("stats capture.pcap 'tcp.port == 80'", "of a part of the traffic"),
    ("stats capture.pcap --format csv", "for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Packets and bytes per layer, sizes, services, hosts, conversations, timing, why packets were not parsed \
                 completely, what the reader skipped";
    Subcommand::new("stats", about, |mut args: Ask, all| {
        let spec = report_lines::usual(args.spec("stats")?);
        ask::answer_one(&args.input, &spec, args.output.stats, all)
    })
    .with_question(QuestionKind {
        own_format: Some(report_lines::FORMAT),
        options: &["color"],
        ..QuestionKind::new(resolve)
    })
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let shape = Shape { count_only: *context.form == Form::Count, ..Shape::default() };
    let questions = summary::asks(&spec.filter).map(|ask| Question::new(ask, shape)).to_vec();
    let (stack, findings) = (context.compiler.stack().clone(), context.findings.clone());
    let stats = Stats::new(context.memory_max / MEMORY_PART);
    let rows = SummaryRows { stats, stack, findings, names: vec![] };
    let resolved = Resolved::new(questions, "", COLUMNS.to_vec(), rows);
    let lines = Some(Box::new(ReportLines::whole) as MakeLines);
    Ok(Resolved { counted: Counted::Matched, lines, ..resolved })
}
