//! Code for a machine of eBPF with any number of registers: the form between graphs and instructions.

/// A register. All hold 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Register(pub u32);

impl Register {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A register or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(Register),
    Number(u64),
    /// The length of the frame.
    Length,
}

/// Arithmetic, by the codes of the machine (RFC 9669, section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Shl = 0x60,
    Shr = 0x70,
    Rem = 0x90,
    Xor = 0xa0,
}

/// Conditions of jumps, by the codes of the machine (RFC 9669, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    Different = 0x50,
    Less = 0xa0,
    LessOrEqual = 0xb0,
}

/// The start of a load's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The first byte of the frame.
    Frame,
    /// A pointer into the frame.
    Pointer(Register),
}

/// A step without branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `to = a op b`.
    Compute { to: Register, op: Arithmetic, a: Operand, b: Operand },
    /// `to` becomes the number of `bytes` bytes that begins `displacement` bytes behind `base`; big-endian,
    /// unless `is_little`.
    Load { to: Register, bytes: u32, is_little: bool, base: Base, displacement: i16 },
    /// `to` points to a byte of the frame.
    Point { to: Register, offset: Register },
    /// Copies, all at the same time.
    Copy(Vec<(Register, Operand)>),
    /// Looks up a flow that the kernel has taken over. The packet is needed if there is none, or if it has
    /// one already.
    Find { table: usize, key: Vec<Operand> },
    /// Reads a word of that flow's entry; with a side, the word of that side.
    Read { to: Register, word: usize, side: Option<Operand> },
    /// Sets the side of the packet: the originator's, or the responder's.
    Side(Operand),
    /// Keeps the number that the flow's entry gets if the packet is not needed: the amount of a sum, or a
    /// value.
    Pend { pending: usize, number: Operand },
}

/// A number that the entry of a flow gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The word of the entry; the responder's follows.
    pub word: usize,
    /// The number is added.
    pub is_sum: bool,
    /// Each side has a word.
    pub each_side: bool,
}

/// The flows that the kernel has taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FlowCode {
    /// By table: the number of the layer, and the numbers that its entries get.
    pub tables: Vec<(u64, Vec<Pending>)>,
    pub key_words: usize,
}

/// The end of the program: its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A part, by number.
    Part(usize),
    /// The end, with the verdict whether the packet is needed.
    End(bool),
}

/// A test, and where to go on if it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    /// A comparison.
    Compare(Condition, Operand, Operand),
    /// The frame's first piece has fewer bytes than this number behind a base.
    Beyond(Base, u32),
}

/// A piece of the program: steps, then tests in order, then what follows if none holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub steps: Vec<Step>,
    pub tests: Vec<(Test, Goal)>,
    pub next: Goal,
}

/// A program. It begins with part 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    pub flows: FlowCode,
    pub parts: Vec<Part>,
    pub registers: u32,
}

impl FlowCode {
    /// Bytes on the stack: those of the flow, and of a key.
    pub fn stack_bytes(&self) -> i16 {
        if self.tables.is_empty() { 0 } else { self.key_at() + 8 * self.key_words as i16 }
    }

    /// Numbers that an entry gets at most.
    fn pending(&self) -> usize {
        self.tables.iter().map(|(_, pending)| pending.len()).max().unwrap_or(0)
    }

    /// The place of the key's last word, in bytes below the top of the stack.
    pub fn key_at(&self) -> i16 {
        FLOW_AT + 8 * (3 + self.pending() as i16)
    }

    /// The place of a number that the entry gets.
    pub fn pending_at(&self, pending: usize) -> i16 {
        TABLE_AT + 8 * (1 + pending as i16)
    }
}

/// Places on the stack, in bytes below its top: the pointer to the flow's entry, or 0; the side of the
/// packet; the number of the table.
pub(crate) const FLOW_AT: i16 = 16;
pub(crate) const SIDE_AT: i16 = 24;
pub(crate) const TABLE_AT: i16 = 32;

impl Operand {
    pub fn register(self) -> Option<Register> {
        match self {
            Operand::Register(register) => Some(register),
            Operand::Number(_) | Operand::Length => None,
        }
    }
}

impl Base {
    pub fn register(self) -> Option<Register> {
        match self {
            Base::Pointer(register) => Some(register),
            Base::Frame => None,
        }
    }
}

impl Step {
    /// Calls `f` on each register that the step reads.
    pub fn for_each_read(&self, mut f: impl FnMut(Register)) {
        match self {
            Step::Compute { a, b, .. } => [a, b].into_iter().filter_map(|one| one.register()).for_each(f),
            Step::Load { base, .. } => base.register().into_iter().for_each(f),
            Step::Point { offset, .. } => f(*offset),
            Step::Copy(copies) => copies.iter().filter_map(|(_, from)| from.register()).for_each(f),
            Step::Find { key, .. } => key.iter().filter_map(|word| word.register()).for_each(f),
            Step::Read { side, .. } => side.iter().filter_map(|side| side.register()).for_each(f),
            Step::Side(number) | Step::Pend { number, .. } => number.register().into_iter().for_each(f),
        }
    }

    /// Whether the step calls the kernel, which leaves no value in registers of the machine.
    pub fn calls(&self) -> bool {
        matches!(self, Step::Find { .. })
    }

    /// Calls `f` on each register that the step writes.
    pub fn for_each_write(&self, mut f: impl FnMut(Register)) {
        match self {
            Step::Compute { to, .. } | Step::Load { to, .. } | Step::Point { to, .. } => f(*to),
            Step::Read { to, .. } => f(*to),
            Step::Find { .. } | Step::Side(_) | Step::Pend { .. } => {}
            Step::Copy(copies) => copies.iter().for_each(|(to, _)| f(*to)),
        }
    }
}

impl Test {
    /// Calls `f` on each register that the test reads.
    pub fn for_each_read(&self, f: impl FnMut(Register)) {
        match self {
            Test::Compare(_, a, b) => [a, b].into_iter().filter_map(|one| one.register()).for_each(f),
            Test::Beyond(base, _) => base.register().into_iter().for_each(f),
        }
    }
}
