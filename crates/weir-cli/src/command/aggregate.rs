//! `weir aggregate`: the first word is the aggregate.

use crate::asking::Asking;
use crate::subcommand::{NoArgs, Subcommand};
use std::process::ExitCode;
use weir_questions::QuestionKind;
use weir_questions::messages::Failure;

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run)
}

fn run(mut asking: Asking, _: NoArgs) -> Result<ExitCode, Failure> {
    let aggregate = asking.words.take_first(&mut asking.input.read).ok_or_else(|| {
        Failure::new("state an aggregate first, as in `weir aggregate 'count() by ip.src' FILE` (weir aggregate --help)")
    })?;
    asking.spec.aggregate = Some(aggregate);
    asking.answer()
}
