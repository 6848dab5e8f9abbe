//! `weir fields`: the field names of filters, from their definitions.

use crate::flags::formats;
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir_questions::Group;
use weir_questions::field_list;
use weir_questions::messages::Failure;
use weir_questions::source::input;

/// Arguments of `fields`.
#[derive(ClapArgs)]
struct Args {
    /// Only fields with all these words in their name, other names, or meaning
    words: Vec<String>,
    /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must include the
    /// others
    #[arg(long, value_name = "NAME|FILE.weir")]
    stack: Vec<String>,
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("fields", "all fields"),
    ("fields tls", "fields with this word in name or meaning"),
    ("fields 'server name' --format json", "for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("fields", "The fields that filters can use, with type and meaning", |args: Args, _| {
        run(&args)
    })
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.stack)?;
    let mut sink = terminal::listing(args.format.as_deref())?;
    let wanted = args.words.join(" ");
    let rows = field_list::rows(&compiler, &wanted);
    if rows.is_empty() {
        return Err(Failure::new(format!(
            "no field has `{}` in its name or meaning; `weir fields` lists all fields",
            wanted.to_lowercase()
        )));
    }
    sink.begin(field_list::COLUMNS)?;
    sink.batch(&rows)?;
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}
