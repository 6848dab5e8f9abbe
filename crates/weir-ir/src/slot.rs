//! Names of the slots of a packet's record.
//!
//! Most slots hold values for lines about packets, and only their number matters to the engine. The others
//! are part of the contract between programs and the engine, which finds them by name in a graph's
//! declarations.

use std::borrow::Cow;
use std::fmt;

/// The name of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SlotName {
    /// A slot of the contract.
    Engine(EngineSlot),
    /// A value that lines about packets show, or another one without a meaning for the engine.
    Value(String),
}

/// A slot that programs and the engine share. Slots of the same name follow each other, one for each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineSlot {
    /// The second and further words of the packet's terms, in order.
    /// [`Continuation::terms`](crate::abi::Continuation) has the first word. Programs of up to 64 classes
    /// have no such slots.
    FurtherTerms,
    /// Which of the outer connection's [`EngineVar::OpenTerms`](crate::engine_var::EngineVar::OpenTerms) hold
    /// before the inner connection is looked up: one slot for each word. Only for connections inside
    /// connections.
    OuterTerms,
    /// The layer by which the outer connection carries the inner one, before the inner connection is looked
    /// up: its index in the stack. Only if a question asks what connections carry.
    Tunnel,
    /// Of a packet that ends with [`DropReason::FragmentWaiting`](weir_packet::DropReason): the terms that
    /// hold whatever the other fragments of its datagram contain, one slot for each word. Only if a question
    /// about packets depends on the contents of datagrams.
    CertainTerms,
    /// As [`CertainTerms`](Self::CertainTerms): the terms that may hold.
    PossibleTerms,
}

impl EngineSlot {
    const ALL: [EngineSlot; 5] = [
        EngineSlot::FurtherTerms,
        EngineSlot::OuterTerms,
        EngineSlot::Tunnel,
        EngineSlot::CertainTerms,
        EngineSlot::PossibleTerms,
    ];

    /// The name in the text form of graphs, which begins with `$`.
    pub const fn text(self) -> &'static str {
        match self {
            EngineSlot::FurtherTerms => "$further_terms",
            EngineSlot::OuterTerms => "$outer_terms",
            EngineSlot::Tunnel => "$tunnel",
            EngineSlot::CertainTerms => "$certain_terms",
            EngineSlot::PossibleTerms => "$possible_terms",
        }
    }
}

impl SlotName {
    /// The name in the text form of graphs.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            SlotName::Engine(slot) => Cow::Borrowed(slot.text()),
            SlotName::Value(name) => Cow::Borrowed(name),
        }
    }

    /// The slot with this name in the text form; `None` for the name of an engine's slot that does not exist.
    pub fn parse(text: String) -> Option<Self> {
        match EngineSlot::ALL.into_iter().find(|slot| slot.text() == text) {
            Some(slot) => Some(SlotName::Engine(slot)),
            None => Some(SlotName::Value(text)).filter(|name| !name.text().starts_with('$')),
        }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<EngineSlot> for SlotName {
    fn from(slot: EngineSlot) -> Self {
        SlotName::Engine(slot)
    }
}

impl From<String> for SlotName {
    fn from(name: String) -> Self {
        SlotName::Value(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for slot in EngineSlot::ALL {
            assert_eq!(SlotName::parse(slot.text().to_string()), Some(slot.into()));
        }
        assert_eq!(SlotName::parse("ip.src".to_string()), Some("ip.src".to_string().into()));
        assert_eq!(SlotName::parse("$none".to_string()), None);
    }
}
