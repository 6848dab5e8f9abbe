//! `weir FILE`: what a capture contains, at one glance.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::report_lines::{self, ReportLines};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use crate::summary::{self, COLUMNS, MEMORY_PART, SummaryRows, name_column};
use weir::sessions::ProtocolSet;
use weir::{Need, Question, Shape, Stats, Want};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("capture.pcap", "the same, in short"),
    ("overview capture.pcap 'ip.addr in 10.0.0.0/8'", "a part of the traffic"),
    ("overview capture.pcap --format json", "for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "What a capture contains: time, services, hosts, names of servers, what was lost. `weir FILE` is short \
                 for `weir overview FILE`";
    Subcommand::new("overview", about, |mut args: Ask, all| {
        let spec = report_lines::usual(args.spec("overview")?);
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
    let registry = context.compiler.sessions();
    let names: Vec<Option<usize>> =
        (0..registry.protocols().len()).map(|number| name_column(registry, number)).collect();
    let named = names.iter().enumerate().filter(|(_, column)| column.is_some());
    let named = named.fold(ProtocolSet::EMPTY, |all, (number, _)| all | ProtocolSet::of(number));
    let questions = summary::asks(&spec.filter).map(|ask| Question::new(ask, Shape::default()));
    let mut questions = questions.to_vec();
    let ask = weir::Ask { filter: spec.filter.clone(), need: Need::default(), want: Want::Sessions(named) };
    questions.push(Question::new(ask, Shape { rows: Some(named), ..Shape::default() }));
    let (stack, findings) = (context.compiler.stack().clone(), context.findings.clone());
    let stats = Stats::new(context.memory_max / MEMORY_PART);
    let resolved =
        Resolved::new(questions, "", COLUMNS.to_vec(), SummaryRows { stats, stack, findings, names });
    let file = context.captures.first().map_or("FILE".into(), |file| quoted(&file.to_string_lossy()));
    let lines = Some(Box::new(|out, color| ReportLines::overview(out, color, file)) as MakeLines);
    Ok(Resolved { counted: Counted::Matched, lines, ..resolved })
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+' | ':' | ',' | '@');
    if word.chars().all(is_plain) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
