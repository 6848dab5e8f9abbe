//! `weir stacks`: the stacks that `--stack` takes, from their definitions.

use crate::flags::formats;
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir::packet::{Batch, Column, Value, ValueType};
use weir_questions::Group;
use weir_questions::messages::Failure;
use weir_questions::source::input;

/// Arguments of `stacks`.
#[derive(ClapArgs)]
struct Args {
    /// A .weir file, whose stacks are listed as well
    #[arg(long, value_name = "FILE.weir")]
    stack: Vec<String>,
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("stacks", "all stacks"),
    ("stacks --format json", "for other programs"),
    ("stats capture.pcap --stack quic", "how a stack is used"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("stacks", "The stacks for --stack, with their layers", |args: Args, _| run(&args))
        .in_group(Group::Authors)
        .with_examples(EXAMPLES)
}

const COLUMNS: &[Column] = &[
    Column::new("stack", ValueType::Text, "name of the stack"),
    Column::new("meaning", ValueType::Text, "description of the stack"),
    Column::new("layers", ValueType::Texts, "layers of the stack, outermost first"),
];

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.stack)?;
    let mut sink = terminal::listing(args.format.as_deref())?;
    sink.begin(COLUMNS)?;
    let mut rows = Batch::new(COLUMNS.len());
    for stack in compiler.library().stacks() {
        let layers: Vec<String> = stack.layers.iter().map(|l| l.protocol.name.clone()).collect();
        rows.push(&[
            Value::Text(stack.name.as_str().into()),
            Value::Text(stack.doc.as_str().into()),
            Value::Texts(layers.into()),
        ]);
    }
    sink.batch(&rows)?;
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}
