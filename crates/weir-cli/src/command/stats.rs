//! `weir stats`: statistics of a capture.

use crate::failure::Failure;
use crate::report_lines::ReportLines;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Resolved, Subcommand};
use crate::summary::ServerNames;
use crate::summary_question;

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("stats capture.pcap", "a report"),
    ("stats capture.pcap 'tcp.port == 80'", "of a part of the traffic"),
    ("stats capture.pcap --format csv", "for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Packets and bytes per layer, sizes, services, hosts, conversations, timing, why packets were not parsed \
                 completely, what the reader skipped";
    summary_question::command("stats", about, resolve).with_examples(EXAMPLES)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    // Without the names of servers, no session is parsed.
    Ok(summary_question::resolve(spec, context, ServerNames::none(), Box::new(ReportLines::whole)))
}
