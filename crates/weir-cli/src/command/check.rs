//! `weir check`: everything that is wrong with `.weir` files, at once.

use crate::args::Check;
use crate::failure::Failure;
use crate::{input, output};
use std::process::ExitCode;
use weir::lang::Library;

pub fn run(args: &Check) -> Result<ExitCode, Failure> {
    let mut status = ExitCode::SUCCESS;
    for path in &args.files {
        let text = input::read_text(path)?;
        let mut library = Library::builtin();
        let (before, stacks) = (library.protocols().count(), library.stacks().len());
        match library.extend_with(&path.display().to_string(), &text) {
            Ok(warnings) => {
                if !warnings.list.is_empty() {
                    eprintln!("{}", warnings.render(output::stderr_color()));
                }
                let protocols = library.protocols().count() - before;
                let stacks = library.stacks().len() - stacks;
                println!("{}: {protocols} protocols, {stacks} stacks, no mistakes", path.display());
            }
            Err(mistakes) => {
                eprintln!("{}", mistakes.render(output::stderr_color()));
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}
