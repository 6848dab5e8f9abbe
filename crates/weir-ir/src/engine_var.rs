//! The variables of flow records that are part of the contract between programs and the engine.
//!
//! Lowering declares them, programs read and write them, and the engine finds them by [`EngineVar`] in a
//! graph's declarations. Every other variable of a flow record belongs to a layer, whose text names it.
//!
//! A new engine variable is one line of the table in this file.

use crate::graph::{Graph, Table, Var, VarDecl, VarKind};
use std::borrow::Cow;
use std::fmt;

/// Maximum number of letters of [`EngineVar::History`].
pub const HISTORY_LETTERS_MAX: u8 = 52;

/// Packets that may wait beside a flow.
pub const ASIDE_MAX: u8 = 8;

/// In [`EngineVar::Aside`]: the current packet is to wait beside the flow.
pub const ASIDE_NEW: u8 = 0x80;

macro_rules! engine_vars {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal, $kind:expr, $sides:ident;)*) => {
        /// A variable of flow records that programs and the engine share.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EngineVar {
            $($(#[doc = $doc])* $variant,)*
        }

        impl EngineVar {
            /// All engine variables.
            pub const ALL: &[EngineVar] = &[$(EngineVar::$variant,)*];

            /// The name in the text form of graphs. It begins with `$`; names of layers do not.
            pub const fn text(self) -> &'static str {
                match self {
                    $(EngineVar::$variant => $text,)*
                }
            }

            /// The kind of the variable. Histories may be declared with fewer letters.
            pub const fn kind(self) -> VarKind {
                match self {
                    $(EngineVar::$variant => $kind,)*
                }
            }

            /// Whether each direction has an instance of its own.
            pub const fn each_side(self) -> bool {
                match self {
                    $(EngineVar::$variant => engine_vars!(@$sides),)*
                }
            }
        }
    };
    (@shared) => { false };
    (@each_side) => { true };
}

engine_vars! {
    /// The state of the layer's state machine.
    State = "$state", VarKind::Bits(8), shared;
    /// The letters of the connection's history; the originator's are upper case.
    History = "$history", VarKind::Letters(HISTORY_LETTERS_MAX), shared;
    /// In flow tables of the kernel: a bit for each letter that the history has; A is bit 0, a is bit 26.
    Letters = "$letters", VarKind::Bits(64), shared;
    /// The idle timeout in milliseconds, if it depends on the state; else
    /// [`TableDecl::timeout_ms`](crate::graph::TableDecl::timeout_ms) has it.
    TimeoutMs = "$timeout_ms", VarKind::Bits(32), shared;
    /// What is still wanted of the flow: [`WANTS_BYTES`](crate::abi::WANTS_BYTES) and other bits.
    Wants = "$wants", VarKind::Bits(8), shared;
    /// One bit for every class that any packet of the flow belonged to. More than 64 classes take several
    /// words.
    Terms = "$terms", VarKind::Bits(64), shared;
    /// While a packet's tail runs: the classes that parsing the rest of the packet may still decide; as many
    /// words as `Terms`.
    OpenTerms = "$open", VarKind::Bits(64), shared;
    /// The decisions about the flow so far, in as many words as they take; written by the engine only.
    Verdict = "$verdict", VarKind::Bits(64), shared;
    /// The number of packets that wait beside the flow ([`ASIDE_MAX`] at most), for the flow that follows
    /// with the same key. [`ASIDE_NEW`] is set if the current packet is one of them.
    Aside = "$aside", VarKind::Bits(8), shared;
    /// The messages that a direction carries: the number of the edge to them plus one; 0 for none. If this
    /// variable is declared, programs collect bytes for messages.
    Messages = "$messages", VarKind::Bits(16), each_side;
    /// The next expected sequence number, modulo 2 to the power of the sequence's bits.
    SeqNext = "$seq.next", VarKind::Bits(64), each_side;
    /// The highest sequence number seen, relative to the first one; does not wrap.
    SeqHigh = "$seq.high", VarKind::Bits(64), each_side;
    /// The flags of [`crate::sequence`]. From [`PASSED_SHIFT`](crate::sequence::PASSED_SHIFT) on: the number
    /// of segments with payload that the program handled by itself and that the engine has not yet counted.
    SeqFlags = "$seq.flags", VarKind::Bits(32), each_side;
    /// Missing bytes that were skipped.
    SeqMissing = "$seq.missing_bytes", VarKind::Bits(64), each_side;
}

impl EngineVar {
    /// The variables of a sequence's state. A graph declares all of them for a table, or none.
    pub const SEQUENCE: [EngineVar; 4] =
        [EngineVar::SeqNext, EngineVar::SeqHigh, EngineVar::SeqFlags, EngineVar::SeqMissing];

    /// The variable with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|var| var.text() == text)
    }

    /// Whether the variable is part of a sequence's state ([`crate::sequence`]).
    pub fn is_of_sequence(self) -> bool {
        Self::SEQUENCE.contains(&self)
    }

    /// Whether a flow record may contain several words of the variable, each declared as a variable of its
    /// own.
    pub fn has_words(self) -> bool {
        matches!(self, Self::Terms | Self::OpenTerms | Self::Verdict)
    }

    /// The name of one word of the variable; the first word has the name of the variable.
    pub fn word(self, word: u16) -> VarName {
        VarName::Engine(self, word)
    }

    /// Declares the variable, or its first word, in a table.
    pub fn declare(self, table: Table, observed: bool) -> VarDecl {
        self.declare_word(0, table, observed)
    }

    /// Declares one word of the variable in a table.
    pub fn declare_word(self, word: u16, table: Table, observed: bool) -> VarDecl {
        VarDecl { table, name: self.word(word), kind: self.kind(), each_side: self.each_side(), observed }
    }

    /// Whether a declaration matches the contract for this variable.
    pub fn admits(self, declared: &VarDecl) -> bool {
        let has_kind = match (self.kind(), declared.kind) {
            (VarKind::Letters(max), VarKind::Letters(letters)) => letters <= max,
            (kind, declared) => kind == declared,
        };
        let has_word = self.has_words() || declared.name == self;
        has_kind && has_word && self.each_side() == declared.each_side
    }
}

impl fmt::Display for EngineVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The name of a variable of a flow record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VarName {
    /// A word of an engine variable; 0 except for variables that [have several](EngineVar::has_words).
    Engine(EngineVar, u16),
    /// A variable of the layer, by its name in the layer.
    Layer(String),
}

impl VarName {
    /// The name in the text form of graphs: `$terms`, `$terms.1` for the second word, `scale` for a layer's
    /// variable.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            VarName::Engine(var, 0) => Cow::Borrowed(var.text()),
            VarName::Engine(var, word) => Cow::Owned(format!("{var}.{word}")),
            VarName::Layer(name) => Cow::Borrowed(name),
        }
    }

    /// The engine variable with this name in the text form.
    pub fn parse_engine(text: &str) -> Option<Self> {
        if let Some(var) = EngineVar::parse(text) {
            return Some(var.into());
        }
        let (name, word) = text.rsplit_once('.')?;
        let (var, word) = (EngineVar::parse(name)?, word.parse().ok().filter(|word| *word > 0)?);
        Some(var.word(word)).filter(|_| var.has_words())
    }

    /// The engine variable, if this is the name of one or of one of its words.
    pub fn engine(&self) -> Option<EngineVar> {
        match self {
            VarName::Engine(var, _) => Some(*var),
            VarName::Layer(_) => None,
        }
    }
}

impl fmt::Display for VarName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<EngineVar> for VarName {
    fn from(var: EngineVar) -> Self {
        VarName::Engine(var, 0)
    }
}

impl PartialEq<EngineVar> for VarName {
    fn eq(&self, other: &EngineVar) -> bool {
        matches!(self, VarName::Engine(var, 0) if var == other)
    }
}

impl PartialEq<str> for VarName {
    fn eq(&self, other: &str) -> bool {
        matches!(self, VarName::Layer(name) if name == other)
    }
}

impl Graph {
    /// The variable of a table with this name: an [`EngineVar`], the `str` of a layer's variable, or a
    /// [`VarName`].
    pub fn find_var<N: ?Sized>(&self, table: Table, name: &N) -> Option<Var>
    where
        VarName: PartialEq<N>,
    {
        let mut vars = self.vars.iter();
        vars.position(|var| var.table == table && var.name == *name).map(|at| Var(at as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinct_and_parse_back() {
        for &var in EngineVar::ALL {
            assert!(var.text().starts_with('$'), "{var}");
            assert_eq!(EngineVar::parse(var.text()), Some(var));
        }
        assert_eq!(EngineVar::parse("$unknown"), None);
        let word = EngineVar::Terms.word(3);
        assert_eq!((&*word.text(), VarName::parse_engine("$terms.3")), ("$terms.3", Some(word.clone())));
        assert_eq!(VarName::parse_engine("$terms"), Some(EngineVar::Terms.into()));
        for text in ["$terms.0", "$terms.x", "$state.1", "$unknown.1"] {
            assert_eq!(VarName::parse_engine(text), None, "{text}");
        }
    }

    #[test]
    fn declarations_are_admitted_as_the_contract_has_them() {
        for &var in EngineVar::ALL {
            let declared = var.declare(Table(0), true);
            assert!(var.admits(&declared), "{var}");
            assert!(!var.admits(&VarDecl { each_side: !declared.each_side, ..declared }), "{var}");
        }
        let fewer = VarDecl { kind: VarKind::Letters(3), ..EngineVar::History.declare(Table(0), false) };
        assert!(EngineVar::History.admits(&fewer));
        assert!(EngineVar::Terms.admits(&EngineVar::Terms.declare_word(1, Table(0), true)));
        assert!(!EngineVar::Wants.admits(&EngineVar::Wants.declare_word(1, Table(0), true)));
    }
}
