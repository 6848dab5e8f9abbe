//! `weir weird`: what was odd about connections and packets, one row for each kind and connection: Zeek's
//! weird.log.

use crate::ask;
use crate::command::sessions::OfSessions;
use crate::failure::Failure;
use crate::form::Form;
use crate::rows::made_rows;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, QuestionKind, Resolved, Subcommand};
use weir::{Need, Question, Shape, Want, odd_columns, odd_events, odd_names};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("weird capture.pcap", "what was odd, by connection"),
    ("weird capture.pcap --mode strict", "with the segments that receivers reject"),
    ("weird capture.pcap 'ip.addr == 192.0.2.1' --format json", "about a host, for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "What was odd: packets that were not understood, segments that were refused, bounds that were reached \
                 (weird.log)";
    let kind = QuestionKind { options: &["all_rows"], ..QuestionKind::new(resolve) };
    let run = |mut args: OfSessions, all: &[Subcommand]| {
        let spec = args.rows.put_into(args.ask.spec("weird")?);
        ask::answer_one(&args.ask.input, &spec, args.ask.output.stats, all)
    };
    Subcommand::new("weird", about, run)
        .with_question(kind)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
        .with_after_help(names())
}

/// All names that rows may have.
fn names() -> String {
    let mut names: Vec<&str> = odd_names().into_iter().map(|(name, ..)| name).collect();
    names.dedup();
    format!("Names: {}.\ndocs/weird.md explains them.", names.join(", "))
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let ask = |need, want| weir::Ask { filter: spec.filter.clone(), need, want };
    let compiler = context.compiler;
    // Sessions are parsed although nobody receives them: parsers have bounds, too.
    let connections = ask(Need { odd: true, ..Need::default() }, Want::Tracked(compiler.sessions().all()));
    // What has no connection matches no condition.
    let (odd, odd_others) = (true, spec.filter.trim().is_empty());
    let all_rows = spec.all_rows || *context.form == Form::Count;
    let mut questions = vec![Question::new(
        connections,
        Shape { odd, odd_others, all_rows, as_rows: true, ..Shape::default() },
    )];
    // The engine notes these events with their connection; nobody receives them.
    let events = odd_events(compiler.stack());
    if !events.is_empty() {
        let ask =
            weir::Ask { filter: String::new(), ..ask(Need { events, ..Need::default() }, Want::Events) };
        questions.push(Question::new(ask, Shape { count_only: true, ..Shape::default() }));
    }
    let resolved = Resolved::new(questions, "weird", odd_columns(), made_rows);
    let brief = &["ts", "orig", "resp", "name", "addl", "count", "source"];
    Ok(Resolved { counted: Counted::Rows, ..resolved }.with_brief(brief))
}
