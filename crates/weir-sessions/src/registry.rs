//! The session protocols that a compiler knows: those of this crate, and those that its user registers.

use crate::context::Configuration;
use crate::{
    ANNOUNCEMENTS, Announcement, ContentStore, Contents, Context, Early, Field, JOINS, Join, LATE, PART_LOGS,
    PROTOCOLS, PartLog, ProbeDecision, SUMS, SessionParser, SessionProtocol, Setting, Sum, UIDS, WITHIN,
    Within,
};
use std::fmt;
use std::sync::{Arc, OnceLock};
use weir_packet::FixedSet;

/// Maximum number of protocols of a registry. A flow's record names each recognised protocol by a byte, and
/// one value of that byte means none.
pub const PROTOCOLS_MAX: usize = 255;

/// A set of session protocols, by their numbers in a [`SessionRegistry`].
pub type ProtocolSet = FixedSet<SessionProtocol, { PROTOCOLS_MAX.div_ceil(64) }>;

/// The session protocols by number, the logs of parts of their sessions, and the sessions that are contained
/// in others. A protocol's number is its index; [`ProtocolSet`]s, plans and rows refer to protocols by
/// number. Numbers never change.
#[derive(Debug, Clone)]
pub struct SessionRegistry {
    protocols: Vec<&'static SessionProtocol>,
    part_logs: &'static [&'static PartLog],
    within: &'static [Within],
    configuration: Configuration,
    contents: Contents,
    early: Early,
    late: ProtocolSet,
    /// Compiled at the first use.
    probes: OnceLock<Arc<ProbeDecision>>,
}

/// The protocols of this crate.
impl Default for SessionRegistry {
    fn default() -> Self {
        Self {
            protocols: PROTOCOLS.to_vec(),
            part_logs: PART_LOGS,
            within: WITHIN,
            configuration: Configuration::default(),
            contents: Contents::default(),
            early: Early::default(),
            late: (0..PROTOCOLS.len()).filter(|number| LATE.contains(&PROTOCOLS[*number].name)).collect(),
            probes: OnceLock::new(),
        }
    }
}

impl SessionRegistry {
    /// The protocols of this crate. Compilers share this registry; a compiler copies it when its user
    /// registers a protocol.
    pub fn builtin() -> &'static Arc<Self> {
        static BUILTIN: OnceLock<Arc<SessionRegistry>> = OnceLock::new();
        BUILTIN.get_or_init(Arc::default)
    }

    /// Appends a protocol and returns its number. It is probed after all earlier protocols.
    ///
    /// # Errors
    /// If a name (of the protocol, its service, a field or a setting) is taken; if the protocol has no
    /// transport; if its log exists with other columns; or if the registry is full.
    pub fn register(&mut self, protocol: &'static SessionProtocol) -> Result<usize, RegisterError> {
        let wrong = |what| Err(RegisterError { protocol: protocol.name, what });
        if self.protocols.len() == PROTOCOLS_MAX {
            return wrong(Wrong::Full);
        }
        if protocol.transports.is_empty() {
            return wrong(Wrong::NoTransport);
        }
        let names = || self.protocols.iter().flat_map(|known| [known.name, known.service, known.log]);
        let of_logs = || self.part_logs.iter().map(|log| log.name);
        for name in [protocol.name, protocol.service] {
            if names().chain(of_logs()).any(|known| known == name) {
                return wrong(Wrong::Taken(name));
            }
        }
        let named = |field: &'static Field| field.aliases.iter().copied().chain([field.name]);
        let fields = self.protocols.iter().flat_map(|known| known.fields);
        let known: Vec<&str> = fields.flat_map(named).collect();
        if let Some(name) = protocol.fields.iter().flat_map(named).find(|name| known.contains(name)) {
            return wrong(Wrong::Taken(name));
        }
        if let Some(setting) = protocol.settings.iter().find(|setting| self.setting(setting.name).is_some()) {
            return wrong(Wrong::Taken(setting.name));
        }
        let others = self.protocols.iter().find(|known| known.log == protocol.log);
        if of_logs().any(|log| log == protocol.log)
            || others.is_some_and(|of| !has_same_columns(of, protocol))
        {
            return wrong(Wrong::OtherColumns(protocol.log));
        }
        self.protocols.push(protocol);
        self.probes = OnceLock::new();
        Ok(self.protocols.len() - 1)
    }

    /// The settings of all protocols.
    pub fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.protocols.iter().flat_map(|protocol| protocol.settings)
    }

    fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.name == name)
    }

    /// Sets the value of a setting for the parsers that are opened from now on.
    ///
    /// # Errors
    /// If no protocol has a setting of this name.
    pub fn configure(&mut self, name: &str, value: u64) -> Result<(), UnknownSetting> {
        let setting = self.setting(name).ok_or_else(|| UnknownSetting(name.to_string()))?;
        self.configuration.set(setting, value);
        Ok(())
    }

    /// Parsers that are opened from now on pass the contents of files on to `store`.
    pub fn pass_contents_to(&mut self, store: Arc<dyn ContentStore>) {
        self.contents = Contents(Some(store));
    }

    /// Parsers that are opened from now on yield [early](crate::Session::is_early) sessions, too: when the
    /// client has sent its part, and when a body has `body_bytes` bytes.
    pub fn yield_early(&mut self, body_bytes: u64) {
        self.early = Early(Some(body_bytes));
    }

    /// Opens a parser of protocol `number` for a new connection. With `carries_only`, no question wants the
    /// sessions of this protocol, but only those of a protocol that it hands over to.
    ///
    /// # Panics
    /// If no protocol has this number.
    pub fn open(&self, number: usize, carries_only: bool) -> Box<dyn SessionParser> {
        let protocol = self.protocols[number];
        let open = protocol.carrier.filter(|_| carries_only).unwrap_or(protocol.open);
        open(&Context::of(&self.configuration, &self.contents, self.early))
    }

    /// All protocols by number, which is the order of probing.
    pub fn protocols(&self) -> &[&'static SessionProtocol] {
        &self.protocols
    }

    /// The protocol with this number.
    ///
    /// # Panics
    /// If no protocol has this number.
    pub fn protocol(&self, number: usize) -> &'static SessionProtocol {
        self.protocols[number]
    }

    /// The number of the protocol with this name.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.protocols.iter().position(|protocol| protocol.name == name)
    }

    /// All protocols.
    pub fn all(&self) -> ProtocolSet {
        (0..self.protocols.len()).collect()
    }

    /// The probes of all protocols, compiled into one decision.
    pub fn probes(&self) -> Arc<ProbeDecision> {
        Arc::clone(self.probes.get_or_init(|| Arc::new(ProbeDecision::of(&self.protocols))))
    }

    /// The protocols for which `is` holds.
    pub fn where_(&self, is: impl Fn(&SessionProtocol) -> bool) -> ProtocolSet {
        let numbered = self.protocols.iter().enumerate();
        numbered.filter(|(_, protocol)| is(protocol)).map(|(number, _)| number).collect()
    }

    /// The names of the protocols of a set.
    pub fn names(&self, set: ProtocolSet) -> impl Iterator<Item = &'static str> {
        set.iter().map(|number| self.protocols[number].name)
    }

    /// The protocols that a layer with this name may carry.
    pub fn carried_by(&self, layer: &str) -> ProtocolSet {
        self.where_(|protocol| protocol.transports.contains(&layer))
    }

    /// The protocols that may hand over to one of `protocols`, carry one in an inner stream, or share a flow
    /// with one.
    pub fn carriers_of(&self, protocols: ProtocolSet) -> ProtocolSet {
        let is_wanted = |name: &str| self.number_of(name).is_some_and(|number| protocols.contains(number));
        self.where_(|carrier| carrier.hands_over.iter().any(|name| is_wanted(name)))
    }

    /// The protocols to recognise in the bytes of a layer if questions ask for `asked`: those of them that
    /// the layer may carry, and the ones that these may be inside of. A protocol of another layer is not
    /// looked for here: else each question about TLS would read all of UDP for the sake of OpenVPN.
    pub fn probed_over(&self, layer: &str, asked: ProtocolSet) -> ProtocolSet {
        let (here, asked) = (self.carried_by(layer), asked & self.carried_by(layer));
        asked | (self.carriers_of(asked) & here)
    }

    /// The protocols that protocol `number` may hand over to, carry in an inner stream, or share a flow with.
    pub fn handed_over_by(&self, number: usize) -> ProtocolSet {
        let hands_over = self.protocols[number].hands_over;
        self.where_(|protocol| hands_over.contains(&protocol.name))
    }

    /// The protocols that are recognised also later in a stream, behind bytes that no protocol recognised:
    /// their first bytes are so distinctive that no other protocol has them by chance.
    pub fn late(&self) -> ProtocolSet {
        self.late
    }

    /// The protocols whose exchanges may be in two connections.
    pub fn joins(&self) -> &'static [Join] {
        JOINS
    }

    /// The logs whose rows may be parts of a whole.
    pub fn sums(&self) -> &'static [Sum] {
        SUMS
    }

    /// The protocols whose sessions announce connections of other protocols.
    pub fn announcements(&self) -> &'static [Announcement] {
        ANNOUNCEMENTS
    }

    /// Whether only rows have the value of a field of a protocol: other rows decide the value. Filters do not
    /// know it.
    pub fn is_only_in_rows(&self, number: usize, field: &Field) -> bool {
        let of = self.protocols[number].name;
        field.column == UIDS || ANNOUNCEMENTS.iter().any(|one| (one.of, one.column) == (of, field.column))
    }

    /// The protocols whose sessions announce connections of one of `protocols`.
    pub fn announcing(&self, protocols: ProtocolSet) -> ProtocolSet {
        let number = |announcement: &Announcement| {
            let of = self.number_of(announcement.of)?;
            self.number_of(announcement.by).filter(|_| protocols.contains(of))
        };
        ANNOUNCEMENTS.iter().filter_map(number).collect()
    }

    /// All logs of parts of sessions.
    pub fn part_logs(&self) -> &'static [&'static PartLog] {
        self.part_logs
    }

    /// The sessions that the sessions of protocol `carrier` may contain, with the numbers of their protocols.
    pub fn within(&self, carrier: usize) -> impl Iterator<Item = (usize, &'static Within)> {
        let name = self.protocols[carrier].name;
        let here = self.within.iter().filter(move |within| within.carrier == name);
        here.filter_map(|within| Some((self.number_of(within.protocol)?, within)))
    }

    /// The protocols whose sessions may contain sessions of one of `protocols`.
    pub fn around(&self, protocols: ProtocolSet) -> ProtocolSet {
        let numbers = 0..self.protocols.len();
        numbers
            .filter(|&carrier| self.within(carrier).any(|(number, _)| protocols.contains(number)))
            .collect()
    }

    /// The services of a protocol and of the sessions that its sessions may contain: `quic` and `ssl`.
    pub fn services(&self, number: usize) -> impl Iterator<Item = &'static str> {
        let others = self.within(number).map(|(number, _)| self.protocols[number].service);
        [self.protocols[number].service].into_iter().chain(others)
    }
}

/// Whether two protocols have the same columns, so that their rows fit into one log.
fn has_same_columns(one: &SessionProtocol, other: &SessionProtocol) -> bool {
    let columns = |protocol: &SessionProtocol| -> Vec<_> {
        let logged = protocol.fields.iter().filter(|field| !field.column.is_empty());
        logged.map(|field| (field.column, field.value_type)).collect()
    };
    columns(one) == columns(other)
}

/// No protocol has a setting of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSetting(String);

impl fmt::Display for UnknownSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no session protocol has a setting `{}`", self.0)
    }
}

impl std::error::Error for UnknownSetting {}

/// The reason why a protocol cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterError {
    protocol: &'static str,
    what: Wrong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrong {
    Full,
    NoTransport,
    Taken(&'static str),
    OtherColumns(&'static str),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session protocol `{}`: ", self.protocol)?;
        match self.what {
            Wrong::Full => write!(f, "there are {PROTOCOLS_MAX} protocols; no more are possible"),
            Wrong::NoTransport => write!(f, "name a layer that carries it in `transports`: \"tcp\", \"udp\""),
            Wrong::Taken(name) => write!(f, "`{name}` is the name of something else; choose another one"),
            Wrong::OtherColumns(log) => {
                write!(f, "the rows of the log `{log}` have other columns; name a log of its own")
            }
        }
    }
}

impl std::error::Error for RegisterError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Direction};
    use weir_packet::{Timestamp, Value};

    #[test]
    fn parsers_are_opened_with_what_was_set() {
        let mut registry = SessionRegistry::default();
        let redis = registry.number_of("redis").expect("it is built in");
        let key = registry.protocol(redis).fields.iter().position(|field| field.name == "redis.cmd.key");
        let key = |registry: &SessionRegistry| {
            let (mut parser, mut sessions) = (registry.open(redis, false), vec![]);
            let request: &[u8] = b"*2\r\n$3\r\nGET\r\n$20\r\nabcdefghijklmnopqrst\r\n";
            for (from, bytes) in [(Direction::Originator, request), (Direction::Responder, b"$-1\r\n")] {
                let time = Timestamp(0);
                parser.parse(&Data { from, time, bytes, is_datagram: false }, &mut sessions);
            }
            sessions[0].value(key.expect("it has a key")).into_owned()
        };
        assert_eq!(key(&registry), Value::Text("abcdefghijklmnopqrst".into()));
        assert_eq!(registry.configure("redis.text_bytes_max", 4), Ok(()));
        // Smaller values are raised to 16, so that the parser recognises its commands.
        assert_eq!(key(&registry), Value::Text("abcdefghijklmnop".into()));
        let wrong = registry.configure("redis.text_max", 4).expect_err("there is none");
        assert_eq!(wrong.to_string(), "no session protocol has a setting `redis.text_max`");
    }
}
