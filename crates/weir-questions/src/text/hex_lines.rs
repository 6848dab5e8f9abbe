//! Hexadecimal lines: an offset, 16 bytes as digits, and the same bytes as text.

use std::fmt::Write as _;

/// Bytes per line.
pub const LINE_BYTES: usize = 16;

/// Adds lines for `bytes`, as Wireshark prints them. `indent` begins each line; `offset`: of the first byte,
/// in at least `digits` digits.
pub fn push_hex_lines(text: &mut String, indent: &str, (offset, digits): (u64, usize), bytes: &[u8]) {
    for (number, line) in bytes.chunks(LINE_BYTES).enumerate() {
        let offset = offset + (LINE_BYTES * number) as u64;
        // Writing to a String cannot fail.
        let _ = write!(text, "{indent}{offset:0digits$x} ");
        for place in 0..LINE_BYTES {
            if place == LINE_BYTES / 2 {
                text.push(' ');
            }
            match line.get(place) {
                Some(byte) => drop(write!(text, " {byte:02x}")),
                None => text.push_str("   "),
            }
        }
        text.push_str("  ");
        let letter =
            |&byte: &u8| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' };
        text.extend(line.iter().map(letter));
        text.push('\n');
    }
}
