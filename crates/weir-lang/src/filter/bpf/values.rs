//! The meaning of pcap-filter(7)'s primitives in terms of fields, according to libpcap's `gencode.c`.
//!
//! A field that the catalogue lacks removes only its own alternative: without SCTP, `port 80` covers TCP and
//! UDP. If no alternative remains, the primitive is reported as a mistake.

use super::super::ast::{Expr, Literal, Op, Predicate};
use super::super::domain::Domain;
use super::super::literal::{self, Fault};
use super::super::names::Names;
use super::super::report::{self, Report};
use super::super::resolve::{canonicalize, join, warn_truth};
use super::words::{self, Protocol};
use crate::diag::Span;
use std::net::{Ipv4Addr, Ipv6Addr};

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
}

/// The endpoint that a value applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

/// Bytes of a packet: `(field[slice] & mask) >> shift`.
pub(super) struct Access {
    pub field: &'static str,
    pub slice: Option<(u32, u32)>,
    pub mask: Option<u64>,
    pub shift: u32,
    /// Only over IPv4, and not in a later fragment.
    pub over_ip: bool,
}

impl Access {
    /// Restricts the shifted value to these bits.
    pub fn masked(mut self, mask: u64) -> Access {
        let mask = mask << self.shift;
        self.mask = Some(self.mask.map_or(mask, |old| old & mask));
        self
    }

    /// Shifts the value to the right.
    pub fn shifted(mut self, bits: u32) -> Access {
        // After 32 bits the value is 0; the sum stays small enough to shift masks by.
        self.shift = (self.shift + bits).min(32);
        let kept = u64::MAX << self.shift;
        self.mask = Some(self.mask.map_or(kept, |old| old & kept));
        self
    }
}

/// Builds the expression for the primitive at `span`.
pub(super) struct Builder<'a> {
    pub names: &'a Names<'a>,
    pub report: &'a mut Report,
    pub span: Span,
}

impl Builder<'_> {
    /// One comparison; `None`, without a report, if the field does not exist.
    fn predicate(&self, field: &str, op: Op, literals: Vec<Literal>) -> Option<Expr> {
        let index = self.names.lookup(field)?;
        let mut predicate = Predicate {
            field: index,
            slice: None,
            mask: None,
            op,
            literals,
            negated: false,
            span: self.span,
        };
        canonicalize(&mut predicate, &self.names.fields[index]);
        Some(Expr::Predicate(predicate))
    }

    /// The disjunction of the alternatives that the catalogue supports.
    fn any(&mut self, parts: Vec<Option<Expr>>, fields: &str) -> Option<Expr> {
        let parts: Vec<Expr> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            self.report
                .error(report::BPF_UNSUPPORTED, self.span, format!("this stack has no {fields}"))
                .help = Some("`weir fields` lists all fields".to_string());
            return None;
        }
        Some(join(true, parts))
    }

    /// The protocol or tag is present.
    pub fn exists(&mut self, name: &str) -> Option<Expr> {
        let found = self.predicate(name, Op::Exists, Vec::new());
        self.any(vec![found], &format!("`{name}`"))
    }

    /// The field has this value.
    pub fn number(&mut self, field: &str, number: u64) -> Option<Expr> {
        let max = self
            .names
            .lookup(field)
            .and_then(|index| Domain::of_field(&self.names.fields[index]).number_max());
        if let Some(max) = max.filter(|max| number > *max) {
            self.report.error(report::RANGE, self.span, format!("`{field}` is never {number}")).help =
                Some(format!("its largest value is {max}"));
            return None;
        }
        let found = self.predicate(field, Op::Eq, vec![Literal::Numbers(number, number)]);
        self.any(vec![found], &format!("`{field}`"))
    }

    /// `less`, `greater`.
    pub fn length(&mut self, op: Op, number: u64) -> Option<Expr> {
        let access = Access { field: "frame.len", slice: None, mask: None, shift: 0, over_ip: false };
        self.relation(access, op, number)
    }

    /// `ether broadcast`, `ip multicast` and similar primitives.
    pub fn cast(&mut self, word: &str, qualifiers: Qualifiers) -> Option<Expr> {
        let broadcast = word == "broadcast";
        if qualifiers.direction.is_some() || qualifiers.kind.is_some() {
            return self.refuse_qualifier(word, "it takes a protocol only: `ether multicast`");
        }
        match qualifiers.protocol {
            None | Some(Protocol::Ether) if broadcast => {
                let all = self.predicate("eth.dst", Op::Eq, vec![Literal::Bytes(vec![0xff; 6])]);
                self.any(vec![all], "`eth.dst`")
            }
            None | Some(Protocol::Ether) => {
                let index = self.names.lookup("eth.dst");
                let group = index.map(|field| {
                    Expr::Predicate(Predicate {
                        field,
                        slice: Some((0, 1)),
                        mask: None,
                        op: Op::BitsAny,
                        literals: vec![Literal::Numbers(1, 1)],
                        negated: false,
                        span: self.span,
                    })
                });
                self.any(vec![group], "`eth.dst`")
            }
            // libpcap only tests whether the first byte is at least 224.
            Some(Protocol::Ip) if !broadcast => {
                let range = Literal::Ipv4Range(Ipv4Addr::new(224, 0, 0, 0), Ipv4Addr::BROADCAST);
                let found = self.predicate("ip.dst", Op::In, vec![range]);
                self.any(vec![found], "`ip.dst`")
            }
            Some(Protocol::Ip6) if !broadcast => {
                let prefix = Literal::Ipv6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
                let found = self.predicate("ipv6.dst", Op::Eq, vec![prefix]);
                self.any(vec![found], "`ipv6.dst`")
            }
            Some(Protocol::Ip) => {
                self.report
                    .error(
                        report::BPF_UNSUPPORTED,
                        self.span,
                        "the netmask that `ip broadcast` needs is not known",
                    )
                    .help = Some("write the address: `dst host 192.0.2.255`".to_string());
                None
            }
            _ => self.refuse_qualifier(word, "it goes with `ether`, `ip` and `ip6`"),
        }
    }

    fn refuse_qualifier(&mut self, word: &str, help: &str) -> Option<Expr> {
        self.report
            .error(report::BPF_QUALIFIER, self.span, format!("these qualifiers do not go with `{word}`"))
            .help = Some(help.to_string());
        None
    }

    /// A protocol alone. As in libpcap, `tcp` tests IP's protocol number, so later fragments match.
    pub fn protocol(&mut self, protocol: Protocol) -> Option<Expr> {
        match protocol {
            Protocol::Ether => self.exists("eth"),
            Protocol::Ip => self.exists("ip"),
            Protocol::Ip6 => self.exists("ipv6"),
            Protocol::Arp => self.exists("arp"),
            Protocol::EtherType(number) => self.number("eth.type", number.into()),
            _ => {
                let (number, over_ip, over_ip6) = protocol.over()?;
                self.ip_protocol(number.into(), over_ip, over_ip6)
            }
        }
    }

    fn ip_protocol(&mut self, number: u64, over_ip: bool, over_ip6: bool) -> Option<Expr> {
        let equals = |field| self.predicate(field, Op::Eq, vec![Literal::Numbers(number, number)]);
        let mut parts = Vec::new();
        if over_ip {
            parts.push(equals("ip.proto"));
        }
        if over_ip6 {
            parts.push(equals("ipv6.nxt"));
            parts.push(equals("ipv6.fraghdr.nxt"));
        }
        self.any(parts, "`ip.proto` and no `ipv6.nxt`")
    }

    /// A value with its qualifiers.
    pub fn value(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Expr> {
        match qualifiers.kind {
            Some(ValueKind::Port | ValueKind::PortRange) => self.port(qualifiers, value, span),
            Some(ValueKind::Proto) => self.proto(qualifiers, value, span),
            kind => self.address(qualifiers, kind, value, span),
        }
    }

    fn wrong(&mut self, span: Span, message: String, help: &str) -> Option<Expr> {
        self.report.error(report::CONSTANT, span, message).help = Some(help.to_string());
        None
    }

    /// `proto`: a number or a name.
    fn proto(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Expr> {
        if qualifiers.direction.is_some() {
            return self.refuse_qualifier("proto", "a protocol has no direction: `ip proto 17`");
        }
        let named = words::protocol(value);
        if qualifiers.protocol == Some(Protocol::Ether) {
            return match (named, words::number(value)) {
                (
                    Some(protocol @ (Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::EtherType(_))),
                    _,
                ) => self.protocol(protocol),
                (None, Some(number)) => self.number("eth.type", number),
                _ => self.wrong(
                    span,
                    format!("`{value}` is no EtherType"),
                    "for instance `ether proto 0x0800`",
                ),
            };
        }
        let over = named.and_then(Protocol::over).map(|over| u64::from(over.0));
        let Some(number) = over.or(words::number(value)).filter(|number| *number <= 255) else {
            let message = format!("`{value}` is no protocol over IP");
            return self.wrong(
                span,
                message,
                "a number up to 255 or a name: `ip proto 17`, `ip proto \\udp`",
            );
        };
        match qualifiers.protocol {
            None => self.ip_protocol(number, true, true),
            Some(Protocol::Ip) => self.ip_protocol(number, true, false),
            Some(Protocol::Ip6) => self.ip_protocol(number, false, true),
            Some(_) => self.refuse_qualifier("proto", "it goes with `ether`, `ip` and `ip6`"),
        }
    }

    /// `port` and `portrange`, for TCP, UDP and SCTP. Later fragments do not match, because their bytes are
    /// not a header.
    fn port(&mut self, qualifiers: Qualifiers, value: &str, span: Span) -> Option<Expr> {
        let one = |text: &str| {
            literal::parse_number(text).ok().or_else(|| words::service(text)).filter(|port| *port <= 65_535)
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
            return self.wrong(
                span,
                message,
                "a port is a number up to 65535, a range of them `portrange 8000-8080`",
            );
        };
        // libpcap also swaps the ends.
        let literal = Literal::Numbers(low.min(high), low.max(high));
        let protocols: &[&str] = match qualifiers.protocol {
            None => &["tcp", "udp", "sctp"],
            Some(Protocol::Tcp) => &["tcp"],
            Some(Protocol::Udp) => &["udp"],
            Some(Protocol::Sctp) => &["sctp"],
            Some(_) => return self.refuse_qualifier("port", "ports are of `tcp`, `udp` and `sctp`"),
        };
        let parts = protocols
            .iter()
            .map(|protocol| {
                let field =
                    |name: &str| self.predicate(&format!("{protocol}.{name}"), Op::In, vec![literal.clone()]);
                self.ends(qualifiers.direction, field("srcport"), field("dstport"), field("port"))
            })
            .collect();
        let ports = self.any(parts, "ports")?;
        Some(self.unfragmented(vec![ports]))
    }

    /// Adds the condition that the packet is not a later fragment of an IPv4 datagram.
    fn unfragmented(&self, mut parts: Vec<Expr>) -> Expr {
        if let Some(Expr::Predicate(mut later)) =
            self.predicate("ip.frag_offset", Op::Gt, vec![Literal::Numbers(0, 0)])
        {
            later.negated = true;
            parts.push(Expr::Predicate(later));
        }
        join(false, parts)
    }

    /// The predicate for a direction, chosen from those for source, destination and either.
    fn ends(
        &self,
        direction: Option<Direction>,
        source: Option<Expr>,
        destination: Option<Expr>,
        either: Option<Expr>,
    ) -> Option<Expr> {
        match direction {
            Some(Direction::Source) => source,
            Some(Direction::Destination) => destination,
            Some(Direction::Both) => Some(join(false, vec![source?, destination?])),
            Some(Direction::Either) | None => {
                either.or_else(|| Some(join(true, vec![source?, destination?])))
            }
        }
    }

    /// `host` and `net`.
    fn address(
        &mut self,
        qualifiers: Qualifiers,
        kind: Option<ValueKind>,
        value: &str,
        span: Span,
    ) -> Option<Expr> {
        let is_net = kind == Some(ValueKind::Net);
        let word = if is_net { "net" } else { "host" };
        if qualifiers.protocol == Some(Protocol::Ether) {
            let Ok(mac) = literal::parse_mac(value) else {
                let message = format!("`{value}` is no MAC address");
                return self.wrong(span, message, "for instance `ether host 00:1b:21:aa:bb:cc`");
            };
            if is_net {
                return self.refuse_qualifier("net", "for instance `ether host 00:1b:21:aa:bb:cc`");
            }
            let field = |name| self.predicate(name, Op::Eq, vec![Literal::Bytes(mac.clone())]);
            let found =
                self.ends(qualifiers.direction, field("eth.src"), field("eth.dst"), field("eth.addr"));
            return self.any(vec![found], "`eth.addr`");
        }
        if qualifiers.protocol.is_some_and(|p| !matches!(p, Protocol::Ip | Protocol::Ip6 | Protocol::Arp)) {
            return self.refuse_qualifier(word, "addresses are of `ip`, `ip6`, `arp` and `ether`");
        }
        let literal = match (if is_net { network(value) } else { host(value) }, kind) {
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
        let literal = super::super::constant::without_host_bits(literal, span, self.report);
        let on = |fields: [&str; 3]| {
            let [source, destination, either] =
                fields.map(|name| self.predicate(name, Op::Eq, vec![literal.clone()]));
            self.ends(qualifiers.direction, source, destination, either)
        };
        let wants = |protocol| qualifiers.protocol.is_none_or(|wanted| wanted == protocol);
        let mut parts = Vec::new();
        if matches!(literal, Literal::Ipv6(..)) {
            if !wants(Protocol::Ip6) {
                return self.wrong(span, format!("`{value}` is an IPv6 address"), "write `ip6 host …`");
            }
            parts.push(on(["ipv6.src", "ipv6.dst", "ipv6.addr"]));
        } else {
            if !wants(Protocol::Ip) && !wants(Protocol::Arp) {
                return self.wrong(span, format!("`{value}` is an IPv4 address"), "write `ip host …`");
            }
            if wants(Protocol::Ip) {
                parts.push(on(["ip.src", "ip.dst", "ip.addr"]));
            }
            if wants(Protocol::Arp) {
                parts.push(on(["arp.src.proto_ipv4", "arp.dst.proto_ipv4", ""]));
            }
        }
        self.any(parts, "addresses")
    }

    /// A comparison of packet bytes with a number.
    pub fn relation(&mut self, access: Access, op: Op, number: u64) -> Option<Expr> {
        let Some(field) = self.names.lookup(access.field) else {
            return self.any(Vec::new(), &format!("`{}`", access.field));
        };
        let info = &self.names.fields[field];
        let (slice, negated, span) = (access.slice, false, self.span);
        let mut predicate = Predicate { field, slice, mask: None, op, literals: Vec::new(), negated, span };
        let domain = Domain::of_predicate(info, &predicate);
        let max = domain.number_max()?;
        // `x >> n` compared with a number equals `x` without its lowest bits compared with the shifted
        // number.
        let (op, number) = match op {
            Op::Gt if access.shift > 0 => (Op::Ge, (number + 1) << access.shift),
            Op::Le if access.shift > 0 => (Op::Lt, (number + 1) << access.shift),
            _ => (op, number << access.shift),
        };
        predicate.op = op;
        predicate.mask = access.mask.map(|mask| mask & max).filter(|mask| *mask != max);
        if number > max && matches!(op, Op::Eq | Op::Ne) {
            self.report.error(report::RANGE, span, "these bytes are never as large as this number").help =
                Some(format!("the largest value is {}", (max >> access.shift)));
            return None;
        }
        predicate.literals = vec![Literal::Numbers(number, number)];
        let subject =
            slice.map_or(info.name.clone(), |(offset, size)| format!("{}[{offset}:{size}]", info.name));
        warn_truth(&predicate, domain, &subject, self.report);
        canonicalize(&mut predicate, info);
        let relation = Expr::Predicate(predicate);
        if !access.over_ip {
            return Some(relation);
        }
        let ip = self.exists("ip")?;
        Some(self.unfragmented(vec![ip, relation]))
    }
}

/// One address.
fn host(value: &str) -> Result<Literal, Fault> {
    if value.contains('/') {
        return network(value);
    }
    match literal::parse_ipv6(value) {
        Err(Fault::Type) => {
            literal::parse_ipv4(value).map(|(address, prefix)| Literal::Ipv4(address, prefix))
        }
        found => found.map(|(address, prefix)| Literal::Ipv6(address, prefix)),
    }
}

/// A prefix; IPv4 also allows `10`, `10.1`, `10.1.2`, with eight bits per part.
fn network(value: &str) -> Result<Literal, Fault> {
    if value.contains(':') {
        return literal::parse_ipv6(value).map(|(address, prefix)| Literal::Ipv6(address, prefix));
    }
    let (address, prefix) = value.split_once('/').map_or((value, None), |(a, p)| (a, Some(p)));
    let parts = address.split('.').count();
    if parts > 4 || address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(Fault::Type);
    }
    let bits = prefix.map_or_else(|| (8 * parts).to_string(), str::to_string);
    let padded = format!("{address}{}/{bits}", ".0".repeat(4 - parts));
    literal::parse_ipv4(&padded).map(|(address, prefix)| Literal::Ipv4(address, prefix))
}
