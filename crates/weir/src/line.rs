//! A packet as a readable line, from what its layers' `show` clauses put into the packet's record.

use crate::events;
use std::fmt::Write as _;
use weir_compile::OutValue;
use weir_compile::lower::PATH_BITS;
use weir_compile::types::value_type;
use weir_lang::model::{LayerId, ShowPart, Stack};
use weir_packet::Value;

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
                    if out.known.is_some_and(|known| outs[usize::from(known)] >> part & 1 == 0) {
                        line.push('-');
                        continue;
                    }
                    let low = outs[usize::from(out.slot)];
                    let high = if out.wide { outs[usize::from(out.slot) + 1] } else { 0 };
                    show_value(&mut line, stack, *layer, shown, [high, low]);
                }
            }
        }
    }
    line
}

/// One value of a layer, as its type is written.
pub fn show_value(line: &mut String, stack: &Stack, layer: LayerId, part: &ShowPart, words: [u64; 2]) {
    let [high, low] = words;
    let protocol = &stack.layers[usize::from(layer.0)].protocol;
    let written = match part {
        ShowPart::Text(text) => line.write_str(text),
        ShowPart::Flags(fields) => {
            let set = fields.iter().enumerate().filter(|(bit, _)| low >> bit & 1 == 1);
            let names = set.map(|(_, field)| {
                let path = &protocol.fields[usize::from(field.0)].path;
                path.rsplit('.').next().unwrap_or(path)
            });
            line.write_str(&names.collect::<Vec<_>>().join(" "))
        }
        ShowPart::Value(value) => match events::value(value_type(stack, layer, value), high, low) {
            Value::Address(address) => write!(line, "{address}"),
            Value::Mac([a, b, c, d, e, f]) => {
                write!(line, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            _ => write!(line, "{low}"),
        },
    };
    debug_assert!(written.is_ok(), "writing to a String can't fail");
}
