//! A packet as a readable line, from what its layers' `show` clauses put into the packet's record.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_compile::OutValue;
use weir_compile::lower::PATH_BITS;
use weir_lang::model::{Expr, FieldType, LayerId, ShowPart, Stack};

/// The path of a packet, from its record.
pub fn path(outs: &[u64]) -> u128 {
    u128::from(outs[1]) << 64 | u128::from(outs[0])
}

/// The layers of a packet, outermost first, from its path.
pub fn layers(path: u128) -> Vec<LayerId> {
    let mut layers = vec![];
    let mut left = path;
    while left != 0 {
        layers.push(LayerId((left & ((1 << PATH_BITS) - 1)) as u16 - 1));
        left >>= PATH_BITS;
    }
    layers.reverse();
    layers
}

/// What the layers show, innermost part last; a layer that occurs twice shows its last occurrence.
pub fn show(stack: &Stack, outs_of: &[OutValue], outs: &[u64]) -> String {
    let mut line = String::new();
    let layers = layers(path(outs));
    for (place, layer) in layers.iter().enumerate() {
        if layers[place + 1..].contains(layer) {
            continue;
        }
        let protocol = &stack.layers[layer.0 as usize].protocol;
        if protocol.show.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        for (part, shown) in protocol.show.iter().enumerate() {
            match shown {
                ShowPart::Text(text) => line.push_str(text),
                _ => {
                    let of = |o: &&OutValue| o.layer == *layer && usize::from(o.part) == part;
                    let Some(out) = outs_of.iter().find(of) else { continue };
                    let low = outs[usize::from(out.slot)];
                    let high = if out.wide { outs[usize::from(out.slot) + 1] } else { 0 };
                    show_value(&mut line, protocol, shown, high, low);
                }
            }
        }
    }
    line
}

/// One value of a layer, as its type is written.
pub fn show_value(
    line: &mut String,
    protocol: &weir_lang::model::Protocol,
    part: &ShowPart,
    high: u64,
    low: u64,
) {
    let written = match part {
        ShowPart::Flags(fields) => {
            let mut first = true;
            for (bit, field) in fields.iter().enumerate() {
                if low >> bit & 1 == 1 {
                    let path = &protocol.fields[field.0 as usize].path;
                    let name = path.rsplit('.').next().unwrap_or(path);
                    let _ = write!(line, "{}{name}", if first { "" } else { " " });
                    first = false;
                }
            }
            Ok(())
        }
        ShowPart::Value(Expr::Field(f)) => match protocol.fields[f.0 as usize].ty {
            FieldType::Ipv4 => write!(line, "{}", Ipv4Addr::from(low as u32)),
            FieldType::Ipv6 => write!(line, "{}", Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))),
            FieldType::Mac => {
                let b = low.to_be_bytes();
                let (b, c) = (&b[2..], ':');
                write!(
                    line,
                    "{:02x}{c}{:02x}{c}{:02x}{c}{:02x}{c}{:02x}{c}{:02x}",
                    b[0], b[1], b[2], b[3], b[4], b[5]
                )
            }
            _ => write!(line, "{low}"),
        },
        _ => write!(line, "{low}"),
    };
    debug_assert!(written.is_ok(), "writing to a String can't fail");
}
