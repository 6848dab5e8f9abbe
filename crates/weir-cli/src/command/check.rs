//! `weir check`: everything that is wrong with `.weir` files, at once.

use crate::args::Check;
use crate::failure::Failure;
use crate::{input, output};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::lang::diag::Diagnostics;
use weir::lang::{Library, load};

/// Checks a text beside those that the project ships; in place of the one of the same name, if it is one.
fn check(name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
    let own = |builtin: &str| Path::new(builtin).file_name() == Path::new(name).file_name();
    let shipped = Library::builtin_texts();
    if !shipped.iter().any(|(builtin, _)| own(builtin)) {
        return Library::builtin().extend_with(name, text);
    }
    let others = shipped.iter().filter(|(builtin, _)| !own(builtin)).copied();
    let texts: Vec<(&str, &str)> = others.chain([(name, text)]).collect();
    load(&texts).map(|(_, warnings)| warnings)
}

pub fn run(args: &Check) -> Result<ExitCode, Failure> {
    let mut status = ExitCode::SUCCESS;
    for path in &args.files {
        let text = input::read_text(path)?;
        match check(&path.display().to_string(), &text) {
            Ok(warnings) => {
                if !warnings.list.is_empty() {
                    eprintln!("{}", warnings.render(output::stderr_color()));
                }
                writeln!(std::io::stdout(), "{}: no mistakes", path.display())?;
            }
            Err(mistakes) => {
                eprintln!("{}", mistakes.render(output::stderr_color()));
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}
