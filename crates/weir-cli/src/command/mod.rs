//! One file per subcommand; this table lists them in the order of the help.

mod check;
mod ctl;
mod docs;
mod events;
mod explain;
mod fields;
mod flows;
mod fmt;
mod match_;
mod overview;
mod packets;
mod run;
mod sessions;
mod stacks;
mod stats;
mod streams;
mod zeek;

use crate::subcommand::Subcommand;

/// All subcommands.
pub fn all() -> Vec<Subcommand> {
    let mut all = vec![overview::command(), flows::command()];
    all.extend(sessions::log_commands());
    all.extend([
        sessions::command(),
        run::command(),
        zeek::command(),
        ctl::command(),
        packets::command(),
        events::command(),
        stats::command(),
        streams::command(),
        match_::command(),
        fields::command(),
        stacks::command(),
        explain::command(),
        docs::command(),
        check::command(),
        fmt::command(),
    ]);
    all
}
