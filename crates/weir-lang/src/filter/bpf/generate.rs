//! Makes the tests of frames, one for each link type, according to libpcap's code generator.
//!
//! The order of the tests is libpcap's as well: it decides which loads a short frame is rejected by.

use super::link::{Headers, KNOWN, Kind, Place, WlanPrefix};
use super::tree::{Direction, LlcKind, Node, Primitive, Sum};
use super::wlan;
use super::words::{self, Protocol};
use crate::diag::Span;
use crate::filter::frame_test::{Arithmetic, FrameTest, Number, Order, Test};
use crate::filter::report::{self, Report};
use weir_packet::LinkType;

/// Maximum number of comparisons in the test for one link type.
const COMPARISONS_MAX: usize = 4_096;

const IP: u16 = 0x0800;
const IP6: u16 = 0x86dd;
/// Numbers of protocols over IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const HOP_BY_HOP: u32 = 0;
const ROUTING: u32 = 43;
const FRAGMENT: u32 = 44;
const AUTHENTICATION: u32 = 51;
const ICMP6: u32 = 58;
const NO_NEXT_HEADER: u32 = 59;
const DESTINATION: u32 = 60;

/// A test, or why this link type has none.
type Made = Result<Test, &'static str>;

/// The test of an expression, or the part that this link type does not support, and why.
type MadeOf = Result<Test, (Span, &'static str)>;

/// Makes the test for inclusive ranges of ports or addresses.
type MakeRanges<'m> = dyn Fn(&[(u32, u32)]) -> Made + 'm;

/// The tests of an expression. `None`, with a report, if no link type supports it.
pub(super) fn frame_test(text: &str, node: &Node, report: &mut Report) -> Option<FrameTest> {
    let made = |link: LinkType| {
        let mut generator = Generator { headers: Headers::of(link) };
        let test = generator.node(node)?;
        Ok(generator.with_prelude(test))
    };
    let other = made(LinkType(u16::MAX));
    let links: Vec<(LinkType, MadeOf)> = KNOWN.iter().map(|&link| (link, made(link))).collect();
    let tests = || links.iter().map(|(_, test)| test).chain([&other]);
    let largest = tests().flatten().map(Test::size).max();
    match largest {
        None => {
            // Ethernet is the first.
            let (span, message) = *tests().find_map(|test| test.as_ref().err())?;
            report.error(report::BPF_UNSUPPORTED, span, message).help = Some(
                "`weir packets` without `--bpf` looks through tags and tunnels of all links".to_string(),
            );
            return None;
        }
        Some(size) if size > COMPARISONS_MAX => {
            let all = crate::filter::lexer::span(0, text.len());
            let message = format!("this filter has {size} comparisons, more than {COMPARISONS_MAX}");
            report.error(report::LIMIT, all, message).help =
                Some("adjacent ports and addresses count as one: `port 80 or 443 or 8080`".to_string());
            return None;
        }
        Some(_) => {}
    }
    let links = links.into_iter().map(|(link, test)| (link, test.ok())).collect();
    Some(FrameTest { text: text.to_string(), links, other: other.ok() })
}

/// Makes the test for one link type.
struct Generator {
    headers: Headers,
}

impl Generator {
    fn node(&mut self, node: &Node) -> MadeOf {
        Ok(match node {
            Node::Primitive(primitive, span) => {
                self.primitive(primitive).map_err(|message| (*span, message))?
            }
            Node::Not(inner) => self.node(inner)?.not(),
            Node::And(parts) => Test::all(self.nodes(parts)?),
            Node::Or(parts) => Test::any(self.nodes(parts)?),
        })
    }

    /// In order: a part may move the headers for all later parts.
    fn nodes(&mut self, parts: &[Node]) -> Result<Vec<Test>, (Span, &'static str)> {
        parts.iter().map(|part| self.node(part)).collect()
    }

    /// The test behind the computation of the places that it uses.
    fn with_prelude(&self, test: Test) -> Test {
        let start = Headers::of(self.headers.outermost);
        let Kind::Wlan(prefix) = start.kind else { return test };
        let mut steps = wlan::prelude(&start, prefix, &|register| test.uses(register));
        steps.push(test);
        Test::all(steps)
    }

    fn primitive(&mut self, primitive: &Primitive) -> Made {
        match primitive {
            Primitive::Protocol(protocol) => self.protocol(*protocol),
            Primitive::Ipv4 { over, direction, ranges } => {
                apart(ranges, &|ranges| self.ipv4(*over, *direction, ranges))
            }
            Primitive::Ipv6 { direction, address, bits } => self.ipv6(*direction, *address, *bits),
            Primitive::Ether { direction, address } => self.ether(*direction, *address),
            Primitive::Port { over, direction, ranges } => {
                apart(ranges, &|ranges| self.port(*over, *direction, ranges))
            }
            Primitive::Proto { over, number } => self.proto(*over, *number),
            Primitive::Chain { over, number } => self.chain(*over, *number),
            Primitive::Broadcast => self.ether(Direction::Destination, [0xff; 6]),
            Primitive::Multicast(over) => self.multicast(*over),
            Primitive::Outbound(outbound) => {
                let is_outbound = match self.headers.kind {
                    Kind::CookedV1 => Test::equals(self.headers.link.load(2), 4),
                    Kind::CookedV2 => Test::equals(self.headers.link.after(10).load(1), 4),
                    _ => return Err("only Linux cooked captures have a packet's direction"),
                };
                Ok(if *outbound { is_outbound } else { is_outbound.not() })
            }
            Primitive::InterfaceIndex(index) => match self.headers.kind {
                Kind::CookedV2 => Ok(Test::equals(self.headers.link.after(4).load(4), *index)),
                _ => Err("only Linux cooked captures, version 2, have an interface's index"),
            },
            Primitive::Vlan(id) => self.vlan(*id),
            Primitive::Mpls(label) => self.mpls(*label),
            Primitive::PppoeDiscovery => self.headers.follows(0x8863),
            Primitive::PppoeSession(session) => self.pppoe(*session),
            Primitive::Geneve(network) => self.geneve(*network),
            Primitive::Llc(kind) => self.llc(*kind),
            Primitive::Relation { order, is_not, left, right } => {
                let mut tests = vec![];
                self.add_checks(left, &mut tests)?;
                self.add_checks(right, &mut tests)?;
                let compared = Test::Compare(*order, self.number(left), self.number(right));
                tests.push(if *is_not { compared.not() } else { compared });
                Ok(Test::all(tests))
            }
        }
    }

    fn protocol(&self, protocol: Protocol) -> Made {
        if let Protocol::Iso(number) = protocol {
            return self.iso(number.into());
        }
        if let Some(number) = protocol.ether_type() {
            return self.headers.follows(number);
        }
        match protocol.over() {
            Some((number, true, true)) => self.proto(None, number.into()),
            Some((number, is_over_ip, _)) => {
                self.proto(Some(if is_over_ip { Protocol::Ip } else { Protocol::Ip6 }), number.into())
            }
            None => Err("every frame has a link layer"),
        }
    }

    fn proto(&self, over: Option<Protocol>, number: u32) -> Made {
        let headers = &self.headers;
        match over {
            None => Ok(Test::any([
                self.proto(Some(Protocol::Ip), number)?,
                self.proto(Some(Protocol::Ip6), number)?,
            ])),
            Some(Protocol::Ip) => {
                Ok(Test::all([headers.follows(IP)?, Test::equals(headers.network(9, 1), number)]))
            }
            // Also behind one fragment header.
            Some(Protocol::Ip6) => {
                let next = |number| Test::equals(headers.network(6, 1), number);
                let behind = Test::all([next(FRAGMENT), Test::equals(headers.network(40, 1), number)]);
                Ok(Test::all([headers.follows(IP6)?, Test::any([next(number), behind])]))
            }
            Some(Protocol::Ether) => match u16::try_from(number) {
                Ok(number) => headers.follows(number),
                Err(_) => Ok(Test::constant(false)),
            },
            Some(_) => self.iso(number),
        }
    }

    /// A protocol of the OSI network layer.
    fn iso(&self, number: u32) -> Made {
        let headers = &self.headers;
        // On Cisco's links one more byte precedes.
        let offset = if headers.kind == Kind::CiscoHdlc { 1 } else { 0 };
        let place = headers.payload.after(headers.network_bare + offset);
        Ok(Test::all([headers.follows(words::SAP_ISO)?, Test::equals(place.load(1), number)]))
    }

    fn ipv4(&self, over: Option<Protocol>, direction: Direction, ranges: &[(u32, u32)]) -> Made {
        let one = |protocol: Protocol| {
            let (source, destination) = if protocol == Protocol::Ip { (12, 16) } else { (14, 24) };
            let follows = self.headers.follows(protocol.ether_type().unwrap_or(IP))?;
            let at = |offset| {
                let address = Test::In(self.headers.network(offset, 4), ranges.to_vec());
                Test::all([follows.clone(), address])
            };
            Ok(ends(direction, || at(source), || at(destination)))
        };
        match over {
            Some(protocol) => one(protocol),
            // Behind labels only IP can be recognised.
            None if self.headers.labels > 0 => one(Protocol::Ip),
            None => Ok(Test::any([one(Protocol::Ip)?, one(Protocol::Arp)?, one(Protocol::Rarp)?])),
        }
    }

    fn ipv6(&self, direction: Direction, address: u128, bits: u32) -> Made {
        let follows = self.headers.follows(IP6)?;
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let word = |number: u128, index: u32| (number >> (96 - 32 * index)) as u32;
        let at = |offset: u32| {
            let words = (0..4).map(|index| {
                let (load, mask) = (self.headers.network(offset + 4 * index, 4), word(mask, index));
                Test::equals(if mask == u32::MAX { load } else { load.masked(mask) }, word(address, index))
            });
            Test::all([follows.clone()].into_iter().chain(words))
        };
        Ok(ends(direction, || at(8), || at(24)))
    }

    fn ether(&self, direction: Direction, address: [u8; 6]) -> Made {
        let [a, b, c, d, e, f] = address;
        let equals = |place: Place| {
            Test::all([
                Test::equals(place.after(2).load(4), u32::from_be_bytes([c, d, e, f])),
                Test::equals(place.load(2), u32::from_be_bytes([0, 0, a, b])),
            ])
        };
        match self.headers.kind {
            Kind::Ethernet => {
                let at = |offset| equals(self.headers.link.after(offset));
                Ok(Test::all([self.has_ethernet(), ends(direction, || at(6), || at(0))]))
            }
            Kind::Wlan(_) => {
                Ok(wlan::address(&self.headers, direction, &|headers, at| equals(headers.link.after(at))))
            }
            _ => Err("only Ethernet and 802.11 have such addresses"),
        }
    }

    /// Inside Geneve an Ethernet header may be missing.
    fn has_ethernet(&self) -> Test {
        match (self.headers.link.register, self.headers.payload.register) {
            (Some(link), Some(payload)) if self.headers.in_geneve => {
                let (link, payload) = (Number::Register(link), Number::Register(payload));
                Test::Compare(Order::Equal, link, payload).not()
            }
            _ => Test::constant(true),
        }
    }

    fn multicast(&self, over: Option<Protocol>) -> Made {
        let headers = &self.headers;
        match over {
            // The first byte tells the range of addresses.
            Some(Protocol::Ip) => {
                Ok(Test::all([headers.follows(IP)?, Test::In(headers.network(16, 1), vec![(224, 255)])]))
            }
            Some(_) => Ok(Test::all([headers.follows(IP6)?, Test::equals(headers.network(24, 1), 255)])),
            None => match headers.kind {
                Kind::Ethernet => {
                    Ok(Test::all([self.has_ethernet(), Test::has_bits(headers.link.load(1), 1)]))
                }
                Kind::Wlan(_) => Ok(wlan::address(headers, Direction::Destination, &|headers, at| {
                    Test::has_bits(headers.link.after(at).load(1), 1)
                })),
                _ => Err("only Ethernet and 802.11 have group addresses"),
            },
        }
    }

    /// Later fragments do not match, because their bytes are not a header.
    fn is_first_fragment(&self) -> Test {
        Test::has_bits(self.headers.network(6, 2), 0x1fff).not()
    }

    fn port(&self, over: Option<u8>, direction: Direction, ranges: &[(u32, u32)]) -> Made {
        Ok(Test::any([self.port6(over, direction, ranges)?, self.port4(over, direction, ranges)?]))
    }

    fn port6(&self, over: Option<u8>, direction: Direction, ranges: &[(u32, u32)]) -> Made {
        let headers = &self.headers;
        let at = |offset| Test::In(headers.above_ipv6(offset, 2), ranges.to_vec());
        let over = transports(over).into_iter().map(|number| {
            Test::all([
                Test::equals(headers.network(6, 1), number.into()),
                ends(direction, || at(0), || at(2)),
            ])
        });
        Ok(Test::all([headers.follows(IP6)?, Test::any(over)]))
    }

    fn port4(&self, over: Option<u8>, direction: Direction, ranges: &[(u32, u32)]) -> Made {
        let headers = &self.headers;
        let at = |offset| Test::In(headers.above_ipv4(offset, 2), ranges.to_vec());
        let over = transports(over).into_iter().map(|number| {
            Test::all([
                Test::equals(headers.network(9, 1), number.into()),
                self.is_first_fragment(),
                ends(direction, || at(0), || at(2)),
            ])
        });
        Ok(Test::all([headers.follows(IP)?, Test::any(over)]))
    }

    /// Follows the chain of IPv6's extension headers and of authentication headers.
    ///
    /// libpcap's step over an authentication header does not add the header's place to the length, so that
    /// the next header is looked for in a wrong place. The same is done here.
    fn chain(&mut self, over: Option<Protocol>, wanted: u32) -> Made {
        if self.headers.payload.register.is_some() {
            return Err("`protochain` needs a link layer with a fixed length");
        }
        let Some(protocol) = over else {
            let ip = self.chain(Some(Protocol::Ip), wanted)?;
            return Ok(Test::any([ip, self.chain(Some(Protocol::Ip6), wanted)?]));
        };
        let [number, place, next] = [(); 3].map(|()| self.headers.register());
        let headers = &self.headers;
        let get = Number::Register;
        let is = |constant| Test::equals(get(number), constant);
        let sum = |a, b| Number::binary(Arithmetic::Add, a, b);
        let times = |a, n| Number::binary(Arithmetic::Mul, a, Number::Constant(n));
        let byte = |plus| headers.network_header().after(plus).load_after(get(place), 1);
        let over_authentication = Test::all([
            is(AUTHENTICATION),
            Test::Set(next, byte(0)),
            Test::Set(place, sum(get(place), Number::Constant(1))),
            Test::Set(place, times(sum(byte(0), Number::Constant(2)), 4)),
            Test::Set(number, get(next)),
        ]);
        let extensions = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT].map(|number| (number, number));
        let over_extension = Test::all([
            Test::In(get(number), extensions.to_vec()),
            Test::Set(next, byte(0)),
            Test::Set(place, sum(times(sum(byte(1), Number::Constant(1)), 8), get(place))),
            Test::Set(number, get(next)),
        ]);
        let (follows, first, start, step) = match protocol {
            Protocol::Ip => {
                let length =
                    Number::binary(Arithmetic::Shl, headers.network(0, 1).masked(0xf), Number::Constant(2));
                (headers.follows(IP)?, headers.network(9, 1), length, over_authentication)
            }
            _ => {
                let step = Test::any([over_extension, over_authentication]);
                (headers.follows(IP6)?, headers.network(6, 1), Number::Constant(40), step)
            }
        };
        let body = Test::all([is(wanted).not(), is(NO_NEXT_HEADER).not(), step]);
        Ok(Test::all([
            follows,
            Test::Set(number, first),
            Test::Set(place, start),
            Test::While(Box::new(body)),
            is(wanted),
        ]))
    }

    fn vlan(&mut self, id: Option<u32>) -> Made {
        let headers = &mut self.headers;
        if headers.labels > 0 {
            return Err("`vlan` cannot follow `mpls`");
        }
        if !matches!(headers.kind, Kind::Ethernet | Kind::Wlan(WlanPrefix::None | WlanPrefix::Radiotap)) {
            return Err("`vlan` needs Ethernet or 802.11");
        }
        let is_tagged = [0x8100, 0x88a8, 0x9100].map(|number| headers.follows(number));
        let [a, b, c] = is_tagged;
        let mut tests = vec![Test::any([a?, b?, c?])];
        if let Some(id) = id {
            tests.push(Test::equals(headers.network(0, 2).masked(0xfff), id));
        }
        headers.payload = headers.payload.after(4);
        headers.link_type = headers.link_type.after(4);
        Ok(Test::all(tests))
    }

    fn mpls(&mut self, label: Option<u32>) -> Made {
        let headers = &mut self.headers;
        let is_labelled = match headers.kind {
            _ if headers.labels > 0 => Test::equals(headers.label_bottom().masked(1), 0),
            Kind::Ethernet | Kind::CiscoHdlc => headers.follows(0x8847)?,
            Kind::Ppp => headers.follows(0x0281)?,
            _ => return Err("`mpls` needs Ethernet, PPP or Cisco HDLC"),
        };
        let mut tests = vec![is_labelled];
        if let Some(label) = label {
            tests.push(Test::equals(headers.network(0, 4).masked(0xffff_f000), label << 12));
        }
        headers.network += 4;
        headers.network_bare += 4;
        headers.labels += 1;
        Ok(Test::all(tests))
    }

    fn pppoe(&mut self, session: Option<u32>) -> Made {
        let headers = &mut self.headers;
        if matches!(headers.kind, Kind::Wlan(_)) {
            return Err("`pppoes` is not supported over 802.11");
        }
        let mut tests = vec![headers.follows(0x8864)?];
        if let Some(session) = session {
            tests.push(Test::equals(headers.network(0, 4).masked(0xffff), session));
        }
        headers.kind = Kind::Ppp;
        headers.link = headers.network_header().after(6);
        headers.link_type = headers.link;
        headers.payload = headers.link.after(2);
        (headers.network, headers.network_bare) = (0, 0);
        Ok(Test::all(tests))
    }

    /// Geneve over UDP (RFC 8926): behind it, an Ethernet frame or a packet of the network layer.
    fn geneve(&mut self, network: Option<u32>) -> Made {
        const PORT: u32 = 6081;
        const ETHERNET: u32 = 0x6558;
        if matches!(self.headers.kind, Kind::Wlan(_)) {
            return Err("`geneve` is not supported over 802.11");
        }
        if self.headers.labels > 0 {
            return Err("`geneve` cannot follow `mpls`");
        }
        let [start, link_type, link, payload] = [(); 4].map(|()| self.headers.register());
        let headers = &self.headers;
        let constant = Number::Constant;
        let sum = |a, b| Number::binary(Arithmetic::Add, a, b);
        let get = Number::Register;
        let plus = headers.payload.constant + headers.network + 8;
        let geneve = |ports: Test, load: &dyn Fn(u32, u8) -> Number, header_end: Number| {
            // The version is 0.
            let mut tests = vec![ports, Test::equals(load(8, 1).masked(0xc0), 0)];
            if let Some(network) = network {
                tests.push(Test::equals(load(12, 4).masked(0xffff_ff00), network << 8));
            }
            tests.push(Test::Set(start, sum(header_end, constant(plus))));
            Test::all(tests)
        };
        let (over, direction, ports) = (Some(UDP), Direction::Destination, &[(PORT, PORT)]);
        let over_ip = geneve(
            self.port4(over, direction, ports)?,
            &|offset, bytes| headers.above_ipv4(offset, bytes),
            headers.ipv4_header_end(),
        );
        let ipv6_end =
            headers.payload.register.map_or(constant(40), |register| sum(get(register), constant(40)));
        let over_ip6 = geneve(
            self.port6(over, direction, ports)?,
            &|offset, bytes| headers.above_ipv6(offset, bytes),
            ipv6_end,
        );
        let at = Place::in_register(start);
        let options = Number::binary(Arithmetic::Mul, at.load(1).masked(0x3f), constant(4));
        let places = [
            Test::Set(link_type, sum(get(start), constant(2))),
            Test::Set(link, sum(sum(options, constant(8)), get(start))),
            Test::any([
                Test::all([
                    Test::equals(at.after(2).load(2), ETHERNET),
                    Test::Set(link_type, sum(get(link), constant(12))),
                    Test::Set(payload, sum(get(link), constant(14))),
                ]),
                Test::Set(payload, get(link)),
            ]),
        ];
        let tests = [Test::any([over_ip, over_ip6])].into_iter().chain(places);
        let test = Test::all(tests);
        let headers = &mut self.headers;
        headers.kind = Kind::Ethernet;
        [headers.link_type, headers.link, headers.payload] =
            [link_type, link, payload].map(Place::in_register);
        (headers.network, headers.network_bare, headers.in_geneve) = (0, 0, true);
        Ok(test)
    }

    fn llc(&self, kind: Option<LlcKind>) -> Made {
        let headers = &self.headers;
        let is_llc = match headers.kind {
            Kind::Ethernet => Test::all([
                Test::In(headers.link_type.load(2), vec![(0, 1500)]),
                Test::equals(headers.payload.load(2), 0xffff).not(),
            ]),
            Kind::Wlan(_) => headers.is_wlan_data(),
            _ => return Err("only Ethernet and 802.11 have LLC frames"),
        };
        let control = || headers.payload.after(2).load(1);
        let is_kind = match kind {
            None => Test::constant(true),
            Some(LlcKind::Information) => Test::has_bits(control(), 1).not(),
            Some(LlcKind::Supervisory) => Test::equals(control().masked(3), 1),
            Some(LlcKind::Unnumbered) => Test::equals(control().masked(3), 3),
        };
        Ok(Test::all([is_llc, is_kind]))
    }

    /// Adds the tests that the headers which a sum reads exist.
    ///
    /// libpcap omits those of right operands: `len + ip[0]` reads any frame. The same is done here.
    fn add_checks(&self, sum: &Sum, tests: &mut Vec<Test>) -> Result<(), &'static str> {
        match sum {
            Sum::Number(_) | Sum::Length => {}
            Sum::Negative(inner) => self.add_checks(inner, tests)?,
            Sum::Binary(_, left, _) => self.add_checks(left, tests)?,
            Sum::Load { protocol, offset, .. } => match Header::of(*protocol) {
                Header::Link => self.add_checks(offset, tests)?,
                Header::Network => {
                    self.add_checks(offset, tests)?;
                    tests.push(self.protocol(*protocol)?);
                }
                Header::AboveIpv4 => {
                    tests.push(self.headers.follows(IP)?);
                    self.add_checks(offset, tests)?;
                    tests.push(self.protocol(*protocol)?);
                    tests.push(self.is_first_fragment());
                }
                Header::AboveIpv6 => {
                    self.add_checks(offset, tests)?;
                    tests.push(self.headers.follows(IP6)?);
                    tests.push(Test::equals(self.headers.network(6, 1), ICMP6));
                }
            },
        }
        Ok(())
    }

    fn number(&self, sum: &Sum) -> Number {
        let headers = &self.headers;
        match sum {
            Sum::Number(number) => Number::Constant(*number),
            Sum::Length => Number::WireBytes,
            Sum::Negative(inner) => Number::binary(Arithmetic::Sub, Number::Constant(0), self.number(inner)),
            Sum::Binary(op, a, b) => Number::binary(*op, self.number(a), self.number(b)),
            Sum::Load { protocol, offset, bytes } => {
                let offset = self.number(offset);
                match Header::of(*protocol) {
                    Header::Link => headers.link.load_after(offset, *bytes),
                    Header::Network => headers.network_header().load_after(offset, *bytes),
                    Header::AboveIpv6 => headers.network_header().after(40).load_after(offset, *bytes),
                    Header::AboveIpv4 => {
                        let at = Number::binary(Arithmetic::Add, offset, headers.ipv4_header_end());
                        let plus = headers.payload.constant + headers.network;
                        Number::Load { at: Some(Box::new(at)), plus, bytes: *bytes }
                    }
                }
            }
        }
    }
}

/// Where a protocol's header begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Link,
    Network,
    AboveIpv4,
    AboveIpv6,
}

impl Header {
    fn of(protocol: Protocol) -> Header {
        match (protocol, protocol.over()) {
            (Protocol::Ether, _) => Header::Link,
            (_, Some((_, true, _))) => Header::AboveIpv4,
            (_, Some(_)) => Header::AboveIpv6,
            _ => Header::Network,
        }
    }
}

/// The numbers of the transports that have ports.
fn transports(over: Option<u8>) -> Vec<u8> {
    over.map_or(vec![SCTP, TCP, UDP], |number| vec![number])
}

/// The test of a direction.
fn ends(direction: Direction, source: impl Fn() -> Test, destination: impl Fn() -> Test) -> Test {
    match direction {
        Direction::Source => source(),
        Direction::Destination => destination(),
        Direction::Either => Test::any([source(), destination()]),
        Direction::Both => Test::all([source(), destination()]),
    }
}

/// The test of several ranges: the first one apart, so that exactly the frames are rejected that are too
/// short for it.
fn apart(ranges: &[(u32, u32)], test: &MakeRanges) -> Made {
    match ranges.split_at_checked(1) {
        Some((first, rest)) if !rest.is_empty() => Ok(Test::any([test(first)?, test(rest)?])),
        _ => test(ranges),
    }
}
