//! The codes of the protocol language's diagnostics, W0001 to W0099. `docs/diagnostics.md` explains them.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// All codes, in order.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

codes! {
    // Text.
    /// A character or operator that the language does not have.
    BAD_CHARACTER = "W0001";
    /// Letters in a number, or too many digits.
    BAD_NUMBER = "W0002";
    /// No closing quote on the line.
    UNTERMINATED_TEXT = "W0003";
    /// Unexpected token.
    EXPECTED = "W0004";
    /// A brace that is never closed.
    UNCLOSED = "W0005";
    /// An unknown clause of a protocol or stack.
    UNKNOWN_CLAUSE = "W0006";
    /// Nested or chained too deeply, or too many elements.
    TOO_MUCH = "W0007";
    /// `a < b < c`, `in {}`, or `=` for `==`.
    BAD_EXPRESSION = "W0008";
    // Names.
    /// No field, derived value or variable of that name.
    UNKNOWN_NAME = "W0010";
    /// A duplicate name.
    DUPLICATE = "W0011";
    /// A reserved word.
    RESERVED_NAME = "W0012";
    /// A name that exists, but cannot be used here.
    NOT_HERE = "W0013";
    /// A field that is used before it is read.
    TOO_EARLY = "W0014";
    /// A definition that depends on itself.
    CYCLE = "W0015";
    /// No layer below has this name.
    UNKNOWN_BELOW = "W0016";
    /// A file that cannot be imported.
    IMPORT = "W0017";
    // Layout and types.
    /// No such type.
    UNKNOWN_TYPE = "W0020";
    /// Incompatible types.
    TYPE = "W0021";
    /// Bits that do not fill a byte.
    UNALIGNED = "W0022";
    /// A constant that the value can never equal.
    TOO_WIDE = "W0023";
    /// Warning: a length that can be negative.
    NEGATIVE_LENGTH = "W0024";
    /// Two items of a run with the same tag, or an unreachable item.
    RUN_TAG = "W0025";
    /// Warning: a condition that is always or never true.
    CONSTANT_CONDITION = "W0026";
    /// Warning: an unused value, variable or sequence.
    UNREAD = "W0027";
    // Instances, states, events.
    /// A clause that needs another one.
    MISSING_CLAUSE = "W0030";
    /// An unknown state.
    UNKNOWN_STATE = "W0031";
    /// Warning: a state that no transition leads to.
    UNREACHABLE_STATE = "W0032";
    /// Warning: a transition that is unreachable because an earlier one is always taken.
    DEAD_TRANSITION = "W0033";
    /// An unknown transition or built-in trigger.
    UNKNOWN_TRIGGER = "W0034";
    /// Nothing to assemble.
    ASSEMBLE = "W0035";
    /// Keys, windows or time-outs whose parts do not fit together.
    BAD_CLAUSE = "W0036";
    /// Warning: instances that no time-out ends.
    NO_TIMEOUT = "W0037";
    /// Warning: two events whose order is undefined.
    EVENT_ORDER = "W0038";
    // Stacks.
    /// No protocol or stack of that name.
    UNKNOWN_LAYER = "W0040";
    /// No link type of that name.
    UNKNOWN_LINK = "W0041";
    /// A cycle of layers without a bound.
    UNBOUNDED = "W0042";
    /// Warning: a layer that is unreachable from every start.
    UNREACHED_LAYER = "W0043";
    /// Warning: an edge after one that is always taken.
    DEAD_EDGE = "W0044";
    /// Dispatch keys that are not two fields of one type and layer.
    DISPATCH = "W0045";
    /// Warning: two edges whose conditions both hold for some values.
    OVERLAP = "W0046";
    /// Messages in a layer without ordered bytes, or messages without an end.
    MESSAGES = "W0047";
}
