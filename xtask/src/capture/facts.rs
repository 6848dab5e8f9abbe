//! Reads the servers' logs into `first-light.expect.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::lab::SCRATCH;
use crate::shell::{Result, read};

/// One line of nginx's access log, by column (`lab::servers::ACCESS_LOG`).
struct Request(Vec<String>);

impl Request {
    fn column(&self, n: usize) -> &str {
        let text = self.0.get(n).map_or("", String::as_str);
        if text == "-" { "" } else { text }
    }
    fn is_tls(&self) -> bool {
        !self.column(12).is_empty()
    }
}

pub struct Facts {
    frames: u64,
    requests: Vec<Request>,
    tls_failed: u64,
    dns: BTreeMap<String, u64>,
    ssh_sessions: u64,
    pings: (u64, u64),
}

/// Reads all logs; `words` is the scenes' output.
pub fn gather(frames: u64, words: &str) -> Result<Facts> {
    let requests = read(format!("{SCRATCH}/nginx-access.log"))?
        .lines()
        .map(|line| Request(line.split('\t').map(str::to_string).collect()))
        .collect();
    let tls_failed = count(&read(format!("{SCRATCH}/nginx-error.log"))?, "SSL_do_handshake() failed");
    let mut dns = BTreeMap::new();
    for line in read(format!("{SCRATCH}/dnsmasq.log"))?.lines() {
        // Nov 21 02:00:00 dnsmasq[7]: query[A] www.example.com from 192.0.2.10
        if let Some((_, rest)) = line.split_once(" query[")
            && let Some((kind, rest)) = rest.split_once("] ")
            && let Some((name, _)) = rest.split_once(" from ")
        {
            *dns.entry(format!("{kind} {name}")).or_default() += 1;
        }
    }
    let ssh_sessions = count(&read(format!("{SCRATCH}/sshd.log"))?, "Accepted publickey");
    let mut pings = (0, 0);
    for line in words.lines() {
        // 3 packets transmitted, 3 received, 0% packet loss, time 400ms
        if let Some((sent, rest)) = line.split_once(" packets transmitted, ")
            && let Some((received, _)) = rest.split_once(" received")
        {
            pings.0 += sent.trim().parse::<u64>().unwrap_or(0);
            pings.1 += received.trim().parse::<u64>().unwrap_or(0);
        }
    }
    Ok(Facts { frames, requests, tls_failed, dns, ssh_sessions, pings })
}

fn count(log: &str, words: &str) -> u64 {
    log.lines().filter(|line| line.contains(words)).count() as u64
}

impl Facts {
    /// The first request of every connection that spoke TLS.
    fn handshakes(&self) -> Vec<&Request> {
        let mut seen = BTreeSet::new();
        self.requests.iter().filter(|r| r.is_tls() && seen.insert(r.column(0))).collect()
    }

    fn plain(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|r| !r.is_tls())
    }

    /// The totals for the capture's page.
    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let plain: BTreeSet<_> = self.plain().map(|r| r.column(0)).collect();
        vec![
            ("frames", self.frames),
            ("HTTP requests in the clear", self.plain().count() as u64),
            ("HTTP connections in the clear", plain.len() as u64),
            ("TLS handshakes completed", self.handshakes().len() as u64),
            (
                "TLS handshakes resumed",
                self.handshakes().iter().filter(|r| r.column(15) == "r").count() as u64,
            ),
            ("TLS handshakes failed", self.tls_failed),
            ("DNS queries", self.dns.values().sum()),
            ("SSH sessions", self.ssh_sessions),
            ("echo requests sent", self.pings.0),
            ("echo replies received", self.pings.1),
        ]
    }

    pub fn json(&self) -> String {
        let mut out = String::from("{\n");
        for (what, count) in self.totals() {
            let key = what.to_lowercase().replace(' ', "_");
            let _ = writeln!(out, "  {key:?}: {count},");
        }
        let dns: Vec<_> = self.dns.iter().map(|(q, n)| format!("    {q:?}: {n}")).collect();
        let _ = writeln!(out, "  \"dns\": {{\n{}\n  }},", dns.join(",\n"));
        let tls: Vec<_> = self
            .handshakes()
            .iter()
            .map(|r| {
                let keys = [
                    ("client", 1),
                    ("client_port", 2),
                    ("server", 3),
                    ("server_port", 4),
                    ("server_name", 11),
                    ("version", 12),
                    ("cipher", 13),
                    ("alpn", 14),
                ];
                format!("    {{{}, \"resumed\": {}}}", fields(r, &keys), r.column(15) == "r")
            })
            .collect();
        let _ = writeln!(out, "  \"tls\": [\n{}\n  ],", tls.join(",\n"));
        let http: Vec<_> = self
            .plain()
            .map(|r| {
                let keys = [
                    ("client", 1),
                    ("client_port", 2),
                    ("server", 3),
                    ("server_port", 4),
                    ("method", 5),
                    ("uri", 6),
                    ("status", 8),
                    ("bytes_sent", 9),
                    ("host", 10),
                ];
                format!("    {{{}}}", fields(r, &keys))
            })
            .collect();
        let _ = writeln!(out, "  \"http\": [\n{}\n  ]\n}}", http.join(",\n"));
        out
    }
}

/// Selected columns as JSON members; a value of digits is a number.
fn fields(request: &Request, keys: &[(&str, usize)]) -> String {
    let member = |&(key, n): &(&str, usize)| {
        let text = request.column(n);
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            format!("{key:?}: {text}")
        } else {
            format!("{key:?}: {text:?}")
        }
    };
    keys.iter().map(member).collect::<Vec<_>>().join(", ")
}
