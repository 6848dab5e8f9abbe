//! `weir man`: manual pages.

use crate::command_line;
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_questions::Group;
use weir_questions::messages::Failure;

/// Arguments of `man`.
#[derive(ClapArgs)]
struct Args {
    /// Write a page for weir and one for each command to this directory. Default: the page of weir, on
    /// standard output
    #[arg(short = 'd', long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("man | man -l -", "reads the page of weir"),
    ("man -d /usr/local/share/man/man1", "installs all pages"),
    ("man > weir.1", "writes one page"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("man", "Manual pages", |args: Args, all| run(&args, all))
        .in_group(Group::Authors)
        .with_examples(EXAMPLES)
}

fn run(args: &Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let page = |command: clap::Command| {
        let mut text = vec![];
        clap_mangen::Man::new(command).render(&mut text).map(|()| text)
    };
    let Some(dir) = &args.dir else {
        terminal::print(&page(command_line::shown(all))?)?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(dir).map_err(|e| Failure::writing(dir.display(), &e))?;
    let mut whole = command_line::shown(all);
    whole.build();
    let pages = whole.get_subcommands().filter(|command| command.get_name() != "help").map(|command| {
        let name = format!("weir-{}", command.get_name());
        (name.clone(), command.clone().name(name))
    });
    let pages: Vec<(String, clap::Command)> = pages.collect();
    for (name, command) in pages.into_iter().chain([("weir".to_string(), command_line::shown(all))]) {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page(command)?).map_err(|e| Failure::writing(path.display(), &e))?;
    }
    Ok(ExitCode::SUCCESS)
}
