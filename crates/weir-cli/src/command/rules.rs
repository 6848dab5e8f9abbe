//! `weir rules`: alerts of rules in the language of Suricata.

use crate::args::Ask;
use crate::ask::{self, Asked};
use crate::failure::Failure;
use crate::form::Form;
use crate::input;
use crate::loaded_rules::{Loaded, filter_checker, report, utf8};
use crate::reload::{self, Reload};
use crate::rows::{Rows, WriteRows, made_rows};
use crate::spec::{QuestionSpec, RunLink};
use crate::subcommand::{Context, Group, QuestionKind, Resolved, Subcommand};
use crate::terminal;
use clap::Args as ClapArgs;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weir::flow_task::FlowQuestions;
use weir::{Compiler, Item, RunEnd};
use weir_detect::{COLUMNS, Counters, Detection, RuleProgram};
use weir_rules::Coverage;

/// Arguments of `rules`.
#[derive(ClapArgs)]
struct Args {
    #[command(flatten)]
    ask: Ask,
    /// Files of rules, and directories whose files end in `.rules`. May be given several times
    #[arg(short = 'S', long = "rules", value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// The groups of addresses and ports that rules name: a file of TOML, or of Suricata's YAML. Default: the
    /// private networks are the home
    #[arg(long, value_name = "FILE")]
    variables: Option<PathBuf>,
    /// The texts and priorities of classes: a `classification.config`. Default: Suricata's
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Thresholds and suppressions: a `threshold.config`
    #[arg(long, value_name = "FILE")]
    tunings: Option<PathBuf>,
    /// Of connections of TCP whose begin is not in the capture, inspect only single packets, as Suricata does
    /// by default
    #[arg(long)]
    complete: bool,
    /// Read no packets: show how many rules are accepted, and why others are not. Each refused rule is
    /// explained on standard error
    #[arg(long)]
    check: bool,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("rules -r capture.pcap -S emerging.rules", "the alerts of a file of rules"),
    ("rules -r capture.pcap -S rules/ --format eve", "as Suricata writes them"),
    (
        "rules -i eth0 -S rules/ --variables site.toml 'ip.addr in 10.0.0.0/8'",
        "on a link, for some of its hosts",
    ),
    ("rules --check -S emerging.rules", "which rules are accepted"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Alerts of rules in the language of Suricata";
    let kind = QuestionKind {
        options: &["rules", "variables", "classes", "tunings", "complete"],
        keeps: |_| true,
        ..QuestionKind::new(resolve)
    };
    Subcommand::new("rules", about, run).with_question(kind).in_group(Group::Everyday).with_examples(EXAMPLES)
}

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Args { mut ask, rules, variables, classes, tunings, complete, check } = args;
    let texts: Result<Vec<String>, Failure> = rules.iter().map(|path| utf8(path)).collect();
    if check {
        let spec = QuestionSpec { rules: texts?, variables, classes, tunings, ..QuestionSpec::default() };
        return show_coverage(Loaded::of(&spec)?, &input::compiler(&ask.input.program.stack)?);
    }
    let spec = QuestionSpec { rules: texts?, variables, classes, tunings, complete, ..ask.spec("rules")? };
    let mut captures = ask.input.read.iter().map(Path::new);
    let stray = captures.find(|read| read.extension().is_some_and(|end| end == "rules"));
    if let Some(stray) = stray.or_else(|| Some(Path::new(&spec.filter)).filter(|filter| filter.is_file())) {
        let stray = stray.display();
        return Err(Failure::new(format!(
            "{stray} holds rules: give `-S {stray}`, or `-S` with the directory"
        )));
    }
    let link = RunLink::default();
    let spec = QuestionSpec { link: Some(link.clone()), ..spec };
    let reload = match reload::applies(&ask.input) {
        true => {
            reload::prepare()?;
            Some(Reload { file: spec.rules.join(", "), read_again: reload::again_of(&link, &spec) })
        }
        false => None,
    };
    let answered = ask::answer(Asked { reload, ..Asked::one(&ask.input, &spec, ask.output.stats) }, all)?;
    Ok(if spec.count { answered.status_of_search() } else { answered.ran.status })
}

/// The columns of a table.
const BRIEF: &[&str] = &["ts", "src", "src_p", "dst", "dst_p", "proto", "service", "sid", "severity", "msg"];

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    if context.bpf && !spec.filter.is_empty() {
        return Err(Failure::new("`rules` take filters of Weir only: give no --bpf"));
    }
    FlowQuestions::check(context.compiler, &spec.filter)?;
    let loaded = Loaded::of(spec)?;
    loaded.say_refusals();
    let program = loaded.into_program(filter_checker(context.compiler));
    say_unsupported(&program);
    let detection = Detection::new(Arc::new(program)).with_memory(context.memory_max);
    let detection = match (detection, spec.complete) {
        (detection, true) => detection.with_complete_connections_only(),
        (detection, false) => detection,
    };
    match context.file_contents {
        Some(store) => detection.ask_for_files(store),
        None if detection.needs_files() && !matches!(context.form, Form::Count) => {
            note!(
                "weir: rules about files find nothing: the run passes the contents to an extraction, or has begun before"
            );
        }
        None => {}
    }
    if let Some(link) = &spec.link {
        let (detection, spec) = (detection.clone(), QuestionSpec { link: None, ..spec.clone() });
        // The first question of the command is the one that runs.
        let _ = link.0.reload.set(Box::new(move || {
            let loaded = Loaded::of(&spec)?;
            loaded.say_refusals();
            let program = loaded.into_program(|filter| detection.check_filter(filter));
            say_unsupported(&program);
            let count = program.len();
            detection.replace(program).map_err(Failure::new)?;
            note!("weir: {count} {} from now on", if count == 1 { "rule runs" } else { "rules run" });
            Ok(())
        }));
    }
    let questions = detection.questions(context.compiler, &spec.filter).map_err(Failure::new)?;
    let rows = Alerts { counters: Arc::clone(detection.counters()) };
    Ok(Resolved::new(questions, "alerts", COLUMNS.to_vec(), rows).with_brief(BRIEF))
}

/// Says how many rules are not run, and why the first one is not.
fn say_unsupported(program: &RuleProgram) {
    if let [(gid, sid, why), ..] = program.unsupported() {
        let count = program.unsupported().len();
        let are = if count == 1 { "rule is" } else { "rules are" };
        note!("weir: {count} {are} understood, but not run, such as {gid}:{sid}: {why}");
    }
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

/// The rows of rules.
struct Alerts {
    counters: Arc<Counters>,
}

impl Rows for Alerts {
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
        made_rows(item, rows)
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
        report(&self.counters);
        Ok(())
    }
}
