//! `weir docs`: reference pages, from the same text that everything else about a protocol is made of.

use crate::args::Docs;
use crate::failure::Failure;
use crate::input;
use std::io::Write;
use std::process::ExitCode;
use weir::Compiler;
use weir::lang::{Library, reference};

pub fn run(args: &Docs) -> Result<ExitCode, Failure> {
    let known = Compiler::default();
    let mut pages = vec![];
    for name in &args.names {
        if name.ends_with(".weir") {
            let compiler = input::compiler(std::slice::from_ref(name))?;
            pages.extend(pages_of(compiler.library()));
            continue;
        }
        let library = known.library();
        let protocol = library.protocol(name).map(reference::protocol);
        let page = protocol.or_else(|| library.stack(name).map(reference::stack));
        pages.push(page.ok_or_else(|| {
            let protocols = library.protocols().map(|protocol| protocol.name.as_str());
            let names: Vec<&str> =
                protocols.chain(library.stacks().iter().map(|s| s.name.as_str())).collect();
            Failure::new(format!("there is no protocol or stack `{name}`; there are {}", names.join(", ")))
        })?);
    }
    write!(std::io::stdout(), "{}", pages.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The pages of what the file added last declares.
fn pages_of(library: &Library) -> Vec<String> {
    let protocols = library.latest_protocols().filter_map(|name| library.protocol(name));
    let stacks = library.latest_stacks().filter_map(|name| library.stack(name));
    protocols.map(reference::protocol).chain(stacks.map(reference::stack)).collect()
}
