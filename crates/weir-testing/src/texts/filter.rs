//! Generates filters over the fields, events, event columns and connections of a generated stack.

use crate::choices::Choices;
use weir_compile::StackCatalog;
use weir_lang::filter::{Catalog, FieldInfo};
use weir_packet::ValueType;

/// A filter with at most `depth` nested operators.
pub(super) fn write(choices: &mut Choices<'_>, catalog: &StackCatalog, depth: u32) -> String {
    if depth == 0 || choices.chance(40) {
        return predicate(choices, catalog);
    }
    let left = write(choices, catalog, depth - 1);
    match choices.below(5) {
        0 | 1 => format!("({left}) and ({})", write(choices, catalog, depth - 1)),
        2 | 3 => format!("({left}) or ({})", write(choices, catalog, depth - 1)),
        _ => format!("not ({left})"),
    }
}

fn predicate(choices: &mut Choices<'_>, catalog: &StackCatalog) -> String {
    let is_own = |field: &&FieldInfo| {
        let first = field.name.split('.').next().unwrap_or_default();
        let mut chars = first.chars();
        matches!(chars.next(), Some('p' | 'x')) && chars.next().is_some_and(|c| c.is_ascii_digit())
    };
    let own: Vec<&FieldInfo> = catalog.fields().iter().filter(is_own).collect();
    if own.is_empty() || choices.chance(15) {
        let at = choices.below(catalog.fields().len());
        return comparison(choices, &catalog.fields()[at]);
    }
    let field = choices.pick(&own);
    comparison(choices, field)
}

fn comparison(choices: &mut Choices<'_>, field: &FieldInfo) -> String {
    let name = &field.name;
    if field.is_protocol {
        return name.clone();
    }
    let order = |choices: &mut Choices<'_>| choices.pick(&["<", "<=", ">", ">="]);
    match field.value_type {
        ValueType::Bool if choices.chance(50) => format!("{name} == {}", choices.below(2)),
        ValueType::Bool | ValueType::Fraction => name.clone(),
        ValueType::Unsigned | ValueType::Numbers => number(choices, field),
        ValueType::Time => format!("{name} {} \"2023-11-15 00:00:00\"", order(choices)),
        ValueType::Interval => format!("{name} {} {}", order(choices), choices.pick(&["0.001", "2", "10"])),
        ValueType::Ipv4 | ValueType::Address => {
            let address = choices.pick(&["0.0.0.1", "0.0.0.2", "0.0.0.0/30", "0.0.0.0", "255.255.255.255"]);
            format!("{name} {} {address}", choices.pick(&["==", "!="]))
        }
        ValueType::Ipv6 => {
            format!("{name} {} {}", choices.pick(&["==", "!="]), choices.pick(&["::", "::1", "::/126"]))
        }
        ValueType::Mac => {
            format!("{name} {} 00:00:00:00:00:0{}", choices.pick(&["==", "!="]), choices.below(4))
        }
        ValueType::Text | ValueType::Texts => {
            let text = choices.pick(&["a", "S", "p0", "p1", "Aa"]);
            format!("{name} {} \"{text}\"", choices.pick(&["==", "!=", "contains", "matches"]))
        }
        ValueType::Bytes => match choices.below(3) {
            0 => format!("{name} contains 0{}:0{}", choices.below(4), choices.below(4)),
            1 => format!("{name}[0:1] == 0{}", choices.below(4)),
            _ => format!("{name} matches \"[\\\\x01-\\\\x03]+\""),
        },
    }
}

fn number(choices: &mut Choices<'_>, field: &FieldInfo) -> String {
    let (name, bits) = (&field.name, field.bits);
    let most = if bits == 0 || bits >= 64 { u64::MAX >> 1 } else { (1 << bits) - 1 };
    let [a, b] = [(); 2].map(|()| choices.number().min(most));
    match choices.below(7) {
        0 | 1 => format!("{name} == {a}"),
        2 => format!("{name} != {a}"),
        3 => format!("{name} < {}", a.max(1)),
        4 => format!("{name} > {}", a.min(most - 1)),
        5 if bits > 1 && bits <= 32 => format!("{name} & {} == {}", b.max(1), a & b.max(1)),
        _ => format!("{name} in {{ {}..{} }}", a.min(b), a.max(b)),
    }
}
