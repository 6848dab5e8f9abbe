//! `weir stats`: statistics of a capture.

use super::summary;
use crate::kind::{Context, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::spec::QuestionSpec;
use crate::text::report_lines::ReportLines;
use crate::text::summary::ServerNames;

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("stats capture.pcap", "a report"),
    ("stats capture.pcap 'tcp.port == 80'", "of a part of the traffic"),
    ("stats capture.pcap --format csv", "for other programs"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Packets and bytes per layer, sizes, services, hosts, conversations, timing, why packets were not parsed \
                 completely, what the reader skipped";
    summary::kind("stats", about, resolve).with_examples(EXAMPLES)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    // Without the names of servers, no session is parsed.
    Ok(summary::resolve(spec, context, ServerNames::none(), Box::new(ReportLines::whole)))
}
