//! `weir check`: reports all mistakes in `.weir` files.

use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::lang::Library;
use weir_questions::Group;
use weir_questions::messages::Failure;
use weir_questions::messages::{Level, Message};
use weir_questions::source::input;

/// Arguments of `check`.
#[derive(ClapArgs)]
struct Args {
    /// Files to check
    #[arg(required = true, value_name = "FILE.weir")]
    files: Vec<PathBuf>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("check mine.weir", "mistakes and warnings"),
    ("check mine.weir other.weir", "several files"),
    ("check mine.weir && weir flows capture.pcap --stack mine.weir", "before use"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("check", "Check .weir files and report all mistakes", |args: Args, _| run(&args))
        .in_group(Group::Authors)
        .with_examples(EXAMPLES)
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut status = ExitCode::SUCCESS;
    for path in &args.files {
        let text = match input::read_text(path) {
            Ok(text) => text,
            // The other files are still checked.
            Err(missing) => {
                missing.report();
                status = ExitCode::from(2);
                continue;
            }
        };
        // As with `--stack`: declarations add to the shipped ones, or replace those of the same name.
        let read = &mut |path: &Path| weir::lang::read_text(path);
        match Library::builtin().extend_with_imports(&path.display().to_string(), &text, read) {
            Ok(warnings) => {
                if !warnings.list.is_empty() {
                    Message::rendered(|is_colored| warnings.render(is_colored), Level::Warning).tell();
                }
                let besides = match warnings.list.len() {
                    0 => String::new(),
                    1 => ", 1 warning".to_string(),
                    count => format!(", {count} warnings"),
                };
                writeln!(std::io::stdout(), "{}: no mistakes{besides}", path.display())?;
            }
            Err(mistakes) => {
                Message::rendered(|is_colored| mistakes.render(is_colored), Level::Error).tell();
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}
