//! Writes programs of eBPF (RFC 9669) around the filters that come with questions.

use weir_packet::BpfInstruction;
use weir_packet::bpf::code::{
    ATOMIC, BY_REGISTER, CALL, COMPUTE, DOUBLE, EXIT, JUMP, LOAD, LOAD_NUMBER, MOVE, STORE, SWAP,
};

/// `bpf_map_lookup_elem`.
pub(crate) const LOOKUP: i32 = 1;
/// `bpf_map_update_elem`.
pub(crate) const UPDATE: i32 = 2;
/// `bpf_ktime_get_ns`: the time since the start of the machine.
pub(crate) const TIME: i32 = 5;
/// `bpf_redirect`.
pub(crate) const REDIRECT_TO: i32 = 23;
/// `bpf_skb_load_bytes`.
pub(crate) const LOAD_BYTES: i32 = 26;
/// `bpf_redirect_map`.
pub(crate) const REDIRECT: i32 = 51;
/// `bpf_xdp_adjust_meta`.
pub(crate) const MAKE_META: i32 = 54;
/// `bpf_xdp_adjust_tail`.
pub(crate) const ADJUST_TAIL: i32 = 65;
/// `bpf_xdp_get_buff_len`.
pub(crate) const FRAME_LENGTH: i32 = 188;
/// `bpf_xdp_store_bytes`.
pub(crate) const STORE_BYTES: i32 = 190;

/// Conditions of jumps.
pub(crate) const EQUAL: u8 = 0x10;
pub(crate) const GREATER: u8 = 0x20;
pub(crate) const HAS: u8 = 0x40;
pub(crate) const DIFFERENT: u8 = 0x50;
pub(crate) const LESS: u8 = 0xa0;

/// Operations of arithmetic.
pub(crate) const ADD: u8 = 0x00;
pub(crate) const SUBTRACT: u8 = 0x10;
pub(crate) const MULTIPLY: u8 = 0x20;
pub(crate) const OR: u8 = 0x40;
pub(crate) const AND: u8 = 0x50;
pub(crate) const SHIFT_LEFT: u8 = 0x60;
pub(crate) const SHIFT_RIGHT: u8 = 0x70;
pub(crate) const REMAINDER: u8 = 0x90;
pub(crate) const XOR: u8 = 0xa0;

/// The number of [`LOAD_NUMBER`] is that of a map.
const IS_MAP: u8 = 1;
/// The numbers of [`LOAD_NUMBER`] are those of an array with one entry, and of a byte in this entry: the
/// byte's address.
const IS_ADDRESS: u8 = 2;
/// [`COMPUTE`] uses the lower 32 bits of its operands, and clears the upper ones of the result.
const COMPUTE_WORD: u8 = 0x04;
/// A move of the lower 32 bits, which clears the upper ones.
const MOVE_WORD: u8 = 0xb4;

/// A place that jumps name before it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label(usize);

/// A place behind which the program goes on again: see [`Assembly::repeat_if`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here(usize);

/// A program that is being written. Jumps to labels go forward.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    all: Vec<BpfInstruction>,
    jumps: Vec<Vec<usize>>,
}

impl Assembly {
    pub fn label(&mut self) -> Label {
        self.jumps.push(vec![]);
        Label(self.jumps.len() - 1)
    }

    fn push(&mut self, code: u8, destination: u8, source: u8, offset: i16, number: i32) {
        self.all.push(BpfInstruction::new(code, destination, source, offset, number));
    }

    pub fn set(&mut self, register: u8, number: i32) {
        self.push(MOVE, register, 0, 0, number);
    }

    pub fn set_double(&mut self, register: u8, number: u64) {
        self.push(LOAD_NUMBER, register, 0, 0, number as u32 as i32);
        self.push(0, 0, 0, 0, (number >> 32) as u32 as i32);
    }

    pub fn set_map(&mut self, register: u8, map: i32) {
        self.push(LOAD_NUMBER, register, IS_MAP, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    pub fn copy(&mut self, register: u8, from: u8) {
        self.push(MOVE | BY_REGISTER, register, from, 0, 0);
    }

    pub fn add(&mut self, register: u8, number: i32) {
        self.push(COMPUTE, register, 0, 0, number);
    }

    pub fn add_register(&mut self, register: u8, other: u8) {
        self.push(COMPUTE | BY_REGISTER, register, other, 0, 0);
    }

    /// Sets a register to the address of a byte of an array with one entry.
    pub fn set_address(&mut self, register: u8, map: i32, byte: i32) {
        self.push(LOAD_NUMBER, register, IS_ADDRESS, 0, map);
        self.push(0, 0, 0, 0, byte);
    }

    /// Copies the lower 32 bits of a register, and clears the upper ones.
    pub fn copy_word(&mut self, register: u8, from: u8) {
        self.push(MOVE_WORD | BY_REGISTER, register, from, 0, 0);
    }

    /// An operation of 64 bits with a number.
    pub fn compute(&mut self, operation: u8, register: u8, number: i32) {
        self.push(COMPUTE | operation, register, 0, 0, number);
    }

    /// An operation of 64 bits with another register.
    pub fn compute_with(&mut self, operation: u8, register: u8, other: u8) {
        self.push(COMPUTE | operation | BY_REGISTER, register, other, 0, 0);
    }

    /// An operation of 32 bits with a number.
    pub fn compute_word(&mut self, operation: u8, register: u8, number: i32) {
        self.push(COMPUTE_WORD | operation, register, 0, 0, number);
    }

    /// An operation of 32 bits with another register.
    pub fn compute_word_with(&mut self, operation: u8, register: u8, other: u8) {
        self.push(COMPUTE_WORD | operation | BY_REGISTER, register, other, 0, 0);
    }

    /// Combines a number of 64 bits in memory with a register, atomically: [`ADD`] or [`OR`].
    pub fn compute_atomic(&mut self, operation: u8, base: u8, offset: i16, register: u8) {
        self.push(ATOMIC | DOUBLE, base, register, offset, i32::from(operation));
    }

    /// Loads from the packet into register 0; `code` is that of classic BPF with an index. Register 6 is the
    /// context. The program ends with 0 if the packet is shorter. Registers 1 to 5 are lost.
    pub fn load_packet(&mut self, code: u8, index: u8, offset: i32) {
        self.push(code, 0, index, 0, offset);
    }

    /// Makes a number of 16 bits big-endian.
    pub fn swap_half(&mut self, register: u8) {
        self.push(SWAP, register, 0, 0, 16);
    }

    pub fn load(&mut self, size: u8, register: u8, base: u8, offset: i16) {
        self.push(LOAD | size, register, base, offset, 0);
    }

    pub fn store(&mut self, size: u8, base: u8, offset: i16, register: u8) {
        self.push(STORE | size, base, register, offset, 0);
    }

    pub fn call(&mut self, helper: i32) {
        self.push(CALL, 0, 0, 0, helper);
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps[to.0].push(self.all.len());
        self.push(JUMP, 0, 0, 0, 0);
    }

    /// Jumps if the register compares so with a number.
    pub fn jump_if(&mut self, condition: u8, register: u8, number: i32, to: Label) {
        self.jumps[to.0].push(self.all.len());
        self.push(JUMP | condition, register, 0, 0, number);
    }

    /// Jumps if the register compares so with another one.
    pub fn jump_if_register(&mut self, condition: u8, register: u8, other: u8, to: Label) {
        self.jumps[to.0].push(self.all.len());
        self.push(JUMP | condition | BY_REGISTER, register, other, 0, 0);
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        for jump in std::mem::take(&mut self.jumps[label.0]) {
            let distance = i16::try_from(self.all.len() - jump - 1);
            self.all[jump].offset = distance.expect("a filter has at most so many instructions");
        }
    }

    /// The place of the next instruction.
    pub fn here(&self) -> Here {
        Here(self.all.len())
    }

    /// Jumps back if the register compares so with a number. The kernel's verifier has to see that the loop
    /// ends.
    pub fn repeat_if(&mut self, condition: u8, register: u8, number: i32, from: Here) {
        let distance = self.all.len() + 1 - from.0;
        self.push(JUMP | condition, register, 0, -(distance as i16), number);
    }

    pub fn filter(&mut self, filter: &[BpfInstruction]) {
        self.all.extend_from_slice(filter);
    }

    pub fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0, 0);
    }

    pub fn finish(self) -> Vec<BpfInstruction> {
        self.all
    }
}
