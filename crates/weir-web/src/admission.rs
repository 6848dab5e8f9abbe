//! Who may ask.
//!
//! Without a token, only programs of this host can reach the server, which listens on a loopback address
//! then. A browser of this host may show pages of others, which must not ask: the name in the header `Host`
//! has to be one of the loopback (otherwise a page whose name changes its address to 127.0.0.1 could ask, DNS
//! rebinding), and the header `Origin`, if there is one, that of the server itself. With a token, every
//! request needs it, but those for the files of the page.

use crate::reply::Refusal;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use std::net::{IpAddr, SocketAddr};

/// Letters of a token at least.
const TOKEN_LETTERS_MIN: usize = 16;
/// Letters of a token at most.
const TOKEN_LETTERS_MAX: usize = 512;

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

    /// Compares in a time that says nothing about the token but its length.
    fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differences = own.iter().zip(given).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0 && own.len() == given.len()
    }
}

/// The rules of a server.
#[derive(Debug, Clone)]
pub struct Admission {
    token: Option<Token>,
}

impl Admission {
    /// The rules of a server at these addresses.
    ///
    /// # Errors
    /// An address is not one of the loopback, and there is no token.
    pub fn new(addresses: &[SocketAddr], token: Option<Token>) -> Result<Self, String> {
        let open = addresses.iter().find(|address| !address.ip().is_loopback());
        match (open, &token) {
            (Some(address), None) => Err(format!(
                "other hosts can reach {address}: give a token with --api-token-file FILE, or listen on 127.0.0.1"
            )),
            _ => Ok(Self { token }),
        }
    }

    /// Checks the head of a request. `is_public`: the answer is the same for everybody, as the files of the
    /// page are.
    pub(crate) fn check(&self, head: &HeaderMap, is_public: bool) -> Result<(), Refusal> {
        if let Some(token) = &self.token {
            let given = head.get(AUTHORIZATION).map(|value| value.as_bytes());
            let given = given.and_then(|value| {
                let (scheme, token) = value.split_at_checked(7)?;
                scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
            });
            let is_known = given.is_some_and(|given| token.is(given));
            return if is_public || is_known { Ok(()) } else { Err(Refusal::unauthorized()) };
        }
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
}

/// Whether `NAME` or `NAME:PORT` names the loopback.
fn is_loopback(host: &str) -> bool {
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

    #[test]
    fn without_a_token_only_the_loopback_and_its_own_page_may_ask() {
        let open = Admission::new(&["127.0.0.1:9465".parse().unwrap()], None).unwrap();
        let asks = |lines: &[(&str, &str)]| open.check(&head(lines), false).is_ok();
        for host in ["127.0.0.1", "127.0.0.1:9465", "localhost:9465", "LOCALHOST", "[::1]:9465", "[::1]"] {
            assert!(asks(&[("host", host)]), "{host}");
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
            assert!(!asks(&[("host", host)]), "{host}");
        }
        assert!(!asks(&[]) && !asks(&[("host", "localhost"), ("host", "evil.example")]));
        let own = ("host", "localhost:9465");
        assert!(asks(&[own, ("origin", "http://localhost:9465")]));
        for origin in [
            "http://evil.example",
            "null",
            "https://localhost:9465",
            "http://localhost",
            "http://localhost:1",
        ] {
            assert!(!asks(&[own, ("origin", origin)]), "{origin}");
        }
    }

    #[test]
    fn with_a_token_every_request_needs_it() {
        let token = Token::of("0123456789abcdef\n").unwrap();
        let closed = Admission::new(&["0.0.0.0:9465".parse().unwrap()], Some(token)).unwrap();
        let asks = |value: &str| closed.check(&head(&[("authorization", value)]), false).is_ok();
        assert!(asks("Bearer 0123456789abcdef") && asks("bearer 0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeg",
            "Basic 0123456789abcdef",
        ] {
            assert!(!asks(wrong), "{wrong}");
        }
        assert!(closed.check(&HeaderMap::new(), true).is_ok(), "the page");
        assert!(closed.check(&HeaderMap::new(), false).is_err());
    }

    #[test]
    fn other_hosts_need_a_token() {
        let all = ["127.0.0.1:9465".parse().unwrap(), "0.0.0.0:9465".parse().unwrap()];
        assert!(Admission::new(&all[..1], None).is_ok() && Admission::new(&all, None).is_err());
        for wrong in
            ["", "short", "has a blank in itself", "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}"]
        {
            assert!(Token::of(wrong).is_err(), "{wrong}");
        }
    }
}
