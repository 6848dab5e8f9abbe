//! One file per subcommand that is more than a type of question; this table lists them in the order of the
//! help.

mod aggregate;
mod check;
mod completions;
mod ctl;
mod docs;
mod explain;
pub mod fields;
mod fmt;
mod follow;
mod interfaces;
mod man;
mod match_;
mod packets;
mod record;
mod rules;
mod run;
mod script;
mod stacks;
mod streams;
mod summary;
mod top;
mod zeek;

use crate::subcommand::Subcommand;
use weir_questions::QuestionKind;
use weir_questions::kinds;

/// All subcommands: those that ask a question of one type first.
pub fn all() -> Vec<Subcommand> {
    let mut all: Vec<Subcommand> = kinds::all().into_iter().map(asking).collect();
    all.extend([
        record::command(),
        top::command(),
        zeek::command(),
        run::command(),
        ctl::command(),
        interfaces::command(),
        fields::command(),
        explain::command(),
        stacks::command(),
        docs::command(),
        check::command(),
        fmt::command(),
        completions::command(),
        man::command(),
    ]);
    all
}

/// The subcommand that asks questions of this type.
fn asking(kind: QuestionKind) -> Subcommand {
    match kind.name {
        "overview" | "stats" => summary::command(kind),
        "packets" => packets::command(kind),
        "aggregate" => aggregate::command(kind),
        "rules" => rules::command(kind),
        "script" => script::command(kind),
        "follow" => follow::command(kind),
        "match" => match_::command(kind),
        "streams" => streams::command(kind),
        _ => Subcommand::asking(kind),
    }
}
