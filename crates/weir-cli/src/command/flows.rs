//! `weir flows`: connections, as Zeek's conn.log has them.

use super::ask;
use crate::args::Ask;
use crate::failure::Failure;
use std::process::ExitCode;
use weir::{CONNECTION_COLUMNS, Item, Need, Want};

pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let need = Need { service: !args.output.count, ..Need::default() };
    let question = ask::compile(args, ask::one(args, need, Want::Connections))?;
    ask::rows(&question, &args.output, ("conn", CONNECTION_COLUMNS), |item, write| match item {
        Item::Connection(connection) => write(&connection.values()),
        _ => Ok(()),
    })
}
