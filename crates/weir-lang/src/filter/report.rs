//! The collection of mistakes from all stages, and their codes.
//!
//! Every stage continues after a mistake, so that all mistakes are reported together.

use crate::diag::{Diagnostic, Severity, Span};

/// A character that is not allowed in filters.
pub const CHARACTER: &str = "W0101";
/// A quoted text without its closing quote, or with an invalid escape.
pub const QUOTE: &str = "W0102";
/// A parenthesis, bracket or brace without its partner.
pub const UNBALANCED: &str = "W0103";
/// Unexpected token.
pub const UNEXPECTED: &str = "W0104";
/// An operator of another language (`:`, `&`, `=>`).
pub const OPERATOR: &str = "W0105";
/// An unknown name.
pub const UNKNOWN_FIELD: &str = "W0106";
/// A constant whose type differs from the field's type.
pub const TYPE: &str = "W0107";
/// A constant outside of the field's range.
pub const RANGE: &str = "W0108";
/// A malformed number, address, prefix, time.
pub const CONSTANT: &str = "W0109";
/// `in {}`.
pub const EMPTY_SET: &str = "W0110";
/// `443..80`.
pub const REVERSED: &str = "W0111";
/// A regular expression that does not compile.
pub const REGEX: &str = "W0112";
/// A protocol compared with a value.
pub const PROTOCOL: &str = "W0113";
/// An operator that the field's type does not have.
pub const OPERATOR_TYPE: &str = "W0114";
/// An invalid slice.
pub const SLICE: &str = "W0115";
/// Text without quotes.
pub const UNQUOTED: &str = "W0116";
/// Longer, deeper or with more alternatives than the limit.
pub const LIMIT: &str = "W0117";
/// Warning: bits of an address beyond its prefix.
pub const HOST_BITS: &str = "W0118";
/// Warning: always or never true.
pub const CONSTANT_TRUTH: &str = "W0119";
/// A constant where a field is required, or a comparison of two fields.
pub const SIDES: &str = "W0120";
/// Valid in pcap-filter(7), but not supported by Weir.
pub const BPF_UNSUPPORTED: &str = "W0121";
/// Incompatible qualifiers of pcap-filter(7).
pub const BPF_QUALIFIER: &str = "W0122";
/// Warning: a decimal number where bytes may be meant.
pub const DECIMAL: &str = "W0123";

/// Every code of a filter's diagnostics with its meaning, for `docs/diagnostics.md`.
pub const CODES: &[(&str, &str)] = &[
    (CHARACTER, "a character that is not allowed in filters"),
    (QUOTE, "a quoted text without its closing quote, or with an invalid escape"),
    (UNBALANCED, "a parenthesis, bracket or brace without its partner"),
    (UNEXPECTED, "an unexpected token"),
    (OPERATOR, "an operator of another language"),
    (UNKNOWN_FIELD, "an unknown field"),
    (TYPE, "a constant whose type differs from the field's type"),
    (RANGE, "a constant outside of the field's range"),
    (CONSTANT, "a malformed number, address, prefix or time"),
    (EMPTY_SET, "an empty set"),
    (REVERSED, "a range whose end is below its start"),
    (REGEX, "a regular expression that does not compile"),
    (PROTOCOL, "a protocol compared with a value"),
    (OPERATOR_TYPE, "an operator that the field's type does not have"),
    (SLICE, "an invalid slice"),
    (UNQUOTED, "text without quotes"),
    (LIMIT, "a filter longer, deeper or with more alternatives than the limit"),
    (HOST_BITS, "warning: bits of an address beyond its prefix"),
    (CONSTANT_TRUTH, "warning: a condition that is always or never true"),
    (SIDES, "a constant where a field is required, or a comparison of two fields"),
    (BPF_UNSUPPORTED, "a feature of pcap-filter(7) that Weir does not support"),
    (BPF_QUALIFIER, "incompatible qualifiers of pcap-filter(7)"),
    (DECIMAL, "warning: a decimal number where bytes may be meant"),
];

/// The diagnostics so far, in the order of detection.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub list: Vec<Diagnostic>,
}

impl Report {
    /// Adds an error and returns it, so that the caller can add labels and help.
    pub fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(code, Severity::Error, span, message.into())
    }

    /// Adds a warning.
    pub fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(code, Severity::Warning, span, message.into())
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    fn push(
        &mut self,
        code: &'static str,
        severity: Severity,
        span: Span,
        message: String,
    ) -> &mut Diagnostic {
        let spans = vec![(span, String::new())];
        self.list.push(Diagnostic { code, severity, message, spans, help: None });
        self.list.last_mut().expect("just pushed")
    }
}
