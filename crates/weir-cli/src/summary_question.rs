//! The question behind `weir stats` and `weir overview`: they add up the same answers, and report them in two
//! ways.

use crate::args::Ask;
use crate::ask;
use crate::form::Form;
use crate::report_lines;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolve, Resolved, Subcommand};
use crate::summary::{COLUMNS, ServerNames, SummaryRows, asks};
use std::io::{self, IsTerminal};
use weir::{Need, Question, Shape, Stats, Want};

/// The subcommand with this name, for questions that `resolve` resolves.
pub fn command(name: &'static str, about: &'static str, resolve: Resolve) -> Subcommand {
    let run = move |mut args: Ask, all: &[Subcommand]| {
        let spec = with_usual_format(args.spec(name)?);
        ask::answer_one(&args.input, &spec, args.output.stats, all)
    };
    Subcommand::new(name, about, run)
        .with_question(QuestionKind {
            own_format: Some(report_lines::FORMAT),
            options: &["color"],
            keeps: |_| true,
            counts_copies: true,
            ..QuestionKind::new(resolve)
        })
        .in_group(Group::Everyday)
}

/// The question, with the format for people on a terminal unless the options ask for another form.
fn with_usual_format(spec: QuestionSpec) -> QuestionSpec {
    let is_plain = spec.format.is_none() && spec.output.is_none() && !spec.count;
    let has_view =
        !spec.columns.is_empty() || spec.sort.is_some() || spec.limit.is_some() || spec.wide || spec.local;
    match is_plain && !has_view && io::stdout().is_terminal() {
        true => QuestionSpec {
            format: Some(report_lines::FORMAT.to_string()),
            color: crate::terminal::stdout_color(),
            ..spec
        },
        false => spec,
    }
}

/// Resolves the question. The names of servers are counted in the sessions of `names`; `lines` makes the
/// report.
pub fn resolve(spec: &QuestionSpec, context: &Context<'_>, names: ServerNames, lines: MakeLines) -> Resolved {
    let shape = Shape { count_only: *context.form == Form::Count, ..Shape::default() };
    let mut questions = asks(&spec.filter).map(|ask| Question::new(ask, shape)).to_vec();
    let named = names.protocols();
    if !named.is_empty() {
        let want = Want::Sessions(named);
        let ask = weir::Ask { filter: spec.filter.clone(), need: Need::default(), want };
        questions.push(Question::new(ask, Shape { rows: Some(named), all_rows: true, ..Shape::default() }));
    }
    let (stack, findings) = (context.compiler.stack().clone(), context.findings.clone());
    let rows = SummaryRows { stats: Stats::new(context.memory_max), stack, findings, names };
    let resolved = Resolved::new(questions, "", COLUMNS.to_vec(), rows);
    Resolved { counted: Counted::Matched, lines: Some(lines), ..resolved }
}
