//! `weir streams -o -`: the bytes of streams alone.

use crate::ask;
use crate::asking::Asking;
use crate::subcommand::{NoArgs, Subcommand};
use std::process::ExitCode;
use weir_questions::Look;
use weir_questions::QuestionKind;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::text::CONVERSATION;

/// Options of all types that have no flag here: `-o` is the directory of the bytes.
const LEFT_OUT: &[&str] =
    &["output", "rotate", "keep", "spool", "spool_max", "observation_domain", "sensor", "create"];

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, LEFT_OUT, run).with_arguments(|command| {
        let format = "Format of rows. Default: table on a terminal, JSON lines otherwise";
        command
            .mut_arg("format", |arg| arg.help(format))
            .mut_arg("count", |arg| arg.help("Print only the number of streams"))
    })
}

fn run(asking: Asking, _: NoArgs) -> Result<ExitCode, Failure> {
    match asking.spec.files.as_deref().is_some_and(|files| files.as_os_str() == "-") {
        true => write_bytes(asking),
        false => asking.answer(),
    }
}

/// Writes the bytes of all streams to standard output, one connection after the other.
fn write_bytes(asking: Asking) -> Result<ExitCode, Failure> {
    let mut asking = asking.settle()?;
    let spec = asking.spec;
    if spec.digest.is_some() || spec.count || spec.format.is_some() {
        return Err(Failure::new(
            "-o - writes bytes: leave out --digest, --count and --format, or name a directory",
        ));
    }
    let (ask, format) = ("follow".to_string(), Some(CONVERSATION.to_string()));
    asking.spec = QuestionSpec { ask, format, look: Look::Raw, files: None, files_max: None, ..spec };
    Ok(ask::answer(asking.asked())?.status)
}
