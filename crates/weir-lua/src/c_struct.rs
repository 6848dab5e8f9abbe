//! The layout of a C struct of numbers and arrays of numbers, by the ABI of the machine.
//!
//! ```text
//! struct    := "struct" [NAME] "{" { TYPE NAME [ "[" N "]" ] { "," … } ";" } "}" [ "__attribute__((packed))" ]
//! TYPE      := "uint8_t" … "uint64_t", "int8_t" … "int64_t", "float", "double", "bool"
//! ```

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Bytes, and whether there is a sign.
    Integer(usize, bool),
    Float,
    Double,
    Bool,
}

impl Number {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "uint8_t" => Self::Integer(1, false),
            "uint16_t" => Self::Integer(2, false),
            "uint32_t" => Self::Integer(4, false),
            "uint64_t" => Self::Integer(8, false),
            "int8_t" => Self::Integer(1, true),
            "int16_t" => Self::Integer(2, true),
            "int32_t" => Self::Integer(4, true),
            "int64_t" => Self::Integer(8, true),
            "float" => Self::Float,
            "double" => Self::Double,
            "bool" => Self::Bool,
            _ => return None,
        })
    }

    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Integer(bytes, _) => bytes,
            Self::Float => 4,
            Self::Double => 8,
            Self::Bool => 1,
        }
    }

    /// The number in these bytes. Integers beyond 2^53 are rounded.
    pub fn read(self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        match self {
            Self::Integer(bytes, true) => {
                let unused = 64 - 8 * bytes as u32;
                (((word << unused) as i64) >> unused) as f64
            }
            Self::Integer(..) => word as f64,
            Self::Float => f64::from(f32::from_bits(word as u32)),
            Self::Double => f64::from_bits(word),
            Self::Bool => f64::from(u8::from(word != 0)),
        }
    }

    /// Writes a number. Integers are cut to the bits of the type, as in C.
    pub fn write(self, value: f64, bytes: &mut [u8]) {
        let word = match self {
            Self::Integer(..) if value < 0.0 => value as i64 as u64,
            Self::Integer(..) => value as u64,
            Self::Float => u64::from((value as f32).to_bits()),
            Self::Double => value.to_bits(),
            Self::Bool => u64::from(value != 0.0),
        };
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub number: Number,
    pub offset: usize,
    /// Numbers of an array; `None`: no array.
    pub length: Option<usize>,
}

/// A struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CStruct {
    pub members: Vec<Member>,
    pub bytes: usize,
}

/// Bytes of the largest struct.
pub const BYTES_MAX: usize = 4096;

impl CStruct {
    /// The struct of a text.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = words(text)?;
        // Of the attributes behind the members.
        let mut attributes = words.iter().rev().take_while(|word| *word != "}");
        let is_packed = attributes.any(|word| matches!(&**word, "packed" | "__packed__"));
        let mut words = words.iter().map(String::as_str).peekable();
        let expected = |what: &str| format!("`{text}`: {what} is expected");
        if words.next() != Some("struct") {
            return Err(expected("`struct { … }`"));
        }
        if words.peek().is_some_and(|word| *word != "{") {
            words.next();
        }
        if words.next() != Some("{") {
            return Err(format!("{}; without --trust, types have no names", expected("`{` after `struct`")));
        }
        let (mut members, mut end, mut align_max): (Vec<Member>, usize, usize) = (vec![], 0, 1);
        loop {
            let name = words.next().ok_or_else(|| expected("`}`"))?;
            if name == "}" {
                break;
            }
            let number = Number::of(name).ok_or_else(|| {
                format!("`{text}`: the type `{name}` is unknown: use uint8_t to uint64_t, int8_t to int64_t, float, double, bool")
            })?;
            loop {
                let name = words
                    .next()
                    .filter(|name| is_name(name))
                    .ok_or_else(|| expected("the name of a member"))?;
                if members.iter().any(|member| member.name == name) {
                    return Err(format!("`{text}`: there are two members `{name}`"));
                }
                let mut length = None;
                if words.next_if_eq(&"[").is_some() {
                    let count = words.next().and_then(|count| count.parse().ok());
                    length = Some(
                        count
                            .filter(|count| (1..=BYTES_MAX).contains(count))
                            .ok_or_else(|| expected("a length"))?,
                    );
                    words.next_if_eq(&"]").ok_or_else(|| expected("`]`"))?;
                }
                let align = if is_packed { 1 } else { number.bytes() };
                align_max = align_max.max(align);
                let offset = end.next_multiple_of(align);
                end = offset + number.bytes() * length.unwrap_or(1);
                if end > BYTES_MAX {
                    return Err(format!("the struct has more than {BYTES_MAX} bytes"));
                }
                members.push(Member { name: name.to_string(), number, offset, length });
                match words.next() {
                    Some(",") => {}
                    Some(";") => break,
                    _ => return Err(expected("`;`")),
                }
            }
        }
        Ok(Self { members, bytes: end.next_multiple_of(align_max) })
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

/// The words and signs of a text.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = match first {
            first if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            '{' | '}' | '[' | ']' | ';' | ',' | '(' | ')' => 1,
            other => return Err(format!("`{text}`: the sign `{other}` has no place in a struct")),
        };
        words.push(rest[..length].to_string());
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_aligned_as_in_c() {
        let of = |text: &str| CStruct::parse(text).expect("a struct");
        let state =
            of("struct state { uint8_t ttl; uint64_t packets, bytes; uint16_t seen[3]; double last; }");
        let offsets: Vec<usize> = state.members.iter().map(|member| member.offset).collect();
        assert_eq!((offsets, state.bytes), (vec![0, 8, 16, 24, 32], 40));
        let packed = of("struct { uint32_t a; uint8_t b; uint16_t c; } __attribute__((__packed__))");
        assert_eq!((packed.members[2].offset, packed.bytes), (5, 7));
        let named = of("struct { uint8_t unpacked; uint32_t packed; }");
        assert_eq!((named.members[1].offset, named.bytes), (4, 8), "no attribute");
        assert_eq!(of("struct {}").bytes, 0);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("struct known", "types have no names"),
            ("struct { int a; }", "type `int`"),
            ("struct { uint8_t a }", "`;`"),
            ("struct { uint8_t a; uint16_t a; }", "two members"),
            ("struct { uint8_t a[0]; }", "a length"),
            ("struct { uint64_t a[4096]; }", "more than 4096"),
            ("struct { char *a; }", "`*`"),
        ] {
            let wrong = CStruct::parse(text).expect_err(text);
            assert!(wrong.contains(part), "{text}: {wrong}");
        }
    }

    #[test]
    fn numbers_are_cut_as_in_c() {
        for (number, value, read) in [
            (Number::Integer(1, false), 257.0, 1.0),
            (Number::Integer(1, true), 255.0, -1.0),
            (Number::Integer(4, false), -1.0, 4_294_967_295.0),
            (Number::Double, 0.5, 0.5),
            (Number::Bool, 7.0, 1.0),
            (Number::Integer(8, false), f64::NAN, 0.0),
        ] {
            let mut bytes = vec![0; number.bytes()];
            number.write(value, &mut bytes);
            assert_eq!(number.read(&bytes), read, "{number:?} {value}");
        }
    }
}
