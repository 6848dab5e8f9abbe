//! Options by their names.

mod meta;
mod numbers;
mod packet;
mod payload;
mod regex;
mod session;
mod state;

use crate::builder::Builder;
use crate::content::Amount;
use crate::number::number_of;
use crate::options::OptionText;
use crate::unsupported;
use weir_lang::diag::Diagnostic;

/// A code for names of options.
const NAME: &str = "W0204";

/// What a group of keywords does with an option: `None` if the name is none of its own.
type Applied = Option<Result<(), Diagnostic>>;

const GROUPS: &[fn(&mut Builder<'_, '_>, &OptionText<'_>) -> Applied] =
    &[payload::apply, meta::apply, state::apply, packet::apply, session::apply];

/// Adds an option to a rule.
pub(crate) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    if let Some(missing) = missing_semicolon(option) {
        return Err(missing);
    }
    if let Some(why) = unsupported::keyword(option.name) {
        return Err(unsupported::diagnostic(why, option.name_span, "the rule is left out"));
    }
    for group in GROUPS {
        if let Some(applied) = group(builder, option) {
            return applied;
        }
    }
    let known = session::names().chain(NAMES.iter().copied());
    Err(Diagnostic::error(NAME, format!("the keyword `{}` is not known", option.name))
        .at(option.name_span)
        .help("the rule is left out")
        .did_you_mean(option.name, known))
}

/// A keyword behind a text in quotes: the semicolon between them is missing.
fn missing_semicolon(option: &OptionText<'_>) -> Option<Diagnostic> {
    let value = option.value?;
    let text = value.strip_prefix('!').unwrap_or(value).trim_start().strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    let behind = text[end + 1..].trim_start();
    let length = behind.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_.-".contains(letter));
    let (name, rest) = behind.split_at(length.unwrap_or(behind.len()));
    let has_form = !name.is_empty() && (rest.is_empty() || rest.starts_with(':'));
    let is_option = has_form && is_known(name);
    is_option.then(|| {
        Diagnostic::error(crate::options::FORM, format!("a `;` is missing before `{name}`"))
            .at(option.part_span(name))
            .help("each option ends with `;`")
    })
}

/// Whether there is a keyword of this name.
fn is_known(name: &str) -> bool {
    unsupported::keyword(name).is_none()
        && session::names().chain(NAMES.iter().copied()).any(|known| known == name)
}

/// The names of the other keywords, for suggestions and `requires`.
const NAMES: &[&str] = &[
    "content",
    "uricontent",
    "nocase",
    "rawbytes",
    "depth",
    "offset",
    "distance",
    "within",
    "startswith",
    "endswith",
    "fast_pattern",
    "isdataat",
    "bsize",
    "pcre",
    "byte_test",
    "byte_jump",
    "byte_extract",
    "byte_math",
    "base64_decode",
    "absent",
    "pkt_data",
    "to_lowercase",
    "to_uppercase",
    "strip_whitespace",
    "compress_whitespace",
    "dotprefix",
    "url_decode",
    "to_md5",
    "to_sha1",
    "to_sha256",
    "strip_pseudo_headers",
    "header_lowercase",
    "domain",
    "tld",
    "gunzip",
    "zlib_deflate",
    "xor",
    "from_base64",
    "pcrexform",
    "flow",
    "flowbits",
    "hostbits",
    "xbits",
    "flowint",
    "threshold",
    "detection_filter",
    "tag",
    "noalert",
    "alert",
    "msg",
    "sid",
    "rev",
    "gid",
    "classtype",
    "priority",
    "reference",
    "metadata",
    "target",
    "requires",
    "prefilter",
    "bypass",
    "filestore",
    "config",
    "weir.filter",
    "dsize",
    "ttl",
    "tos",
    "id",
    "ipopts",
    "fragbits",
    "fragoffset",
    "ip_proto",
    "sameip",
    "flags",
    "tcp.flags",
    "seq",
    "tcp.seq",
    "ack",
    "tcp.ack",
    "window",
    "tcp.window",
    "tcp.mss",
    "tcp.wscale",
    "itype",
    "icode",
    "icmp_id",
    "icmp_seq",
    "icmpv6.mtu",
    "vlan.id",
    "vlan.layers",
    "vxlan_vni",
    "stream_size",
    "flow.age",
    "flow.pkts",
    "flow.bytes",
    "flow.pkts_toclient",
    "flow.pkts_toserver",
    "flow.bytes_toclient",
    "flow.bytes_toserver",
    "app-layer-protocol",
    "app-layer-event",
    "decode-event",
    "stream-event",
];

/// The value of an option that has one.
fn value<'t>(option: &OptionText<'t>, example: &str) -> Result<&'t str, Diagnostic> {
    option.value.filter(|value| !value.is_empty()).ok_or_else(|| {
        Diagnostic::error("W0205", format!("`{}` has no value", option.name))
            .at(option.name_span)
            .help(format!("write for example `{example};`"))
    })
}

/// A number that is the whole value.
fn whole_number<T: std::str::FromStr>(option: &OptionText<'_>, example: &str) -> Result<T, Diagnostic> {
    let text = value(option, example)?;
    text.parse().map_err(|_| {
        crate::builder::wrong_value(
            option,
            format!("`{text}` is no number"),
            &format!("write for example `{example};`"),
        )
    })
}

/// A text without the quotes around it, and without escapes.
fn unquoted(text: &str) -> String {
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    let (mut plain, mut is_escaped) = (String::with_capacity(text.len()), false);
    for letter in text.chars() {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            _ => {
                if is_escaped && !matches!(letter, '"' | ';' | ':' | '\\') {
                    plain.push('\\');
                }
                plain.push(letter);
                is_escaped = false;
            }
        }
    }
    plain
}

/// A number, or the name of a variable.
fn amount_of(builder: &Builder<'_, '_>, text: &str) -> Option<Amount> {
    let text = text.trim();
    let negative = text.strip_prefix('-').unwrap_or(text);
    match number_of(negative) {
        Some(number) => {
            let number = i64::try_from(number).ok()?;
            Some(Amount::Number(if negative.len() < text.len() { -number } else { number }))
        }
        None => builder.variable(text).map(Amount::Variable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Variables;

    #[test]
    fn names_of_keywords_are_known() {
        let all: Vec<_> = session::names().chain(NAMES.iter().copied()).collect();
        for name in &all {
            let text = format!("alert tcp any any -> any any ({name}; sid:1;)");
            let parsed = crate::parse::parse(&text, 0, &Variables::default()).remove(0);
            let code = parsed.rule.err().map(|refusal| refusal.diagnostic.code);
            assert_ne!(code, Some(NAME), "{name}");
            assert!(code == Some("W0210") || is_known(name), "{name}");
        }
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(!is_known("dnp3_data") && !is_known("nobody"));
        // `ftp.mode` and others may be in two lists of sessions: a word, and a buffer.
        assert!(all.len() - unique.len() < 8, "{all:?}");
    }
}
