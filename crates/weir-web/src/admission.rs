//! Who may ask.
//!
//! A port of the loopback is open to all users of the machine, and to the pages of other servers that a
//! browser of this machine shows. So every request over TCP needs the token, but those for the files of the
//! page; and whatever a request says about where it comes from must fit:
//!
//! - `Sec-Fetch-Site`: not from a page of another server;
//! - a target with an authority (`GET http://name/…`): the one that `Host` names;
//! - `Host` and `Origin`, if the server has made the token: those of the loopback, and of the server itself.
//!   (A page whose name changes its address to 127.0.0.1, DNS rebinding, fails twice.) A token that somebody
//!   gave to clients elsewhere may come through a proxy.
//!
//! A socket file needs no token: its rights say who may connect.

use crate::reply::Refusal;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};
use std::io;
use std::net::IpAddr;
use weir_guard::secrets;

/// Letters of a token at least.
const TOKEN_LETTERS_MIN: usize = 16;
/// Letters of a token at most.
const TOKEN_LETTERS_MAX: usize = 512;

/// Random bytes of a token that the server makes.
const TOKEN_BYTES: usize = 16;
/// The parameter of a query that has the token, for clients that send no header: an address in a browser.
pub(crate) const PARAMETER: &str = "token";

/// The secret that clients know.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The token in the text of a file: the first line.
    ///
    /// # Errors
    /// What is wrong with the token.
    pub fn of(text: &str) -> Result<Self, String> {
        let token = text.lines().next().unwrap_or_default().trim();
        let is_possible = (TOKEN_LETTERS_MIN..=TOKEN_LETTERS_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_possible {
            true => Ok(Self(token.to_string())),
            false => Err(format!(
                "a token has {TOKEN_LETTERS_MIN} to {TOKEN_LETTERS_MAX} letters, digits and signs in one line: \
                 `openssl rand -hex 32` makes one"
            )),
        }
    }

    /// A token that nobody knows yet.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        secrets::random_text::<TOKEN_BYTES>().map(Self)
    }

    /// The token, to be shown to the one who starts the server.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that says nothing about the token but its length.
    fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differences = own.iter().zip(given).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0 && own.len() == given.len()
    }
}

/// The rules of a server.
#[derive(Debug, Clone)]
pub enum Admission {
    /// Clients of this machine have the token that the server has made. The server listens on the loopback.
    Own(Token),
    /// Clients have a token that somebody gave them. They may come from elsewhere, and through a proxy.
    Given(Token),
    /// The rights of a socket file say who is a client.
    Socket,
}

/// What a request says about itself.
pub(crate) struct Asking<'a> {
    pub method: &'a Method,
    pub target: &'a Uri,
    pub head: &'a HeaderMap,
    /// The answer is the same for everybody, as the files of the page are.
    pub is_public: bool,
}

impl Admission {
    /// Checks a request before its body is read.
    pub(crate) fn check(&self, asking: &Asking<'_>) -> Result<(), Refusal> {
        let Asking { target, head, .. } = asking;
        let text = |name: &str| head.get(name).map(|value| value.to_str().unwrap_or_default());
        check_origin(text("sec-fetch-site"), target.authority().map(|name| name.as_str()), text("host"))
            .map_err(Refusal::forbidden)?;
        match self {
            Self::Socket => Ok(()),
            Self::Given(token) => check_token(token, asking),
            Self::Own(token) => {
                check_loopback(head)?;
                check_token(token, asking)
            }
        }
    }
}

/// The rule about a request's place of origin that every server on this machine has, also one without tokens.
/// `site`: the header `Sec-Fetch-Site`; `authority`: that of the target, if it has one.
///
/// # Errors
/// A page of another server asks; the target is another server.
pub fn check_origin(
    site: Option<&str>,
    authority: Option<&str>,
    host: Option<&str>,
) -> Result<(), &'static str> {
    // `none`: a person has typed the address. `same-site` includes other ports of this machine.
    if site.is_some_and(|site| !["none", "same-origin"].contains(&site)) {
        return Err("pages of other servers may not ask: open the address itself");
    }
    match authority {
        Some(name) if !host.is_some_and(|host| host.eq_ignore_ascii_case(name)) => {
            Err("the target is another server than `Host` names: this is no proxy")
        }
        _ => Ok(()),
    }
}

fn check_token(token: &Token, asking: &Asking<'_>) -> Result<(), Refusal> {
    let of_head = asking.head.get(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    // What changes something needs the header: an address alone, wherever it has been copied to, cannot.
    let of_query = || match *asking.method {
        Method::GET => token_of(asking.target.query()?).map(str::as_bytes),
        _ => None,
    };
    let is_known = of_head.or_else(of_query).is_some_and(|given| token.is(given));
    if asking.is_public || is_known { Ok(()) } else { Err(Refusal::unauthorized()) }
}

/// The token in a query.
fn token_of(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix(PARAMETER)?.strip_prefix('='))
}

/// A query without the token, which is none of a route's parameters.
pub(crate) fn without_token(query: &str) -> String {
    let others = query.split('&').filter(|pair| pair.split('=').next() != Some(PARAMETER));
    others.collect::<Vec<_>>().join("&")
}

/// `Host` names the loopback, and `Origin`, if there is one, the same server.
fn check_loopback(head: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = head.get_all(HOST).iter();
    let host = match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) if is_loopback(host) => host,
        _ => {
            return Err(Refusal::forbidden("the header `Host` does not name the loopback").with_hint(
                "ask at http://127.0.0.1 or http://localhost, or set a token with --api-token-file",
            ));
        }
    };
    for origin in head.get_all(ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Err(Refusal::forbidden("pages of other servers may not ask"));
        }
    }
    Ok(())
}

/// Whether `NAME` or `NAME:PORT` names the loopback.
pub fn is_loopback(host: &str) -> bool {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, port) = match bracketed {
        Some((name, port)) => (name, port.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_rest_plain = bracketed.is_none_or(|(_, rest)| rest.is_empty() || rest.starts_with(':'));
    let is_address = |name: &str| name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    has_port && is_rest_plain && (name.eq_ignore_ascii_case("localhost") || is_address(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn head(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        lines.iter().map(line).collect()
    }

    /// Whether a request for `target` with these lines may ask.
    fn asks(rules: &Admission, method: Method, target: &str, lines: &[(&str, &str)]) -> bool {
        let (target, head) = (target.parse().unwrap(), head(lines));
        let is_public = target == "/";
        rules.check(&Asking { method: &method, target: &target, head: &head, is_public }).is_ok()
    }

    const TEXT: &str = "0123456789abcdef";
    const KNOWN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

    fn own() -> Admission {
        Admission::Own(Token::of(TEXT).unwrap())
    }

    #[test]
    fn only_the_loopback_and_its_own_page_may_ask_with_a_token_of_the_server() {
        let asks = |lines: &[(&str, &str)]| asks(&own(), Method::GET, "/api/v1/status", lines);
        for host in ["127.0.0.1", "127.0.0.1:9465", "localhost:9465", "LOCALHOST", "[::1]:9465", "[::1]"] {
            assert!(asks(&[("host", host), KNOWN]), "{host}");
            assert!(!asks(&[("host", host)]), "{host}: no token");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:9465",
            "10.0.0.1",
            "[::1]x",
            "[::1",
            "127.0.0.1:x",
        ] {
            assert!(!asks(&[("host", host), KNOWN]), "{host}");
        }
        assert!(!asks(&[KNOWN]) && !asks(&[("host", "localhost"), ("host", "evil.example"), KNOWN]));
        let own = ("host", "localhost:9465");
        assert!(asks(&[own, ("origin", "http://localhost:9465"), KNOWN]));
        for origin in [
            "http://evil.example",
            "null",
            "https://localhost:9465",
            "http://localhost",
            "http://localhost:1",
        ] {
            assert!(!asks(&[own, ("origin", origin), KNOWN]), "{origin}");
        }
    }

    #[test]
    fn every_request_needs_the_token_and_only_reading_takes_it_from_the_address() {
        let given = Admission::Given(Token::of(&format!("{TEXT}\n")).unwrap());
        let asks_with =
            |value: &str| asks(&given, Method::POST, "/api/v1/dumps", &[("authorization", value)]);
        assert!(asks_with("Bearer 0123456789abcdef") && asks_with("bearer 0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeg",
            "Basic 0123456789abcdef",
        ] {
            assert!(!asks_with(wrong), "{wrong}");
        }
        assert!(asks(&given, Method::GET, "/", &[]), "the page");
        for (query, is_known) in [
            ("token=0123456789abcdef", true),
            ("limit=1&token=0123456789abcdef", true),
            ("token=0123456789abcde", false),
            ("mytoken=0123456789abcdef", false),
            ("token", false),
            ("", false),
        ] {
            let target = format!("/api/v1/flows?{query}");
            assert_eq!(asks(&given, Method::GET, &target, &[]), is_known, "{query}");
            assert!(!asks(&given, Method::POST, &target, &[]) && !asks(&given, Method::DELETE, &target, &[]));
        }
        assert_eq!(without_token("limit=1&token=x&filter=token"), "limit=1&filter=token");
        assert_eq!(without_token("token=x"), "");
    }

    #[test]
    fn pages_and_targets_of_other_servers_are_refused_whatever_they_know() {
        let given = Admission::Given(Token::of(TEXT).unwrap());
        for rules in [own(), given, Admission::Socket] {
            let host = ("host", "localhost:9465");
            let asks = |target: &str, more: &[(&str, &str)]| {
                asks(&rules, Method::GET, target, &[&[host, KNOWN], more].concat())
            };
            for (site, is_own) in [
                ("none", true),
                ("same-origin", true),
                ("same-site", false),
                ("cross-site", false),
                ("x", false),
            ] {
                assert_eq!(asks("/api/v1/status", &[("sec-fetch-site", site)]), is_own, "{site}");
                assert_eq!(asks("/", &[("sec-fetch-site", site)]), is_own, "{site}: the page");
            }
            assert!(asks("http://localhost:9465/api/v1/status", &[]));
            assert!(!asks("http://evil.example/api/v1/status", &[]), "another authority");
            assert!(!asks("http://localhost:1/api/v1/status", &[]), "another port");
        }
        assert!(asks(&Admission::Socket, Method::POST, "/api/v1/dumps", &[]), "the rights of the file count");
    }

    #[test]
    fn tokens_have_a_form_and_random_ones_fit() {
        for wrong in
            ["", "short", "has a blank in itself", "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}"]
        {
            assert!(Token::of(wrong).is_err(), "{wrong}");
        }
        let random = Token::random().expect("the system has random numbers");
        assert!(Token::of(random.text()).is_ok() && random.text() != Token::random().expect("more").text());
    }
}
