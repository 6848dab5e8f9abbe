//! The number of a packet's pair of hosts, by which the kernel assigns packets to the workers' sockets
//! (`PACKET_FANOUT`): a program of classic BPF.
//!
//! The program adds up the two addresses of the outermost IP header, so the result is the same for both
//! directions and for all fragments. It looks through VLAN tags that the kernel has not removed, PPPoE and
//! MPLS, which may occur in one direction only. All other packets go to the first socket.
//!
//! `fanout_program` makes a program of eBPF of this one, which selects the worker. Where the process may not
//! load that, the kernel runs the program as it is, and takes the result modulo the number of sockets: then
//! no pair ever changes its worker.

use libc::sock_filter;

pub(crate) const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
pub(crate) const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
pub(crate) const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
pub(crate) const LOAD_TYPE: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
pub(crate) const LOAD_CELL: u32 = libc::BPF_LD | libc::BPF_MEM;
pub(crate) const LOAD_X: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM;
pub(crate) const LOAD_X_CELL: u32 = libc::BPF_LDX | libc::BPF_MEM;
pub(crate) const STORE: u32 = libc::BPF_ST;
pub(crate) const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
pub(crate) const FROM_X: u32 = libc::BPF_MISC | libc::BPF_TXA;
pub(crate) const ADD: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X;
pub(crate) const ADD_NUMBER: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K;
pub(crate) const SHIFT: u32 = libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K;
pub(crate) const XOR: u32 = libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X;
pub(crate) const MULTIPLY: u32 = libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K;
pub(crate) const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub(crate) const HAS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
pub(crate) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
pub(crate) const RETURN_A: u32 = libc::BPF_RET | libc::BPF_A;

/// The network header, as the kernel knows it. Places in the packet are relative to it, plus the register X.
pub(crate) const NETWORK: i32 = libc::SKF_NET_OFF;
/// The type of the network header.
pub(crate) const PROTOCOL: i32 = libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const PPPOE: u32 = 0x8864;
const MPLS: u32 = 0x8847;
const TAGS: [u32; 2] = [0x8100, 0x88a8];

/// VLAN tags, and labels of MPLS, that the program looks through.
const TAGS_MAX: usize = 2;
const LABELS_MAX: usize = 6;
/// The bit of MPLS that marks the last label.
const LAST_LABEL: u32 = 0x100;

/// A place of the program that jumps name before the place is known.
#[derive(Debug, Clone, Copy)]
struct Label(usize);

/// A program that is being written. Jumps go forward.
#[derive(Default)]
struct Assembler {
    all: Vec<sock_filter>,
    /// For each label: the jumps to it, and whether each is taken if its condition holds.
    jumps: Vec<Vec<(usize, bool)>>,
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.jumps.push(vec![]);
        Label(self.jumps.len() - 1)
    }

    fn push(&mut self, code: u32, k: u32) {
        self.all.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    /// Loads from the packet, at a place behind the current header.
    fn load(&mut self, code: u32, at: i32) {
        // Negative places are those of the kernel's own names.
        self.push(code, (NETWORK + at) as u32);
    }

    fn jump_if(&mut self, code: u32, k: u32, to: Label) {
        self.jumps[to.0].push((self.all.len(), true));
        self.push(code, k);
    }

    fn jump_unless(&mut self, code: u32, k: u32, to: Label) {
        self.jumps[to.0].push((self.all.len(), false));
        self.push(code, k);
    }

    /// The label is here.
    fn place(&mut self, label: Label) {
        for (jump, is_taken) in std::mem::take(&mut self.jumps[label.0]) {
            let distance = u8::try_from(self.all.len() - jump - 1).expect("the program is short");
            let jump = &mut self.all[jump];
            *(if is_taken { &mut jump.jt } else { &mut jump.jf }) = distance;
        }
    }

    /// Moves the current header on. The accumulator keeps its value.
    fn advance(&mut self, bytes: u32) {
        self.push(STORE, 0);
        self.push(FROM_X, 0);
        self.push(ADD_NUMBER, bytes);
        self.push(TO_X, 0);
        self.push(LOAD_CELL, 0);
    }

    /// Returns a number made of the words at these places.
    fn return_sum(&mut self, words: &[i32]) {
        for (number, &word) in words.iter().enumerate() {
            self.load(LOAD_WORD, word);
            if number > 0 {
                // The sum so far is in a cell; X keeps the place of the header in another one.
                self.push(STORE, 2);
                self.push(FROM_X, 0);
                self.push(STORE, 3);
                self.push(LOAD_X_CELL, 1);
                self.push(LOAD_CELL, 2);
                self.push(ADD, 0);
                self.push(LOAD_X_CELL, 3);
            }
            self.push(STORE, 1);
        }
        // All bits of the sum take part in the remainder.
        for factor in [Some(0x45d9_f3b1), None] {
            self.push(TO_X, 0);
            self.push(SHIFT, 16);
            self.push(XOR, 0);
            factor.into_iter().for_each(|factor| self.push(MULTIPLY, factor));
        }
        self.push(RETURN_A, 0);
    }
}

/// The program.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut all = Assembler::default();
    let [v4, v6, untagged, label, version] = std::array::from_fn(|_| all.label());
    all.push(LOAD_X, 0);
    all.push(LOAD_TYPE, PROTOCOL as u32);
    for _ in 0..TAGS_MAX {
        let tagged = all.label();
        all.jump_if(EQUAL, TAGS[0], tagged);
        all.jump_unless(EQUAL, TAGS[1], untagged);
        all.place(tagged);
        all.load(LOAD_HALF, 2);
        all.advance(4);
    }
    all.place(untagged);
    all.jump_if(EQUAL, IPV4, v4);
    all.jump_if(EQUAL, IPV6, v6);
    all.jump_if(EQUAL, MPLS, label);
    let other = all.label();
    all.jump_unless(EQUAL, PPPOE, other);
    all.load(LOAD_HALF, 6);
    all.advance(8);
    all.jump_if(EQUAL, 0x0021, v4);
    all.jump_if(EQUAL, 0x0057, v6);
    all.place(other);
    all.push(RETURN, 0);
    all.place(label);
    for _ in 0..LABELS_MAX {
        all.load(LOAD_WORD, 0);
        all.advance(4);
        all.jump_if(HAS, LAST_LABEL, version);
    }
    all.push(RETURN, 0);
    all.place(version);
    all.load(LOAD_BYTE, 0);
    all.push(SHIFT, 4);
    all.jump_if(EQUAL, 4, v4);
    all.jump_if(EQUAL, 6, v6);
    all.push(RETURN, 0);
    all.place(v4);
    all.return_sum(&[12, 16]);
    all.place(v6);
    all.return_sum(&[8, 12, 16, 20, 24, 28, 32, 36]);
    all.all
}

/// A socket's filter that no packet passes.
pub(crate) fn nothing() -> [sock_filter; 1] {
    [sock_filter { code: RETURN as u16, jt: 0, jf: 0, k: 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Runs the program as the kernel does. `protocol`, and the bytes from the network header on.
    fn run(program: &[sock_filter], protocol: u16, network: &[u8]) -> u32 {
        let (mut at, mut a, mut x, mut cells) = (0, 0u32, 0u32, [0u32; 16]);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut load = |bytes: usize| {
                let from = usize::try_from(k as i32 - NETWORK + x as i32).ok()?;
                a = network.get(from..from + bytes)?.iter().fold(0, |all, &byte| all << 8 | u32::from(byte));
                Some(())
            };
            let loaded = match u32::from(code) {
                LOAD_WORD => load(4),
                LOAD_HALF => load(2),
                LOAD_BYTE => load(1),
                _ => Some(()),
            };
            if loaded.is_none() {
                return 0;
            }
            match u32::from(code) {
                LOAD_WORD | LOAD_HALF | LOAD_BYTE => {}
                LOAD_TYPE => a = u32::from(protocol),
                LOAD_CELL => a = cells[k as usize],
                LOAD_X => x = k,
                LOAD_X_CELL => x = cells[k as usize],
                STORE => cells[k as usize] = a,
                TO_X => x = a,
                FROM_X => a = x,
                ADD => a = a.wrapping_add(x),
                ADD_NUMBER => a = a.wrapping_add(k),
                SHIFT => a >>= k,
                XOR => a ^= x,
                MULTIPLY => a = a.wrapping_mul(k),
                EQUAL => at += usize::from(if a == k { jt } else { jf }),
                HAS => at += usize::from(if a & k != 0 { jt } else { jf }),
                RETURN => return k,
                RETURN_A => return a,
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
            for labels in 1..4 {
                let mut stack = [[0, 1, 0, 64]; 4][..labels].concat();
                stack[4 * labels - 2] = 1;
                let labelled = [&stack[..], &v4(a, b)].concat();
                assert_eq!(there, run(&program, 0x8847, &labelled), "{labels} labels");
            }
            let (a, b) = ([host; 16], [0x20; 16]);
            let v6 = |a: [u8; 16], b: [u8; 16]| [&[0x60; 8][..], &a, &b].concat();
            assert_eq!(run(&program, 0x86dd, &v6(a, b)), run(&program, 0x86dd, &v6(b, a)));
        }
        assert_eq!(sockets.len(), 4);
        assert_eq!(run(&program, 0x0806, &[0; 28]), 0, "ARP");
        assert_eq!(run(&program, 0x0800, &[0x45; 4]), 0, "cut off");
    }
}
