//! Generates headers: bits that fill bytes, groups, conditional parts, runs.

use super::Author;
use super::names::{Kind, Place, Role};

/// Maximum nesting of conditional parts, groups and runs.
const DEPTH_MAX: u32 = 3;

impl Author<'_, '_> {
    /// A header that begins with the text `first`.
    pub(super) fn header(&mut self, first: &str) -> String {
        let count = 1 + self.choices.below(5);
        let items = self.items(count, "", 0);
        format!("header {{\n        {first}{items}    }}")
    }

    fn items(&mut self, count: usize, prefix: &str, depth: u32) -> String {
        (0..count).map(|_| self.item(prefix, depth) + "\n        ").collect()
    }

    fn item(&mut self, prefix: &str, depth: u32) -> String {
        match self.choices.below(if depth < DEPTH_MAX { 20 } else { 14 }) {
            0..6 => {
                let bytes = self.choices.pick(&[1, 1, 2, 2, 3, 4, 7, 8]);
                self.bits(8 * bytes, prefix, depth)
            }
            6..9 => {
                let bits = self.choices.pick(&[8, 8, 16, 32, 24, 64]);
                self.field(prefix, &format!("u{bits}"), Kind::Number(bits))
            }
            9 => {
                let bits = self.choices.pick(&[16, 32, 64]);
                self.field(prefix, &format!("u{bits}le"), Kind::Number(bits))
            }
            10 => {
                let kinds = [("macaddr", Kind::Mac), ("ipv4addr", Kind::Ipv4), ("ipv6addr", Kind::Ipv6)];
                let (word, kind) = self.choices.pick(&kinds);
                self.field(prefix, word, kind)
            }
            11 => {
                let length = self.length();
                let word = self.choices.pick(&["bytes", "text"]);
                self.field(prefix, &format!("{word}[{length}]"), Kind::Bytes)
            }
            12 => {
                let length = self.counted();
                self.field(prefix, &format!("uint[{length}]"), Kind::Number(64))
            }
            13 => match self.choices.below(3) {
                0 => format!("_: u{}", 8 * (1 + self.choices.below(4))),
                1 => format!("_: bytes[{}]", self.choices.below(4)),
                _ => self.peek(prefix),
            },
            14..17 => self.branch(prefix, depth),
            17 => {
                let name = self.fresh("g");
                let count = 1 + self.choices.below(3);
                let items = self.items(count, &format!("{prefix}{name}."), depth + 1);
                format!("{name} {{ {items} }}{}", self.doc())
            }
            _ => self.run(prefix, depth),
        }
    }

    /// Fields, groups and unnamed bits that fill `bits` bits.
    fn bits(&mut self, bits: u32, prefix: &str, depth: u32) -> String {
        let (mut left, mut text) = (bits, String::new());
        while left > 0 {
            let piece = left - self.choices.below(left as usize) as u32;
            left -= piece;
            let part = match self.choices.below(10) {
                0..6 => self.field(prefix, &format!("u{piece}"), Kind::Number(piece)),
                6 => format!("_: u{piece}"),
                7 => format!(
                    "{} {}",
                    self.peek(prefix),
                    self.field(prefix, &format!("u{piece}"), Kind::Number(piece))
                ),
                8 if depth < DEPTH_MAX => {
                    let name = self.fresh("g");
                    let inside = format!("{prefix}{name}");
                    self.names.groups.push(inside.clone());
                    self.names.fields.push((inside.clone(), Kind::Number(piece)));
                    let parts = self.bits(piece, &format!("{inside}."), depth + 1);
                    format!("{name} {{ {parts} }}{}", self.doc())
                }
                _ => (0..piece.min(9))
                    .map(|at| if at < 8 { (1, true) } else { (piece - 8, false) })
                    .map(|(bits, _)| self.field(prefix, &format!("u{bits}"), Kind::Number(bits)) + "  ")
                    .collect(),
            };
            text += &part;
            text += "  ";
        }
        text
    }

    /// A `peek`. Empty in a message, because a message must not read beyond its end.
    fn peek(&mut self, prefix: &str) -> String {
        if self.names.role != Role::Layer {
            return String::new();
        }
        let bits = 1 + self.choices.below(16) as u32;
        format!("peek {}", self.field(prefix, &format!("u{bits}"), Kind::Number(bits)))
    }

    /// A field; expressions after it may use it.
    pub(super) fn field(&mut self, prefix: &str, word: &str, kind: Kind) -> String {
        let name = self.fresh("f");
        let name = if self.choices.chance(3) { format!("{name}.part") } else { name };
        let mut text = name.clone();
        if self.choices.chance(10) {
            let other = self.fresh("o");
            text += &format!(" as {other}");
            if prefix.is_empty() {
                self.names.fields.push((other, kind));
            }
        }
        text += &format!(": {word}");
        if let Kind::Number(bits) = kind
            && !word.starts_with("uint")
            && self.choices.chance(12)
        {
            text += &self.constraint(bits);
        }
        self.names.fields.push((format!("{prefix}{name}"), kind));
        text + &self.doc()
    }

    fn constraint(&mut self, bits: u32) -> String {
        let most = u64::MAX >> (64 - bits);
        let number = self.choices.number().min(most);
        match self.choices.below(6) {
            0 => format!(" = {number}"),
            1 => format!(" where >= {number}"),
            2 => format!(" where <= {number}"),
            3 => format!(" where < {}", number.max(1)),
            4 => format!(" where > {}", number.min(most - 1)),
            _ => format!(" where != {number}"),
        }
    }

    /// A length, mostly one that fits into the generated packets.
    fn length(&mut self) -> String {
        match self.choices.below(8) {
            0 | 1 => self.choices.below(6).to_string(),
            2 | 3 => format!("{} & 3", self.operand(Place::Header, 0)),
            4 => format!("{} - cursor", self.operand(Place::Header, 0)),
            5 => format!("{} & 7", self.operand(Place::Header, 2)),
            6 => self.number(Place::Header, 0),
            _ => self.number(Place::Header, 2),
        }
    }

    fn counted(&mut self) -> String {
        match self.choices.below(5) {
            0 => format!("1 << ({} & 3)", self.operand(Place::Header, 0)),
            1 => format!("{} & 7", self.operand(Place::Header, 1)),
            2 => self.choices.below(10).to_string(),
            3 => self.number(Place::Header, 0),
            _ => format!("({} & 3) + 1", self.operand(Place::Header, 0)),
        }
    }

    fn branch(&mut self, prefix: &str, depth: u32) -> String {
        let condition = self.condition(Place::Header);
        let count = self.choices.below(3);
        let then = self.items(count, prefix, depth + 1);
        let otherwise = match self.choices.below(4) {
            0 | 1 => String::new(),
            2 if depth < DEPTH_MAX => format!(" else {}", self.branch(prefix, depth + 1)),
            _ => {
                let count = self.choices.below(3);
                format!(" else {{ {} }}", self.items(count, prefix, depth + 1))
            }
        };
        format!("if {condition} {{ {then} }}{otherwise}")
    }

    fn run(&mut self, prefix: &str, depth: u32) -> String {
        let name = self.fresh("r");
        let until = match self.choices.below(5) {
            0 => format!("cursor + {}", self.choices.below(12)),
            1 => format!("cursor + ({} & 15)", self.operand(Place::Header, 0)),
            2 => self.choices.below(40).to_string(),
            3 => self.number(Place::Header, 0),
            _ => self.number(Place::Header, 2),
        };
        let (tag, tag_bits) = self.choices.pick(&[
            ("", 8),
            ("", 8),
            (" u8", 8),
            (" u16", 16),
            (" u32", 32),
            (" u7", 7),
            (" u3", 3),
            (" u12", 12),
        ]);
        let count = 1 + self.choices.below(4);
        let has_other = self.choices.chance(50);
        let mut items = String::new();
        for at in 0..count {
            let item = self.fresh("i");
            let inside = format!("{prefix}{name}.{item}");
            let tag = if has_other && at + 1 == count { "_".to_string() } else { at.to_string() };
            let stop = if self.choices.chance(20) { " stop" } else { "" };
            let other =
                if self.choices.chance(10) { format!(" as {}", self.fresh("o")) } else { String::new() };
            // The bits that fill the tag's last byte.
            let rest = (8 - tag_bits % 8) % 8;
            let fill = match rest {
                0 => String::new(),
                _ => self.bits(rest, &format!("{inside}."), depth + 1),
            };
            let body = match self.choices.below(3) {
                0 if rest > 0 => format!(" {{ {fill} }}"),
                0 => String::new(),
                1 => {
                    let length = self.field(&format!("{inside}."), "u8", Kind::Number(8));
                    let known = self.names.fields.last().expect("just declared").0.clone();
                    let value =
                        self.field(&format!("{inside}."), &format!("bytes[{known} & 3]"), Kind::Bytes);
                    format!(" {{ {fill} {length} {value} }}")
                }
                _ => {
                    let count = self.choices.below(3);
                    format!(" {{ {fill} {} }}", self.items(count, &format!("{inside}."), depth + 1))
                }
            };
            self.names.presences.push(inside);
            items += &format!("            {item}{other} = {tag}{stop}{body}\n");
        }
        format!("{name}: run{tag} {{\n{items}        }} until {until}")
    }
}
