//! `weir rules`: alerts, or what Weir makes of rules.

use crate::ask::{self, Asked};
use crate::asking::Asking;
use crate::reload::{self, Reload};
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use weir::Compiler;
use weir_questions::QuestionKind;
use weir_questions::RunLink;
use weir_questions::loaded_rules::{Loaded, filter_checker};
use weir_questions::messages::Failure;
use weir_questions::source::input;
use weir_rules::Coverage;

/// Arguments that only this command has.
#[derive(ClapArgs)]
struct Own {
    /// Read no packets: show how many rules are accepted, and why others are not. Each refused rule is
    /// explained on standard error
    #[arg(long)]
    check: bool,
}

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run)
        .with_arguments(|command| command.mut_arg("rules", |arg| arg.required(true)))
}

fn run(asking: Asking, own: Own) -> Result<ExitCode, Failure> {
    if own.check {
        return show_coverage(Loaded::of(&asking.spec)?, &input::compiler(&asking.input.stack)?);
    }
    let mut asking = asking.settle()?;
    let spec = &mut asking.spec;
    let mut captures = asking.input.read.iter().map(Path::new);
    let stray = captures.find(|read| read.extension().is_some_and(|end| end == "rules"));
    if let Some(stray) = stray.or_else(|| Some(Path::new(&spec.filter)).filter(|filter| filter.is_file())) {
        let stray = stray.display();
        return Err(Failure::new(format!(
            "{stray} holds rules: give `-S {stray}`, or `-S` with the directory"
        )));
    }
    let link = RunLink::default();
    spec.link = Some(link.clone());
    let reload = match reload::applies(&asking.input) {
        true => {
            reload::prepare()?;
            Some(Reload { file: spec.rules.join(", "), read_again: reload::again_of(&link, spec) })
        }
        false => None,
    };
    ask::answer_one(Asked { reload, ..asking.asked() })
}

/// Shows how many rules are accepted, and explains those that are not.
fn show_coverage(loaded: Loaded, compiler: &Compiler) -> Result<ExitCode, Failure> {
    for refused in &loaded.set.refusals {
        say!("{}", refused.render(terminal::stderr_color()));
    }
    let (coverage, is_whole) = (Coverage::of(&loaded.set).to_string(), loaded.set.refusals.is_empty());
    let program = loaded.into_program(filter_checker(compiler));
    let mut reasons: BTreeMap<&str, (u64, u32, u32)> = BTreeMap::new();
    for (gid, sid, why) in program.unsupported() {
        reasons.entry(why).or_insert((0, *gid, *sid)).0 += 1;
    }
    let mut out = io::stdout().lock();
    write!(out, "{coverage}")?;
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    if !reasons.is_empty() {
        writeln!(out, "\naccepted, but not run")?;
    }
    for (why, (count, gid, sid)) in reasons {
        writeln!(out, "{count:9}  {why}; for example {gid}:{sid}")?;
    }
    writeln!(out, "\nlooked at for each packet, because no pattern finds them")?;
    for (transport, count) in program.without_pattern() {
        writeln!(out, "{count:9}  {transport}")?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
