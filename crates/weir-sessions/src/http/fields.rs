//! The filter fields of an exchange, one line each: Wireshark's name first, then ours; columns have the names
//! of Zeek's `http.log`. If both request and response may have a header, the plain name is a list of both
//! values.

use super::exchange::{HttpExchange, HttpMessage};
use super::files;
use super::start_line::Version;
use super::stream::Flaw;
use super::uri;
use crate::Words;
use crate::session::session_fields;
use crate::values::{collect_numbers, owned_texts as texts, readable};
use std::borrow::Cow;
use weir_packet::Value;

/// The length of a body. Absent if no content was seen but bytes are missing or unreadable, since it is then
/// unknown whether there was a body.
fn body_length(message: Option<&HttpMessage>) -> Value<'_> {
    match message {
        Some(HttpMessage { flaw: Some(Flaw::Gap | Flaw::Malformed), body_bytes: 0, .. }) => Value::Absent,
        message => Value::Unsigned(message.map_or(0, |message| message.body_bytes)),
    }
}

session_fields! { HttpExchange;
    // Columns of the log.
    "http.request_number" ["http.trans_depth"] trans_depth: Unsigned, "Number of the exchange in its connection, from 1" => |h| Value::Unsigned(h.depth.into());
    "http.request.method" ["http.method"] method: Text, "Method of the request" => |h| of_request(h, |m| said(m.head.method()));
    "http.host" [] host: Text, "Host that the request is for, with the port if present" => |h| h.host().map_or(Value::Absent, Value::Text);
    "http.request.uri.unescaped" ["http.unescaped_uri"] uri: Text, "Target of the request, unescaped: /a b for /a%20b" => |h| of_request(h, unescaped_target);
    "http.referer" ["http.referrer"] referrer: Text, "Referer of the request" => |h| request_header(h, "referer");
    "http.response.version_number" [] version: Text, "HTTP version of the response: 1.0, 1.1, 2" => |h| of_response(h, |m| Value::Text(m.head.version().text()));
    "http.user_agent" [] user_agent: Text, "Name of the client's program" => |h| request_header(h, "user-agent");
    "http.origin" [] origin: Text, "Origin of a cross-origin request" => |h| request_header(h, "origin");
    "http.request_body_len" [] request_body_len: Unsigned, "Size of the request's content as sent, bytes; 0 without content, absent if all of it is missing" => |h| body_length(h.request.as_ref());
    "http.response_body_len" [] response_body_len: Unsigned, "Size of the response's content as sent, bytes; 0 without content, absent if all of it is missing" => |h| body_length(h.response.as_ref());
    "http.response.code" ["http.status_code", "http.status"] status_code: Unsigned, "Status code of the response" => |h| of_response(h, |m| code(m.head.code()));
    "http.response.phrase" ["http.status_msg"] status_msg: Text, "Reason phrase of the response; none in HTTP/2" => |h| of_response(h, |m| phrase(m.head.version(), m.head.phrase()));
    "http.info.code" ["http.info_code"] info_code: Unsigned, "Status code of the last interim response (100 to 199)" => |h| h.info.as_ref().map_or(Value::Absent, |info| Value::Unsigned(info.0.into()));
    "http.info.phrase" ["http.info_msg"] info_msg: Text, "Reason phrase of the last interim response" => |h| h.info.as_ref().map_or(Value::Absent, |info| phrase(h.version().unwrap_or(Version(1, 1)), info.1.as_bytes()));
    "http.tags" [] tags: Texts, "Indicators; always empty" => |_| Value::Texts((&[][..]).into());
    "http.authbasic.user" ["http.username"] username: Text, "User name of basic authentication" => |h| h.user_name().map_or(Value::Absent, |name| Value::Text(Cow::Owned(name)));
    "http.authbasic.password" [] password: Text, "Password of basic authentication; always hidden" => |_| Value::Absent;
    "http.proxied" [] proxied: Texts, "Headers that indicate proxies, in Zeek's form: VIA -> 1.1 cache" => proxied;
    "http.request.file" [] orig_fuids: Numbers, "Number of the request's content as a file; in rows the identifier in files.log" => |h| of_request(h, |m| file_number(h, m));
    "http.request.filename" [] orig_filenames: Texts, "File name of the request's content" => |h| of_request(h, file_name);
    "http.request.mime_types" ["http.orig_mime_types"] orig_mime_types: Texts, "Media type of the request's content, detected from its first bytes" => |h| of_request(h, media_type);
    "http.response.file" [] resp_fuids: Numbers, "Number of the response's content as a file; in rows the identifier in files.log" => |h| of_response(h, |m| file_number(h, m));
    "http.response.filename" [] resp_filenames: Texts, "File name of the response's content" => |h| of_response(h, file_name);
    "http.response.mime_types" ["http.resp_mime_types"] resp_mime_types: Texts, "Media type of the response's content, detected from its first bytes" => |h| of_response(h, media_type);
    // Fields of the request.
    "http.server_name" ["http.hostname"] _: Text, "Host that the request is for, without the port" => |h| h.host().map_or(Value::Absent, |host| Value::Text(without_port(host)));
    "http.version" [] _: Text, "HTTP version of the request, or of the response if there is no request: 1.0, 1.1, 2" => |h| h.version().map_or(Value::Absent, |version| Value::Text(version.text()));
    "http.request.uri" ["http.uri"] _: Text, "Target of the request as sent" => |h| of_request(h, |m| said(m.head.target()));
    "http.request.body_bytes" [] _: Unsigned, "Size of the request's content as sent, bytes" => |h| of_request(h, |m| Value::Unsigned(m.body_bytes));
    "http.request.full_uri" ["http.full_uri"] _: Text, "URI of the request with scheme and host" => |h| h.full_uri().map_or(Value::Absent, Value::Text);
    "http.request.uri.path" ["http.path"] _: Text, "Target of the request without its query" => |h| of_request(h, |m| said(m.head.target().split(|byte| *byte == b'?').next().unwrap_or_default()));
    "http.request.uri.query" ["http.query"] _: Text, "Query of the request's target" => |h| of_request(h, |m| m.head.target().splitn(2, |byte| *byte == b'?').nth(1).map_or(Value::Absent, text));
    "http.request.version" [] _: Text, "HTTP version of the request: HTTP/1.1" => |h| of_request(h, version);
    "http.request.content_length" [] _: Unsigned, "Content-Length of the request" => |h| of_request(h, content_length);
    "http.request.content_type" [] _: Text, "Content-Type of the request" => |h| request_header(h, "content-type");
    "http.request.line" [] _: Texts, "Header lines of the request, in order" => |h| of_request(h, lines);
    "http.request.header_names" ["http.client_header_names"] _: Texts, "Names of the request's headers, in order" => |h| of_request(h, names);
    "http.accept" [] _: Text, "Media types that the client accepts" => |h| request_header(h, "accept");
    "http.accept_language" [] _: Text, "Languages that the client accepts" => |h| request_header(h, "accept-language");
    "http.accept_encoding" [] _: Text, "Content codings that the client accepts" => |h| request_header(h, "accept-encoding");
    "http.authorization" [] _: Text, "Credentials of the request" => |h| request_header(h, "authorization");
    "http.proxy_authorization" [] _: Text, "Credentials for a proxy" => |h| request_header(h, "proxy-authorization");
    "http.cookie" [] _: Text, "Cookies of the request" => |h| request_header(h, "cookie");
    "http.x_forwarded_for" ["http.xff"] _: Text, "Client for which a proxy sends the request" => |h| request_header(h, "x-forwarded-for");
    // Fields of the response.
    "http.response.version" [] _: Text, "HTTP version of the response: HTTP/1.1" => |h| of_response(h, version);
    "http.response.body_bytes" [] _: Unsigned, "Size of the response's content as sent, bytes" => |h| of_response(h, |m| Value::Unsigned(m.body_bytes));
    "http.response.content_length" [] _: Unsigned, "Content-Length of the response" => |h| of_response(h, content_length);
    "http.response.content_type" [] _: Text, "Content-Type of the response" => |h| response_header(h, "content-type");
    "http.response.line" [] _: Texts, "Header lines of the response, in order" => |h| of_response(h, lines);
    "http.response.header_names" ["http.server_header_names"] _: Texts, "Names of the response's headers, in order" => |h| of_response(h, names);
    "http.server" [] _: Text, "Name of the server's program" => |h| response_header(h, "server");
    "http.location" [] _: Text, "Location to which the response refers" => |h| response_header(h, "location");
    "http.set_cookie" [] _: Texts, "Cookies that the response sets" => |h| of_response(h, |m| texts(m.head.all("set-cookie").map(owned).collect()));
    "http.www_authenticate" [] _: Text, "Authentication methods that the server accepts" => |h| response_header(h, "www-authenticate");
    "http.last_modified" [] _: Text, "Time of the last change of the content" => |h| response_header(h, "last-modified");
    // Fields of both.
    "http.content_type" [] _: Texts, "Content-Type of request and response" => |h| both(h, "content-type");
    "http.content_length" [] _: Numbers, "Content-Length of request and response" => |h| collect_numbers(messages(h).filter_map(HttpMessage::content_length));
    "http.content_encoding" [] _: Texts, "Content-Encoding of request and response" => |h| both(h, "content-encoding");
    "http.transfer_encoding" [] _: Texts, "Transfer-Encoding of request and response" => |h| both(h, "transfer-encoding");
    "http.connection" [] _: Texts, "Connection of request and response" => |h| both(h, "connection");
    "http.upgrade" [] _: Texts, "Protocols to which request and response switch" => |h| both(h, "upgrade");
    "http.cache_control" [] _: Texts, "Cache-Control of request and response" => |h| both(h, "cache-control");
    "http.date" [] _: Texts, "Date of request and response" => |h| both(h, "date");
    // Timing and completeness.
    "http.time" [] _: Interval, "Time between the first bytes of request and response" => |h| h.wait_ns().map_or(Value::Absent, Value::Interval);
    "http.incomplete" [] _: Text in FLAWS, "Why the exchange is incomplete: gap, oversize, malformed, unfinished" => |h| h.flaw().map_or(Value::Absent, |flaw| Value::Text(Cow::Borrowed(flaw.as_str())));
    "http2.streamid" ["http.stream_id"] _: Unsigned, "Number of the stream, in HTTP/2" => |h| h.stream_id.map_or(Value::Absent, |id| Value::Unsigned(id.into()));
    "http2.rst_stream.error" ["http.reset_code"] _: Unsigned, "Error code of the RST_STREAM that ended the stream, in HTTP/2" => |h| h.reset_code.map_or(Value::Absent, |code| Value::Unsigned(code.into()));
}

/// Names of [`Flaw`]s.
const FLAWS: Words = Words {
    list: || [Flaw::Gap, Flaw::Oversize, Flaw::Malformed, Flaw::Unfinished].map(Flaw::as_str).into(),
    others: &[],
};

/// Headers that indicate proxies, in lower case.
const PROXY_HEADERS: &[&str] = &[
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-from",
    "client-ip",
    "via",
    "xroxy-connection",
    "proxy-connection",
];

fn of_request<'a>(exchange: &'a HttpExchange, read: impl Fn(&'a HttpMessage) -> Value<'a>) -> Value<'a> {
    exchange.request.as_ref().map_or(Value::Absent, read)
}

fn of_response<'a>(exchange: &'a HttpExchange, read: impl Fn(&'a HttpMessage) -> Value<'a>) -> Value<'a> {
    exchange.response.as_ref().map_or(Value::Absent, read)
}

fn messages(exchange: &HttpExchange) -> impl Iterator<Item = &HttpMessage> {
    [&exchange.request, &exchange.response].into_iter().flatten()
}

fn request_header<'a>(exchange: &'a HttpExchange, name: &str) -> Value<'a> {
    exchange.request.as_ref().map_or(Value::Absent, |message| header(message, name))
}

fn response_header<'a>(exchange: &'a HttpExchange, name: &str) -> Value<'a> {
    exchange.response.as_ref().map_or(Value::Absent, |message| header(message, name))
}

fn header<'a>(message: &'a HttpMessage, name: &str) -> Value<'a> {
    message.head.header(name).map_or(Value::Absent, |value| Value::Text(readable(value)))
}

fn both(exchange: &HttpExchange, name: &str) -> Value<'static> {
    texts(messages(exchange).flat_map(|message| message.head.all(name).map(owned)).collect())
}

fn media_type(message: &HttpMessage) -> Value<'_> {
    texts(message.media_type().into_iter().map(str::to_owned).collect())
}

fn file_number<'a>(exchange: &HttpExchange, message: &HttpMessage) -> Value<'a> {
    let number = (message.body_bytes > 0).then(|| files::number(exchange, message));
    collect_numbers(number.into_iter())
}

fn file_name(message: &HttpMessage) -> Value<'_> {
    let name = (message.body_bytes > 0).then(|| files::name(message)).flatten();
    texts(name.into_iter().collect())
}

fn version(message: &HttpMessage) -> Value<'_> {
    Value::Text(Cow::Owned(format!("HTTP/{}", message.head.version().text())))
}

fn content_length(message: &HttpMessage) -> Value<'_> {
    message.content_length().map_or(Value::Absent, Value::Unsigned)
}

fn lines(message: &HttpMessage) -> Value<'_> {
    texts(message.head.headers().map(|(name, value)| format!("{}: {}", owned(name), owned(value))).collect())
}

fn names(message: &HttpMessage) -> Value<'_> {
    texts(message.head.headers().map(|(name, _)| owned(name)).collect())
}

fn proxied(exchange: &HttpExchange) -> Value<'_> {
    let Some(request) = &exchange.request else { return Value::Absent };
    let tell = |(name, value): (&[u8], &[u8])| {
        let known = PROXY_HEADERS.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
        Some(format!("{} -> {}", known.to_ascii_uppercase(), owned(value)))
    };
    texts(request.head.headers().filter_map(tell).collect())
}

/// The host without a port such as `:8080`.
fn without_port(host: Cow<'_, str>) -> Cow<'_, str> {
    let is_port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':').filter(is_port).map(|(name, _)| name.len()) {
        None => host,
        // An IPv6 address contains colons; only brackets separate it from a port.
        Some(length) if host[..length].contains(':') && !host[..length].ends_with(']') => host,
        Some(length) => match host {
            Cow::Borrowed(host) => Cow::Borrowed(&host[..length]),
            Cow::Owned(host) => Cow::Owned(host[..length].to_owned()),
        },
    }
}

fn unescaped_target(message: &HttpMessage) -> Value<'_> {
    let target = message.head.target();
    match memchr::memchr(b'%', target) {
        None => said(target),
        Some(_) => Value::Text(Cow::Owned(readable(&uri::unescape(target)).into_owned())),
    }
}

/// A status code; 0 if it is unreadable.
fn code<'a>(code: u16) -> Value<'a> {
    if code == 0 { Value::Absent } else { Value::Unsigned(code.into()) }
}

/// A reason phrase. HTTP/1 always has one, which may be empty; HTTP/2 and HTTP/0.9 have none.
fn phrase(version: Version, phrase: &[u8]) -> Value<'_> {
    if version.0 != 1 { Value::Absent } else { text(phrase) }
}

fn text(bytes: &[u8]) -> Value<'_> {
    Value::Text(readable(bytes))
}

/// A method or a target. Without one, HTTP/2 was seen from the middle, or the request is a CONNECT.
fn said(bytes: &[u8]) -> Value<'_> {
    if bytes.is_empty() { Value::Absent } else { text(bytes) }
}

fn owned(bytes: &[u8]) -> String {
    readable(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::conversation::rows;
    use crate::http::PROTOCOL;

    #[test]
    fn a_body_that_is_missing_is_not_an_empty_one() {
        let answered = |length: &str, rest: &str| {
            let talk = format!(
                "> \"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n< \"HTTP/1.1 200 OK\\r\\nContent-Length: {length}\\r\\n\\r\\n{rest}\"\n"
            );
            rows(&PROTOCOL, &talk, &["request_body_len", "response_body_len", "http.incomplete"])
        };
        assert_eq!(answered("3", "\"\n< gap 5\n< \""), ["0 | - | gap"]);
        assert_eq!(answered("9", "\"\n< gap 5\n< \""), ["0 | 5 | unfinished"]);
        assert_eq!(answered("9", ""), ["0 | 0 | unfinished"], "none was sent");
        assert_eq!(answered("0", ""), ["0 | 0 | -"]);
        let cookie = "a".repeat(90_000);
        let talk = format!(
            "> \"GET / HTTP/1.1\\r\\nHost: a\\r\\nCookie: {cookie}\\r\\n\\r\\n\"\n< \"HTTP/1.1 204 No Content\\r\\n\\r\\n\"\n"
        );
        let lengths = &["request_body_len", "response_body_len", "http.incomplete"];
        assert_eq!(rows(&PROTOCOL, &talk, lengths), ["0 | 0 | oversize"], "nothing is missing");
    }
}
