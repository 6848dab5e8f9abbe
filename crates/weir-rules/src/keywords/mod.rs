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
use weir_lang::diag::Diagnostic;

/// A code for names of options.
const NAME: &str = "W0204";

/// What a group of keywords does with an option: `None` if the name is none of its own.
type Applied = Option<Result<(), Diagnostic>>;

const GROUPS: &[fn(&mut Builder<'_, '_>, &OptionText<'_>) -> Applied] =
    &[payload::apply, meta::apply, state::apply, packet::apply, session::apply];

/// Adds an option to a rule.
pub(crate) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    for group in GROUPS {
        if let Some(applied) = group(builder, option) {
            return applied;
        }
    }
    let known = session::NAMES.iter().copied().chain(NAMES.iter().copied());
    Err(Diagnostic::error(NAME, format!("the keyword `{}` is not known", option.name))
        .at(option.name_span)
        .help("the rule is left out")
        .did_you_mean(option.name, known))
}

/// Whether there is a keyword of this name.
fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || session::is_known(name)
}

/// Names for suggestions.
const NAMES: &[&str] = &[
    "content",
    "nocase",
    "depth",
    "offset",
    "distance",
    "within",
    "startswith",
    "endswith",
    "fast_pattern",
    "isdataat",
    "bsize",
    "dsize",
    "urilen",
    "pcre",
    "byte_test",
    "byte_jump",
    "byte_extract",
    "byte_math",
    "flow",
    "flowbits",
    "flowint",
    "xbits",
    "threshold",
    "detection_filter",
    "tag",
    "noalert",
    "msg",
    "sid",
    "rev",
    "gid",
    "classtype",
    "priority",
    "reference",
    "metadata",
    "target",
    "ttl",
    "id",
    "ipopts",
    "fragbits",
    "fragoffset",
    "ip_proto",
    "sameip",
    "tcp.flags",
    "seq",
    "ack",
    "window",
    "itype",
    "icode",
    "icmp_id",
    "icmp_seq",
    "app-layer-protocol",
    "app-layer-event",
    "decode-event",
    "file_data",
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
