//! The buffers of HTTP.

use crate::transforms::{hex_byte, url_decoded};
use std::borrow::Cow;
use weir::sessions::http::{Head, HttpExchange, HttpMessage};

/// The buffers of this name that the request (`to_server`) or the response has.
pub fn buffers<'t>(exchange: &'t HttpExchange, name: &str, to_server: bool) -> Vec<Cow<'t, [u8]>> {
    let message = if to_server { &exchange.request } else { &exchange.response };
    let Some(message) = message else { return vec![] };
    if matches!(name, "http.request_header" | "http.response_header") {
        let lines = message.head.headers();
        return lines.map(|(name, value)| Cow::Owned([name, b": ", value].concat())).collect();
    }
    one(exchange, message, name, to_server).into_iter().collect()
}

fn one<'t>(
    exchange: &'t HttpExchange,
    message: &'t HttpMessage,
    name: &str,
    to_server: bool,
) -> Option<Cow<'t, [u8]>> {
    let head = &message.head;
    let header = |name: &str| joined(head, name);
    match name {
        "http.method" => Some(head.method().into()),
        "http.uri" => Some(normal_uri(head.target()).into()),
        "http.uri.raw" => Some(path_of(head.target()).into()),
        "http.host" => {
            let host = host_of(exchange)?;
            let without = host.split(|byte| *byte == b':').next().unwrap_or_default();
            let is_v6 = host.starts_with(b"[");
            Some(if is_v6 { host } else { without }.to_ascii_lowercase().into())
        }
        "http.host.raw" => Some(host_of(exchange)?.into()),
        "http.user_agent" => header("user-agent"),
        "http.referer" => header("referer"),
        "http.accept" => header("accept"),
        "http.accept_lang" => header("accept-language"),
        "http.accept_enc" => header("accept-encoding"),
        "http.content_type" => header("content-type"),
        "http.content_len" => header("content-length"),
        "http.connection" => header("connection"),
        "http.server" => header("server"),
        "http.location" => header("location"),
        "http.cookie" => header(if to_server { "cookie" } else { "set-cookie" }),
        "http.protocol" => Some(version(head).into_bytes().into()),
        "http.request_line" | "http.response_line" => Some(start_line(head).into()),
        "http.stat_code" => (head.code() > 0).then(|| head.code().to_string().into_bytes().into()),
        "http.stat_msg" => Some(head.phrase().into()),
        "http.header" => Some(normal_headers(head, to_server).into()),
        "http.header.raw" => Some(head.bytes().get(first_line(head)..)?.into()),
        "http.header_names" => Some(header_names(head).into()),
        "http.start" => Some(head.bytes().into()),
        _ => None,
    }
}

fn host_of(exchange: &HttpExchange) -> Option<&[u8]> {
    let head = &exchange.request.as_ref()?.head;
    let said = ["host", ":authority"].into_iter().find_map(|name| head.header(name));
    // A target in absolute form has the host (RFC 9112, section 3.2.2).
    let in_target = || {
        let target = head.target();
        let at = target.windows(3).position(|bytes| bytes == b"://")?;
        target[at + 3..].split(|byte| matches!(byte, b'/' | b'?' | b'#')).next()
    };
    in_target().or(said)
}

/// The values of all headers of this name.
fn joined<'t>(head: &'t Head, name: &str) -> Option<Cow<'t, [u8]>> {
    let mut all = head.all(name);
    let first = all.next()?;
    let rest: Vec<&[u8]> = all.collect();
    if rest.is_empty() {
        return Some(first.into());
    }
    let mut made = first.to_vec();
    for value in rest {
        made.extend_from_slice(b", ");
        made.extend_from_slice(value);
    }
    Some(made.into())
}

fn version(head: &Head) -> String {
    format!("HTTP/{}", head.version().text())
}

/// Where the headers begin.
fn first_line(head: &Head) -> usize {
    let bytes = head.bytes();
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

fn start_line(head: &Head) -> &[u8] {
    let line = &head.bytes()[..first_line(head)];
    line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// All headers but cookies, one line each; those of one name together.
fn normal_headers(head: &Head, to_server: bool) -> Vec<u8> {
    let cookie: &[u8] = if to_server { b"cookie" } else { b"set-cookie" };
    let all: Vec<(&[u8], &[u8])> = head.headers().collect();
    let mut made = vec![];
    for (at, (name, value)) in all.iter().enumerate() {
        let is_same = |other: &(&[u8], &[u8])| other.0.eq_ignore_ascii_case(name);
        if name.eq_ignore_ascii_case(cookie) || all[..at].iter().any(is_same) {
            continue;
        }
        made.extend_from_slice(name);
        made.extend_from_slice(b": ");
        made.extend_from_slice(value);
        for (_, value) in all[at + 1..].iter().filter(|other| is_same(other)) {
            made.extend_from_slice(b", ");
            made.extend_from_slice(value);
        }
        made.extend_from_slice(b"\r\n");
    }
    made
}

fn header_names(head: &Head) -> Vec<u8> {
    let mut made = b"\r\n".to_vec();
    for (name, _) in head.headers() {
        made.extend_from_slice(name);
        made.extend_from_slice(b"\r\n");
    }
    made.extend_from_slice(b"\r\n");
    made
}

/// A target without scheme and host.
fn path_of(target: &[u8]) -> &[u8] {
    let Some(at) = target.windows(3).position(|bytes| bytes == b"://") else { return target };
    // A query may hold a URI.
    if target[..at].iter().any(|byte| matches!(byte, b'/' | b'?')) {
        return target;
    }
    let rest = &target[at + 3..];
    rest.iter().position(|byte| matches!(byte, b'/' | b'?')).map_or(&b"/"[..], |slash| &rest[slash..])
}

/// The path without escapes, dots and double slashes; and the query, as libhtp writes them.
fn normal_uri(target: &[u8]) -> Vec<u8> {
    let target = path_of(target);
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => target.split_at(at),
        None => (target, &b""[..]),
    };
    let mut made = normal_path(&unescaped(path));
    made.extend_from_slice(&if query.contains(&b'%') { keep_plus(query) } else { query.to_vec() });
    made
}

/// Escapes undone; a plus sign stays.
fn keep_plus(bytes: &[u8]) -> Vec<u8> {
    let parts = bytes.split(|byte| *byte == b'+').map(url_decoded);
    parts.collect::<Vec<_>>().join(&b'+')
}

fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = if *first == b'%' { behind.get(..2).and_then(hex_byte) } else { None };
        made.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    made
}

/// Removes empty segments, `.` and `..` (RFC 3986, section 5.2.4).
fn normal_path(path: &[u8]) -> Vec<u8> {
    let mut made: Vec<&[u8]> = vec![];
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = parts.len() - 1;
    for (at, part) in parts.iter().enumerate() {
        match *part {
            b"" if at > 0 && at < last => {}
            b"." if at < last => {}
            b"." => made.push(b""),
            b".." => {
                if made.len() > 1 {
                    made.pop();
                }
                if at == last {
                    made.push(b"");
                }
            }
            part => made.push(part),
        }
    }
    made.join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_paths() {
        for (target, path) in [
            ("/a/./b/../c//d", "/a/c/d"),
            ("/a%20b/%2e%2e/c", "/c"),
            ("http://host/x?y=%41+b", "/x?y=A+b"),
            ("/x?u=http://host/", "/x?u=http://host/"),
            ("/../../etc", "/etc"),
            ("/a/", "/a/"),
            ("*", "*"),
        ] {
            assert_eq!(String::from_utf8_lossy(&normal_uri(target.as_bytes())), path, "{target}");
        }
    }
}
