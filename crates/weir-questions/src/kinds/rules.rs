//! `weir rules`: alerts of rules in the language of Suricata.

use crate::form::Form;
use crate::kind::{Context, QuestionKind, Resolved};
use crate::loaded_rules::{Loaded, filter_checker, report};
use crate::messages::failure::Failure;
use crate::rows::make::{Rows, WriteRows, made_rows};
use crate::spec::QuestionSpec;
use std::io;
use std::sync::Arc;
use weir::flow_task::FlowQuestions;
use weir::{Item, RunEnd};
use weir_detect::{COLUMNS, Counters, Detection, RuleProgram};

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

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Alerts of rules in the language of Suricata";
    let options = &["rules", "variables", "classes", "tunings", "complete"];
    let kind = QuestionKind::new("rules", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options, keeps: |_| true, ..kind }
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
