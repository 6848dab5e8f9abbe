//! Prints resolved filters, for `explain`. The text parses to an equal filter.

use super::ast::{Catalog, Expr, FieldInfo, Literal, Op, Predicate};
use super::domain::{Domain, symbol};
use super::literal::{format_interval, format_time};
use std::fmt::{self, Display, Formatter};

impl Expr {
    /// The expression as text over `catalog`'s names. Parsing it yields an equal expression.
    pub fn display<'a>(&'a self, catalog: &'a dyn Catalog) -> impl Display + 'a {
        fmt::from_fn(move |f| write_expr(f, self, catalog, false))
    }
}

impl Predicate {
    /// The predicate as text over `catalog`'s names.
    pub fn display<'a>(&'a self, catalog: &'a dyn Catalog) -> impl Display + 'a {
        fmt::from_fn(move |f| write_predicate(f, self, &catalog.fields()[self.field]))
    }
}

fn write_expr(f: &mut Formatter, expr: &Expr, catalog: &dyn Catalog, inner: bool) -> fmt::Result {
    let (parts, word) = match expr {
        Expr::True => return Ok(()),
        Expr::Predicate(predicate) => {
            return write_predicate(f, predicate, &catalog.fields()[predicate.field]);
        }
        Expr::And(parts) => (parts, " and "),
        Expr::Or(parts) => (parts, " or "),
    };
    // Parentheses even where precedence suffices: readers need not know the precedence.
    if inner {
        f.write_str("(")?;
    }
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        write_expr(f, part, catalog, true)?;
    }
    if inner {
        f.write_str(")")?;
    }
    Ok(())
}

fn write_predicate(f: &mut Formatter, predicate: &Predicate, field: &FieldInfo) -> fmt::Result {
    if predicate.negated {
        f.write_str("not ")?;
    }
    f.write_str(&field.name)?;
    match predicate.slice {
        Some((offset, 1)) => write!(f, "[{offset}]")?,
        Some((offset, length)) => write!(f, "[{offset}:{length}]")?,
        None => {}
    }
    if let Some(mask) = predicate.mask {
        write!(f, " & {mask:#x}")?;
    }
    if predicate.op == Op::Exists {
        return Ok(());
    }
    write!(f, " {} ", symbol(predicate.op))?;
    let style = Style::of(predicate, field);
    match &predicate.literals[..] {
        [literal] if predicate.op != Op::In => write_literal(f, literal, style),
        literals => {
            f.write_str("{")?;
            for (index, literal) in literals.iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                write_literal(f, literal, style)?;
            }
            f.write_str("}")
        }
    }
}

/// The notation of numbers.
#[derive(Clone, Copy)]
enum Style {
    Decimal,
    Hexadecimal,
    Time,
    Interval,
    /// This many bytes separated by `:`.
    Bytes(u32),
}

impl Style {
    fn of(predicate: &Predicate, field: &FieldInfo) -> Style {
        match Domain::of_predicate(field, predicate) {
            Domain::Time => Style::Time,
            Domain::Interval => Style::Interval,
            _ if predicate.mask.is_some() || predicate.op == Op::BitsAny => Style::Hexadecimal,
            Domain::Slice(_) if field.is_protocol => Style::Decimal,
            Domain::Slice(1) => Style::Hexadecimal,
            Domain::Slice(length) => Style::Bytes(length),
            _ => Style::Decimal,
        }
    }
}

fn write_literal(f: &mut Formatter, literal: &Literal, style: Style) -> fmt::Result {
    match literal {
        Literal::Numbers(low, high) if low == high => write_number(f, *low, style),
        Literal::Numbers(low, high) => {
            write_number(f, *low, style)?;
            f.write_str("..")?;
            write_number(f, *high, style)
        }
        Literal::Ipv4(address, 32) => write!(f, "{address}"),
        Literal::Ipv4(address, prefix) => write!(f, "{address}/{prefix}"),
        Literal::Ipv4Range(low, high) => write!(f, "{low}..{high}"),
        Literal::Ipv6(address, 128) => write!(f, "{address}"),
        Literal::Ipv6(address, prefix) => write!(f, "{address}/{prefix}"),
        Literal::Ipv6Range(low, high) => write!(f, "{low}..{high}"),
        Literal::Bytes(bytes) if bytes.is_empty() => f.write_str("\"\""),
        Literal::Bytes(bytes) => write_bytes(f, bytes),
        Literal::Text(text) => write_text(f, text),
        Literal::Frame(test) => write_text(f, &test.text),
    }
}

fn write_number(f: &mut Formatter, number: u64, style: Style) -> fmt::Result {
    match style {
        Style::Decimal => write!(f, "{number}"),
        Style::Hexadecimal => write!(f, "{number:#x}"),
        Style::Time => write!(f, "\"{}\"", format_time(number)),
        Style::Interval => f.write_str(&format_interval(number)),
        // The constant of an ordering may be larger than the slice.
        Style::Bytes(length) => match number.to_be_bytes().split_at(8 - length as usize) {
            (high, bytes) if high.iter().all(|byte| *byte == 0) => write_bytes(f, bytes),
            _ => write!(f, "{number:#x}"),
        },
    }
}

fn write_bytes(f: &mut Formatter, bytes: &[u8]) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let colon = if index > 0 { ":" } else { "" };
        write!(f, "{colon}{byte:02x}")?;
    }
    Ok(())
}

fn write_text(f: &mut Formatter, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for char in text.chars() {
        match char {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            char if char.is_ascii_control() => write!(f, "\\x{:02x}", char as u32)?,
            char => write!(f, "{char}")?,
        }
    }
    f.write_str("\"")
}
