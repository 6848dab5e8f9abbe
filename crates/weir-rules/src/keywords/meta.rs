//! What a rule says of itself.

use super::{Applied, unquoted, value, whole_number};
use crate::model::{Tag, TagUnit, Track};

use crate::builder::{Builder, wrong_value};
use crate::options::OptionText;
use weir_lang::diag::Diagnostic;

pub(super) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    let rule = &mut builder.rule;
    Some(match option.name {
        "msg" => value(option, "msg:\"a text\"").and_then(|text| {
            if text.starts_with('"') && (text.len() < 2 || !text.ends_with('"')) {
                return Err(wrong_value(option, "the text has no end", "a text ends with `\"`"));
            }
            rule.message = unquoted(text);
            Ok(())
        }),
        "sid" => whole_number::<u32>(option, "sid:1000001").and_then(|sid| match sid {
            0 => Err(wrong_value(option, "0 is no signature ID", "write a number from 1")),
            sid => {
                rule.sid = sid;
                Ok(())
            }
        }),
        "rev" => whole_number(option, "rev:1").map(|rev| rule.rev = rev),
        "gid" => whole_number(option, "gid:1").map(|gid| rule.gid = gid),
        "classtype" => {
            value(option, "classtype:trojan-activity").map(|text| rule.class = Some(text.to_string()))
        }
        "priority" => whole_number::<u8>(option, "priority:1").and_then(|priority| match priority {
            1..=255 => {
                rule.priority = Some(priority);
                Ok(())
            }
            0 => Err(wrong_value(option, "priorities begin with 1", "write for example `priority:1;`")),
        }),
        "reference" => value(option, "reference:url,example.com").map(|text| {
            let (kind, place) = text.split_once(',').unwrap_or((text, ""));
            rule.references.push((kind.trim().to_ascii_lowercase(), place.trim().to_string()));
        }),
        "metadata" => value(option, "metadata:created_at 2026_11_26").map(|text| {
            for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                let (key, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
                rule.metadata.push((key.to_string(), value.trim().to_string()));
            }
        }),
        "target" => value(option, "target:dest_ip").and_then(|text| {
            rule.target_is_source = Some(match text {
                "src_ip" => true,
                "dest_ip" => false,
                _ => {
                    return Err(wrong_value(
                        option,
                        format!("`{text}` is no target"),
                        "write `src_ip` or `dest_ip`",
                    ));
                }
            });
            Ok(())
        }),
        "noalert" => {
            rule.noalert = true;
            Ok(())
        }
        "alert" => {
            rule.noalert = false;
            Ok(())
        }
        "tag" => tag(option).map(|tag| rule.tag = Some(tag)),
        "requires" => requires(option),
        // The order of rules, or what a sensor does with packets.
        "prefilter" | "bypass" | "filestore" | "config" => {
            let known = ["prefilter", "bypass", "filestore", "config"];
            rule.without_effect.extend(known.iter().find(|known| **known == option.name));
            Ok(())
        }
        "weir.filter" => value(option, "weir.filter:\"tls.sni contains 'a'\"")
            .map(|text| rule.filter = Some(unquoted(text))),
        _ => return None,
    })
}

/// `tag:session,300,seconds`, `tag:host,20,packets,src`
fn tag(option: &OptionText<'_>) -> Result<Tag, Diagnostic> {
    let example = "tag:session,300,seconds";
    let wrong = || wrong_value(option, "this is no tag", &format!("write for example `{example};`"));
    value(option, example)?;
    let mut words = option.list();
    let of_host = match words.next() {
        Some("session") => false,
        Some("host") => true,
        _ => return Err(wrong()),
    };
    let mut tag = Tag { host: of_host.then_some(Track::Source), count: 1000, unit: TagUnit::Packets };
    for word in words {
        match word {
            "packets" => tag.unit = TagUnit::Packets,
            "seconds" => tag.unit = TagUnit::Seconds,
            "bytes" => tag.unit = TagUnit::Bytes,
            "src" if of_host => tag.host = Some(Track::Source),
            "dst" if of_host => tag.host = Some(Track::Destination),
            "exclusive" => {}
            word => tag.count = word.parse().map_err(|_| wrong())?,
        }
    }
    Ok(tag)
}

/// `requires: version >= 7.0.3 < 8 | >= 8.0.3, keyword foo`: of Suricata's versions, ours is 8.0.
fn requires(option: &OptionText<'_>) -> Result<(), Diagnostic> {
    for part in option.list() {
        let holds = match part.split_once(char::is_whitespace) {
            Some(("version", condition)) => condition.split('|').any(version_holds),
            Some(("keyword", name)) => super::is_known(name.trim()),
            Some(("feature", name)) => matches!(name.trim(), "ja3" | "ja4"),
            _ => false,
        };
        if !holds {
            let help = "the rule is for another version, and left out";
            return Err(wrong_value(option, format!("the rule needs `{part}`"), help));
        }
    }
    Ok(())
}

/// Whether all comparisons hold: `>= 7.0.3 < 8`.
fn version_holds(condition: &str) -> bool {
    const OURS: [u64; 3] = [8, 0, 0];
    let mut rest = condition.trim();
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (sign, behind) = rest.split_at(digits);
        let length =
            behind.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(behind.len());
        let (version, behind) = behind.split_at(length);
        let mut asked = [0; 3];
        for (at, number) in version.split('.').take(3).enumerate() {
            let Ok(number) = number.parse() else { return false };
            asked[at] = number;
        }
        let holds = match sign.trim() {
            ">=" => OURS >= asked,
            ">" => OURS > asked,
            "<=" => OURS <= asked,
            "<" => OURS < asked,
            "=" | "==" => OURS == asked,
            _ => false,
        };
        if !holds {
            return false;
        }
        rest = behind.trim_start();
    }
    true
}
