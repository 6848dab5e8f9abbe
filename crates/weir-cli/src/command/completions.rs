//! `weir completions`: completions for shells.

use crate::command_line;
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use clap_complete::Shell;
use std::process::ExitCode;
use weir_questions::Group;
use weir_questions::messages::Failure;

/// Arguments of `completions`.
#[derive(ClapArgs)]
struct Args {
    /// The shell
    shell: Shell,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("completions bash > /etc/bash_completion.d/weir", "for all users of bash"),
    ("completions zsh > ~/.zfunc/_weir", "for zsh"),
    ("completions fish > ~/.config/fish/completions/weir.fish", "for fish"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("completions", "Completions for a shell, on standard output", |args: Args, all| {
        run(&args, all)
    })
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

/// The same command with only the options of its help: clap_complete writes hidden ones, too.
fn visible(command: &clap::Command) -> clap::Command {
    clap::Command::new(command.get_name().to_string())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().map(visible))
}

fn run(args: &Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut visible(&command_line::shown(all)), "weir", &mut text);
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
