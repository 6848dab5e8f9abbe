//! Formats a packet as a readable line, from the values of its layers' `show` clauses in the packet's record.

use super::events;
use std::fmt::{self, Write as _};
use weir_compile::OutValue;
use weir_compile::lower::{EXCERPT_SLOTS, PATH_BITS, PATH_LAYERS_MAX, PATH_WORDS};
use weir_compile::types::value_type;
use weir_lang::model::{LayerId, ShowPart, Stack};
use weir_packet::{Value, ValueType, readable};

/// The layers of a packet; if there are more than 32, the innermost ones.
///
/// Paths are ordered by their layers, outermost first, shorter ones before longer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Path {
    /// A byte per layer, its number from 1 on; the innermost layer is last, and zeros precede the outermost.
    numbers: [u8; PATH_LAYERS_MAX],
}

// The program writes one byte per layer.
const _: () = assert!(PATH_BITS == 8 && PATH_LAYERS_MAX == 32);

impl Path {
    /// The path of a packet, from its record.
    pub(crate) fn of_record(outs: &[u64]) -> Self {
        let mut numbers = [0; PATH_LAYERS_MAX];
        for (bytes, word) in numbers.rchunks_mut(8).zip(&outs[..PATH_WORDS]) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        Self { numbers }
    }

    /// Appends the layers as text: `eth:ip:tcp`.
    pub(crate) fn push_name(&self, stack: &Stack, text: &mut String) {
        let start = text.len();
        for layer in self.layers() {
            text.push_str(if text.len() > start { ":" } else { "" });
            text.push_str(&stack.layers[usize::from(layer.0)].protocol.filter_name);
        }
        if text.len() == start {
            text.push('?');
        }
    }

    /// The layers, outermost first; none if no path was requested.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = LayerId> + Clone + '_ {
        self.numbers.iter().filter(|&&number| number != 0).map(|&number| LayerId(u16::from(number) - 1))
    }
}

/// Appends the values that the layers show, the innermost part last; a layer that occurs twice shows its last
/// occurrence.
pub fn push_line(stack: &Stack, outs_of: &[OutValue], outs: &[u64], line: &mut String) {
    let start = line.len();
    let layers: Vec<LayerId> = Path::of_record(outs).layers().collect();
    for (place, layer) in layers.iter().enumerate() {
        if layers[place + 1..].contains(layer) {
            continue;
        }
        let protocol = &stack.layers[layer.0 as usize].protocol;
        if protocol.show.is_empty() {
            continue;
        }
        if line.len() > start {
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
                    let words = &outs[usize::from(out.slot)..][..usize::from(out.slots)];
                    show_value(line, stack, *layer, shown, words);
                }
            }
        }
    }
}

/// Writes one value of a layer in the form of its type. `words`: as described at [`OutValue`].
pub fn show_value(line: &mut String, stack: &Stack, layer: LayerId, part: &ShowPart, words: &[u64]) {
    let (low, high) = (words[0], words.get(1).copied().unwrap_or(0));
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
        ShowPart::Value(value) if words.len() == usize::from(EXCERPT_SLOTS) => {
            excerpt(line, value_type(stack, layer, value), words)
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

/// Writes the first bytes of a field. `words`: their number, then eight bytes per word.
fn excerpt(line: &mut String, ty: ValueType, words: &[u64]) -> fmt::Result {
    let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_be_bytes()).collect();
    let all = usize::try_from(words[0]).unwrap_or(usize::MAX);
    let mut shown = &bytes[..all.min(bytes.len())];
    let is_cut = all > shown.len();
    if ty != ValueType::Text {
        shown.iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
    } else {
        // A character is not cut in two.
        let broken = std::str::from_utf8(shown).err().filter(|e| is_cut && e.error_len().is_none());
        shown = &shown[..broken.map_or(shown.len(), |e| e.valid_up_to())];
        line.write_str(&readable(shown))?;
    }
    if is_cut { line.write_char('…') } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ty: ValueType, bytes: &[u8]) -> String {
        let first = (0..usize::from(EXCERPT_SLOTS) - 1).map(|word| {
            let mut eight = [0; 8];
            eight.iter_mut().zip(bytes.iter().skip(8 * word)).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(eight)
        });
        let words: Vec<u64> = [bytes.len() as u64].into_iter().chain(first).collect();
        let mut line = String::new();
        excerpt(&mut line, ty, &words).expect("a String takes all");
        line
    }

    #[test]
    fn paths_are_ordered_by_their_layers() {
        let path = |words: [u64; PATH_WORDS]| Path::of_record(&words);
        assert_eq!(path([0x01_02, 0, 0, 0]).layers().collect::<Vec<_>>(), [LayerId(0), LayerId(1)]);
        let long = path([3, 0xfe, 0, 0]);
        assert_eq!(long.layers().collect::<Vec<_>>(), [LayerId(253), LayerId(2)]);
        assert!(path([0x01_02, 0, 0, 0]) < path([0x02_01, 0, 0, 0]) && path([u64::MAX, 0, 0, 0]) < long);
        assert!(Path::default().layers().next().is_none());
    }

    #[test]
    fn the_first_32_bytes_are_shown() {
        assert_eq!(shown(ValueType::Text, b""), "");
        assert_eq!(shown(ValueType::Text, b"caf\xe9"), "caf\\xe9");
        assert_eq!(shown(ValueType::Text, &[b'x'; 32]), "x".repeat(32));
        assert_eq!(shown(ValueType::Text, &[b'x'; 33]), "x".repeat(32) + "…");
        assert_eq!(shown(ValueType::Bytes, &[0xab; 33]), "ab".repeat(32) + "…");
        assert_eq!(shown(ValueType::Bytes, &[0, 1]), "0001");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "x".repeat(31) + "ü";
        assert_eq!(shown(ValueType::Text, text.as_bytes()), "x".repeat(31) + "…");
        assert_eq!(
            shown(ValueType::Text, &text.as_bytes()[..32]),
            "x".repeat(31) + "\\xc3",
            "nothing more is there"
        );
    }
}
