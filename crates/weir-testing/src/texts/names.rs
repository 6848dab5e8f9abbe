//! The names in scope. The generator uses only names that it has declared.

/// The kind of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number with this many bits.
    Number(u32),
    Mac,
    Ipv4,
    Ipv6,
    Bytes,
}

impl Kind {
    /// Whether arithmetic is possible.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Kind::Ipv6 | Kind::Bytes)
    }

    /// Whether the two sides of a key may use these kinds. Numbers may differ in width.
    pub(super) fn is_like(self, other: Kind) -> bool {
        self == other || matches!((self, other), (Kind::Number(_), Kind::Number(_)))
    }

    /// The number of bits in a key.
    pub(super) fn key_bits(self) -> u32 {
        match self {
            Kind::Number(bits) => bits,
            Kind::Mac => 48,
            Kind::Ipv4 => 32,
            Kind::Ipv6 | Kind::Bytes => 128,
        }
    }
}

/// The place of an expression, which determines the names that it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The body of a function: the parameters.
    Function,
    /// A length or condition in the header: the fields before it, and the cursor.
    Header,
    /// The payload's length: the header's fields, and the layers below.
    Payload,
    /// Derived values, keys, `show`: as `Payload`, and the payload's length.
    Packet,
    /// An edge: as `Packet`, without the layers below, because the layer may be the lowest.
    Edge,
    /// Statements, sequence, events: as `Packet`, and variables.
    Instance,
    /// Transitions, and events on `ordered`: as `Instance`, and the fields of the ordered packet.
    Ordered,
}

/// The place of a protocol's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// A layer of packets; the remaining bytes of the packet are its `rest`.
    #[default]
    Layer,
    /// A message of a stream. The next message follows, so `rest` is unknown.
    Message,
    /// A message whose length follows from the chunks that carry it.
    Whole,
}

/// The names of one protocol and of its file.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) params: Vec<String>,
    /// Functions, and the number of their parameters.
    pub(super) functions: Vec<(String, usize)>,
    pub(super) tables: Vec<String>,
    pub(super) fields: Vec<(String, Kind)>,
    /// Groups that `show` prints.
    pub(super) groups: Vec<String>,
    pub(super) presences: Vec<String>,
    /// Derived values that do not depend on the payload's length (`early`), and those that do (`late`).
    pub(super) early: Vec<String>,
    pub(super) late: Vec<String>,
    /// Fields that every layer below has, and whether they are numbers in all of these layers.
    pub(super) below: Vec<(String, bool)>,
    pub(super) has_payload: bool,
    pub(super) two_sided: bool,
    /// Variables as written in expressions: `me.v1`, `v2`.
    pub(super) vars: Vec<String>,
    /// Those of them that an instance keeps until its end.
    pub(super) kept: Vec<String>,
    pub(super) states: Vec<String>,
    /// Fields that may follow `ordered.`; empty without a sequence.
    pub(super) ordered: Vec<String>,
    pub(super) role: Role,
    /// The role of the messages in the bytes that the protocol puts in order, if it does.
    pub(super) carries: Option<Role>,
}

impl Names {
    /// All numbers that an expression in `place` may use.
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
        // Variables and states are listed twice, so that conditions use them more often.
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

    /// The fields of the wanted kinds.
    pub(super) fn fields_that(&self, is_wanted: impl Fn(Kind) -> bool) -> Vec<String> {
        self.fields.iter().filter(|(_, kind)| is_wanted(*kind)).map(|(name, _)| name.clone()).collect()
    }
}
