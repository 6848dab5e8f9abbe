//! The program of eBPF that assigns packets to workers (`PACKET_FANOUT_EBPF`): all packets between two hosts
//! to one worker.
//!
//! The lower bits of a [pair's number](crate::fanout) are its place, one of [`PLACES`]. The place's number
//! modulo the number of workers is the pair's home. A table says to which worker each place sends pairs that
//! are new; it differs from the home only while the home falls behind. A pair that is known keeps its worker:
//!
//! * its bits are set in a filter of known pairs, which is kept for two periods: then it is at home, or
//! * it is in the table of moved pairs.
//!
//! A pair that is wrongly held for known stays at home, and so does a pair for which the table has no room:
//! both only make the load less even, and split no connection.

use crate::assembly::{
    ADD, AND, Assembly, DIFFERENT, EQUAL, HAS, LOOKUP, Label, MULTIPLY, OR, REMAINDER, SHIFT_LEFT,
    SHIFT_RIGHT, UPDATE, XOR,
};
use crate::fanout;
use libc::sock_filter;
use weir_packet::BpfInstruction;
use weir_packet::bpf::code::{DOUBLE, STACK, WORD};

/// Places of pairs.
pub(crate) const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: i32 = 10;

/// Words of each of the two halves of the filter of known pairs. A pair has two bits of one word: with a
/// million pairs, one in twenty new ones is mistaken for a known one.
pub(crate) const KNOWN_WORDS: usize = 1 << 17;

/// Words of the memory that the program and the process share: the number of the period, whose last bit
/// selects the half of the filter that is written.
pub(crate) const PERIOD: usize = 0;
/// Pairs that were assigned to another worker than their home.
pub(crate) const PAIRS_MOVED: usize = 1;
/// Pairs that stayed because the table of moved pairs had no room.
pub(crate) const PAIRS_NOT_MOVED: usize = 2;
/// For each place: the worker of new pairs.
pub(crate) const WORKERS: usize = 8;
/// The filter of known pairs: a word of each half in turn, so that a packet touches one line of the cache.
pub(crate) const KNOWN: usize = WORKERS + PLACES;
/// Words of the shared memory.
pub(crate) const WORDS: usize = KNOWN + 2 * KNOWN_WORDS;
const _: () = assert!(KNOWN.is_multiple_of(2), "both words of a pair are in one line");

/// Words of a key of the table of moved pairs: the pair's number.
pub(crate) const KEY_WORDS: usize = 1;
/// Words of an entry: the worker, and the period in which the pair was last seen.
pub(crate) const ENTRY_WORDS: usize = 2;

/// An odd number that spreads the bits of a number over a word of 32 bits.
const FACTOR: i32 = 0x9e37_79b1_u32 as i32;

/// The place of the protocol in the context of a socket filter (`struct __sk_buff`).
const PROTOCOL: i16 = 16;

/// An update fails if the map has the key.
const NEW_ONLY: i32 = 1;
/// `EEXIST`, as a helper returns it.
const EXISTS: i32 = -libc::EEXIST;

/// Places on the stack. The cells of classic BPF lie above.
const KEY: i16 = -40;
const RESULT: i16 = -48;
const ENTRY: i16 = -64;
/// The number of cells of classic BPF, 8 bytes each.
const CELLS: u32 = 4;

/// The program for this number of workers, with the numbers of the shared memory and of the table of moved
/// pairs.
pub(crate) fn program(workers: usize, shared: i32, moved: i32) -> Vec<BpfInstruction> {
    let mut all = Assembly::default();
    all.copy(6, 1);
    convert(&mut all, &fanout::program());
    assign(&mut all, workers as i32, shared, moved);
    all.finish()
}

/// A program that computes the number of a packet's pair of hosts, and nothing else: to measure what the
/// assignment adds.
pub(crate) fn hash_alone() -> Vec<BpfInstruction> {
    let mut all = Assembly::default();
    all.copy(6, 1);
    convert(&mut all, &fanout::program());
    all.exit();
    all.finish()
}

/// The distance of a word from the start of the shared memory, in bytes.
fn bytes(word: usize) -> i32 {
    8 * word as i32
}

/// Writes a program of classic BPF as eBPF: the accumulator is register 0, the index register 7. The result
/// of the program is in register 0 behind it; a program that ends with a constant ends with this number.
fn convert(all: &mut Assembly, program: &[sock_filter]) {
    let labels: Vec<_> = (0..=program.len()).map(|_| all.label()).collect();
    let done = all.label();
    let cell = |number: u32| {
        assert!(number < CELLS, "the stack has room for the cell");
        -8 * (number as i16 + 1)
    };
    for (at, &sock_filter { code, jt, jf, k }) in program.iter().enumerate() {
        all.place(labels[at]);
        let [then, otherwise] = [jt, jf].map(|distance| labels[at + 1 + usize::from(distance)]);
        let code = u32::from(code);
        match code {
            fanout::LOAD_WORD | fanout::LOAD_HALF | fanout::LOAD_BYTE => {
                all.load_packet(code as u8, 7, k as i32);
            }
            fanout::LOAD_TYPE => {
                all.load(WORD, 0, 6, PROTOCOL);
                all.swap_half(0);
            }
            fanout::LOAD_CELL => all.load(WORD, 0, STACK, cell(k)),
            fanout::LOAD_X => all.set(7, k as i32),
            fanout::LOAD_X_CELL => all.load(WORD, 7, STACK, cell(k)),
            fanout::STORE => all.store(WORD, STACK, cell(k), 0),
            fanout::TO_X => all.copy_word(7, 0),
            fanout::FROM_X => all.copy_word(0, 7),
            fanout::ADD => all.compute_word_with(ADD, 0, 7),
            fanout::ADD_NUMBER => all.compute_word(ADD, 0, k as i32),
            fanout::SHIFT => all.compute_word(SHIFT_RIGHT, 0, k as i32),
            fanout::XOR => all.compute_word_with(XOR, 0, 7),
            fanout::MULTIPLY => all.compute_word(MULTIPLY, 0, k as i32),
            fanout::EQUAL | fanout::HAS => {
                let condition = if code == fanout::EQUAL { EQUAL } else { HAS };
                all.jump_if(condition, 0, k as i32, then);
                all.jump(otherwise);
            }
            fanout::RETURN => {
                all.set(0, k as i32);
                all.exit();
            }
            fanout::RETURN_A => all.jump(done),
            other => unreachable!("the program has no instruction {other:#x}"),
        }
    }
    all.place(labels[program.len()]);
    all.place(done);
}

/// Assigns the pair of hosts whose number is in register 0.
///
/// Registers: 6 has the pair's two bits, 7 points to the words with these bits, 8 is the number of the pair,
/// 9 whether the pair is known.
fn assign(all: &mut Assembly, workers: i32, shared: i32, moved: i32) {
    let [unknown, known, is_recent] = [(); 3].map(|()| all.label());
    all.copy(8, 0);
    all.store(DOUBLE, STACK, KEY, 8);
    find_bits(all, shared);
    all.set(9, 0);
    // In the half of this period, or in the other one.
    for half in 0..2 {
        let other = all.label();
        all.load(DOUBLE, 1, 7, 8 * half);
        all.compute_with(AND, 1, 6);
        all.jump_if_register(DIFFERENT, 1, 6, other);
        all.set(9, 1);
        all.place(other);
    }
    // Usually no pair was moved. A moved pair is in the table before its bits are set, and it is counted
    // before, too: this processor finds a pair that another one has just moved.
    all.set_address(1, shared, 0);
    all.load(DOUBLE, 2, 1, bytes(PAIRS_MOVED) as i16);
    all.jump_if(EQUAL, 2, 0, unknown);
    look_up(all, moved);
    all.jump_if(EQUAL, 0, 0, unknown);
    all.set_address(1, shared, 0);
    all.load(DOUBLE, 2, 1, bytes(PERIOD) as i16);
    all.load(DOUBLE, 3, 0, 8);
    all.jump_if_register(EQUAL, 2, 3, is_recent);
    all.store(DOUBLE, 0, 8, 2);
    all.place(is_recent);
    all.load(DOUBLE, 1, 0, 0);
    all.store(DOUBLE, STACK, RESULT, 1);
    all.jump(known);

    all.place(unknown);
    all.copy(1, 8);
    all.compute(AND, 1, PLACES as i32 - 1);
    all.copy(2, 1);
    all.compute(REMAINDER, 2, workers);
    all.store(DOUBLE, STACK, RESULT, 2);
    all.jump_if(DIFFERENT, 9, 0, known);
    all.compute(SHIFT_LEFT, 1, 3);
    all.set_address(3, shared, bytes(WORKERS));
    all.compute_with(ADD, 3, 1);
    all.load(DOUBLE, 3, 3, 0);
    all.jump_if_register(EQUAL, 3, 2, known);
    move_pair(all, shared, moved, known);

    all.place(known);
    note(all, shared);
    all.load(DOUBLE, 0, STACK, RESULT);
    all.exit();
}

/// Sets register 6 to the bits of the pair, and register 7 to the address of their words.
fn find_bits(all: &mut Assembly, shared: i32) {
    // Two bits, selected by the upper bits of a product.
    all.copy_word(1, 8);
    all.compute_word(MULTIPLY, 1, FACTOR);
    all.copy_word(2, 1);
    all.compute_word(SHIFT_RIGHT, 1, 26);
    all.compute_word(SHIFT_RIGHT, 2, 20);
    all.compute_word(AND, 2, 63);
    all.set(6, 1);
    all.compute_with(SHIFT_LEFT, 6, 1);
    all.set(3, 1);
    all.compute_with(SHIFT_LEFT, 3, 2);
    all.compute_with(OR, 6, 3);
    // Their words are selected by the bits above those of the place.
    all.copy(1, 8);
    all.compute(SHIFT_RIGHT, 1, PLACE_BITS);
    all.compute(AND, 1, KNOWN_WORDS as i32 - 1);
    all.compute(SHIFT_LEFT, 1, 4);
    all.set_address(7, shared, bytes(KNOWN));
    all.compute_with(ADD, 7, 1);
}

/// Moves the pair to the worker in register 3, if the table of moved pairs has room, and jumps; or goes on.
fn move_pair(all: &mut Assembly, shared: i32, moved: i32, known: Label) {
    let [not_moved, is_full] = [(); 2].map(|()| all.label());
    all.store(DOUBLE, STACK, ENTRY, 3);
    all.set_address(1, shared, 0);
    all.load(DOUBLE, 2, 1, bytes(PERIOD) as i16);
    all.store(DOUBLE, STACK, ENTRY + 8, 2);
    all.set_map(1, moved);
    all.copy(2, STACK);
    all.add(2, i32::from(KEY));
    all.copy(3, STACK);
    all.add(3, i32::from(ENTRY));
    all.set(4, NEW_ONLY);
    all.call(UPDATE);
    all.jump_if(DIFFERENT, 0, 0, not_moved);
    count(all, shared, PAIRS_MOVED);
    all.load(DOUBLE, 1, STACK, ENTRY);
    all.store(DOUBLE, STACK, RESULT, 1);
    all.jump(known);
    all.place(not_moved);
    all.jump_if(DIFFERENT, 0, EXISTS, is_full);
    // Another processor has moved the pair meanwhile.
    look_up(all, moved);
    all.jump_if(EQUAL, 0, 0, known);
    all.load(DOUBLE, 1, 0, 0);
    all.store(DOUBLE, STACK, RESULT, 1);
    all.jump(known);
    all.place(is_full);
    count(all, shared, PAIRS_NOT_MOVED);
}

/// Sets the bits of the pair in the half of this period: the pair is known from now on.
fn note(all: &mut Assembly, shared: i32) {
    let is_set = all.label();
    all.set_address(1, shared, 0);
    all.load(DOUBLE, 2, 1, bytes(PERIOD) as i16);
    all.compute(AND, 2, 1);
    all.compute(SHIFT_LEFT, 2, 3);
    all.compute_with(ADD, 7, 2);
    all.load(DOUBLE, 1, 7, 0);
    all.compute_with(AND, 1, 6);
    all.jump_if_register(EQUAL, 1, 6, is_set);
    all.compute_atomic(OR, 7, 0, 6);
    all.place(is_set);
}

/// Looks up the pair in the table of moved pairs. Register 0 points to the entry, or is 0.
fn look_up(all: &mut Assembly, moved: i32) {
    all.set_map(1, moved);
    all.copy(2, STACK);
    all.add(2, i32::from(KEY));
    all.call(LOOKUP);
}

/// Adds 1 to a counter in the shared memory.
fn count(all: &mut Assembly, shared: i32, word: usize) {
    all.set_address(1, shared, bytes(word));
    all.set(2, 1);
    all.compute_atomic(ADD, 1, 0, 2);
}
