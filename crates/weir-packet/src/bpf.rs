//! Instructions of eBPF (RFC 9669).

use std::fmt;

/// The codes of operations, without the size of a load and the condition of a jump.
pub mod code {
    /// A sum with the immediate number; other arithmetic is [`COMPUTE`] with its own bits.
    pub const COMPUTE: u8 = 0x07;
    /// The immediate number.
    pub const MOVE: u8 = 0xb7;
    /// Makes a number big-endian.
    pub const SWAP: u8 = 0xdc;
    /// A number of 64 bits, in two instructions.
    pub const LOAD_NUMBER: u8 = 0x18;
    /// A number in memory.
    pub const LOAD: u8 = 0x61;
    /// Writes a number to memory.
    pub const STORE: u8 = 0x63;
    /// Adds a number to one in memory, atomically.
    pub const ATOMIC: u8 = 0xc3;
    /// A jump, always.
    pub const JUMP: u8 = 0x05;
    /// A call of the kernel.
    pub const CALL: u8 = 0x85;
    /// The end of the program.
    pub const EXIT: u8 = 0x95;
    /// The second operand of arithmetic, of a move or of a jump is a register, not the immediate number.
    pub const BY_REGISTER: u8 = 0x08;

    /// Sizes of loads and stores.
    pub const BYTE: u8 = 0x10;
    /// Two bytes.
    pub const HALF: u8 = 0x08;
    /// Four bytes.
    pub const WORD: u8 = 0x00;
    /// Eight bytes.
    pub const DOUBLE: u8 = 0x18;

    /// The register that points to the top of the stack.
    pub const STACK: u8 = 10;
}

/// An instruction (section 3), as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct BpfInstruction {
    /// The operation.
    pub code: u8,
    /// The destination in the lower four bits, the source in the upper ones.
    pub registers: u8,
    /// The displacement of a load or a store, or the distance of a jump.
    pub offset: i16,
    /// The immediate number.
    pub number: i32,
}

impl BpfInstruction {
    /// An instruction; registers are numbered from 0 to 10.
    pub const fn new(code: u8, destination: u8, source: u8, offset: i16, number: i32) -> Self {
        Self { code, registers: source << 4 | destination, offset, number }
    }

    /// The bytes of the instruction, in the order of the machine.
    pub fn to_bytes(self) -> [u8; 8] {
        let ([a, b], [c, d, e, f]) = (self.offset.to_ne_bytes(), self.number.to_ne_bytes());
        [self.code, self.registers, a, b, c, d, e, f]
    }

    /// The instruction with these [bytes](Self::to_bytes).
    pub fn from_bytes([code, registers, a, b, c, d, e, f]: [u8; 8]) -> Self {
        let (offset, number) = (i16::from_ne_bytes([a, b]), i32::from_ne_bytes([c, d, e, f]));
        Self { code, registers, offset, number }
    }
}

impl fmt::Display for BpfInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, registers, offset, number } = *self;
        let (to, from) = (registers & 15, registers >> 4);
        let size = match code & 0x18 {
            0x00 => "u32",
            0x08 => "u16",
            0x10 => "u8",
            _ => "u64",
        };
        let operand = if code & 8 == 0 { format!("{number:#x}") } else { format!("r{from}") };
        let sign = |names: [&'static str; 14]| names.get(usize::from(code >> 4)).copied().unwrap_or("?");
        match code & 7 {
            0 if code == 0x18 => write!(f, "r{to} = {number:#x} (lower half)"),
            0 => write!(f, "     {number:#x} (upper half)"),
            1 => write!(f, "r{to} = {size}[r{from} {offset:+}]"),
            3 => write!(f, "{size}[r{to} {offset:+}] = r{from}"),
            4 => write!(f, "r{to} = big-endian r{to} of {number} bits"),
            5 if code == 5 => write!(f, "go {offset:+}"),
            5 => {
                let names = ["", "==", ">", ">=", "&", "!=", "", "", "", "", "<", "<=", "", ""];
                write!(f, "go {offset:+} if r{to} {} {operand}", sign(names))
            }
            _ => {
                let names = ["+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "-", "%=", "^=", "=", "", ""];
                write!(f, "r{to} {} {operand}", sign(names))
            }
        }
    }
}
