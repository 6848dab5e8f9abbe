//! State of connections and hosts: `flow`, bits, integers and thresholds.

use super::{Applied, value};
use crate::model::{BitsOp, IntOp, IntValue, StateOption, Threshold, ThresholdKind, Track};

use crate::builder::{Builder, wrong_value};
use crate::options::OptionText;
use weir_lang::diag::Diagnostic;

pub(super) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    Some(match option.name {
        "flow" => flow(builder, option),
        "flowbits" => flowbits(builder, option),
        "xbits" if option.value == Some("noalert") => {
            builder.rule.noalert = true;
            Ok(())
        }
        "xbits" => xbits(option).map(|made| builder.rule.state.push(made)),
        "hostbits" => hostbits(option).map(|made| builder.rule.state.push(made)),
        "flowint" => flowint(option).map(|made| builder.rule.state.push(made)),
        "threshold" | "detection_filter" => threshold(option).map(|made| builder.rule.thresholds.push(made)),
        _ => return None,
    })
}

/// `flow:established,to_server`
fn flow(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    value(option, "flow:established,to_server")?;
    let flow = &mut builder.rule.flow;
    for word in option.list().filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "established" => flow.established = Some(true),
            "not_established" => flow.established = Some(false),
            "stateless" => flow.established = None,
            "to_server" | "from_client" => flow.to_server = Some(true),
            "to_client" | "from_server" => flow.to_server = Some(false),
            "only_stream" => flow.only_stream = true,
            "no_stream" => flow.no_stream = true,
            "only_frag" => flow.only_fragments = true,
            "no_frag" => flow.no_fragments = true,
            _ => {
                let help = "there are `established`, `not_established`, `stateless`, `to_server`, `to_client`, `only_stream`, `no_stream`, `only_frag`, `no_frag`";
                return Err(Diagnostic::error("W0205", format!("`flow`: there is no word `{word}`"))
                    .at(option.part_span(word))
                    .help(help));
            }
        }
    }
    Ok(())
}

fn op_of(word: &str) -> Option<BitsOp> {
    Some(match word.trim() {
        "set" => BitsOp::Set,
        "unset" => BitsOp::Unset,
        "toggle" => BitsOp::Toggle,
        "isset" => BitsOp::IsSet,
        "isnotset" => BitsOp::IsNotSet,
        _ => return None,
    })
}

/// `flowbits:set,name`; `flowbits:isset,a|b`; `flowbits:noalert`
fn flowbits(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let text = value(option, "flowbits:set,name")?;
    if text == "noalert" {
        builder.rule.noalert = true;
        return Ok(());
    }
    let (word, names) = text.split_once(',').unwrap_or((text, ""));
    let help = "write for example `flowbits:set,name;` or `flowbits:noalert;`";
    let op = op_of(word).ok_or_else(|| wrong_value(option, format!("there is no word `{word}`"), help))?;
    let names: Vec<String> =
        names.split('|').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect();
    if names.is_empty() {
        return Err(wrong_value(option, "the bit has no name", help));
    }
    if names.len() > 1 && !matches!(op, BitsOp::IsSet | BitsOp::IsNotSet) {
        return Err(wrong_value(option, "only `isset` and `isnotset` take several names", help));
    }
    builder.rule.state.push(StateOption::Flowbits { op, names });
    Ok(())
}

fn track_of(word: &str) -> Option<Track> {
    Some(match word.trim() {
        "ip_src" | "by_src" | "src" => Track::Source,
        "ip_dst" | "by_dst" | "dst" => Track::Destination,
        "ip_pair" | "by_both" | "both" => Track::Both,
        "by_rule" => Track::Rule,
        "by_flow" | "tx" => Track::Flow,
        _ => return None,
    })
}

/// `xbits:set,name,track ip_src,expire 60`
fn xbits(option: &OptionText<'_>) -> Result<StateOption, Diagnostic> {
    value(option, "xbits:set,name,track ip_src")?;
    let help = "write for example `xbits:set,name,track ip_src,expire 60;`";
    let parts: Vec<&str> = option.list().collect();
    let wrong = |why: &str| wrong_value(option, why, help);
    let op = parts.first().and_then(|word| op_of(word)).ok_or_else(|| wrong("there is no such word"))?;
    let name = parts.get(1).filter(|name| !name.is_empty()).ok_or_else(|| wrong("the bit has no name"))?;
    let (mut track, mut seconds) = (None, None);
    for part in &parts[2..] {
        match part.split_once(char::is_whitespace).map(|(name, rest)| (name, rest.trim())) {
            Some(("track", rest)) => {
                track = Some(track_of(rest).ok_or_else(|| wrong("there is no such track"))?)
            }
            Some(("expire", rest)) => {
                seconds = Some(rest.parse().map_err(|_| wrong("the time is no number of seconds"))?)
            }
            _ => return Err(wrong("a part is not understood")),
        }
    }
    let track = track.ok_or_else(|| wrong("`track` is missing"))?;
    Ok(StateOption::Xbits { op, name: name.to_string(), track, seconds })
}

/// `hostbits:set,name,dst`: a bit of a host, which is forgotten after five minutes.
fn hostbits(option: &OptionText<'_>) -> Result<StateOption, Diagnostic> {
    value(option, "hostbits:set,name,src")?;
    let wrong = |why: &str| wrong_value(option, why, "write for example `hostbits:set,name,src;`");
    let parts: Vec<&str> = option.list().collect();
    let op = parts.first().and_then(|word| op_of(word)).ok_or_else(|| wrong("there is no such word"))?;
    let name = parts.get(1).filter(|name| !name.is_empty()).ok_or_else(|| wrong("the bit has no name"))?;
    let track = parts.get(2).map_or(Some(Track::Source), |word| track_of(word));
    let track = track.ok_or_else(|| wrong("there is no such host"))?;
    Ok(StateOption::Xbits { op, name: name.to_string(), track, seconds: Some(300) })
}

/// `flowint:name,+,1`; `flowint:name,>,3`; `flowint:name,notset`
fn flowint(option: &OptionText<'_>) -> Result<StateOption, Diagnostic> {
    value(option, "flowint:name,+,1")?;
    let wrong = |why: &str| {
        wrong_value(
            option,
            why,
            "write for example `flowint:name,+,1;`, `flowint:name,>,3;` or `flowint:name,notset;`",
        )
    };
    let parts: Vec<&str> = option.list().collect();
    let name =
        parts.first().filter(|name| !name.is_empty()).ok_or_else(|| wrong("the integer has no name"))?;
    let word = parts.get(1).copied().unwrap_or_default();
    let number = || {
        let text = parts
            .get(2)
            .copied()
            .filter(|text| !text.is_empty())
            .ok_or_else(|| wrong("a number is missing"))?;
        match text.parse() {
            Ok(number) => Ok(IntValue::Number(number)),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(wrong("the number has more than 32 bits"))
            }
            Err(_) => Ok(IntValue::Name(text.to_string())),
        }
    };
    let op = match word {
        "isset" => IntOp::IsSet,
        "notset" | "isnotset" => IntOp::IsNotSet,
        "=" => IntOp::Set(number()?),
        "+" => IntOp::Add(number()?),
        "-" => IntOp::Subtract(number()?),
        _ => {
            let known = ["==", "!=", "<=", ">=", "<", ">"];
            let known = known
                .into_iter()
                .find(|known| *known == word)
                .ok_or_else(|| wrong("there is no such word"))?;
            IntOp::Compare(known, number()?)
        }
    };
    Ok(StateOption::Flowint { name: name.to_string(), op })
}

/// `threshold:type limit, track by_src, count 1, seconds 60`;
/// `detection_filter:track by_src, count 10, seconds 60`
fn threshold(option: &OptionText<'_>) -> Result<Threshold, Diagnostic> {
    let is_filter = option.name == "detection_filter";
    let example = match is_filter {
        true => "detection_filter:track by_src, count 10, seconds 60",
        false => "threshold:type limit, track by_src, count 1, seconds 60",
    };
    value(option, example)?;
    let wrong = |why: String| wrong_value(option, why, &format!("write for example `{example};`"));
    let (mut kind, mut track, mut count, mut seconds, mut multiplier) =
        (is_filter.then_some(ThresholdKind::Detection), None, None, None, 10);
    for part in option.list().filter(|part| !part.is_empty()) {
        let (name, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let number = || rest.trim().parse().map_err(|_| wrong(format!("`{part}` has no number")));
        match name {
            "type" if !is_filter => {
                kind = Some(match rest.trim() {
                    "limit" => ThresholdKind::Limit,
                    "threshold" => ThresholdKind::Threshold,
                    "both" => ThresholdKind::Both,
                    "backoff" => ThresholdKind::Backoff,
                    other => return Err(wrong(format!("there is no type `{other}`"))),
                });
            }
            "track" => track = Some(track_of(rest).ok_or_else(|| wrong(format!("there is no `{part}`")))?),
            "count" => count = Some(number()?),
            "seconds" => seconds = Some(number()?),
            "multiplier" => multiplier = number()?,
            _ => return Err(wrong(format!("`{part}` is not understood"))),
        }
    }
    let missing = |what: &str| wrong(format!("`{what}` is missing"));
    let kind = kind.ok_or_else(|| missing("type"))?;
    let seconds = match kind {
        ThresholdKind::Backoff => seconds.unwrap_or(0),
        _ => seconds.ok_or_else(|| missing("seconds"))?,
    };
    let (track, count) = (track.ok_or_else(|| missing("track"))?, count.ok_or_else(|| missing("count"))?);
    if count == 0 {
        return Err(wrong("the count is 0".to_string()));
    }
    Ok(Threshold { kind, track, count, seconds, multiplier })
}
