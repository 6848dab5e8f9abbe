//! `weir streams`: all bytes in order, counted.

use super::ask;
use crate::args::Ask;
use crate::failure::Failure;
use std::process::ExitCode;
use weir::{Need, Want};

pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let question = ask::compile(args, ask::one(args, Need::default(), Want::Streams))?;
    ask::count(&question, &args.output)
}
