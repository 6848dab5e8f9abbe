//! Rules, prepared to run together.

use crate::addresses::{self, ByAddress};
use crate::alert::Said;
use crate::app;
use crate::events;
use crate::expressions::Compiled;
use crate::fields::{Field, Fields, behind, is_of_flow};
use crate::packet::is_header;
use crate::patterns::{Collected, Patterns};
use crate::ports::ByPorts;
use crate::support::unsupported;
use crate::transforms::Key;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use weir::flow_task::CONDITIONS_MAX;
use weir::sessions::{ProtocolSet, SessionRegistry};
use weir_rules::{
    Action, BitsOp, BufferId, Classes, Content, Direction, EventKind, FastPattern, FlowTest, Inspection,
    IntOp, IntValue, PacketTest, Pcre, RateFilter, Rule, RuleProtocol, StateOption, Suppression, Tag, Test,
    Tunings,
};

/// Rules that run together.
#[derive(Debug, Default)]
pub struct RuleProgram {
    pub(crate) rules: Vec<Prepared>,
    /// The buffers that rules inspect, each with its transforms.
    pub(crate) keys: Vec<Key>,
    pub(crate) expressions: Compiled,
    /// By transport and direction, that to the server first.
    pub(crate) packets: [[PacketGroup; 2]; Transport::COUNT],
    /// By the name of the session protocol in rules, and by direction, that to the server first.
    pub(crate) sessions: BTreeMap<&'static str, [SessionGroup; 2]>,
    /// Rules look at files, and at their digests.
    pub(crate) with_files: bool,
    pub(crate) with_digests: bool,
    /// Rules look at bytes of streams.
    pub(crate) with_streams: bool,
    /// Rules look at the payload of datagrams together with a session, which is complete later.
    pub(crate) with_datagrams: bool,
    /// Rules look at packets without a connection.
    pub(crate) with_loose: bool,
    /// The fields of packets that rules look at.
    pub(crate) fields: Fields,
    /// Rules that cannot be run: group, signature ID, and why.
    pub(crate) unsupported: Vec<(u32, u32, String)>,
    /// The events of the stack that rules ask for, each once.
    pub(crate) events: Vec<&'static str>,
    /// The filters of rules (`weir.filter`), each once.
    pub(crate) conditions: Vec<String>,
    /// What follows alerts, by group and signature ID.
    pub(crate) tags: FxHashMap<(u32, u32), Tag>,
    /// Protocols that the run provides beside those that rules need.
    provided: ProtocolSet,
    names: FxHashMap<String, u32>,
}

/// A rule, prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub rule: Rule,
    pub said: Said,
    pub kind: Kind,
    /// For each inspection the number of its key.
    pub keys: Vec<u16>,
    /// For each option about state the numbers of its names.
    pub names: Vec<Vec<u32>>,
    /// Whose alerts are suppressed.
    pub suppressions: Vec<Suppression>,
    /// Other actions while its alerts are frequent.
    pub rates: Vec<RateFilter>,
    /// The number of its filter.
    pub condition: Option<usize>,
    /// A pattern in its payload finds the rule.
    pub has_pattern: bool,
    /// Where its events come from.
    pub events: Vec<events::Source>,
}

/// What a rule is decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A packet.
    Packet,
    /// The bytes of a stream; a packet's payload, too, if that may hold a place.
    Stream { or_packet: bool },
    /// A session.
    Session,
}

/// What carries a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Icmp,
    Other,
}

impl Transport {
    pub const COUNT: usize = 4;
    const ALL: [Self; Self::COUNT] = [Self::Tcp, Self::Udp, Self::Icmp, Self::Other];

    /// Whether packets have ports.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }

    /// That of a layer.
    pub fn of_layer(layer: &str) -> Self {
        match layer {
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "icmp" | "icmpv6" => Self::Icmp,
            _ => Self::Other,
        }
    }
}

/// A rule behind a pattern, and where the pattern is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub rule: u32,
    pub in_stream: bool,
}

impl Found {
    fn number(self) -> u32 {
        self.rule << 1 | u32::from(self.in_stream)
    }

    pub fn of(number: u32) -> Self {
        Self { rule: number >> 1, in_stream: number & 1 != 0 }
    }
}

/// Rules on packets of one transport and direction.
#[derive(Debug, Default)]
pub(crate) struct PacketGroup {
    /// Searched in packets and in streams: numbers of [`Found`].
    pub patterns: ByPorts,
    /// Without a pattern: looked at for each packet with addresses that a rule names.
    pub always: ByAddress,
    /// The same, for the first packet of each direction of a connection.
    pub once: ByAddress,
    /// Rules on streams without a pattern: looked at when there are new bytes.
    pub always_stream: Vec<u32>,
}

/// Rules on sessions of one protocol.
#[derive(Debug, Default)]
pub(crate) struct SessionGroup {
    /// Searched in the buffers with these keys.
    pub buffers: Vec<(u16, Patterns)>,
    /// Looked at for each session.
    pub always: Vec<u32>,
    /// Some rules look at both sides of a session.
    pub with_both: bool,
}

impl RuleProgram {
    /// Prepares rules. `classes` have the texts of their classes, and the priorities of those without one;
    /// `tunings` the thresholds and suppressions of the site. `check_filter` says why a filter of a rule is
    /// wrong.
    pub fn of(
        mut rules: Vec<Rule>,
        classes: &Classes,
        tunings: &Tunings,
        check_filter: impl Fn(&str) -> Result<(), String>,
    ) -> Self {
        rules.iter_mut().for_each(|rule| tunings.apply(rule));
        rules.sort_by_key(|rule| (action_rank(rule.action), bits_rank(rule), classes.priority(rule)));
        let mut set = Self::default();
        rules.retain(|rule| match unsupported(rule, &check_filter).or_else(|| set.take_condition(rule)) {
            Some(why) => {
                set.unsupported.push((rule.gid, rule.sid, why));
                false
            }
            None => true,
        });
        let mut expressions = 0;
        for mut rule in rules {
            for pcre in expressions_of(&mut rule) {
                pcre.number = expressions;
                expressions += 1;
            }
            let kind = kind_of(&rule);
            let keys = rule.inspections.iter().map(|inspection| set.key(inspection)).collect();
            let names = rule.state.iter().map(|option| set.names_of(option)).collect();
            let said = Said::of(&rule, classes);
            set.tags.extend(rule.tag.map(|tag| ((rule.gid, rule.sid), tag)));
            let suppressions = tunings.suppressions_of(rule.gid, rule.sid).cloned().collect();
            let rates = tunings.rate_filters_of(rule.gid, rule.sid).copied().collect();
            let condition = set.conditions.iter().position(|known| Some(known) == rule.filter.as_ref());
            let has_pattern = best_pattern(&rule, |buffer| buffer == BufferId::PAYLOAD).is_some();
            let events = set.events_of(&rule);
            set.rules.push(Prepared {
                rule,
                said,
                kind,
                keys,
                names,
                suppressions,
                rates,
                condition,
                has_pattern,
                events,
            });
        }
        set.expressions = Compiled::new(expressions as usize);
        set.group();
        set.fields = set.wanted_fields();
        set
    }

    /// Takes the place of another program in its run: what the run provides stays, and names of bits keep
    /// their numbers.
    ///
    /// # Errors
    /// The rules need more than the run provides.
    pub(crate) fn continue_after(&mut self, before: &Self) -> Result<(), String> {
        let registry = SessionRegistry::builtin();
        let more = self.protocols(registry);
        let missing = more.iter().find(|number| !before.protocols(registry).contains(*number));
        if let Some(number) = missing {
            let name = registry.protocol(number).name;
            return Err(format!(
                "the new rules are about `{name}`, which this run does not parse: start it again"
            ));
        }
        for prepared in &mut self.rules {
            let filter = prepared.rule.filter.as_ref();
            prepared.condition = before.conditions.iter().position(|known| Some(known) == filter);
        }
        self.conditions = before.conditions.clone();
        let is_more = |new: bool, old: bool| new && !old;
        let new_field = self.fields.names().iter().any(|name| !before.fields.names().contains(name));
        let new_event = self.events.iter().any(|name| !before.events.contains(name));
        if new_field
            || new_event
            || is_more(self.with_streams, before.with_streams)
            || is_more(self.with_loose, before.with_loose)
            || is_more(self.with_files, before.with_files)
            || is_more(self.with_digests, before.with_digests)
        {
            return Err("the new rules look at more than this run provides: start it again".to_string());
        }
        self.fields = before.fields.clone();
        self.events = before.events.clone();
        self.provided = before.protocols(registry);
        (self.with_streams, self.with_loose) = (before.with_streams, before.with_loose);
        (self.with_files, self.with_digests) = (before.with_files, before.with_digests);
        let mut names = before.names.clone();
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        for (name, number) in &self.names {
            let next = names.len() as u32;
            numbers.insert(*number, *names.entry(name.clone()).or_insert(next));
        }
        for name in self.rules.iter_mut().flat_map(|prepared| prepared.names.iter_mut().flatten()) {
            *name = numbers.get(name).copied().unwrap_or(*name);
        }
        self.names = names;
        Ok(())
    }

    /// Takes the filter of a rule; why there is no room for it.
    fn take_condition(&mut self, rule: &Rule) -> Option<String> {
        let filter = rule.filter.as_ref().filter(|filter| !self.conditions.contains(filter))?;
        if self.conditions.len() == CONDITIONS_MAX {
            return Some(format!("its `weir.filter` is one too many: rules have at most {CONDITIONS_MAX}"));
        }
        self.conditions.push(filter.clone());
        None
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// For each transport: the rules that are looked at for each packet, because no pattern finds them.
    pub fn without_pattern(&self) -> [(&'static str, usize); Transport::COUNT] {
        let names = ["tcp", "udp", "icmp", "others"];
        std::array::from_fn(|at| {
            let counts = self.packets[at].iter().map(|group| group.always.rest() + group.always_stream.len());
            (names[at], counts.max().unwrap_or(0))
        })
    }

    /// The rules that cannot be run: group, signature ID, and why.
    pub fn unsupported(&self) -> &[(u32, u32, String)] {
        &self.unsupported
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The session protocols that have to be parsed.
    pub fn protocols(&self, registry: &SessionRegistry) -> ProtocolSet {
        let mut all = self.provided;
        let mut add = |name: &str| {
            for number in app::protocols_of(name, registry).iter() {
                all.insert(number);
            }
        };
        self.sessions.keys().for_each(|name| add(name));
        for prepared in &self.rules {
            if let RuleProtocol::Session(name) = prepared.rule.protocol {
                add(name);
            }
            prepared.rule.app_protocols.iter().for_each(|test| add(&test.protocol));
        }
        all
    }

    /// The fields of packets that rules look at, and those that each packet needs.
    fn wanted_fields(&self) -> Fields {
        use Field::*;
        let mut wanted =
            vec![PayloadAt, PayloadLength, TcpFlags, IpFlags, FragmentOffset, FragmentOffset6, More6];
        if self.with_loose {
            wanted.extend([Src4, Dst4, Src6, Dst6, Protocol, NextHeader]);
        }
        for prepared in &self.rules {
            let rule = &prepared.rule;
            for test in &rule.packet {
                match test {
                    PacketTest::Number(field, _) => wanted.extend(behind(*field)),
                    PacketTest::IpOption(_) => wanted.extend([HeaderAt, Ihl]),
                    PacketTest::TcpFlags { .. } | PacketTest::FragmentBits { .. } | PacketTest::SameIp => {}
                }
            }
            for event in &prepared.events {
                if let events::Source::Packet(fields, _) = event {
                    wanted.extend(*fields);
                }
            }
            let has_header = rule.inspections.iter().any(|inspection| is_header(inspection.buffer));
            if has_header {
                wanted.extend([HeaderAt, Ihl, HopLimit, IcmpType, Icmp6Type]);
            }
        }
        Fields::of(|field| wanted.contains(&field))
    }

    fn key(&mut self, inspection: &Inspection) -> u16 {
        let Inspection { buffer, transforms, .. } = inspection;
        let known = self.keys.iter().position(|key| key.buffer == *buffer && key.transforms == *transforms);
        known.unwrap_or_else(|| {
            let expressions = transforms.iter().map(|_| OnceLock::new()).collect();
            self.keys.push(Key { buffer: *buffer, transforms: transforms.clone(), expressions });
            self.keys.len() - 1
        }) as u16
    }

    fn events_of(&mut self, rule: &Rule) -> Vec<events::Source> {
        let sources = rule.events.iter().filter_map(|(kind, name)| events::source(*kind, name));
        let sources: Vec<events::Source> = sources.collect();
        for source in &sources {
            match source {
                events::Source::Stack(name) if !self.events.contains(name) => self.events.push(name),
                events::Source::Gap => self.with_streams = true,
                _ => {}
            }
        }
        sources
    }

    fn name(&mut self, name: &str) -> u32 {
        let next = self.names.len() as u32;
        *self.names.entry(name.to_string()).or_insert(next)
    }

    fn names_of(&mut self, option: &StateOption) -> Vec<u32> {
        match option {
            StateOption::Flowbits { names, .. } => names.iter().map(|name| self.name(name)).collect(),
            StateOption::Xbits { name, .. } => vec![self.name(name)],
            StateOption::Flowint { name, op } => {
                let first = self.name(name);
                let value = match op {
                    IntOp::Set(value)
                    | IntOp::Add(value)
                    | IntOp::Subtract(value)
                    | IntOp::Compare(_, value) => value,
                    IntOp::IsSet | IntOp::IsNotSet => return vec![first],
                };
                match value {
                    IntValue::Name(other) => vec![first, self.name(other)],
                    IntValue::Number(_) => vec![first],
                }
            }
        }
    }

    /// Puts each rule where it is found: behind its best pattern, or among those that are always looked at.
    fn group(&mut self) {
        let mut patterns: [[ByPorts; 2]; Transport::COUNT] = Default::default();
        let mut always: [[addresses::Collected; 2]; Transport::COUNT] = Default::default();
        let mut once: [[addresses::Collected; 2]; Transport::COUNT] = Default::default();
        let mut buffers: BTreeMap<(&'static str, usize, u16), Collected> = BTreeMap::new();
        for (number, prepared) in (0..).zip(&self.rules) {
            let rule = &prepared.rule;
            self.with_files |= rule.inspections.iter().any(|inspection| is_of_file(inspection.buffer))
                || rule.session.iter().any(|test| test.field.starts_with("file"));
            self.with_digests |= rule
                .session
                .iter()
                .any(|test| test.field.starts_with("filemd5") || test.field.starts_with("filesha"));
            match prepared.kind {
                Kind::Session => {
                    let has_payload = rule.inspections.iter().any(|one| one.buffer == BufferId::PAYLOAD);
                    self.with_datagrams |= has_payload;
                    self.with_streams |= has_payload;
                    let best = best_pattern(rule, |buffer| !buffer.info().protocol.is_empty());
                    let sides =
                        [true, false].map(|side| rule.flow.to_server.is_none_or(|wanted| wanted == side));
                    let names = session_names(rule).into_iter();
                    for (name, side) in names.flat_map(|name| (0..2).map(move |side| (name, side))) {
                        let group = &mut self.sessions.entry(name).or_default()[side];
                        match best {
                            _ if !sides[side] => continue,
                            Some((at, pattern)) => {
                                buffers
                                    .entry((name, side, prepared.keys[at]))
                                    .or_default()
                                    .add(pattern, number);
                            }
                            None => group.always.push(number),
                        }
                        group.with_both |= is_of_both(rule);
                    }
                }
                Kind::Packet | Kind::Stream { .. } => {
                    let best =
                        best_pattern(rule, |buffer| buffer == BufferId::PAYLOAD).map(|(_, pattern)| pattern);
                    for (transport, side) in places_of(rule) {
                        let at = transport as usize;
                        let group = &mut self.packets[at][side];
                        let is_stream = transport == Transport::Tcp && prepared.kind != Kind::Packet;
                        // Datagrams in fragments come as streams, too.
                        self.with_streams |= is_stream || best.is_some();
                        self.with_loose |= transport == Transport::Other;
                        let mut add = |in_stream| {
                            if let Some(pattern) = best {
                                let found = Found { rule: number, in_stream }.number();
                                patterns[at][side].add(pattern, found, rule, transport.has_ports());
                            }
                        };
                        if is_stream {
                            add(true);
                            group.always_stream.extend(best.is_none().then_some(number));
                        }
                        if !is_stream || prepared.kind == (Kind::Stream { or_packet: true }) {
                            add(false);
                            match best {
                                Some(_) => {}
                                None if is_of_addresses(rule) => once[at][side].add(number, rule),
                                None => always[at][side].add(number, rule),
                            }
                        }
                    }
                }
            }
        }
        let groups = self.packets.iter_mut().flatten();
        let parts =
            patterns.into_iter().flatten().zip(always.into_iter().flatten()).zip(once.into_iter().flatten());
        for (group, ((patterns, always), once)) in groups.zip(parts) {
            (group.patterns, group.always, group.once) = (patterns, always.build(), once.build());
        }
        for ((name, side, key), patterns) in buffers {
            if let Some(groups) = self.sessions.get_mut(name) {
                groups[side].buffers.push((key, patterns.build()));
            }
        }
    }
}

/// Whether a rule looks at both sides of a session together (`=>`).
pub(crate) fn is_of_both(rule: &Rule) -> bool {
    rule.direction == Direction::Transaction
}

/// Rules that end inspection come first.
fn action_rank(action: Action) -> u8 {
    match action {
        Action::Pass => 0,
        Action::Drop => 1,
        Action::Reject => 2,
        Action::Alert => 3,
    }
}

/// Rules that set bits come before those that ask for them.
fn bits_rank(rule: &Rule) -> u8 {
    let (mut sets, mut asks) = (false, false);
    for option in &rule.state {
        match option {
            StateOption::Flowbits { op, .. } | StateOption::Xbits { op, .. } => match op {
                BitsOp::IsSet | BitsOp::IsNotSet => asks = true,
                _ => sets = true,
            },
            StateOption::Flowint { op, .. } => match op {
                IntOp::Compare(..) | IntOp::IsSet | IntOp::IsNotSet => asks = true,
                _ => sets = true,
            },
        }
    }
    match (sets, asks) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

fn expressions_of(rule: &mut Rule) -> impl Iterator<Item = &mut Pcre> {
    rule.inspections.iter_mut().flat_map(|inspection| &mut inspection.tests).filter_map(|test| match test {
        Test::Pcre(pcre) => Some(pcre),
        _ => None,
    })
}

fn is_of_file(buffer: BufferId) -> bool {
    let name = buffer.info().name;
    name.starts_with("file.") || matches!(name, "http.request_body" | "http.response_body")
}

fn kind_of(rule: &Rule) -> Kind {
    let has_buffers = rule.inspections.iter().any(|inspection| !inspection.buffer.info().protocol.is_empty());
    let is_of_session = |(kind, name): &(EventKind, String)| {
        matches!(events::source(*kind, name), Some(events::Source::Session(..)))
    };
    if has_buffers || !rule.session.is_empty() || rule.events.iter().any(is_of_session) {
        return Kind::Session;
    }
    let payload: Vec<&Test> = rule
        .inspections
        .iter()
        .filter(|inspection| inspection.buffer == BufferId::PAYLOAD)
        .flat_map(|inspection| &inspection.tests)
        .collect();
    let is_of_packet =
        |test: &PacketTest| !matches!(test, PacketTest::Number(field, _) if is_of_flow(*field));
    match rule.protocol {
        // Without a payload, a packet decides: the first one that shows the protocol.
        _ if payload.is_empty() => Kind::Packet,
        RuleProtocol::TcpStream | RuleProtocol::Session(_) => Kind::Stream { or_packet: false },
        _ if rule.flow.only_stream => Kind::Stream { or_packet: false },
        RuleProtocol::Tcp | RuleProtocol::Ip | RuleProtocol::Ipv4 | RuleProtocol::Ipv6
            if !rule.flow.no_stream && !rule.packet.iter().any(is_of_packet) =>
        {
            let is_placed = |test: &&Test| matches!(test, Test::Content(content) if content.depth.is_some() || content.offset.is_some() || content.startswith);
            Kind::Stream { or_packet: payload.iter().any(is_placed) }
        }
        _ => Kind::Packet,
    }
}

/// Whether a rule asks for nothing of packets, bytes, sessions and events.
pub(crate) fn is_bare(rule: &Rule) -> bool {
    rule.packet.is_empty() && rule.inspections.is_empty() && rule.session.is_empty() && rule.events.is_empty()
}

/// Whether a rule asks only for addresses: the first packet of a direction decides.
pub(crate) fn is_of_addresses(rule: &Rule) -> bool {
    let is_plain = rule.flow == FlowTest::default() && rule.app_protocols.is_empty();
    let has_ports = !rule.source.ports.is_any() || !rule.destination.ports.is_any();
    let has_session = matches!(rule.protocol, RuleProtocol::Session(_) | RuleProtocol::PacketHeader);
    is_bare(rule) && is_plain && !has_ports && !has_session && rule.filter.is_none()
}

/// Whether a rule is about packets of this transport.
fn fits(rule: &Rule, transport: Transport) -> bool {
    match rule.protocol {
        RuleProtocol::Ip | RuleProtocol::Ipv4 | RuleProtocol::Ipv6 | RuleProtocol::PacketHeader => true,
        RuleProtocol::Tcp | RuleProtocol::TcpPacket | RuleProtocol::TcpStream => transport == Transport::Tcp,
        RuleProtocol::Udp => transport == Transport::Udp,
        RuleProtocol::Icmp | RuleProtocol::Icmpv4 | RuleProtocol::Icmpv6 => transport == Transport::Icmp,
        RuleProtocol::Sctp | RuleProtocol::Igmp => transport == Transport::Other,
        RuleProtocol::Session(_) => matches!(transport, Transport::Tcp | Transport::Udp),
    }
}

/// The transports and directions of the packets that a rule is about.
fn places_of(rule: &Rule) -> impl Iterator<Item = (Transport, usize)> {
    let sides = [true, false].map(|to_server| rule.flow.to_server.is_none_or(|wanted| wanted == to_server));
    let transports = Transport::ALL.into_iter().filter(|transport| fits(rule, *transport));
    transports
        .flat_map(move |transport| (0..2).filter(move |side| sides[*side]).map(move |side| (transport, side)))
}

/// The protocols of the sessions that decide about a rule.
fn session_names(rule: &Rule) -> Vec<&'static str> {
    if let RuleProtocol::Session(name) = rule.protocol {
        return vec![name];
    }
    let of_buffers = rule.inspections.iter().map(|inspection| inspection.buffer.info().protocol);
    let of_tests = rule.session.iter().map(|test| app::protocol_of_field(test.field));
    let of_events = rule.events.iter().filter_map(|(kind, name)| match events::source(*kind, name)? {
        events::Source::Session(protocol, _) => Some(protocol),
        _ => None,
    });
    let mut names: Vec<&'static str> =
        of_buffers.chain(of_tests).chain(of_events).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    // A buffer of files together with one of a protocol: sessions of this protocol decide.
    if names.len() > 1 {
        names.retain(|name| *name != "file");
    }
    match names[..] {
        ["file"] => vec!["http", "smtp", "smb"],
        _ => names,
    }
}

/// The pattern by which a rule is searched, and the number of its inspection.
fn best_pattern(rule: &Rule, is_searched: impl Fn(BufferId) -> bool) -> Option<(usize, &[u8])> {
    let mut best: Option<(usize, &Content)> = None;
    for (at, inspection) in rule.inspections.iter().enumerate().filter(|(_, one)| is_searched(one.buffer)) {
        // What follows `absent` may not be there.
        let is_optional = inspection.tests.iter().any(|test| matches!(test, Test::Absent { .. }));
        if is_optional {
            continue;
        }
        for test in &inspection.tests {
            // What `base64_decode` makes is not in the buffer.
            let Test::Content(content) = test else { continue };
            if content.negated || content.bytes.is_empty() {
                continue;
            }
            let rank = |content: &Content| (content.fast.is_some(), pattern_of(content).len());
            if best.is_none_or(|(_, known)| rank(content) > rank(known)) {
                best = Some((at, content));
            }
        }
    }
    best.map(|(at, content)| (at, pattern_of(content)))
}

fn pattern_of(content: &Content) -> &[u8] {
    match content.fast {
        Some(FastPattern::Part(first, count)) => {
            let first = usize::from(first).min(content.bytes.len());
            let end = (first + usize::from(count)).min(content.bytes.len());
            &content.bytes[first..end]
        }
        _ => &content.bytes,
    }
}
