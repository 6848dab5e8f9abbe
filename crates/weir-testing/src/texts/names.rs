//! What is in scope: the generator never writes a name that it did not declare.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number of so many bits.
    Number(u32),
    Mac,
    Ipv4,
    Ipv6,
    Bytes,
}

impl Kind {
    /// Whether one can calculate with it.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Kind::Ipv6 | Kind::Bytes)
    }

    /// Whether keys compare the two: bits of numbers do not matter.
    pub(super) fn is_like(self, other: Kind) -> bool {
        self == other || matches!((self, other), (Kind::Number(_), Kind::Number(_)))
    }

    /// Bits that it takes in a key.
    pub(super) fn key_bits(self) -> u32 {
        match self {
            Kind::Number(bits) => bits,
            Kind::Mac => 48,
            Kind::Ipv4 => 32,
            Kind::Ipv6 | Kind::Bytes => 128,
        }
    }
}

/// Where an expression stands: what it may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The body of a function: its parameters.
    Function,
    /// A length or condition of the header: fields read before, and the cursor.
    Header,
    /// The payload's length: headers and layers below.
    Payload,
    /// Derived values, keys, edges, `show`: the payload's length, too.
    Packet,
    /// An edge: as `Packet`, of a layer that may also stand at the bottom.
    Edge,
    /// Statements, sequence, events: variables, too.
    Instance,
    /// Transitions and what happens on `ordered`: the packet whose turn it is, too.
    Ordered,
}

/// What a protocol's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// A layer of packets: what is left of one is its rest.
    #[default]
    Layer,
    /// A message of a stream: the next one follows it, and nobody knows how much is left.
    Message,
    /// A message that chunks say the length of.
    Whole,
}

/// The names of one protocol, and of the file that it is in.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) params: Vec<String>,
    /// Functions with the number of their parameters.
    pub(super) functions: Vec<(String, usize)>,
    pub(super) tables: Vec<String>,
    pub(super) fields: Vec<(String, Kind)>,
    /// Groups that `show` prints.
    pub(super) groups: Vec<String>,
    pub(super) presences: Vec<String>,
    /// Derived values that do not hang on the payload's length, and all others.
    pub(super) early: Vec<String>,
    pub(super) late: Vec<String>,
    /// What every layer below has, and whether it is a number everywhere.
    pub(super) below: Vec<(String, bool)>,
    pub(super) has_payload: bool,
    pub(super) two_sided: bool,
    /// Variables, as they are written: `me.v1`, `v2`.
    pub(super) vars: Vec<String>,
    pub(super) states: Vec<String>,
    /// Fields that may stand behind `ordered.`; empty without a sequence.
    pub(super) ordered: Vec<String>,
    pub(super) role: Role,
    /// What messages of the bytes are that it puts together in order, if it does.
    pub(super) carries: Option<Role>,
}

impl Names {
    /// Everything that is a number in `place`.
    pub(super) fn numbers(&self, place: Place) -> Vec<String> {
        if place == Place::Function {
            return self.params.clone();
        }
        let mut list: Vec<String> = self.fields_that(Kind::is_number);
        list.extend(self.presences.iter().cloned());
        if place == Place::Header {
            list.push("cursor".into());
            return list;
        }
        list.extend(self.early.iter().cloned());
        list.push("header.length".into());
        if self.role != Role::Message {
            list.extend(["rest.length", "layer.length"].map(String::from));
        }
        if place != Place::Edge {
            let numbers = self.below.iter().filter(|(_, is_number)| *is_number);
            list.extend(numbers.map(|(name, _)| format!("below.{name}")));
        }
        if place == Place::Payload {
            return list;
        }
        list.extend(self.late.iter().cloned());
        if self.has_payload {
            list.push("payload.length".into());
        }
        if matches!(place, Place::Packet | Place::Edge) {
            return list;
        }
        // Twice: conditions about what is remembered are what instances are for.
        for _ in 0..2 {
            list.extend(self.vars.iter().cloned());
            list.extend(self.states.iter().map(|state| format!("state.{state}")));
        }
        list.push("strict".into());
        if self.two_sided {
            list.extend(["originator".into(), "responder".into()]);
        }
        if place == Place::Ordered {
            (0..3).for_each(|_| list.extend(self.ordered.iter().map(|field| format!("ordered.{field}"))));
        }
        list
    }

    /// Fields of such kinds.
    pub(super) fn fields_that(&self, is_wanted: impl Fn(Kind) -> bool) -> Vec<String> {
        self.fields.iter().filter(|(_, kind)| is_wanted(*kind)).map(|(name, _)| name.clone()).collect()
    }
}
