//! One file per subcommand; this table lists them in the order of the help.

mod aggregate;
mod check;
mod completions;
mod ctl;
mod docs;
mod events;
mod explain;
pub mod fields;
mod flows;
mod fmt;
mod follow;
mod interfaces;
mod man;
mod match_;
mod noted;
mod overview;
mod packets;
mod record;
mod records;
mod rules;
mod run;
mod script;
mod sessions;
mod stacks;
mod stats;
mod streams;
mod top;
mod zeek;

use crate::subcommand::Subcommand;

/// All subcommands.
pub fn all() -> Vec<Subcommand> {
    let mut all = vec![overview::command(), flows::command()];
    all.extend(sessions::log_commands());
    all.push(sessions::command());
    all.extend(noted::commands());
    all.extend([
        packets::command(),
        aggregate::command(),
        records::command(),
        rules::command(),
        script::command(),
        record::command(),
        follow::command(),
        match_::command(),
        streams::command(),
        stats::command(),
        top::command(),
        zeek::command(),
        run::command(),
        ctl::command(),
        interfaces::command(),
        events::command(),
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
