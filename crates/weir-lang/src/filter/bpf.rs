//! pcap-filter(7).
use super::{Expr, names::Names, report::Report};
pub(super) fn parse(_text: &str, _names: &Names, report: &mut Report) -> Option<Expr> {
    report.error(super::report::BPF_UNSUPPORTED, super::lexer::span(0, 0), "not yet");
    None
}
