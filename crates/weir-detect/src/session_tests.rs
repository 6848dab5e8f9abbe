//! Tests on numbers and words of sessions.

use crate::buffers::Transaction;
use crate::contents;
use weir::packet::Value;
use weir::sessions::dns::DnsTransaction;
use weir::sessions::http::HttpExchange;
use weir::sessions::tls::TlsHandshake;
use weir_rules::{NumberTest, SessionTest, SessionValue};

/// Whether a test on a session holds. `None`: the session has no such value.
pub fn holds(session: &Transaction<'_>, test: &SessionTest, to_server: bool) -> Option<bool> {
    const OF_WHOLE_FILES: &[&str] = &["filesize", "filemd5", "filesha1", "filesha256"];
    if session.has_open_files() && OF_WHOLE_FILES.contains(&test.field) {
        return None;
    }
    match &test.test {
        SessionValue::Numbers(numbers) => {
            let values = numbers_of(session, test, to_server)?;
            let holds = |value: &u64| numbers.iter().any(|number: &NumberTest| number.holds(*value));
            // An index selects one of several values, from the end if negative.
            Some(match test.qualifiers.first().map(String::as_str) {
                Some("all") => values.iter().all(holds),
                Some(index) if test.field == "dns.rrtype" => match index.parse::<isize>() {
                    Ok(index @ 0..) => values.get(index as usize).is_some_and(holds),
                    Ok(index) => values.iter().nth_back(index.unsigned_abs() - 1).is_some_and(holds),
                    Err(_) => values.iter().any(holds),
                },
                _ => values.iter().any(holds),
            })
        }
        SessionValue::Words(words) if test.field == "krb5_msg_type" => {
            let values = numbers_of(session, test, to_server)?;
            let is = |word: &str| values.iter().any(|value| message_name(*value).eq_ignore_ascii_case(word));
            Some(words.iter().all(|(negated, word)| is(word) != *negated))
        }
        SessionValue::Words(words) => {
            let values = words_of(session, test.field, to_server)?;
            let has = |word: &str| values.iter().any(|value| value.eq_ignore_ascii_case(word));
            let (negated, wanted): (Vec<_>, Vec<_>) = words.iter().partition(|(negated, _)| *negated);
            Some(
                negated.iter().all(|(_, word)| !has(word))
                    && (wanted.is_empty() || wanted.iter().any(|(_, word)| has(word))),
            )
        }
        SessionValue::Text { text, .. } if test.field.starts_with("tls_cert_") => {
            if to_server {
                None
            } else {
                certificate(session, test.field, text)
            }
        }
        SessionValue::Text { text, negated } => {
            let values = words_of(session, test.field, to_server)?;
            let has = values.iter().any(|value| fits_text(test.field, value, text));
            Some(has != *negated)
        }
    }
}

fn fits_text(field: &str, value: &str, text: &str) -> bool {
    match field {
        "fileext" => value.to_ascii_lowercase().ends_with(&format!(".{}", text.to_ascii_lowercase())),
        "filename" | "filemagic" => value.to_ascii_lowercase().contains(&text.to_ascii_lowercase()),
        "tls.subject" | "tls.issuerdn" => value.contains(text),
        _ => value.eq_ignore_ascii_case(text),
    }
}

/// The name of a message of Kerberos (RFC 4120, section 7.5.7).
fn message_name(number: u64) -> &'static str {
    match number {
        10 => "AS_REQ",
        11 => "AS_REP",
        12 => "TGS_REQ",
        13 => "TGS_REP",
        30 => "ERROR",
        _ => "",
    }
}

/// The field of a session for a number in rules.
const NUMBERS: &[(&str, &str)] = &[
    ("snmp.version", "snmp.version"),
    ("ntp.version", "ntp.version"),
    ("ntp.stratum", "ntp.stratum"),
    ("ntp.mode", "ntp.mode"),
    ("krb5_err_code", "kerberos.error_code"),
    ("mqtt.protocol_version", "mqtt.ver"),
    ("mqtt.reason_code", "mqtt.conack.val"),
    ("modbus.function", "modbus.func_code"),
    ("http2.errorcode", "http2.rst_stream.error"),
];

fn numbers_of(session: &Transaction<'_>, test: &SessionTest, to_server: bool) -> Option<Vec<u64>> {
    let any = session.session.as_any();
    match test.field {
        "urilen" => {
            let name =
                if test.qualifiers.iter().any(|word| word == "raw") { "http.uri.raw" } else { "http.uri" };
            any.downcast_ref::<HttpExchange>()?;
            let buffers = session.buffers(name, true);
            return Some(buffers.iter().map(|bytes| bytes.len() as u64).collect()).filter(|_| to_server);
        }
        "filesize" => {
            let files = session.files(to_server).map(|file| file.seen_bytes).collect::<Vec<_>>();
            return Some(files).filter(|files| !files.is_empty());
        }
        "krb5_msg_type" => {
            let Value::Text(kind) = session.value("kerberos.request_type") else { return None };
            let request = if kind == "AS" { 10 } else { 12 };
            let answer = match session.value("kerberos.success") {
                Value::Bool(true) => request + 1,
                Value::Bool(false) => 30,
                _ => return Some(vec![request]).filter(|_| to_server),
            };
            return Some(vec![if to_server { request } else { answer }]);
        }
        _ => {}
    }
    if let Some(lookup) = any.downcast_ref::<DnsTransaction>() {
        let message = if to_server { lookup.query.as_ref() } else { lookup.response.as_ref() }?;
        return Some(match test.field {
            "dns.opcode" => vec![message.header.opcode().into()],
            "dns.rcode" => vec![message.header.rcode().into()],
            "dns.rrtype" => {
                let asked = message.questions.iter().map(|asked| u64::from(asked.kind));
                asked.chain(message.records().map(|record| u64::from(record.kind))).collect()
            }
            _ => return None,
        });
    }
    let field = NUMBERS.iter().find(|(of, _)| *of == test.field)?.1;
    match session.value(field) {
        Value::Unsigned(number) => Some(vec![number]),
        Value::Numbers(list) => Some(list.to_vec()),
        Value::Bool(value) => Some(vec![value.into()]),
        _ => None,
    }
}

/// The field of a session for a word in rules.
const WORDS: &[(&str, &str)] = &[("smb.dialect", "smb2.dialect"), ("snmp.pdu_type", "snmp.pdus")];

fn words_of(session: &Transaction<'_>, field: &str, to_server: bool) -> Option<Vec<String>> {
    let buffer = |name: &str| {
        let buffers = session.buffers(name, to_server);
        let words: Vec<String> =
            buffers.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
        Some(words).filter(|words| !words.is_empty())
    };
    match field {
        "tls.subject" => buffer("tls.cert_subject"),
        "tls.issuerdn" => buffer("tls.cert_issuer"),
        "tls.fingerprint" => buffer("tls.cert_fingerprint"),
        "ssh.protoversion" => buffer("ssh.proto"),
        "ssh.softwareversion" => buffer("ssh.software"),
        "filename" | "fileext" => buffer("file.name"),
        "filemagic" => buffer("file.magic"),
        "filemd5" | "filesha1" | "filesha256" => {
            let kind = field.strip_prefix("file").unwrap_or(field);
            let digests =
                session.files(to_server).filter_map(|file| contents::digest_of(file.content.as_ref()?, kind));
            Some(digests.collect())
        }
        "tls.version" | "ssl_version" => {
            let Value::Text(version) = session.value("tls.version") else { return None };
            // `TLSv12` is `1.2`, and `tls1.2`.
            let digits: String = version.chars().filter(char::is_ascii_digit).collect();
            let number = match digits.len() {
                2 => format!("{}.{}", &digits[..1], &digits[1..]),
                _ => digits,
            };
            let is_old = version.starts_with("SSL");
            Some(if is_old {
                vec![format!("ssl{number}"), "sslv3".into()]
            } else {
                vec![format!("tls{number}"), number]
            })
        }
        _ => {
            let field = WORDS.iter().find(|(of, _)| *of == field)?.1;
            match session.value(field) {
                Value::Text(text) => Some(vec![text.into_owned()]),
                Value::Texts(list) => Some(list.to_vec()),
                _ => None,
            }
        }
    }
}

/// Whether sessions have values for a field of rules.
pub fn is_known(field: &str) -> bool {
    const OTHERS: &[&str] = &[
        "urilen",
        "filesize",
        "krb5_msg_type",
        "dns.opcode",
        "dns.rcode",
        "dns.rrtype",
        "tls.subject",
        "tls.issuerdn",
        "tls.fingerprint",
        "ssh.protoversion",
        "ssh.softwareversion",
        "filename",
        "fileext",
        "filemagic",
        "filemd5",
        "filesha1",
        "filesha256",
        "tls.version",
        "ssl_version",
        "tls_cert_expired",
        "tls_cert_valid",
        "tls_cert_notafter",
        "tls_cert_notbefore",
    ];
    OTHERS.contains(&field) || NUMBERS.iter().chain(WORDS).any(|(known, _)| *known == field)
}

/// Tests on the validity of the server's certificate.
fn certificate(session: &Transaction<'_>, field: &str, text: &str) -> Option<bool> {
    let handshake = session.session.as_any().downcast_ref::<TlsHandshake>()?;
    let leaf = handshake.server_certificates.leaf()?;
    let now = session.session.time().map_or(leaf.not_before.0, |time| time.0);
    match field {
        "tls_cert_expired" => Some(now > leaf.not_after.0),
        "tls_cert_valid" => Some(leaf.not_before.0 <= now && now <= leaf.not_after.0),
        "tls_cert_notafter" => in_range(leaf.not_after.0, text),
        _ => in_range(leaf.not_before.0, text),
    }
}

/// Whether a time (nanoseconds since 1970) is in `>2015`, `<2016-05`, `2015<>2016`, or equals
/// `2015-01-02T03:04:05`.
fn in_range(time: i64, text: &str) -> Option<bool> {
    let seconds = time.div_euclid(1_000_000_000);
    if let Some((first, last)) = text.split_once("<>") {
        return Some(date(first)? < seconds && seconds < date(last)?);
    }
    match text.as_bytes().first()? {
        b'>' => Some(seconds > date(&text[1..])?),
        b'<' => Some(seconds < date(&text[1..])?),
        _ => Some(seconds == date(text)?),
    }
}

/// Seconds since 1970 of a date, whose end may be left out.
fn date(text: &str) -> Option<i64> {
    let mut parts =
        text.trim().split(['-', 'T', ':', ' ']).map(|part| part.parse::<u32>().ok().map(i64::from));
    let year = parts.next()??;
    let mut next = |usual: i64| parts.next().map_or(Some(usual), |part| part);
    let (month, day) = (next(1)?, next(1)?);
    let (hour, minute, second) = (next(0)?, next(0)?, next(0)?);
    // Days since 1970. Years begin in March, so that the leap day is the last one.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400);
    let days = 365 * y + leap_days + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds() {
        assert_eq!(date("1970"), Some(0));
        assert_eq!(date("2000-03-01"), Some(951_868_800));
        assert_eq!(date("2015-10-22T23:59:59"), Some(1_445_558_399));
        assert_eq!(date("x"), None);
        assert_eq!(in_range(1_445_558_399_000_000_000, "2015<>2016"), Some(true));
    }
}
