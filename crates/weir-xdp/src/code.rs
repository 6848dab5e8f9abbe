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
    /// `to` becomes the number of `bytes` bytes that begins `displacement` bytes behind `base`; big-endian, unless `is_little`.
    Load { to: Register, bytes: u32, is_little: bool, base: Base, displacement: i16 },
    /// `to` points to a byte of the frame.
    Point { to: Register, offset: Register },
    /// Copies, all at the same time.
    Copy(Vec<(Register, Operand)>),
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
    pub parts: Vec<Part>,
    pub registers: u32,
}

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
        }
    }

    /// Calls `f` on each register that the step writes.
    pub fn for_each_write(&self, mut f: impl FnMut(Register)) {
        match self {
            Step::Compute { to, .. } | Step::Load { to, .. } | Step::Point { to, .. } => f(*to),
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
