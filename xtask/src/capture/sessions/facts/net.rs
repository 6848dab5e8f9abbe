//! DNS, DHCP, NTP, SSH, STUN.

use super::{CLIENT, Row, between, cut, read};
use crate::shell::Result;

/// `9 192.0.2.10/44784 query[A] www.example.com from 192.0.2.10`, then with the same number and port `config
/// www.example.com is 198.51.100.10`, one line per answer.
pub fn dns() -> Result<Vec<Row>> {
    let log = read("dnsmasq.log")?;
    let lines = || log.lines().filter_map(|line| line.split_once("]: ").map(|(_, rest)| rest));
    let mut rows = vec![];
    for line in lines() {
        let Some((serial, rest)) = line.split_once(" query[") else { continue };
        let (client, port) = between(serial, " ", "\n").rsplit_once('/').unwrap_or_default();
        if !CLIENT.contains(&client) {
            continue;
        }
        let answer = |line: &str| {
            let of_it = line.strip_prefix(serial)?.strip_prefix(" config ")?;
            of_it.rsplit_once(" is ").map(|(_, answer)| answer.to_string())
        };
        rows.push(vec![
            ("client", client.to_string()),
            ("client_port", port.to_string()),
            ("type", rest.split(']').next().unwrap_or("").to_string()),
            ("name", cut(rest, "] ", " from ")),
            ("answers", lines().filter_map(answer).collect::<Vec<_>>().join(" ")),
        ]);
    }
    Ok(rows)
}

/// 1769226812 DHCPACK(net0) 192.0.2.134 02:00:00:00:00:0c reader
pub fn dhcp() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for line in read("dhcp.log")?.lines() {
        let Some((number, rest)) = line.split_once("]: ").and_then(|(_, rest)| rest.split_once(" DHCP"))
        else {
            continue;
        };
        let Some((kind, rest)) = rest.split_once("(net0) ") else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let at = usize::from(words.first().is_some_and(|word| word.contains('.')));
        let word = |n: usize| words.get(n).unwrap_or(&"").to_string();
        rows.push(vec![
            ("id", number.to_string()),
            ("type", kind.to_string()),
            ("address", if at == 1 { word(0) } else { String::new() }),
            ("mac", word(at)),
            ("host", word(at + 1)),
        ]);
    }
    Ok(rows)
}

/// One row per request counted by the server (`chronyc serverstats`), which logs nothing else.
pub fn ntp() -> Result<Vec<Row>> {
    let counted = read("chronyc.out")?;
    let count = cut(&counted, "NTP packets received       : ", "\n").parse().unwrap_or(0);
    Ok((1..=count).map(|n: u32| vec![("request", n.to_string())]).collect())
}

/// The messages of `ssh -v` for each connection; the port is from sshd's log.
pub fn ssh() -> Result<Vec<Row>> {
    let (said, logged) = (read("ssh.out")?.replace('\r', ""), read("sshd.log")?);
    let mut ports = logged.lines().filter(|line| line.starts_with("Accepted publickey"));
    let row = |part: &str| {
        vec![
            ("client_port", cut(ports.next().unwrap_or(""), " port ", " ")),
            ("client", cut(part, "Local version string ", "\n")),
            ("server", format!("SSH-2.0-{}", between(part, "remote software version ", "\n"))),
            ("kex", cut(part, "kex: algorithm: ", "\n")),
            ("host_key_alg", cut(part, "kex: host key algorithm: ", "\n")),
            ("cipher", cut(part, "client->server cipher: ", " ")),
            ("mac", cut(between(part, "client->server cipher: ", "\n"), "MAC: ", " ")),
            ("compression", cut(between(part, "client->server cipher: ", "\n"), "compression: ", "\n")),
            ("host_key", cut(part, "Server host key: ssh-ed25519 ", "\n")),
        ]
    };
    Ok(said.split("debug1: Connecting to ").skip(1).map(row).collect())
}

/// `… session 001000000000000002: realm <example.com> user <alice>: incoming packet CHANNEL_BIND processed,
/// success`. For Binding, the client prints the reflexive address; coturn does not log it.
pub fn stun() -> Result<Vec<Row>> {
    let mut rows = vec![];
    let told = read("stun.out")?;
    rows.push(vec![
        ("method", "BINDING".into()),
        ("result", "success".into()),
        ("address", cut(&told, "reflexive addr: ", "\n")),
    ]);
    for line in read("turn.log")?.lines() {
        let Some((_, rest)) = line.split_once("incoming packet ") else { continue };
        let Some((method, result)) = rest.split_once(" processed, ") else { continue };
        rows.push(vec![
            ("method", method.to_string()),
            ("result", result.to_string()),
            ("user", cut(line, " user <", ">")),
        ]);
    }
    Ok(rows)
}
