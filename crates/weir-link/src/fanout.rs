//! Assigns packets to the workers' sockets in the kernel (`PACKET_FANOUT`), with a program of classic BPF of our own.
//!
//! The program adds up the two addresses of the outermost IP header, so the result is the same for both directions and for
//! all fragments. It looks through VLAN tags that the kernel has not removed, and through PPPoE. All other packets go to
//! the first socket. The kernel takes the result modulo the number of sockets.

use libc::sock_filter;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const ADD: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X;
const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const RETURN_A: u32 = libc::BPF_RET | libc::BPF_A;

/// The network header, as the kernel knows it.
const NETWORK: i32 = libc::SKF_NET_OFF;
/// The type of the network header.
const PROTOCOL: i32 = libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL;

/// VLAN tags that the program looks through.
const TAGS_MAX: i32 = 2;

/// The program.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut all = vec![];
    // The place of a layer's type, and of its header.
    let (mut type_at, mut header_at) = (PROTOCOL, NETWORK);
    for tags in 0..=TAGS_MAX {
        load(&mut all, LOAD_HALF, type_at);
        of_family(&mut all, &[0x0800], header_at, &[12, 16]);
        of_family(&mut all, &[0x86dd], header_at, &[8, 12, 16, 20, 24, 28, 32, 36]);
        // PPPoE: the protocol of PPP follows a header of six bytes.
        let is_session = all.len();
        jump(&mut all, 0x8864);
        load(&mut all, LOAD_HALF, header_at + 6);
        of_family(&mut all, &[0x0021], header_at + 8, &[12, 16]);
        of_family(&mut all, &[0x0057], header_at + 8, &[8, 12, 16, 20, 24, 28, 32, 36]);
        constant(&mut all, RETURN, 0);
        skip_unless(&mut all, is_session);
        if tags < TAGS_MAX {
            // One of the two types of tags, or nothing that the program knows.
            all.push(instruction(EQUAL, 2, 0, 0x8100));
            all.push(instruction(EQUAL, 1, 0, 0x88a8));
            constant(&mut all, RETURN, 0);
            (type_at, header_at) = (header_at + 2, header_at + 4);
        }
    }
    constant(&mut all, RETURN, 0);
    all
}

/// A socket's filter that no packet passes.
pub(crate) fn nothing() -> [sock_filter; 1] {
    [instruction(RETURN, 0, 0, 0)]
}

/// If the type in the accumulator is the one given: returns a number made of the words at these places behind `base`.
fn of_family(all: &mut Vec<sock_filter>, types: &[u32; 1], base: i32, words: &[i32]) {
    let test = all.len();
    jump(all, types[0]);
    load(all, LOAD_WORD, base + words[0]);
    for word in &words[1..] {
        constant(all, TO_X, 0);
        load(all, LOAD_WORD, base + word);
        constant(all, ADD, 0);
    }
    // All bits of the sum take part in the remainder.
    constant(all, TO_X, 0);
    constant(all, libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16);
    constant(all, libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    constant(all, libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, 0x45d9_f3b1);
    constant(all, TO_X, 0);
    constant(all, libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16);
    constant(all, libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    constant(all, RETURN_A, 0);
    skip_unless(all, test);
}

fn instruction(code: u32, jump_true: u8, jump_false: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

fn constant(all: &mut Vec<sock_filter>, code: u32, k: u32) {
    all.push(instruction(code, 0, 0, k));
}

fn load(all: &mut Vec<sock_filter>, code: u32, at: i32) {
    // Negative places are those of the kernel's own names.
    constant(all, code, at as u32);
}

fn jump(all: &mut Vec<sock_filter>, equal: u32) {
    constant(all, EQUAL, equal);
}

/// Completes a jump: unless its condition holds, the program continues here.
fn skip_unless(all: &mut [sock_filter], jump: usize) {
    let distance = all.len() - jump - 1;
    all[jump].jf = u8::try_from(distance).expect("the parts of the program are short");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Runs the program as the kernel does. `protocol`, and the bytes from the network header on.
    fn run(program: &[sock_filter], protocol: u16, network: &[u8]) -> u32 {
        let (mut at, mut a, mut x) = (0, 0u32, 0u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let load = |bytes: usize| {
                if k as i32 == PROTOCOL {
                    return Some(u32::from(protocol));
                }
                let from = usize::try_from(k as i32 - NETWORK).ok()?;
                Some(network.get(from..from + bytes)?.iter().fold(0, |all, &byte| all << 8 | u32::from(byte)))
            };
            match u32::from(code) {
                LOAD_WORD | LOAD_HALF => {
                    let bytes = if u32::from(code) == LOAD_WORD { 4 } else { 2 };
                    match load(bytes) {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
                ADD => a = a.wrapping_add(x),
                TO_X => x = a,
                EQUAL => at += usize::from(if a == k { jt } else { jf }),
                RETURN => return k,
                RETURN_A => return a,
                code if code == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => a >>= k,
                code if code == libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X => a ^= x,
                code if code == libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K => a = a.wrapping_mul(k),
                other => panic!("no instruction {other:#x}"),
            }
        }
    }

    fn v4(a: [u8; 4], b: [u8; 4]) -> Vec<u8> {
        [&[0x45; 12][..], &a, &b].concat()
    }

    #[test]
    fn both_directions_go_to_one_socket_and_hosts_to_all() {
        let program = program();
        assert!(program.len() < 4096, "the kernel's limit");
        let mut sockets = HashSet::new();
        for host in 0..64 {
            let (a, b) = ([10, 0, 0, host], [192, 0, 2, 7]);
            let there = run(&program, 0x0800, &v4(a, b));
            assert_eq!(there, run(&program, 0x0800, &v4(b, a)));
            sockets.insert(there % 4);
            for tag in [[0x81, 0x00], [0x88, 0xa8]] {
                let tagged = [&[0, 7, 0x08, 0x00][..], &v4(a, b)].concat();
                assert_eq!(there, run(&program, u16::from_be_bytes(tag), &tagged), "one tag");
                let twice = [&[0, 9, 0x81, 0x00][..], &tagged].concat();
                assert_eq!(there, run(&program, u16::from_be_bytes(tag), &twice), "two tags");
            }
            let session = [&[0x11, 0, 0, 1, 0, 90, 0, 0x21][..], &v4(a, b)].concat();
            assert_eq!(there, run(&program, 0x8864, &session), "PPPoE");
            let (a, b) = ([host; 16], [0x20; 16]);
            let v6 = |a: [u8; 16], b: [u8; 16]| [&[0x60; 8][..], &a, &b].concat();
            assert_eq!(run(&program, 0x86dd, &v6(a, b)), run(&program, 0x86dd, &v6(b, a)));
        }
        assert_eq!(sockets.len(), 4);
        assert_eq!(run(&program, 0x0806, &[0; 28]), 0, "ARP");
        assert_eq!(run(&program, 0x0800, &[0x45; 4]), 0, "cut off");
    }
}
