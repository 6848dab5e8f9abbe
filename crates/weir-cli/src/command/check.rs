//! `weir check`: everything that is wrong with `.weir` files, at once.

use crate::args::Check;
use crate::failure::Failure;
use crate::{input, output};
use std::path::Path;
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
        match check(path, &text) {
            Ok((warnings, protocols, stacks)) => {
                if !warnings.list.is_empty() {
                    eprintln!("{}", warnings.render(output::stderr_color()));
                }
                let protocols = count(protocols, "protocol");
                println!("{}: {protocols}, {}, no mistakes", path.display(), count(stacks, "stack"));
            }
            Err(mistakes) => {
                eprintln!("{}", mistakes.render(output::stderr_color()));
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}

/// Warnings, and the number of protocols and stacks in a text. A file called as one of those that come with
/// Weir (`tcp.weir`) takes that one's place; all others may use what comes with Weir.
fn check(path: &Path, text: &str) -> Result<(Diagnostics, usize, usize), Diagnostics> {
    let (file, name) = (path.display().to_string(), path.file_name().and_then(|n| n.to_str()));
    let shipped = Library::builtin_texts();
    if shipped.iter().all(|(shipped, _)| name != Some(shipped)) {
        let mut library = Library::builtin();
        let (protocols, stacks) = (library.protocols().count(), library.stacks().len());
        let warnings = library.extend_with(&file, text)?;
        return Ok((warnings, library.protocols().count() - protocols, library.stacks().len() - stacks));
    }
    let others: Vec<(&str, &str)> = shipped.iter().copied().filter(|(shipped, _)| name != Some(shipped)).collect();
    let mut all = others.clone();
    all.push((&file, text));
    let (library, warnings) = load(&all)?;
    // Others may need this one, so they are counted by their words.
    let declared = |word: &str| others.iter().flat_map(|(_, t)| t.lines()).filter(|l| l.starts_with(word)).count();
    let protocols = library.protocols().count().saturating_sub(declared("protocol "));
    Ok((warnings, protocols, library.stacks().len().saturating_sub(declared("stack "))))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
