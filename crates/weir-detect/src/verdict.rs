//! Whether a rule matches.

use crate::app;
use crate::buffers::Transaction;
use crate::counters::Counters;
use crate::events;
use crate::expressions::{Caches, Finder};
use crate::fields::is_of_flow;
use crate::flow::FlowState;
use crate::packet::{Packet, is_header};
use crate::ruleset::{Kind, Prepared, RuleProgram, Transport, is_bare, is_of_addresses};
use crate::session_tests;
use crate::state::{Shared, Whom};
use crate::transforms::{self, Key};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::net::IpAddr;
use weir_rules::{
    BitsOp, BufferId, Direction, Ends, Inspector, IntOp, IntValue, PacketField, PacketTest, Rule,
    RuleProtocol, Side, StateOption, Test, Verdict,
};

/// The buffers of a session that were made so far: by key and side.
pub type Made<'t> = FxHashMap<(u16, bool), Vec<Cow<'t, [u8]>>>;

/// What a rule is compared with.
pub struct Scene<'a, 't> {
    /// The rules.
    pub set: &'a RuleProgram,
    /// What carries the packet.
    pub transport: Transport,
    /// The packet, with the ends in the direction that is inspected.
    pub packet: &'a Packet<'a>,
    /// The connection.
    pub flow: Option<&'a FlowState>,
    /// A name among live connections.
    pub flow_name: u64,
    /// Bytes of the stream of this direction.
    pub window: &'a [u8],
    /// The window begins where the stream does.
    pub from_begin: bool,
    /// The session, and its buffers.
    pub session: Option<(&'a Transaction<'t>, &'a mut Made<'t>)>,
    /// The worker's memory for searches.
    pub caches: &'a mut Caches,
    /// State of hosts.
    pub shared: &'a Shared,
    /// Steps that may still be taken for this packet.
    pub steps_left: &'a mut u32,
    /// What bounds cut off.
    pub counters: &'a Counters,
    /// Nanoseconds since 1970.
    pub now: i64,
    /// Age of the connection, seconds.
    pub age_s: u64,
    /// The rule did not match because of the bytes alone: more bytes may change that.
    pub lacks_bytes: bool,
}

impl<'t> Scene<'_, 't> {
    /// Whether everything that a rule asks for holds. `in_stream`: its payload is the stream's.
    pub fn matches(&mut self, prepared: &Prepared, in_stream: bool) -> bool {
        let rule = &prepared.rule;
        self.fits_protocol(rule, prepared.kind)
            && self.fits_flow(rule)
            && self.fits_ends(rule)
            && self.fits_events(prepared)
            && rule.packet.iter().all(|test| self.fits_packet(test))
            && self.fits_app(rule)
            && self.fits_state(prepared)
            && !(in_stream && prepared.kind == Kind::Stream { or_packet: true } && !self.from_begin)
            && {
                self.lacks_bytes = !self.fits_bytes(prepared, in_stream);
                !self.lacks_bytes
            }
            && self.fits_session(rule)
    }

    fn fits_protocol(&self, rule: &Rule, kind: Kind) -> bool {
        let address = self.packet.ends[0].0;
        let transport = self.transport;
        match rule.protocol {
            RuleProtocol::Ip => true,
            RuleProtocol::Ipv4 => address.is_ipv4(),
            RuleProtocol::Ipv6 => address.is_ipv6(),
            RuleProtocol::Tcp | RuleProtocol::TcpPacket | RuleProtocol::TcpStream => {
                transport == Transport::Tcp
            }
            RuleProtocol::Udp => transport == Transport::Udp,
            RuleProtocol::Icmp => transport == Transport::Icmp,
            RuleProtocol::Icmpv4 => transport == Transport::Icmp && address.is_ipv4(),
            RuleProtocol::Icmpv6 => transport == Transport::Icmp && address.is_ipv6(),
            RuleProtocol::Sctp => self.packet.values.of_rule(PacketField::IpProtocol) == Some(132),
            RuleProtocol::Igmp => self.packet.values.of_rule(PacketField::IpProtocol) == Some(2),
            RuleProtocol::PacketHeader => true,
            RuleProtocol::Session(name) => match (&self.session, kind) {
                (Some((session, _)), _) => app::is(session.app, name),
                // Decided later, if the protocol is not known yet.
                (None, Kind::Stream { .. }) => {
                    self.flow.and_then(|flow| flow.app).is_none_or(|app| app::is(app, name))
                }
                (None, _) => match self.flow.and_then(|flow| flow.app) {
                    Some(app) => app::is(app, name),
                    None => !rule.inspections.is_empty(),
                },
            },
        }
    }

    fn fits_flow(&self, rule: &Rule) -> bool {
        let test = &rule.flow;
        let is_tcp = self.transport == Transport::Tcp;
        let is_established = || self.flow.is_some_and(|flow| flow.is_established(is_tcp));
        test.to_server.is_none_or(|to_server| self.flow.is_some() && to_server == self.packet.to_server)
            && test.established.is_none_or(|wanted| is_established() == wanted)
            && (!test.only_fragments || self.packet.values.is_fragment())
            && (!test.no_fragments || !self.packet.values.is_fragment())
    }

    fn fits_ends(&self, rule: &Rule) -> bool {
        let has = |ends: &Ends, (address, port): (IpAddr, u16)| {
            ends.addresses.has(address) && (!self.transport.has_ports() || ends.ports.has(port))
        };
        let [from, to] = self.packet.ends;
        has(&rule.source, from) && has(&rule.destination, to)
            || rule.direction != Direction::ToDestination
                && has(&rule.source, to)
                && has(&rule.destination, from)
    }

    fn fits_packet(&self, test: &PacketTest) -> bool {
        if let PacketTest::Number(field, number) = test
            && is_of_flow(*field)
        {
            return self
                .of_flow(*field)
                .is_some_and(|values| values.into_iter().flatten().any(|value| number.holds(value)));
        }
        if let PacketTest::Number(PacketField::PayloadSize, number) = test {
            return self.packet.is_there && number.holds(self.packet.payload_bytes);
        }
        self.packet.is_there && self.packet.holds(test) == Some(true)
    }

    fn of_flow(&self, field: PacketField) -> Option<[Option<u64>; 2]> {
        let flow = self.flow?;
        let [client, server] = flow.bytes;
        Some(match field {
            PacketField::StreamSizeClient => [Some(client), None],
            PacketField::StreamSizeServer => [Some(server), None],
            PacketField::StreamSizeBoth => [Some(client + server), None],
            PacketField::StreamSizeEither => [Some(client), Some(server)],
            PacketField::FlowAge => [Some(self.age_s), None],
            PacketField::FlowPacketsToServer => [Some(flow.packets[0]), None],
            PacketField::FlowPacketsToClient => [Some(flow.packets[1]), None],
            PacketField::FlowBytesToServer => [Some(client), None],
            PacketField::FlowBytesToClient => [Some(server), None],
            _ => return None,
        })
    }

    fn fits_events(&self, prepared: &Prepared) -> bool {
        prepared.events.iter().all(|source| {
            let session = self.session.as_ref().map(|(session, _)| *session);
            let Packet { values, happened, to_server, .. } = self.packet;
            events::holds(*source, &self.set.events, values, *happened, session, *to_server)
        })
    }

    fn fits_app(&self, rule: &Rule) -> bool {
        rule.app_protocols.iter().all(|test| {
            let flow = self.flow;
            let app = match test.mode.as_deref() {
                Some("original") => flow.and_then(|flow| flow.app_before),
                _ => flow.and_then(|flow| flow.app),
            };
            match (app, &*test.protocol) {
                // Nothing is known before the first bytes.
                (None, "unknown") => !test.negated,
                (None, _) => false,
                (Some(app), wanted) => app::is(app, wanted) != test.negated,
            }
        })
    }

    fn fits_state(&self, prepared: &Prepared) -> bool {
        prepared.rule.state.iter().zip(&prepared.names).all(|(option, names)| match option {
            StateOption::Flowbits { op, .. } => {
                let has = |name: &u32| self.flow.is_some_and(|flow| flow.has_bit(*name));
                match op {
                    BitsOp::IsSet => names.iter().any(has),
                    BitsOp::IsNotSet => !names.iter().any(has),
                    _ => true,
                }
            }
            StateOption::Xbits { op, track, .. } => {
                let has = || {
                    let whom = Whom::of(*track, self.addresses(), self.flow_name);
                    names.iter().any(|name| self.shared.has_bit(*name, whom, self.now))
                };
                match op {
                    BitsOp::IsSet => has(),
                    BitsOp::IsNotSet => !has(),
                    _ => true,
                }
            }
            StateOption::Flowint { op, .. } => {
                let value = names.first().and_then(|name| self.flow?.int(*name));
                match op {
                    IntOp::IsSet => value.is_some(),
                    IntOp::IsNotSet => value.is_none(),
                    IntOp::Compare(sign, other) => value
                        .zip(self.int_value(other, names))
                        .is_some_and(|(value, other)| compare(value, sign, other)),
                    _ => true,
                }
            }
        })
    }

    /// The addresses of sender and receiver.
    pub fn addresses(&self) -> [IpAddr; 2] {
        self.packet.ends.map(|(address, _)| address)
    }

    /// A number, or the value of the integer with this name.
    pub fn int_value(&self, value: &IntValue, names: &[u32]) -> Option<u32> {
        match value {
            IntValue::Number(number) => Some(*number),
            IntValue::Name(_) => self.flow?.int(*names.get(1)?),
        }
    }

    fn fits_bytes(&mut self, prepared: &Prepared, in_stream: bool) -> bool {
        let rule = &prepared.rule;
        let mut decoded: Option<Vec<u8>> = None;
        for (inspection, key) in rule.inspections.iter().zip(&prepared.keys) {
            let buffer = inspection.buffer;
            let holds = if buffer == BufferId::PAYLOAD {
                let bytes =
                    if in_stream || self.session.is_some() { self.window } else { self.packet.payload };
                self.inspect(rule, bytes, &inspection.tests, &mut decoded)
            } else if buffer.info().name == "base64_data" {
                let bytes = decoded.take().unwrap_or_default();
                !bytes.is_empty() && self.inspect(rule, &bytes, &inspection.tests, &mut decoded)
            } else if is_header(buffer) {
                match self.packet.header(buffer.info().name) {
                    Some(bytes) => {
                        let bytes = transforms::apply(bytes.into(), &self.set.keys[usize::from(*key)]);
                        self.inspect(rule, &bytes, &inspection.tests, &mut decoded)
                    }
                    None => false,
                }
            } else {
                self.fits_buffers(rule, *key, &inspection.tests, &mut decoded)
            };
            if !holds {
                return false;
            }
        }
        true
    }

    /// Whether one of a session's buffers fulfils the tests.
    fn fits_buffers(&mut self, rule: &Rule, key: u16, tests: &[Test], decoded: &mut Option<Vec<u8>>) -> bool {
        // A rule on whole transactions looks at both sides.
        let to_server = match (rule.direction, self.set.keys[usize::from(key)].buffer.info().side) {
            (Direction::Transaction, Side::Client) => true,
            (Direction::Transaction, Side::Server) => false,
            _ => self.packet.to_server,
        };
        let buffers = self.take_buffers(key, to_server);
        let holds = match tests.first() {
            Some(Test::Absent { .. }) if buffers.is_empty() => true,
            Some(Test::Absent { or_else: false }) => false,
            Some(Test::Absent { or_else: true }) => {
                buffers.iter().any(|bytes| self.inspect(rule, bytes, &tests[1..], decoded))
            }
            _ => buffers.iter().any(|bytes| self.inspect(rule, bytes, tests, decoded)),
        };
        if let Some((_, made)) = &mut self.session {
            made.insert((key, to_server), buffers);
        }
        holds
    }

    /// Takes the buffers of a key, which are made if they were not.
    fn take_buffers(&mut self, key: u16, to_server: bool) -> Vec<Cow<'t, [u8]>> {
        let Some((session, made)) = &mut self.session else { return vec![] };
        made.remove(&(key, to_server))
            .unwrap_or_else(|| make(session, &self.set.keys[usize::from(key)], to_server))
    }

    fn inspect(&mut self, rule: &Rule, bytes: &[u8], tests: &[Test], decoded: &mut Option<Vec<u8>>) -> bool {
        if *self.steps_left == 0 {
            Counters::add(&self.counters.bounded);
            return false;
        }
        let finder = Finder { compiled: &self.set.expressions, caches: self.caches };
        let mut inspector = Inspector::new(bytes, rule.variables.len(), finder);
        let verdict = inspector.inspect(tests);
        if let Some(made) = inspector.decoded() {
            *decoded = Some(made.to_vec());
        }
        *self.steps_left = self.steps_left.saturating_sub(inspector.steps());
        if verdict == Verdict::Bounded {
            Counters::add(&self.counters.bounded);
        }
        verdict == Verdict::Holds
    }

    fn fits_session(&mut self, rule: &Rule) -> bool {
        if rule.session.is_empty() {
            return true;
        }
        let to_server = self.packet.to_server;
        let Some((session, _)) = &self.session else { return false };
        rule.session.iter().all(|test| session_tests::holds(session, test, to_server) == Some(true))
    }
}

/// The buffers of a session behind their transforms.
pub fn make<'t>(session: &Transaction<'t>, key: &Key, to_server: bool) -> Vec<Cow<'t, [u8]>> {
    let info = key.buffer.info();
    let is_of_other = if to_server { Side::Server } else { Side::Client };
    if info.side == is_of_other {
        return vec![];
    }
    let buffers = session.buffers(info.name, to_server);
    buffers.into_iter().map(|bytes| transforms::apply(bytes, key)).collect()
}

fn compare(value: u32, sign: &str, other: u32) -> bool {
    match sign {
        "<" => value < other,
        "<=" => value <= other,
        ">" => value > other,
        ">=" => value >= other,
        "!=" => value != other,
        _ => value == other,
    }
}

/// Whether a rule matches at most once for each direction of a connection: it asks only for addresses, for a
/// protocol, or for a filter.
pub fn is_once(rule: &Rule) -> bool {
    let has_session = matches!(rule.protocol, RuleProtocol::Session(_)) || !rule.app_protocols.is_empty();
    is_of_addresses(rule) || is_bare(rule) && (has_session || rule.filter.is_some())
}
