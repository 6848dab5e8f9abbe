//! The words of the text form; the printer and the parser use the same lists.

use crate::graph::{BinaryOp, CompareOp, Meta, NumberFormat, Width};

/// Arithmetic.
pub(super) const BINARY: &[(BinaryOp, &str)] = &[
    (BinaryOp::Add, "add"),
    (BinaryOp::Sub, "sub"),
    (BinaryOp::SubSat, "sub_sat"),
    (BinaryOp::Mul, "mul"),
    (BinaryOp::Div, "div"),
    (BinaryOp::Rem, "rem"),
    (BinaryOp::And, "and"),
    (BinaryOp::Or, "or"),
    (BinaryOp::Xor, "xor"),
    (BinaryOp::Shl, "shl"),
    (BinaryOp::Shr, "shr"),
    (BinaryOp::Min, "min"),
    (BinaryOp::Max, "max"),
];

/// Comparisons.
pub(super) const COMPARE: &[(CompareOp, &str)] =
    &[(CompareOp::Eq, "eq"), (CompareOp::Ne, "ne"), (CompareOp::Lt, "lt"), (CompareOp::Le, "le")];

/// Metadata of packets.
pub(super) const META: &[(Meta, &str)] = &[
    (Meta::Time, "time"),
    (Meta::WireBytes, "wire_bytes"),
    (Meta::CapturedBytes, "captured_bytes"),
    (Meta::Link, "link"),
    (Meta::Interface, "interface"),
    (Meta::Number, "number"),
];

const fn load(width: Width, little: bool) -> NumberFormat {
    NumberFormat { width, little }
}

/// Loads, by width and byte order. A single byte has no byte order, but the text keeps that of the graph.
pub(super) const LOAD: &[(NumberFormat, &str)] = &[
    (load(Width::W1, false), "load8"),
    (load(Width::W1, true), "load8le"),
    (load(Width::W2, false), "load16be"),
    (load(Width::W2, true), "load16le"),
    (load(Width::W4, false), "load32be"),
    (load(Width::W4, true), "load32le"),
    (load(Width::W8, false), "load64be"),
    (load(Width::W8, true), "load64le"),
];

/// The word of `thing` in `list`.
pub(super) fn word<T: PartialEq>(list: &[(T, &'static str)], thing: &T) -> &'static str {
    list.iter().find(|(t, _)| t == thing).expect("every variant is in its list").1
}

/// The thing in `list` that has this word.
pub(super) fn thing<T: Copy>(list: &[(T, &'static str)], word: &str) -> Option<T> {
    list.iter().find(|(_, w)| *w == word).map(|(t, _)| *t)
}
