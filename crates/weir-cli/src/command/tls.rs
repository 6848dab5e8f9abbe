//! `weir tls`: TLS handshakes, as Zeek's ssl.log has them, with fingerprints.

use super::ask;
use crate::args::Ask;
use crate::failure::Failure;
use std::process::ExitCode;
use weir::{Item, Need, TLS_COLUMNS, Want};

pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let tls = weir::sessions::PROTOCOLS.iter().position(|p| p.name == "tls").expect("it is in the registry");
    let question = ask::compile(args, ask::one(args, Need::default(), Want::Sessions(1 << tls)))?;
    ask::rows(&question, &args.output, TLS_COLUMNS, |item, write| match item {
        Item::Session(values) => write(values),
        _ => Ok(()),
    })
}
