//! `weir FILE`: what a capture contains, at one glance.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::form::Form;
use crate::report_lines::{self, Again, ReportLines};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use crate::summary::{self, COLUMNS, MEMORY_PART, SummaryRows, name_column};
use weir::packet::printable;
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
    let shape = Shape { count_only: *context.form == Form::Count, ..Shape::default() };
    let questions = summary::asks(&spec.filter).map(|ask| Question::new(ask, shape));
    let mut questions = questions.to_vec();
    let ask = weir::Ask { filter: spec.filter.clone(), need: Need::default(), want: Want::Sessions(named) };
    questions.push(Question::new(ask, Shape { rows: Some(named), ..Shape::default() }));
    let (stack, findings) = (context.compiler.stack().clone(), context.findings.clone());
    let stats = Stats::new(context.memory_max / MEMORY_PART);
    let resolved =
        Resolved::new(questions, "", COLUMNS.to_vec(), SummaryRows { stats, stack, findings, names });
    // Standard input cannot be read again.
    let is_repeatable = context.captures.iter().all(|file| file != "-");
    let files: Vec<String> = context.captures.iter().map(|file| quoted(&file.to_string_lossy())).collect();
    let again = is_repeatable.then(|| Again { files: files.join(" "), filter: spec.filter.clone() });
    let lines = Some(Box::new(|out, color| ReportLines::overview(out, color, again)) as MakeLines);
    Ok(Resolved { counted: Counted::Matched, lines, ..resolved })
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+' | ':' | ',' | '@');
    // The word is shown on a terminal, so it must not control the terminal.
    let word = printable(word, &[]);
    if word.chars().all(is_plain) { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
