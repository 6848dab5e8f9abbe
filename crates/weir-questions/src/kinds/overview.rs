//! `weir FILE`: what a capture contains, at one glance.

use super::summary;
use crate::kind::{Context, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::spec::QuestionSpec;
use crate::text::report_lines::{Again, ReportLines};
use crate::text::summary::{SERVER_NAMES, ServerNames};
use weir::io::tcp::Endpoint;

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("capture.pcap", "the same, in short"),
    ("overview capture.pcap 'ip.addr in 10.0.0.0/8'", "a part of the traffic"),
    ("overview capture.pcap --format json", "for other programs"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "What a capture contains: time, services, hosts, names of servers, what was lost. `weir FILE` is short \
                 for `weir overview FILE`";
    summary::kind("overview", about, resolve).with_examples(EXAMPLES)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    // Standard input cannot be read again.
    let is_repeatable = context.captures.iter().all(|file| file != "-" && !Endpoint::is_named(file.as_ref()));
    let files = context.captures.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let again = is_repeatable.then(|| Again { files, filter: spec.filter.clone() });
    let names = ServerNames::of(context.compiler.sessions(), SERVER_NAMES);
    let lines = Box::new(|out, color| ReportLines::overview(out, color, again));
    Ok(summary::resolve(spec, context, names, lines))
}
