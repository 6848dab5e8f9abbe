//! The question behind `weir stats` and `weir overview`: they add up the same answers, and report them in two
//! ways.

use crate::form::Form;
use crate::kind::{Context, Counted, MakeLines, QuestionKind, Resolve, Resolved};
use crate::spec::QuestionSpec;
use crate::text::report_lines;
use crate::text::summary::{COLUMNS, ServerNames, SummaryRows, asks};
use weir::{Need, Question, Shape, Stats, Want};

/// The type of question with this name, which `resolve` resolves.
pub fn kind(name: &'static str, about: &'static str, resolve: Resolve) -> QuestionKind {
    let kind = QuestionKind::new(name, about, resolve);
    let own_format = Some(report_lines::FORMAT);
    QuestionKind { own_format, options: &["color"], keeps: |_| true, counts_copies: true, ..kind }
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
