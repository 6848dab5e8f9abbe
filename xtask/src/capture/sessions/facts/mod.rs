//! What servers logged and clients said, read into `sessions.expect.json`: a list of rows per log.
//!
//! `web.rs`: HTTP, proxies, QUIC, DTLS. `mail.rs`: SMTP, POP3, IMAP, FTP. `net.rs`: DNS, DHCP, NTP, SSH, STUN.

mod mail;
mod net;
mod web;

use std::fmt::Write;

use crate::lab::SCRATCH;
use crate::shell::Result;

/// The client's addresses. Servers also talk to each other, where nobody records.
const CLIENT: [&str; 2] = ["192.0.2.10", "2001:db8:1::10"];

/// One line of a log: members of a JSON object, as text.
type Row = Vec<(&'static str, String)>;

/// One log: its name, what it counts in words, its rows.
struct Log {
    name: &'static str,
    counts: &'static str,
    rows: Vec<Row>,
}

pub struct Facts {
    frames: u64,
    logs: Vec<Log>,
}

/// Reads every log.
pub fn gather(frames: u64) -> Result<Facts> {
    let log = |name, counts, rows| Log { name, counts, rows };
    let logs = vec![
        log("http", "HTTP requests (nginx, nghttpx)", web::http()?),
        log("http_clients", "HTTP responses (curl)", web::http_clients()?),
        log("proxy", "requests to the proxy (tinyproxy)", web::proxy()?),
        log("proxied_tls", "TLS handshakes behind CONNECT (nginx)", web::proxied_tls()?),
        log("quic", "QUIC connections (aioquic's client)", web::quic()?),
        log("quic_server", "QUIC handshakes (aioquic's server)", web::quic_server()?),
        log("dtls", "DTLS handshakes (openssl)", web::dtls()?),
        log("smtp", "mails taken (exim)", mail::smtp()?),
        log("smtp_refused", "receivers refused (exim)", mail::smtp_refused()?),
        log("mailboxes", "logins to mailboxes (dovecot)", mail::boxes()?),
        log("ftp", "FTP commands (vsftpd)", mail::ftp()?),
        log("ftp_files", "FTP transfers (vsftpd)", mail::ftp_files()?),
        log("ssh", "SSH sessions (ssh)", net::ssh()?),
        log("dns", "DNS queries (dnsmasq)", net::dns()?),
        log("dhcp", "DHCP messages (dnsmasq)", net::dhcp()?),
        log("ntp", "NTP requests (chrony)", net::ntp()?),
        log("stun", "STUN requests (coturn)", net::stun()?),
    ];
    if let Some(empty) = logs.iter().find(|log| log.rows.is_empty()) {
        return Err(format!("nothing was logged: {}", empty.counts));
    }
    Ok(Facts { frames, logs })
}

impl Facts {
    /// Lines for the page beside the capture.
    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let logs = self.logs.iter().map(|log| (log.counts, log.rows.len() as u64));
        std::iter::once(("frames", self.frames)).chain(logs).collect()
    }

    pub fn json(&self) -> String {
        let mut out = format!("{{\n  \"frames\": {}", self.frames);
        for log in &self.logs {
            let rows: Vec<String> = log.rows.iter().map(|row| format!("    {{{}}}", members(row))).collect();
            let _ = write!(out, ",\n  {:?}: [\n{}\n  ]", log.name, rows.join(",\n"));
        }
        out + "\n}\n"
    }
}

/// What is all digits is a number. `{:?}` writes what these logs have as JSON does.
fn members(row: &Row) -> String {
    let member = |(name, text): &(&str, String)| match text.parse::<u64>() {
        Ok(number) if number.to_string() == *text => format!("{name:?}: {text}"),
        _ => format!("{name:?}: {text:?}"),
    };
    row.iter().map(member).collect::<Vec<_>>().join(", ")
}

fn read(name: &str) -> Result<String> {
    crate::shell::read(format!("{SCRATCH}/{name}"))
}

/// What stands between `before` and `after`; empty if it does not.
fn between<'a>(line: &'a str, before: &str, after: &str) -> &'a str {
    let Some((_, rest)) = line.split_once(before) else { return "" };
    rest.split_once(after).map_or(rest, |(found, _)| found)
}

/// The same as text to be kept.
fn cut(line: &str, before: &str, after: &str) -> String {
    between(line, before, after).to_string()
}
