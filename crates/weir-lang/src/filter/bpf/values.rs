//! Converts values with their qualifiers to primitives.

use super::tree::{Direction, Primitive, Sum};
use super::words::{self, Protocol, ValueKind};
use crate::diag::Span;
use crate::filter::ast::Literal;
use crate::filter::constant::without_host_bits;
use crate::filter::frame_test::Order;
use crate::filter::literal::{self, Fault};
use crate::filter::report::{self, Report};

/// The qualifiers before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Qualifiers {
    pub protocol: Option<Protocol>,
    pub direction: Option<Direction>,
    pub kind: Option<ValueKind>,
}

impl Qualifiers {
    /// Whether the qualifiers are a protocol alone, which is a complete primitive.
    pub fn is_protocol(self) -> bool {
        self.protocol.is_some() && self.direction.is_none() && self.kind.is_none()
    }

    fn ends(self) -> Direction {
        self.direction.unwrap_or(Direction::Either)
    }
}

impl Primitive {
    /// `less` and `greater`, which include the number.
    pub fn length(is_less: bool, number: u32) -> Primitive {
        let (order, is_not) = if is_less { (Order::Greater, true) } else { (Order::GreaterOrEqual, false) };
        Primitive::Relation { order, is_not, left: Sum::Length, right: Sum::Number(number) }
    }
}

/// Builds the primitive at `span`.
pub(super) struct Builder<'a> {
    pub report: &'a mut Report,
    pub span: Span,
}

impl Builder<'_> {
    /// `ether broadcast`, `ip multicast` and similar primitives.
    pub fn cast(&mut self, word: &str, qualifiers: Qualifiers) -> Option<Primitive> {
        if qualifiers.direction.is_some() || qualifiers.kind.is_some() {
            return self.refuse_qualifier(word, "it takes a protocol only: `ether multicast`");
        }
        let is_broadcast = word == "broadcast";
        match qualifiers.protocol {
            None | Some(Protocol::Ether) if is_broadcast => Some(Primitive::Broadcast),
            None | Some(Protocol::Ether) => Some(Primitive::Multicast(None)),
            Some(protocol @ (Protocol::Ip | Protocol::Ip6)) if !is_broadcast => {
                Some(Primitive::Multicast(Some(protocol)))
            }
            Some(Protocol::Ip) => {
                let message = "the netmask that `ip broadcast` needs is not known";
                self.report.error(report::BPF_UNSUPPORTED, self.span, message).help =
                    Some("write the address: `dst host 192.0.2.255`".to_string());
                None
            }
            _ => self.refuse_qualifier(word, "it goes with `ether`, `ip` and `ip6`"),
        }
    }

    fn refuse_qualifier(&mut self, word: &str, help: &str) -> Option<Primitive> {
        let message = format!("these qualifiers do not go with `{word}`");
        self.report.error(report::BPF_QUALIFIER, self.span, message).help = Some(help.to_string());
        None
    }

    /// A protocol alone. `tcp` tests IP's protocol number, so later fragments match.
    pub fn protocol(&mut self, protocol: Protocol) -> Option<Primitive> {
        if protocol == Protocol::Ether {
            self.report.error(report::BPF_QUALIFIER, self.span, "every frame has a link layer").help =
                Some("name a value: `ether host 00:1b:21:aa:bb:cc`".to_string());
            return None;
        }
        Some(Primitive::Protocol(protocol))
    }

    /// A value with its qualifiers.
    pub fn value(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Primitive> {
        match qualifiers.kind {
            Some(ValueKind::Port | ValueKind::PortRange) => self.port(qualifiers, value, span),
            Some(ValueKind::Proto | ValueKind::Chain) => self.proto(qualifiers, value, span),
            kind => self.address(qualifiers, kind, value, span),
        }
    }

    fn wrong(&mut self, span: Span, message: String, help: &str) -> Option<Primitive> {
        self.report.error(report::CONSTANT, span, message).help = Some(help.to_string());
        None
    }

    /// `proto` and `protochain`: a number or a name.
    fn proto(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Primitive> {
        let is_chain = qualifiers.kind == Some(ValueKind::Chain);
        let word = if is_chain { "protochain" } else { "proto" };
        if qualifiers.direction.is_some() {
            return self.refuse_qualifier(word, "a protocol has no direction: `ip proto 17`");
        }
        let over = qualifiers.protocol;
        let named = words::protocol(value);
        let (named, example) = match over {
            Some(Protocol::Ether) => (
                named.and_then(Protocol::ether_type).map(u32::from),
                "an EtherType is a number or a name: `ether proto 0x0800`, `ether proto \\ip`",
            ),
            Some(Protocol::EtherType(words::SAP_ISO)) => (
                named.and_then(
                    |protocol| if let Protocol::Iso(number) = protocol { Some(number.into()) } else { None },
                ),
                "a protocol over `iso` is a number or a name: `iso proto \\isis`",
            ),
            _ => (
                named.and_then(Protocol::over).map(|over| over.0.into()),
                "a protocol over IP is a number or a name: `ip proto 17`, `ip proto \\udp`",
            ),
        };
        let Some(number) = named.or(words::number(value)) else {
            return self.wrong(span, format!("`{value}` is no such protocol"), example);
        };
        match over {
            None | Some(Protocol::Ip | Protocol::Ip6) if is_chain => Some(Primitive::Chain { over, number }),
            None | Some(Protocol::Ip | Protocol::Ip6) if number > 255 => {
                self.wrong(span, format!("`{value}` is no protocol over IP"), "these numbers have 8 bits")
            }
            None
            | Some(Protocol::Ip | Protocol::Ip6 | Protocol::Ether | Protocol::EtherType(words::SAP_ISO))
                if !is_chain =>
            {
                Some(Primitive::Proto { over, number })
            }
            _ if is_chain => self.refuse_qualifier(word, "it goes with `ip` and `ip6`"),
            _ => self.refuse_qualifier(word, "it goes with `ether`, `ip`, `ip6` and `iso`"),
        }
    }

    /// `port` and `portrange`.
    fn port(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Primitive> {
        let one = |text: &str| {
            let number = words::number(text).or_else(|| words::service(text));
            number.filter(|port| *port <= 65_535)
        };
        let range = match qualifiers.kind {
            // A service name may also contain a `-`.
            Some(ValueKind::PortRange) if one(value).is_none() => {
                value.split_once('-').and_then(|(low, high)| Some((one(low)?, one(high)?)))
            }
            _ => one(value).map(|port| (port, port)),
        };
        let Some((low, high)) = range else {
            let message = format!("`{value}` is no port");
            let help = "a port is a number up to 65535, a range of them `portrange 8000-8080`";
            return self.wrong(span, message, help);
        };
        let over = match qualifiers.protocol {
            None => None,
            Some(protocol @ (Protocol::Tcp | Protocol::Udp | Protocol::Sctp)) => {
                protocol.over().map(|over| over.0)
            }
            Some(_) => return self.refuse_qualifier("port", "ports are of `tcp`, `udp` and `sctp`"),
        };
        // libpcap also swaps the ends.
        let ranges = vec![(low.min(high), low.max(high))];
        Some(Primitive::Port { over, direction: qualifiers.ends(), ranges })
    }

    /// `host` and `net`.
    fn address(
        &mut self,
        qualifiers: Qualifiers,
        kind: Option<ValueKind>,
        value: &str,
        span: Span,
    ) -> Option<Primitive> {
        let direction = qualifiers.ends();
        let word = if kind == Some(ValueKind::Net) { "net" } else { "host" };
        if qualifiers.protocol == Some(Protocol::Ether) {
            let address = literal::parse_mac(value).ok().and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
            return match address {
                Some(_) if word == "net" => {
                    self.refuse_qualifier("net", "for instance `ether host 00:1b:21:aa:bb:cc`")
                }
                Some(address) => Some(Primitive::Ether { direction, address }),
                None => {
                    let message = format!("`{value}` is no MAC address");
                    self.wrong(span, message, "for instance `ether host 00:1b:21:aa:bb:cc`")
                }
            };
        }
        let over = qualifiers.protocol;
        if over.is_some_and(|p| !matches!(p, Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp)) {
            return self.refuse_qualifier(word, "addresses are of `ip`, `ip6`, `arp`, `rarp` and `ether`");
        }
        let literal = match (network(value, word == "net"), kind) {
            (Ok(literal), _) => literal,
            (Err(Fault::Malformed(message, help)), _) => return self.wrong(span, message, &help),
            (Err(_), _) if literal::parse_mac(value).is_ok() => {
                return self.wrong(span, format!("`{value}` is a MAC address"), "write `ether host …`");
            }
            (Err(_), None) if words::number(value).is_some() || words::service(value).is_some() => {
                let help = format!("write `port {value}`, `proto {value}` or `net {value}`");
                return self.wrong(span, format!("what should `{value}` be?"), &help);
            }
            (Err(_), _) => {
                let help = "names of hosts are not looked up: write the address, `host 192.0.2.1`";
                return self.wrong(span, format!("`{value}` is no address"), help);
            }
        };
        match without_host_bits(literal, span, self.report) {
            Literal::Ipv6(..) if over.is_some_and(|over| over != Protocol::Ip6) => {
                self.wrong(span, format!("`{value}` is an IPv6 address"), "write `ip6 host …`")
            }
            Literal::Ipv6(address, bits) => {
                Some(Primitive::Ipv6 { direction, address: address.into(), bits: bits.into() })
            }
            Literal::Ipv4(..) if over == Some(Protocol::Ip6) => {
                self.wrong(span, format!("`{value}` is an IPv4 address"), "write `ip host …`")
            }
            Literal::Ipv4(address, bits) => {
                let low = u32::from(address);
                let high = low | u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                Some(Primitive::Ipv4 { over, direction, ranges: vec![(low, high)] })
            }
            _ => unreachable!("an address"),
        }
    }
}

/// An address, or a prefix. IPv4 also has short forms with eight bits per part: `10.1`, and with `net` also
/// `10`.
fn network(value: &str, is_net: bool) -> Result<Literal, Fault> {
    if value.contains(':') {
        return literal::parse_ipv6(value).map(|(address, prefix)| Literal::Ipv6(address, prefix));
    }
    let (address, prefix) = value.split_once('/').map_or((value, None), |(a, p)| (a, Some(p)));
    let parts = address.split('.').count();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts > 4 || !address.split('.').all(is_number) || (parts == 1 && !is_net) {
        return Err(Fault::Type);
    }
    let bits = prefix.map_or_else(|| (8 * parts).to_string(), str::to_string);
    let padded = match parts {
        4 => value.to_string(),
        _ => format!("{address}{}/{bits}", ".0".repeat(4 - parts)),
    };
    literal::parse_ipv4(&padded).map(|(address, prefix)| Literal::Ipv4(address, prefix))
}
