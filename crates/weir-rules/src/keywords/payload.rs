//! Tests on bytes: contents with their modifiers, expressions and sizes.

use super::{Applied, amount_of, numbers, regex, value};
use crate::buffers::BufferId;
use crate::content::Amount;
use crate::content::{Content, FastPattern, bytes_of, quoted};
use crate::model::{IsDataAt, Pcre, Test, Transform};

use crate::builder::{Builder, wrong_value};
use crate::number::NumberTest;
use crate::options::{FORM, OptionText};
use weir_lang::diag::Diagnostic;

pub(super) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    if let Some(buffer) = BufferId::of_modifier(option.name) {
        return Some(move_last(builder, option, buffer));
    }
    Some(match option.name {
        "content" => content(builder, option),
        "uricontent" => content(builder, option).and_then(|()| {
            let uri = BufferId::of_modifier("http_uri").unwrap_or(BufferId::PAYLOAD);
            move_last(builder, option, uri)
        }),
        "nocase" => modify(builder, option, |content| content.nocase = true),
        "startswith" => modify(builder, option, |content| content.startswith = true),
        "endswith" => modify(builder, option, |content| content.endswith = true),
        // Without an effect since Suricata 1.
        "rawbytes" => modify(builder, option, |_| ()),
        "depth" => {
            amount(builder, option).and_then(|n| modify(builder, option, |content| content.depth = Some(n)))
        }
        "offset" => {
            amount(builder, option).and_then(|n| modify(builder, option, |content| content.offset = Some(n)))
        }
        "distance" => amount(builder, option)
            .and_then(|n| modify(builder, option, |content| content.distance = Some(n))),
        "within" => {
            amount(builder, option).and_then(|n| modify(builder, option, |content| content.within = Some(n)))
        }
        "fast_pattern" => fast_pattern(builder, option),
        "pcre" => pcre(builder, option),
        "pcrexform" => value(option, "pcrexform:\"a(b+)\"").and_then(|text| {
            let pcre = regex::expression(&unquoted_regex(text), "")
                .map_err(|why| wrong_value(option, why, HELP_PCRE))?;
            transformed(builder, option, Transform::PcreCapture(pcre))
        }),
        "isdataat" => is_data_at(builder, option),
        "bsize" => value(option, "bsize:>10").and_then(|text| {
            let test = NumberTest::parse(text)
                .map_err(|why| wrong_value(option, why, "write for example `bsize:>10;`"))?;
            builder.test(Test::Size(test));
            Ok(())
        }),
        "absent" => {
            let or_else = option.value == Some("or_else");
            if option.value.is_some() && !or_else {
                return Some(Err(wrong_value(
                    option,
                    "there is no such word",
                    "write `absent;` or `absent:or_else;`",
                )));
            }
            builder.test(Test::Absent { or_else });
            Ok(())
        }
        "base64_decode" => base64_decode(builder, option),
        "byte_test" => numbers::byte_test(builder, option),
        "byte_jump" => numbers::byte_jump(builder, option),
        "byte_extract" => numbers::byte_extract(builder, option),
        "byte_math" => numbers::byte_math(builder, option),
        _ => return transform(builder, option),
    })
}

const HELP_PCRE: &str = "write for example `pcre:\"/a[bc]+/i\";`";

fn content(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let example = "content:\"GET |20|\"";
    let text = value(option, example)?;
    let wrong =
        || wrong_value(option, "the value is no text in quotes", &format!("write for example `{example};`"));
    let begins = text.trim_start_matches(['!', ' ']).strip_prefix('"');
    if begins.is_some_and(|rest| !rest.contains('"')) {
        return Err(wrong_value(option, "the text has no end", "a text ends with `\"`"));
    }
    let (negated, pattern) = quoted(text).ok_or_else(wrong)?;
    let bytes = bytes_of(pattern).map_err(|(why, at)| {
        let mut span = option.part_span(pattern);
        span.start += at as u32;
        span.end = span.start + 1;
        Diagnostic::error("W0205", why).at(span).help(format!("write for example `{example};`"))
    })?;
    if bytes.is_empty() {
        return Err(wrong_value(option, "the text is empty", &format!("write for example `{example};`")));
    }
    if bytes.len() > usize::from(u16::MAX) {
        return Err(wrong_value(
            option,
            "a content has at most 65535 bytes",
            "divide it: the second one with `distance:0; within:LENGTH`",
        ));
    }
    builder.test(Test::Content(Content { bytes, negated, ..Content::default() }));
    Ok(())
}

fn no_content(option: &OptionText<'_>) -> Diagnostic {
    Diagnostic::error("W0206", format!("`{}` is about the content before, and there is none", option.name))
        .at(option.name_span)
        .help("write the word behind a `content`")
}

fn modify(
    builder: &mut Builder<'_, '_>,
    option: &OptionText<'_>,
    change: impl FnOnce(&mut Content),
) -> Result<(), Diagnostic> {
    match builder.last_content() {
        Some(content) => {
            change(content);
            // Later options do not mend a contradiction.
            match content.contradiction() {
                Some((message, help)) => {
                    let span = option.name_span.to(option.value_span);
                    Err(Diagnostic::error(FORM, message).at(span).help(help))
                }
                None => Ok(()),
            }
        }
        None => Err(no_content(option)),
    }
}

fn move_last(
    builder: &mut Builder<'_, '_>,
    option: &OptionText<'_>,
    buffer: BufferId,
) -> Result<(), Diagnostic> {
    // With a value, or in the place of a sticky buffer, it would mean another thing.
    let is_movable = matches!(builder.last_test(), Some(Test::Content(_) | Test::Pcre(_)));
    if is_movable && builder.move_last(buffer) { Ok(()) } else { Err(no_content(option)) }
}

fn amount(builder: &Builder<'_, '_>, option: &OptionText<'_>) -> Result<Amount, Diagnostic> {
    let text = value(option, &format!("{}:10", option.name))?;
    amount_of(builder, text).ok_or_else(|| {
        let help = "write a number, or the name of a variable that `byte_extract` sets before";
        wrong_value(option, format!("`{text}` is no number"), help)
    })
}

fn fast_pattern(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let fast = match option.value.map(str::trim) {
        None | Some("") => FastPattern::Whole,
        Some("only") => FastPattern::Only,
        Some(text) => {
            let part = text.split_once(',').and_then(|(first, count)| {
                Some(FastPattern::Part(first.trim().parse().ok()?, count.trim().parse().ok()?))
            });
            part.ok_or_else(|| {
                wrong_value(
                    option,
                    "this is no part of a content",
                    "write `fast_pattern;` or `fast_pattern:OFFSET,LENGTH;`",
                )
            })?
        }
    };
    let length = builder.last_content().ok_or_else(|| no_content(option))?.bytes.len();
    if let FastPattern::Part(first, count) = fast
        && (count == 0 || usize::from(first) + usize::from(count) > length)
    {
        return Err(wrong_value(
            option,
            format!("the content has only {length} bytes"),
            "name a part of the content",
        ));
    }
    modify(builder, option, |content| content.fast = Some(fast))
}

/// The text of an expression: quotes are left out, and escapes stay, but for those of the rule's own form.
fn unquoted_regex(text: &str) -> String {
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    text.replace("\\;", ";").replace("\\\"", "\"")
}

/// `pcre:"/expression/flags"`, with `!` before.
fn pcre(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let text = value(option, "pcre:\"/a[bc]+/i\"")?;
    let wrong = |why: &str| wrong_value(option, why, HELP_PCRE);
    // Quotes may be missing, as in Suricata.
    let (negated, inner) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let inner = inner.strip_prefix('"').unwrap_or(inner);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    // `m` names another delimiter.
    let inner = inner.trim();
    let (delimiter, rest) =
        match inner.strip_prefix('m').filter(|rest| !rest.is_empty() && !inner.starts_with('/')) {
            Some(rest) => {
                let delimiter = rest.chars().next().unwrap_or('/');
                (delimiter, &rest[delimiter.len_utf8()..])
            }
            None => {
                ('/', inner.strip_prefix('/').ok_or_else(|| wrong("the expression does not begin with `/`"))?)
            }
        };
    let (pattern, flags) = rest.rsplit_once(delimiter).ok_or_else(|| wrong("the expression has no end"))?;
    let (flags, captures) = flags.split_once(',').unwrap_or((flags, ""));
    let (mut buffer, mut plain, mut relative) = (None, String::new(), false);
    for flag in flags.trim().chars() {
        let name = match flag {
            'i' | 'm' | 's' | 'x' | 'A' | 'E' | 'G' => {
                plain.push(flag);
                continue;
            }
            'R' => {
                relative = true;
                continue;
            }
            // Bytes before decoding; the limit of matching.
            'B' | 'O' => continue,
            'U' => "http.uri",
            'I' => "http.uri.raw",
            'P' => "http.request_body",
            'Q' => "http.response_body",
            'H' => "http.header",
            'D' => "http.header.raw",
            'M' => "http.method",
            'C' => "http.cookie",
            'S' => "http.stat_code",
            'Y' => "http.stat_msg",
            'V' => "http.user_agent",
            'W' => "http.host",
            'Z' => "http.host.raw",
            other => return Err(wrong(&format!("there is no flag `{other}`"))),
        };
        buffer = BufferId::of(name);
    }
    let pattern = pattern.replace("\\;", ";").replace("\\\"", "\"");
    let made = regex::expression(&pattern, &plain).map_err(|why| wrong(&why))?;
    let captures =
        captures.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect();
    builder.test(Test::Pcre(Pcre { negated, relative, captures, ..made }));
    match buffer {
        Some(buffer) if builder.selected() == BufferId::PAYLOAD => {
            builder.move_last(buffer);
            Ok(())
        }
        Some(_) => Err(wrong("a flag names a buffer, and another buffer is in effect")),
        None => Ok(()),
    }
}

/// `isdataat:!10,relative,rawbytes`
fn is_data_at(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    value(option, "isdataat:10,relative")?;
    let mut words = option.list();
    let first = words.next().unwrap_or_default();
    let (negated, first) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    let wrong = |why: String| wrong_value(option, why, "write for example `isdataat:10,relative;`");
    let at = amount_of(builder, first).ok_or_else(|| wrong(format!("`{first}` is no number")))?;
    let mut relative = false;
    for word in words {
        match word {
            "relative" => relative = true,
            "rawbytes" => {}
            other => return Err(wrong(format!("there is no word `{other}`"))),
        }
    }
    builder.test(Test::IsDataAt(IsDataAt { at, negated, relative }));
    Ok(())
}

/// `base64_decode:bytes 12, offset 1, relative`
fn base64_decode(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let (mut bytes, mut offset, mut relative) = (None, 0, false);
    for part in option.list().filter(|part| !part.is_empty()) {
        let mut words = part.split_whitespace();
        let (name, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
        match (name, number) {
            (Some("bytes"), Some(number)) => bytes = Some(number),
            (Some("offset"), Some(number)) => offset = number,
            (Some("relative"), None) => relative = true,
            _ => {
                return Err(wrong_value(
                    option,
                    format!("`{part}` is not understood"),
                    "write for example `base64_decode:bytes 12, offset 1, relative;`",
                ));
            }
        }
    }
    builder.test(Test::Base64Decode { bytes, offset, relative });
    Ok(())
}

fn transformed(
    builder: &mut Builder<'_, '_>,
    option: &OptionText<'_>,
    transform: Transform,
) -> Result<(), Diagnostic> {
    match builder.transform(transform) {
        true => Ok(()),
        false => Err(Diagnostic::error(
            "W0206",
            format!("`{}` is about the buffer before, and there is none", option.name),
        )
        .at(option.name_span)
        .help("write the word behind a sticky buffer, such as `http.uri`")),
    }
}

fn transform(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    let made = match option.name {
        "to_lowercase" => Transform::Lowercase,
        "to_uppercase" => Transform::Uppercase,
        "strip_whitespace" => Transform::StripWhitespace,
        "compress_whitespace" => Transform::CompressWhitespace,
        "dotprefix" => Transform::DotPrefix,
        "url_decode" => Transform::UrlDecode,
        "to_md5" => Transform::Md5,
        "to_sha1" => Transform::Sha1,
        "to_sha256" => Transform::Sha256,
        "strip_pseudo_headers" => Transform::StripPseudoHeaders,
        "header_lowercase" => Transform::HeaderLowercase,
        "domain" => Transform::Domain,
        "tld" => Transform::TopDomain,
        "gunzip" => Transform::Gunzip,
        "zlib_deflate" => Transform::ZlibDeflate,
        "xor" => {
            let key = option.value.unwrap_or_default().trim().trim_matches('"');
            let digits: Option<Vec<u8>> = (0..key.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(key.get(at..at + 2)?, 16).ok())
                .collect();
            match digits.filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => Transform::Xor(bytes),
                None => {
                    return Some(Err(wrong_value(
                        option,
                        "the key is no hexadecimal number",
                        "write for example `xor:\"0d0a\";`",
                    )));
                }
            }
        }
        "from_base64" => {
            let (mut bytes, mut offset, mut is_strict) = (None, 0, true);
            for part in option.list().filter(|part| !part.is_empty()) {
                let mut words = part.split_whitespace();
                match (words.next(), words.next()) {
                    (Some("bytes"), Some(word)) if word.parse::<u32>().is_ok() => bytes = word.parse().ok(),
                    (Some("offset"), Some(word)) if word.parse::<u32>().is_ok() => {
                        offset = word.parse().unwrap_or(0)
                    }
                    (Some("mode"), Some("strict")) => is_strict = true,
                    (Some("mode"), Some("rfc4648" | "rfc2045")) => is_strict = false,
                    _ => {
                        return Some(Err(wrong_value(
                            option,
                            format!("`{part}` is not understood"),
                            "write for example `from_base64:bytes 12, offset 1;`",
                        )));
                    }
                }
            }
            Transform::FromBase64 { bytes, offset, is_strict }
        }
        _ => return None,
    };
    Some(transformed(builder, option, made))
}
