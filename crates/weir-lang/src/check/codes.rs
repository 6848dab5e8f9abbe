//! The codes of the protocol language's diagnostics, W0001 to W0099. `docs/diagnostics.md` explains them.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// All of them, in order.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

codes! {
    // Text.
    /// A character or sign that the language does not have.
    BAD_CHARACTER = "W0001";
    /// Letters in a number, or too many digits.
    BAD_NUMBER = "W0002";
    /// No closing quote on the line.
    UNTERMINATED_TEXT = "W0003";
    /// Something else was expected here.
    EXPECTED = "W0004";
    /// A brace that is never closed.
    UNCLOSED = "W0005";
    /// A clause that no protocol or stack has.
    UNKNOWN_CLAUSE = "W0006";
    /// Nested or chained too deeply, or too many of something.
    TOO_MUCH = "W0007";
    /// `a < b < c`, `in {}`, or `=` for `==`.
    BAD_EXPRESSION = "W0008";
    // Names.
    /// No field, derived value or variable of that name.
    UNKNOWN_NAME = "W0010";
    /// Two things of one name.
    DUPLICATE = "W0011";
    /// A word that means something else.
    RESERVED_NAME = "W0012";
    /// A name that exists, but cannot be used here.
    NOT_HERE = "W0013";
    /// Used before it was read.
    TOO_EARLY = "W0014";
    /// A derived value that depends on itself.
    CYCLE = "W0015";
    /// No layer below has it.
    UNKNOWN_BELOW = "W0016";
    /// A file that can't be imported.
    IMPORT = "W0017";
    // Layout and types.
    /// No such type.
    UNKNOWN_TYPE = "W0020";
    /// The types do not go together.
    TYPE = "W0021";
    /// Bits that fill no byte.
    UNALIGNED = "W0022";
    /// A constant that the value can never have.
    TOO_WIDE = "W0023";
    /// Warning: a length that can be negative.
    NEGATIVE_LENGTH = "W0024";
    /// Two items of a run with one tag, or one that is never met.
    RUN_TAG = "W0025";
    /// Warning: always or never true.
    CONSTANT_CONDITION = "W0026";
    /// Warning: a value, a variable or a sequence that nobody reads.
    UNREAD = "W0027";
    // Instances, states, events.
    /// A clause that needs another one.
    MISSING_CLAUSE = "W0030";
    /// No such state.
    UNKNOWN_STATE = "W0031";
    /// Warning: no transition leads there.
    UNREACHABLE_STATE = "W0032";
    /// Warning: an earlier transition is always taken instead.
    DEAD_TRANSITION = "W0033";
    /// No such transition or built-in trigger.
    UNKNOWN_TRIGGER = "W0034";
    /// Nothing to assemble.
    ASSEMBLE = "W0035";
    /// Keys, windows or timeouts that do not fit.
    BAD_CLAUSE = "W0036";
    /// Warning: instances that no timeout ends.
    NO_TIMEOUT = "W0037";
    /// Warning: two events of which neither is told first.
    EVENT_ORDER = "W0038";
    // Stacks.
    /// No protocol or stack of that name.
    UNKNOWN_LAYER = "W0040";
    /// No link type of that name.
    UNKNOWN_LINK = "W0041";
    /// Layers that follow each other in a circle without a bound.
    UNBOUNDED = "W0042";
    /// Warning: a layer that no start leads to.
    UNREACHED_LAYER = "W0043";
    /// Warning: an edge after one that is always taken.
    DEAD_EDGE = "W0044";
    /// Keys to spread packets by that are no two fields of one type and layer.
    DISPATCH = "W0045";
    /// Warning: two edges whose conditions both hold for some values.
    OVERLAP = "W0046";
    /// Messages of what is no stream, or without an end.
    MESSAGES = "W0047";
}
