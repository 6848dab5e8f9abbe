//! What the buffers of a session hold.

use crate::contents;
use crate::http;
use std::borrow::Cow;
use weir::packet::Value;
use weir::sessions::dns::DnsTransaction;
use weir::sessions::files::File;
use weir::sessions::http::{HttpExchange, Reached};
use weir::sessions::part_logs;
use weir::sessions::tls::TlsHandshake;
use weir::sessions::{Session, SessionRegistry};

/// A session that is inspected.
#[derive(Debug)]
pub struct Transaction<'t> {
    /// The index of its protocol.
    pub protocol: usize,
    /// The session.
    pub session: &'t dyn Session,
    /// The protocol's name in rules.
    pub app: &'static str,
    /// Why the session is inspected before its end.
    pub early: Option<Reached>,
    /// Its files.
    pub files: Vec<Box<dyn Session>>,
}

/// Fields of sessions by the names of buffers in rules: the buffer, the field, and whether the client sends
/// it (`None`: either).
const FIELDS: &[(&str, &str, Option<bool>)] = &[
    ("tls.sni", "tls.handshake.extensions_server_name", Some(true)),
    ("ja3.hash", "tls.handshake.ja3", Some(true)),
    ("ja3.string", "tls.handshake.ja3_full", Some(true)),
    ("ja3s.hash", "tls.handshake.ja3s", Some(false)),
    ("ja3s.string", "tls.handshake.ja3s_full", Some(false)),
    ("ja4.hash", "tls.handshake.ja4", Some(true)),
    ("tls.subjectaltname", "tls.cert.san", Some(false)),
    ("tls.alpn", "tls.handshake.extensions_alpn_str", Some(true)),
    ("ja3.hash", "quic.ja3", Some(true)),
    ("ja3.string", "quic.ja3_full", Some(true)),
    ("ja3s.hash", "quic.ja3s", Some(false)),
    ("ja4.hash", "quic.ja4", Some(true)),
    ("quic.sni", "quic.sni", Some(true)),
    ("quic.version", "quic.version", Some(true)),
    ("tls.sni", "quic.sni", Some(true)),
    ("ssh.hassh", "ssh.kex.hassh", Some(true)),
    ("ssh.hassh.server", "ssh.kex.hasshserver", Some(false)),
    ("ssh.hassh.string", "ssh.kex.hassh_algorithms", Some(true)),
    ("ssh.hassh.server.string", "ssh.kex.hasshserver_algorithms", Some(false)),
    ("smtp.helo", "smtp.helo", Some(true)),
    ("email.from", "imf.from", Some(true)),
    ("email.to", "imf.to", Some(true)),
    ("email.cc", "imf.cc", Some(true)),
    ("email.subject", "imf.subject", Some(true)),
    ("email.date", "imf.date", Some(true)),
    ("email.message_id", "imf.message_id", Some(true)),
    ("ftp.command", "ftp.request.command", Some(true)),
    ("ftp.command_data", "ftp.request.arg", Some(true)),
    ("ftp.reply", "ftp.response.arg", Some(false)),
    ("ftp.completion_code", "ftp.response.code", Some(false)),
    ("sip.method", "sip.method", Some(true)),
    ("sip.uri", "sip.r-uri", Some(true)),
    ("sip.user_agent", "sip.user_agent", Some(true)),
    ("sip.stat_code", "sip.status_code", Some(false)),
    ("sip.stat_msg", "sip.status_msg", Some(false)),
    ("sip.from", "sip.From", Some(true)),
    ("sip.from", "sip.response_from", Some(false)),
    ("sip.to", "sip.To", Some(true)),
    ("sip.to", "sip.response_to", Some(false)),
    ("sip.via", "sip.Via", Some(true)),
    ("sip.via", "sip.response_path", Some(false)),
    ("sip.content_length", "sip.Content-Length", Some(true)),
    ("sip.content_length", "sip.response_body_len", Some(false)),
    ("sip.content_type", "sip.content_type", Some(true)),
    ("mqtt.connect.clientid", "mqtt.clientid", Some(true)),
    ("mqtt.connect.username", "mqtt.username", Some(true)),
    ("mqtt.connect.willtopic", "mqtt.willtopic", Some(true)),
    ("mqtt.connect.willmessage", "mqtt.willmsg", Some(true)),
    ("mqtt.connect.protocol_string", "mqtt.protoname", Some(true)),
    ("mqtt.publish.topic", "mqtt.topic", None),
    ("mqtt.subscribe.topic", "mqtt.subscriptions", Some(true)),
    ("krb5.cname", "kerberos.client", None),
    ("krb5.sname", "kerberos.service", None),
    ("krb5.ticket_encryption", "kerberos.cipher", Some(false)),
    ("snmp.community", "snmp.communities", None),
    ("smb.ntlmssp_user", "smb2.acct", Some(true)),
    ("smb.ntlmssp_domain", "smb2.domain", Some(true)),
];

/// The number of a session that may be passed on before its end, and how far it is.
pub fn number_of(session: &dyn Session) -> Option<(u32, Option<Reached>)> {
    let exchange = session.as_any().downcast_ref::<HttpExchange>()?;
    Some((exchange.depth, exchange.early))
}

impl<'t> Transaction<'t> {
    /// A session to inspect; `with_files`: rules look at files.
    pub fn of(protocol: usize, session: &'t dyn Session, app: &'static str, with_files: bool) -> Self {
        let name = SessionRegistry::builtin().protocols().get(protocol).map_or("", |known| known.name);
        let parts = part_logs::FILES.of.iter().find(|(of, _)| *of == name && with_files);
        let early = number_of(session).and_then(|(_, early)| early);
        Self {
            protocol,
            session,
            app,
            early,
            files: parts.map_or_else(Vec::new, |(_, parts)| parts(session)),
        }
    }

    /// Whether sessions of this protocol are inspected before their end, too.
    pub fn may_go_on(&self) -> bool {
        number_of(self.session).is_some()
    }

    /// Whether its files go on.
    pub fn has_open_files(&self) -> bool {
        matches!(self.early, Some(Reached::RequestBody | Reached::ResponseBody))
    }

    /// The buffers of this name that the client (`to_server`) or the server sent.
    pub fn buffers(&self, name: &str, to_server: bool) -> Vec<Cow<'t, [u8]>> {
        if let Some(of_file) = name.strip_prefix("file.") {
            return self.of_files(of_file, to_server);
        }
        if let Some(exchange) = self.session.as_any().downcast_ref::<HttpExchange>() {
            return match name {
                "http.request_body" if to_server => self.of_files("data", true),
                "http.response_body" if !to_server => self.of_files("data", false),
                _ => http::buffers(exchange, name, to_server),
            };
        }
        if let Some(lookup) = self.session.as_any().downcast_ref::<DnsTransaction>() {
            return dns(lookup, name, to_server);
        }
        if let Some(handshake) = self.session.as_any().downcast_ref::<TlsHandshake>()
            && let Some(found) = tls(handshake, name, to_server)
        {
            return found;
        }
        if name.starts_with("ssh.")
            && self.app == "ssh"
            && let Some(found) = self.ssh(name, to_server)
        {
            return vec![found];
        }
        match name {
            "smtp.mail_from" | "smtp.rcpt_to" if to_server => {
                let addresses = texts(self.value(name));
                addresses.iter().map(|address| Cow::Owned([b"<", &**address, b">"].concat())).collect()
            }
            // A share of pipes is a named pipe.
            "smb.share" | "smb.named_pipe" if to_server => {
                let kind = text(self.value("smb2.share_type"));
                let is_pipe = kind.as_deref() == Some(b"PIPE");
                if is_pipe == (name == "smb.named_pipe") { texts(self.value("smb2.tree")) } else { vec![] }
            }
            _ => self.fields(name, to_server),
        }
    }

    fn fields(&self, name: &str, to_server: bool) -> Vec<Cow<'t, [u8]>> {
        let mut found = vec![];
        for (_, field, is_client) in FIELDS.iter().filter(|(buffer, ..)| *buffer == name) {
            if is_client.is_none_or(|is_client| is_client == to_server) {
                found.extend(texts(self.value(field)));
            }
        }
        found
    }

    /// The value of a field.
    pub fn value(&self, field: &str) -> Value<'t> {
        let registry = SessionRegistry::builtin();
        let fields = registry.protocols().get(self.protocol).map_or(&[][..], |known| known.fields);
        let at = fields.iter().position(|known| known.name == field || known.aliases.contains(&field));
        at.map_or(Value::Absent, |at| self.session.value(at))
    }

    fn of_files(&self, what: &str, to_server: bool) -> Vec<Cow<'t, [u8]>> {
        self.files(to_server)
            .filter_map(|file| {
                Some(match what {
                    "data" => contents::bytes_of(file.content.as_ref()?).into(),
                    "name" => file.name.clone().or_else(|| file.other_name.clone())?.into_bytes().into(),
                    "magic" => file.media_type?.as_bytes().into(),
                    _ => return None,
                })
            })
            .collect()
    }

    /// The files that the client (`to_server`) or the server sent.
    pub fn files(&self, to_server: bool) -> impl Iterator<Item = &File> {
        let all = self.files.iter().filter_map(|file| file.as_any().downcast_ref::<File>());
        all.filter(move |file| file.is_from_originator == to_server)
    }

    fn ssh(&self, name: &str, to_server: bool) -> Option<Cow<'t, [u8]>> {
        let banner = text(self.value(if to_server { "ssh.client" } else { "ssh.server" }))?;
        let rest = banner.strip_prefix(b"SSH-")?;
        let at = rest.iter().position(|byte| *byte == b'-')?;
        let software = rest[at + 1..].split(|byte| *byte == b' ').next().unwrap_or_default();
        match name {
            "ssh.proto" => Some(rest[..at].to_vec().into()),
            "ssh.software" => Some(software.to_vec().into()),
            _ => None,
        }
    }
}

/// A value as text.
fn text(value: Value<'_>) -> Option<Cow<'_, [u8]>> {
    Some(match value {
        Value::Text(Cow::Borrowed(text)) => text.as_bytes().into(),
        Value::Text(Cow::Owned(text)) => text.into_bytes().into(),
        Value::Bytes(bytes) => bytes,
        Value::Unsigned(number) => number.to_string().into_bytes().into(),
        _ => return None,
    })
}

/// The texts of a value: of a list, each.
fn texts(value: Value<'_>) -> Vec<Cow<'_, [u8]>> {
    match value {
        Value::Texts(Cow::Borrowed(list)) => list.iter().map(|text| text.as_bytes().into()).collect(),
        Value::Texts(Cow::Owned(list)) => list.into_iter().map(|text| text.into_bytes().into()).collect(),
        Value::Numbers(list) => list.iter().map(|number| number.to_string().into_bytes().into()).collect(),
        value => text(value).into_iter().collect(),
    }
}

fn dns<'t>(lookup: &'t DnsTransaction, name: &str, to_server: bool) -> Vec<Cow<'t, [u8]>> {
    let message = if to_server { lookup.query.as_ref() } else { lookup.response.as_ref() };
    let Some(message) = message else { return vec![] };
    match name {
        "dns.query" if to_server => names(message.questions.iter().map(|asked| &*asked.name)),
        "dns.queries.rrname" => names(message.questions.iter().map(|asked| &*asked.name)),
        "dns.answer.name" | "dns.answers.rrname" => names(message.answers.iter().map(|record| &*record.name)),
        "dns.response.rrname" => names(message.records().map(|record| &*record.name)),
        _ => vec![],
    }
}

fn names<'t>(names: impl Iterator<Item = &'t str>) -> Vec<Cow<'t, [u8]>> {
    names.map(|name| name.as_bytes().into()).collect()
}

/// The buffers of certificates, which a field shows in another form.
fn tls<'t>(handshake: &'t TlsHandshake, name: &str, to_server: bool) -> Option<Vec<Cow<'t, [u8]>>> {
    let chain = match to_server {
        true => &handshake.client_certificates,
        false => &handshake.server_certificates,
    };
    let leaf = chain.leaf();
    let one = |text: Option<String>| Some(text.map(|text| text.into_bytes().into()).into_iter().collect());
    let random = || {
        let bytes = match to_server {
            true => handshake.client_hello.as_ref().map(|hello| &hello.random[..]),
            false => handshake.server_hello.as_ref().map(|hello| &hello.random[..]),
        };
        bytes.unwrap_or_default()
    };
    match name {
        "tls.certs" => Some(chain.der().map(Cow::Borrowed).collect()),
        "tls.cert_subject" => one(leaf.map(|leaf| in_order(&leaf.subject))),
        "tls.cert_issuer" => one(leaf.map(|leaf| in_order(&leaf.issuer))),
        "tls.cert_serial" => one(leaf.map(|leaf| with_colons(&leaf.serial.to_uppercase()))),
        "tls.cert_fingerprint" => {
            use sha1::Digest;
            let digest = chain.der().next().map(|der| contents::hexadecimal(&sha1::Sha1::digest(der)));
            one(digest.map(|digest| with_colons(&digest)))
        }
        "tls.random" => Some(vec![random().into()]),
        "tls.random_time" => Some(vec![random().get(..4).unwrap_or_default().into()]),
        "tls.random_bytes" => Some(vec![random().get(4..).unwrap_or_default().into()]),
        _ => None,
    }
}

/// `CN=a,C=DE` as `C=DE, CN=a`: in the order of the certificate.
fn in_order(name: &str) -> String {
    let mut parts: Vec<String> = vec![String::new()];
    let mut is_escaped = false;
    for letter in name.chars() {
        match letter {
            _ if std::mem::take(&mut is_escaped) => parts.last_mut().expect("there is one").push(letter),
            '\\' => is_escaped = true,
            ',' => parts.push(String::new()),
            letter => parts.last_mut().expect("there is one").push(letter),
        }
    }
    parts.reverse();
    parts.join(", ")
}

/// `0a1b` as `0a:1b`.
fn with_colons(digits: &str) -> String {
    let pairs: Vec<&str> =
        digits.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok()).collect();
    pairs.join(":")
}

/// The buffers that are not [fields](FIELDS).
const OTHERS: &[&str] = &[
    "file.data",
    "file.name",
    "file.magic",
    "dns.query",
    "dns.queries.rrname",
    "dns.answer.name",
    "dns.answers.rrname",
    "dns.response.rrname",
    "tls.certs",
    "tls.cert_subject",
    "tls.cert_issuer",
    "tls.cert_serial",
    "tls.cert_fingerprint",
    "tls.random",
    "tls.random_time",
    "tls.random_bytes",
    "ssh.proto",
    "ssh.software",
    "smtp.mail_from",
    "smtp.rcpt_to",
    "smb.share",
    "smb.named_pipe",
];

/// Whether there are buffers of this name.
pub fn is_known(name: &str) -> bool {
    name.starts_with("http.") || OTHERS.contains(&name) || FIELDS.iter().any(|(known, ..)| *known == name)
}
