//! HTTP, proxies, QUIC, DTLS.

use super::{CLIENT, Row, cut, read};
use crate::shell::Result;

/// nginx's access log: `lab::servers::ACCESS_LOG`, then `MORE_COLUMNS`.
fn access_log() -> Result<Vec<Vec<String>>> {
    let text = |column: &str| if column == "-" { String::new() } else { column.to_string() };
    Ok(read("nginx-access.log")?.lines().map(|line| line.split('\t').map(text).collect()).collect())
}

/// Plaintext requests of the client: those logged by nginx and by nghttpx.
pub fn http() -> Result<Vec<Row>> {
    let columns = [
        ("client", 1),
        ("client_port", 2),
        ("server", 3),
        ("server_port", 4),
        ("method", 5),
        ("uri", 6),
        ("version", 7),
        ("status", 8),
        ("host", 10),
        ("body_bytes", 16),
        ("user", 17),
        ("content_encoding", 18),
        ("transfer_encoding", 19),
        ("user_agent", 20),
        ("content_length", 21),
    ];
    let mut rows = vec![];
    for line in access_log()? {
        if CLIENT.contains(&line[1].as_str()) && line[12].is_empty() {
            rows.push(columns.iter().map(|&(name, n)| (name, line[n].clone())).collect());
        }
    }
    // The log has the request that asked for the upgrade, with its original version.
    for line in read("nghttpx.log")?.lines() {
        let names = ["client", "client_port", "method", "uri", "version", "status", "body_bytes"];
        let mut row: Row = names.into_iter().zip(line.split(',').map(String::from)).collect();
        row.push(("server_port", "8081".into()));
        rows.push(row);
    }
    Ok(rows)
}

/// curl's output (`scenes::PRELUDE`) for plaintext requests.
pub fn http_clients() -> Result<Vec<Row>> {
    let names = ["client_port", "method", "url", "version", "status", "sent_bytes", "received_bytes"];
    let row = |line: &str| names.into_iter().zip(line.split(' ').map(String::from)).collect();
    Ok(read("http-clients.out")?.lines().filter(|line| line.contains(" http://")).map(row).collect())
}

/// CONNECT   Nov 22 07:33:57.310 [110]: Request (file descriptor 6):
///     GET http://www.example.com/small.bin HTTP/1.1
pub fn proxy() -> Result<Vec<Row>> {
    let log = read("tinyproxy.log")?;
    let requests = log.lines().filter_map(|line| line.split_once(": Request (file descriptor "));
    let row = |(_, rest): (&str, &str)| {
        let mut words = rest.split(": ").nth(1).unwrap_or("").split(' ').map(String::from);
        ["method", "uri", "version"]
            .into_iter()
            .map(|name| (name, words.next().unwrap_or_default()))
            .collect()
    };
    Ok(requests.map(row).collect())
}

/// Handshakes relayed by the proxy, as logged by nginx.
pub fn proxied_tls() -> Result<Vec<Row>> {
    let columns = [("server_name", 11), ("version", 12), ("cipher", 13), ("alpn", 14)];
    let lines = access_log()?.into_iter().filter(|line| !line[12].is_empty());
    Ok(lines.map(|line| columns.iter().map(|&(name, n)| (name, line[n].clone())).collect()).collect())
}

/// The scripts beside this file print JSON objects of texts and numbers.
fn objects(file: &str, names: &[&'static str]) -> Result<Vec<Row>> {
    let value = |line: &str, name: &str| {
        let rest = line.split_once(&format!("\"{name}\": ")).map_or("", |(_, rest)| rest);
        rest.split([',', '}']).next().unwrap_or("").trim_matches('"').to_string()
    };
    let row = |line: &str| names.iter().map(|name| (*name, value(line, name))).collect();
    Ok(read(file)?.lines().map(row).collect())
}

pub fn quic() -> Result<Vec<Row>> {
    objects("quic.out", &["server", "server_port", "server_name", "client_alpn", "began_with", "answered"])
}

pub fn quic_server() -> Result<Vec<Row>> {
    objects("quic-server.log", &["server_port", "alpn", "version"])
}

/// The scene's parameters, and the output of openssl's client and server.
pub fn dtls() -> Result<Vec<Row>> {
    let said = read("dtls.out")?;
    let mut rows = vec![];
    for part in said.split("asks for ").skip(1) {
        let port = cut(part, " at port ", "\n");
        let server = read(&format!("dtls-{port}.log"))?;
        rows.push(vec![
            ("server_name", part.split(' ').next().unwrap_or("").to_string()),
            ("version", cut(part, "    Protocol  : ", "\n")),
            ("cipher", cut(&server, "CIPHER is ", "\n")),
            ("subject", cut(part, "subject=", "\n")),
            ("server_port", port),
        ]);
    }
    Ok(rows)
}
