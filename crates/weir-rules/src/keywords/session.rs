//! Sessions: sticky buffers, and numbers and words of protocols.

use super::{Applied, unquoted, value};
use crate::buffers::{BUFFERS, BufferId};
use crate::model::{AppProtocolTest, EventKind, SessionTest, SessionValue};

use crate::builder::{Builder, wrong_value};
use crate::number::NumberTest;
use crate::options::OptionText;
use weir_lang::diag::Diagnostic;

/// Fields of sessions that are numbers.
const NUMBERS: &[&str] = &[
    "urilen",
    "filesize",
    "dns.opcode",
    "dns.rcode",
    "dns.rrtype",
    "tls.cert_chain_len",
    "krb5_msg_type",
    "krb5_err_code",
    "snmp.version",
    "dcerpc.opnum",
    "ntp.version",
    "ntp.stratum",
    "ntp.mode",
    "mqtt.protocol_version",
    "mqtt.reason_code",
    "mqtt.connack.session_present",
    "mqtt.qos",
    "http2.errorcode",
    "http2.priority",
    "http2.window",
    "ftp.dynamic_port",
    "smb.version",
    "sip.stat_code_number",
    "modbus.function",
    "dhcp.leasetime",
    "dhcp.rebinding_time",
    "dhcp.renewal_time",
];

/// Fields of sessions that are words.
const WORDS: &[&str] = &[
    "ssl_version",
    "tls.version",
    "ssl_state",
    "mqtt.type",
    "mqtt.flags",
    "mqtt.connect.flags",
    "snmp.pdu_type",
    "ssh.protoversion",
    "ssh.softwareversion",
    "fileext",
    "filemagic",
    "filename",
    "filemd5",
    "filesha1",
    "filesha256",
    "dcerpc.iface",
    "krb5_ticket_flags",
    "ftpdata_command",
    "ftpbounce",
    "tls.issuerdn",
    "tls.subject",
    "tls.fingerprint",
    "tls_cert_expired",
    "tls_cert_notafter",
    "tls_cert_notbefore",
    "tls_cert_valid",
    "krb5.weak_encryption",
    "modbus",
    "ntp.reference_id",
    "ftp.mode",
    "ftp.reply_received",
    "quic.cyu",
    "smb.dialect",
];

/// Other names.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("dce_opnum", "dcerpc.opnum"),
    ("dce_iface", "dcerpc.iface"),
    ("dns_opcode", "dns.opcode"),
    ("http.uri.len", "urilen"),
    ("file.size", "filesize"),
];

/// The names of all keywords for sessions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let of_buffers = BUFFERS[1..].iter();
    let of_buffers =
        of_buffers.flat_map(|buffer| buffer.others.iter().chain([&buffer.name]).chain(&buffer.modifier));
    let others = OTHER_NAMES.iter().map(|(other, _)| *other);
    NUMBERS.iter().chain(WORDS).chain(of_buffers).copied().chain(others)
}

pub(super) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    let name =
        OTHER_NAMES.iter().find(|(other, _)| *other == option.name).map_or(option.name, |(_, name)| *name);
    // Some names are a buffer alone, and a test with a value.
    if option.value.is_none()
        && let Some(buffer) = BufferId::of(name)
    {
        builder.select(buffer);
        return Some(Ok(()));
    }
    if name == "pkt_data" {
        builder.select(BufferId::PAYLOAD);
        return Some(Ok(()));
    }
    if let Some(field) = NUMBERS.iter().copied().find(|known| *known == name) {
        let add = |(test, qualifiers)| builder.rule.session.push(SessionTest { field, test, qualifiers });
        return Some(number(option, field).map(add));
    }
    if let Some(field) = WORDS.iter().copied().find(|known| *known == name) {
        let (test, qualifiers) = words(option, field);
        builder.rule.session.push(SessionTest { field, test, qualifiers });
        return Some(Ok(()));
    }
    Some(match name {
        "app-layer-protocol" => app_protocol(option).map(|made| builder.rule.app_protocols.push(made)),
        "app-layer-event" | "decode-event" | "stream-event" => {
            value(option, "app-layer-event:http.missing_host_header").map(|text| {
                let kind = match name {
                    "app-layer-event" => EventKind::App,
                    "decode-event" => EventKind::Decode,
                    _ => EventKind::Stream,
                };
                let text =
                    if kind == EventKind::Stream { format!("stream.{text}") } else { text.to_string() };
                builder.rule.events.push((kind, text));
            })
        }
        _ if option.value.is_some() && BufferId::of(name).is_some() => Err(wrong_value(
            option,
            "a buffer has no value",
            "write the value as a `content` behind the buffer",
        )),
        _ => return None,
    })
}

/// Fields with a list of numbers and ranges, whose ends are part of them.
const NUMBER_LISTS: &[&str] = &["dcerpc.opnum"];

/// Fields with words between commas.
const WORD_LISTS: &[&str] = &[
    "ssl_version",
    "ssl_state",
    "mqtt.flags",
    "mqtt.connect.flags",
    "krb5_ticket_flags",
    "mqtt.type",
    "snmp.pdu_type",
];

/// Fields with a value, and what qualifies the value behind a comma.
const QUALIFIED: &[&str] = &["dcerpc.iface"];

/// A value, and what stands behind it.
type Valued = (SessionValue, Vec<String>);

fn number(option: &OptionText<'_>, field: &str) -> Result<Valued, Diagnostic> {
    let example = format!("{}:>10", option.name);
    let whole = value(option, &example)?;
    let wrong = |why: String| wrong_value(option, why, &format!("write for example `{example};`"));
    if NUMBER_LISTS.contains(&field) {
        let numbers = option.list().map(|part| match part.split_once('-') {
            Some((first, last)) => {
                let [first, last] = [first, last].map(|text| text.trim().parse().ok());
                let range = first.zip(last).map(|(first, last)| NumberTest { first, last, negated: false });
                range.ok_or_else(|| wrong(format!("`{part}` is no range")))
            }
            None => NumberTest::parse(part).map_err(wrong),
        });
        return Ok((SessionValue::Numbers(numbers.collect::<Result<_, _>>()?), vec![]));
    }
    let mut parts = whole.split(',').map(str::trim);
    let text = parts.next().unwrap_or_default();
    let qualifiers = parts.map(str::to_string).collect();
    let (negated, word) = negation(text);
    match NumberTest::parse(text) {
        Ok(test) => Ok((SessionValue::Numbers(vec![test]), qualifiers)),
        // Some numbers have names: `dns.rcode:NXDOMAIN`.
        Err(_) if is_word(word) => Ok((SessionValue::Words(vec![(negated, word.to_string())]), qualifiers)),
        Err(why) => Err(wrong(why)),
    }
}

fn negation(text: &str) -> (bool, &str) {
    match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
}

fn words(option: &OptionText<'_>, field: &str) -> Valued {
    let whole = option.value.unwrap_or_default();
    if WORD_LISTS.contains(&field) {
        let words = whole.split([',', '|']).map(|word| negation(word.trim()));
        let words =
            words.filter(|(_, word)| !word.is_empty()).map(|(negated, word)| (negated, unquoted(word)));
        return (SessionValue::Words(words.collect()), vec![]);
    }
    let (text, qualifiers) = match whole.split_once(',') {
        Some((text, rest)) if QUALIFIED.contains(&field) => {
            (text.trim_end(), rest.split(',').map(|part| part.trim().to_string()).collect())
        }
        _ => (whole, vec![]),
    };
    let (negated, text) = negation(text);
    (SessionValue::Text { text: unquoted(text), negated }, qualifiers)
}

/// `app-layer-protocol:!http,to_server`
fn app_protocol(option: &OptionText<'_>) -> Result<AppProtocolTest, Diagnostic> {
    let text = value(option, "app-layer-protocol:http")?;
    let (negated, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, text),
    };
    let (protocol, mode) =
        rest.split_once(',').map_or((rest, None), |(protocol, mode)| (protocol.trim(), Some(mode.trim())));
    Ok(AppProtocolTest { protocol: protocol.to_string(), negated, mode: mode.map(String::from) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_one_kind() {
        for name in NUMBERS {
            assert!(!WORDS.contains(name) && BUFFERS.iter().all(|buffer| buffer.name != *name), "{name}");
        }
    }
}
