//! The XDP program that gives all packets of an interface to the sockets of their queues, with the time of reception.

use crate::bpf::{Instruction, SocketMap};

/// Bytes in front of each packet: a mark, and the time.
pub(crate) const META_BYTES: usize = 16;

/// `bpf_ktime_get_ns`: the time since the start of the machine.
const TIME: i32 = 5;
/// `bpf_redirect_map`.
const REDIRECT: i32 = 51;
/// `bpf_xdp_adjust_meta`.
const MAKE_META: i32 = 54;
/// The packet goes to the machine if its queue has no socket.
const XDP_PASS: i32 = 2;

/// Places in the context of the program (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const LOAD_WORD: u8 = 0x61;
const LOAD_NUMBER: u8 = 0x18;
const STORE_DOUBLE: u8 = 0x7b;
const JUMP_UNLESS_ZERO: u8 = 0x55;
const JUMP_IF_GREATER: u8 = 0x2d;
/// The number of [`LOAD_NUMBER`] is that of a map.
const IS_MAP: u8 = 1;

/// The program. `mark` precedes the time, so that a reader knows whether the driver keeps what the program writes.
pub(crate) fn program(sockets: &SocketMap, mark: u64) -> Vec<Instruction> {
    let op = Instruction::new;
    let double = |register, source, number: u64| {
        [
            op(LOAD_NUMBER, register, source, 0, number as u32 as i32),
            op(0, 0, 0, 0, (number >> 32) as u32 as i32),
        ]
    };
    let [mark_low, mark_high] = double(2, 0, mark);
    let [map_low, map_high] = double(1, IS_MAP, sockets.number() as u32 as u64);
    vec![
        op(MOVE, 6, 1, 0, 0),
        op(MOVE_NUMBER, 2, 0, 0, -(META_BYTES as i32)),
        op(CALL, 0, 0, 0, MAKE_META),
        // Drivers without room in front of packets refuse.
        op(JUMP_UNLESS_ZERO, 0, 0, 10, 0),
        op(CALL, 0, 0, 0, TIME),
        op(LOAD_WORD, 7, 6, DATA, 0),
        op(LOAD_WORD, 8, 6, DATA_META, 0),
        op(MOVE, 1, 8, 0, 0),
        op(ADD_NUMBER, 1, 0, 0, META_BYTES as i32),
        op(JUMP_IF_GREATER, 1, 7, 4, 0),
        mark_low,
        mark_high,
        op(STORE_DOUBLE, 8, 2, 0, 0),
        op(STORE_DOUBLE, 8, 0, 8, 0),
        op(LOAD_WORD, 2, 6, QUEUE, 0),
        map_low,
        map_high,
        op(MOVE_NUMBER, 3, 0, 0, XDP_PASS),
        op(CALL, 0, 0, 0, REDIRECT),
        op(EXIT, 0, 0, 0, 0),
    ]
}
