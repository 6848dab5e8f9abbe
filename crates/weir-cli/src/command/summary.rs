//! `weir overview` and `weir stats`: people on a terminal get a report.

use crate::ask;
use crate::asking::Asking;
use crate::subcommand::{NoArgs, Subcommand};
use crate::terminal;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use weir_questions::QuestionKind;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::text::REPORT;

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run)
}

fn run(asking: Asking, _: NoArgs) -> Result<ExitCode, Failure> {
    let mut asking = asking.settle()?;
    asking.spec = with_usual_format(asking.spec);
    ask::answer_one(asking.asked())
}

/// The question, with the format for people on a terminal unless the options ask for another form.
fn with_usual_format(spec: QuestionSpec) -> QuestionSpec {
    let is_plain = spec.format.is_none() && spec.output.is_none() && !spec.count;
    let has_view =
        !spec.columns.is_empty() || spec.sort.is_some() || spec.limit.is_some() || spec.wide || spec.local;
    match is_plain && !has_view && io::stdout().is_terminal() {
        true => QuestionSpec { format: Some(REPORT.to_string()), color: terminal::stdout_color(), ..spec },
        false => spec,
    }
}
