//! The types of fields, by name.

use crate::model::{Expr, FieldType};
use crate::syntax::ast;

/// The equivalent of other languages' `uint16`, `u16be`, `uint16_t`, `char` or `string`.
pub(super) fn translate(name: &str) -> Option<String> {
    if matches!(name, "char" | "str" | "string") {
        return Some("write `text[n]`, with `n` bytes".to_string());
    }
    let plain = name.strip_suffix("_t").unwrap_or(name);
    let plain = plain.strip_suffix("be").unwrap_or(plain);
    let bits = ["uint", "u"].iter().find_map(|prefix| plain.strip_prefix(prefix))?;
    let ours = format!("u{bits}");
    let help = format!("write `{ours}`; without `le` the most significant byte is first");
    (ours != name && named_type(&ours).is_some()).then_some(help)
}

/// The bits of a group that can be read as one number: adjacent numbers, most significant byte first, at most
/// 64 bits.
pub(super) fn group_bits(items: &[ast::HeaderItem]) -> Option<u32> {
    let bits_of = |ty: &ast::Type| match named_type(&ty.name.text) {
        Some(FieldType::Unsigned { bits, little: false }) if ty.length.is_none() => Some(bits),
        _ => None,
    };
    let mut sum = 0;
    for item in items {
        sum += match item {
            ast::HeaderItem::Field(field) if field.peek => 0,
            ast::HeaderItem::Field(ast::Field { ty, .. }) | ast::HeaderItem::Skip { ty, .. } => bits_of(ty)?,
            ast::HeaderItem::Group { items, .. } => group_bits(items)?,
            ast::HeaderItem::If { .. } | ast::HeaderItem::Run { .. } => return None,
        };
    }
    (1..=64).contains(&sum).then_some(sum)
}

/// The type with this name; the length of bytes is filled in later.
pub(super) fn named_type(name: &str) -> Option<FieldType> {
    let little = |bits| Some(FieldType::Unsigned { bits, little: true });
    match name {
        "macaddr" => Some(FieldType::Mac),
        "ipv4addr" => Some(FieldType::Ipv4),
        "ipv6addr" => Some(FieldType::Ipv6),
        "bytes" => Some(FieldType::Bytes(Expr::Number(0))),
        "text" => Some(FieldType::Text(Expr::Number(0))),
        "uint" => Some(FieldType::Counted(Expr::Number(0))),
        "u16le" => little(16),
        "u32le" => little(32),
        "u64le" => little(64),
        _ => {
            let digits = name.strip_prefix('u')?;
            let bits = digits
                .parse()
                .ok()
                .filter(|bits| (1..=64).contains(bits) && !digits.starts_with(['0', '+']))?;
            Some(FieldType::Unsigned { bits, little: false })
        }
    }
}
