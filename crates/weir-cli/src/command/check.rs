//! `weir check`: everything that is wrong with `.weir` files, at once.

use crate::args::Check;
use crate::failure::Failure;
use crate::{input, output};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::lang::diag::{Diagnostic, Diagnostics};
use weir::lang::{Library, load};

/// Checks a text beside those that the project ships; in place of the one of the same name, if it is one.
/// What is said is about this text; about others only where it makes them wrong and is not wrong itself.
fn check(name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
    let is_own = |said: &Diagnostics, one: &Diagnostic| {
        one.spans.is_empty() || one.spans.iter().any(|(span, _)| said.sources.name(span.source) == name)
    };
    let own = |mut said: Diagnostics| {
        let list = std::mem::take(&mut said.list);
        said.list = list.into_iter().filter(|one| is_own(&said, one)).collect();
        said
    };
    match check_beside(name, text) {
        Ok(warnings) => Ok(own(warnings)),
        Err(mistakes) => {
            let about_it = own(mistakes.clone());
            Err(if about_it.has_errors() { about_it } else { mistakes })
        }
    }
}

fn check_beside(name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
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
        let text = match input::read_text(path) {
            Ok(text) => text,
            // The others are checked all the same.
            Err(missing) => {
                status = missing.report();
                continue;
            }
        };
        match check(&path.display().to_string(), &text) {
            Ok(warnings) => {
                if !warnings.list.is_empty() {
                    say!("{}", warnings.render(output::stderr_color()));
                }
                writeln!(std::io::stdout(), "{}: no mistakes", path.display())?;
            }
            Err(mistakes) => {
                say!("{}", mistakes.render(output::stderr_color()));
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}
