//! A small client of HTTP/1.1: a connection for each request.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A server on this host.
#[derive(Clone)]
pub struct Client {
    pub port: u16,
    /// Headers of every request, each with its line break.
    pub headers: String,
}

/// The response of a server.
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// The body has the length, or the last chunk, that it should have.
    pub is_whole: bool,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|wrong| panic!("{wrong}: {} {}", self.head, self.text()))
    }
}

/// A text for a query.
pub fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => (byte as char).to_string(),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(letter).collect()
}

impl Client {
    pub fn new(port: u16) -> Self {
        Self { port, headers: format!("Host: 127.0.0.1:{port}\r\n") }
    }

    /// A client with the token of an address that the server has printed: `http://127.0.0.1:9465/#token=…`.
    pub fn of_address(address: &str) -> Self {
        let rest = address.strip_prefix("http://127.0.0.1:").expect("an address of this host");
        let port = rest.split('/').next().and_then(|port| port.parse().ok()).expect("a port");
        let (_, token) = address.split_once("token=").expect("a token");
        let mut client = Self::new(port);
        client.headers += &format!("Authorization: Bearer {token}\r\n");
        client
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream
    }

    pub fn get(&self, path: &str) -> Response {
        self.ask("GET", path, "")
    }

    pub fn post(&self, path: &str, body: &str) -> Response {
        self.ask("POST", path, body)
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        let mut head = format!("{method} /api/v1{path} HTTP/1.1\r\n{}Connection: close\r\n", self.headers);
        if method == "POST" {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        self.send(format!("{head}\r\n{body}").as_bytes())
    }

    /// Sends bytes, and reads to the end of the connection.
    pub fn send(&self, request: &[u8]) -> Response {
        let mut stream = self.connect();
        // The server may answer before it has read everything.
        let _ = stream.write_all(request);
        let mut all = vec![];
        let _ = stream.read_to_end(&mut all);
        parse(&all)
    }
}

fn parse(all: &[u8]) -> Response {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(all.len());
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let rest = all.get(end + 4..).unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let lower = head.to_lowercase();
    if !lower.contains("transfer-encoding: chunked") {
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        return Response {
            status,
            head,
            body: rest.to_vec(),
            is_whole: length.is_none_or(|length| length == rest.len()),
        };
    }
    let (mut body, mut at, mut is_whole) = (vec![], 0, false);
    while let Some(line) = rest[at..].windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[at..at + line])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size else { break };
        let start = at + line + 2;
        if size == 0 {
            is_whole = true;
            break;
        }
        let Some(chunk) = rest.get(start..start + size) else { break };
        body.extend_from_slice(chunk);
        at = start + size + 2;
        if at > rest.len() {
            break;
        }
    }
    Response { status, head, body, is_whole }
}
