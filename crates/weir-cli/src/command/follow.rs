//! `weir follow`: of one connection by its uid, or of those that a filter selects.

use crate::ask;
use crate::asking::Asking;
use crate::subcommand::Subcommand;
use crate::terminal::Colors;
use clap::Args as ClapArgs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use weir_questions::Look;
use weir_questions::QuestionKind;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::text::CONVERSATION;

/// Arguments that only this command has.
#[derive(ClapArgs)]
struct Own {
    /// Use colours: auto, always, never
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    color: Colors,
}

/// Options of all types that have no flag here: bytes are no rows.
const LEFT_OUT: &[&str] = &[
    "output",
    "rotate",
    "keep",
    "spool",
    "spool_max",
    "observation_domain",
    "sensor",
    "create",
    "columns",
    "sort",
    "names",
    "wide",
    "local",
    "csv_safe",
    "count",
];

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, LEFT_OUT, run).with_arguments(|command| {
        command.mut_arg("limit", |arg| arg.help("Stop after N connections with bytes")).mut_arg(
            "format",
            |arg| {
                arg.help(
                    "Format of the output. Default: follow (a header for each connection, then its bytes)",
                )
            },
        )
    })
}

/// Whether a word has the form of a connection's identifier.
fn is_uid(word: &str) -> bool {
    word.len() == 18 && word.starts_with('C') && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn run(asking: Asking, own: Own) -> Result<ExitCode, Failure> {
    let mut asking = asking.settle()?;
    let word = std::mem::take(&mut asking.spec.filter);
    let (uid, filter) = if is_uid(&word) { (Some(word), String::new()) } else { (None, word) };
    if uid.is_none() && filter.is_empty() {
        return Err(Failure::new(
            "which connection? Give its uid (weir flows FILE --wide), or a filter that selects connections",
        ));
    }
    if asking.spec.look == Look::Raw && io::stdout().is_terminal() {
        return Err(Failure::new("raw bytes may control the terminal: use --as text or hex, or a pipe"));
    }
    asking.spec = QuestionSpec {
        filter,
        uid: uid.clone(),
        color: own.color.are_used(None),
        format: Some(asking.spec.format.unwrap_or_else(|| CONVERSATION.to_string())),
        ..asking.spec
    };
    let answered = ask::answer(asking.asked())?;
    if answered.answers == 0 && !answered.is_unread {
        match uid {
            Some(uid) => note!(
                "weir: no connection has the uid {uid}: uids depend on the stack and its context options"
            ),
            None => note!("weir: no connection with bytes matches the filter"),
        }
    }
    Ok(answered.status_of_search())
}
