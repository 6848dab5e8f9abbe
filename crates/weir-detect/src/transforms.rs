//! What becomes of a buffer before it is inspected.

use crate::expressions;
use md5::Md5;
use regex_automata::meta::Regex;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io::Read;
use std::sync::OnceLock;
use weir_rules::{BufferId, OtherLetters, Transform, base64};

/// Bytes that a compressed buffer may become.
const UNPACKED_BYTES_MAX: u64 = 64 << 10;

/// A buffer with its transforms.
#[derive(Debug)]
pub struct Key {
    pub buffer: BufferId,
    pub transforms: Vec<Transform>,
    /// For each transform its expression, if the transform has one.
    pub expressions: Vec<OnceLock<Option<Regex>>>,
}

/// The buffer behind the transforms of a key.
pub fn apply<'b>(mut bytes: Cow<'b, [u8]>, key: &Key) -> Cow<'b, [u8]> {
    for (transform, expression) in key.transforms.iter().zip(&key.expressions) {
        bytes = one(&bytes, transform, expression).map_or(bytes, Cow::Owned);
    }
    bytes
}

/// The bytes behind a transform; `None`: they stay as they are.
fn one(bytes: &[u8], transform: &Transform, expression: &OnceLock<Option<Regex>>) -> Option<Vec<u8>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    Some(match transform {
        Transform::Lowercase | Transform::HeaderLowercase => bytes.to_ascii_lowercase(),
        Transform::Uppercase => bytes.to_ascii_uppercase(),
        Transform::StripWhitespace => bytes.iter().copied().filter(|byte| !is_space(byte)).collect(),
        Transform::CompressWhitespace => {
            let mut made: Vec<u8> = vec![];
            for byte in bytes {
                let is_more = is_space(byte) && made.last().is_some_and(is_space);
                if !is_more {
                    made.push(*byte);
                }
            }
            made
        }
        Transform::DotPrefix => [b".", bytes].concat(),
        Transform::UrlDecode => url_decoded(bytes),
        Transform::Md5 => Md5::digest(bytes).to_vec(),
        Transform::Sha1 => Sha1::digest(bytes).to_vec(),
        Transform::Sha256 => Sha256::digest(bytes).to_vec(),
        Transform::StripPseudoHeaders => {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            lines.filter(|line| line.first() != Some(&b':')).flatten().copied().collect()
        }
        Transform::Xor(key) => bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect(),
        Transform::FromBase64 { bytes: count, offset, is_strict } => {
            let rest = bytes.get(*offset as usize..)?;
            let rest = &rest[..rest.len().min(count.map_or(usize::MAX, |count| count as usize))];
            base64(rest, if *is_strict { OtherLetters::Refuse } else { OtherLetters::LeaveOut })?
        }
        Transform::PcreCapture(pcre) => {
            let regex = expression.get_or_init(|| expressions::compile(pcre)).as_ref()?;
            let mut captures = regex.create_captures();
            regex.captures(bytes, &mut captures);
            bytes[captures.get_group(1)?.range()].to_vec()
        }
        Transform::Domain => domain(bytes, 2)?.to_vec(),
        Transform::TopDomain => domain(bytes, 1)?.to_vec(),
        Transform::Gunzip => unpacked(flate2::read::GzDecoder::new(bytes)),
        Transform::ZlibDeflate => unpacked(flate2::read::ZlibDecoder::new(bytes)),
    })
}

/// What can be unpacked, up to a bound. Behind a mistake, nothing follows.
fn unpacked(reader: impl Read) -> Vec<u8> {
    let mut made = vec![];
    let _ = reader.take(UNPACKED_BYTES_MAX).read_to_end(&mut made);
    made
}

/// `%41` as `A`, `+` as a space.
pub fn url_decoded(bytes: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = if *first == b'%' { behind.get(..2).and_then(hex_byte) } else { None };
        match escaped {
            Some(byte) => {
                made.push(byte);
                rest = &behind[2..];
            }
            None => {
                made.push(if *first == b'+' { b' ' } else { *first });
                rest = behind;
            }
        }
    }
    made
}

/// The byte that two hexadecimal digits stand for.
pub fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
}

/// The last labels of a name: two of them are the domain.
fn domain(name: &[u8], labels: usize) -> Option<&[u8]> {
    let mut dots = name.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.');
    let start = dots.nth(labels - 1).map_or(0, |(at, _)| at + 1);
    Some(&name[start..]).filter(|rest| !rest.is_empty())
}
