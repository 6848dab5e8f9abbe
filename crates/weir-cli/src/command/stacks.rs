//! `weir stacks`: the stacks that `--stack` takes, from their definitions.

use crate::args::Stacks;
use crate::failure::Failure;
use crate::{input, output};
use std::process::ExitCode;
use weir::packet::{Column, Value, ValueType};

const COLUMNS: &[Column] = &[
    Column::new("stack", ValueType::Text, "its name"),
    Column::new("meaning", ValueType::Text, "what it is for"),
    Column::new("layers", ValueType::Texts, "its layers, the outermost ones first"),
];

pub fn run(args: &Stacks) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.stack)?;
    let format = args.format.clone();
    let mut sink = output::sink(&output::plain(format), "")?;
    sink.begin(COLUMNS)?;
    for stack in compiler.library().stacks() {
        let layers: Vec<String> = stack.layers.iter().map(|l| l.protocol.name.clone()).collect();
        sink.row(&[
            Value::Text(stack.name.as_str().into()),
            Value::Text(stack.doc.as_str().into()),
            Value::Texts(layers.into()),
        ])?;
    }
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}
