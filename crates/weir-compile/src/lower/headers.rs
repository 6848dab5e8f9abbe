//! Lowers where a packet has headers of IP, and of TCP or UDP: an index of packets has its keys from there.
//!
//! A slot is 0, or a header: its offset in the frame, and in the lowest bits which header it is
//! ([`KIND_BITS`]). The program that finds them has no tables, as the one of `dispatch.rs`.

use super::Lower;
use weir_ir::build::Variable;
use weir_ir::graph::{BinaryOp, CompareOp, Op, Out, Type, Value};
use weir_lang::model::LayerId;

/// The slots of a packet's record behind those of the dispatch, and their names: the first header of IP and
/// that of the transport in it; the last header of IP, and that of the transport in it; the number of headers
/// of IP.
pub const HEADER_SLOTS: [&str; 5] = ["ip", "transport", "inner_ip", "inner_transport", "ip_headers"];

/// Layers whose headers are found, by their names: the number of each, from 1, is in the lowest bits.
pub const HEADER_LAYERS: [&str; 4] = ["ip", "ipv6", "tcp", "udp"];

/// Bits of a slot that say which header it is.
pub const KIND_BITS: u32 = 3;

/// The headers so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderVars([Variable; HEADER_SLOTS.len()]);

const IP: usize = 0;
const TRANSPORT: usize = 1;
const INNER_IP: usize = 2;
const INNER_TRANSPORT: usize = 3;
const IP_HEADERS: usize = 4;

impl Lower<'_> {
    /// Starts the headers of a packet.
    pub(super) fn lower_first_headers(&mut self) {
        if self.need.headers {
            let variables = [(); HEADER_SLOTS.len()].map(|()| self.b.variable(Type::Int));
            let zero = self.b.int(0);
            variables.into_iter().for_each(|variable| self.b.write(variable, zero));
            self.headers = Some(HeaderVars(variables));
        }
    }

    /// Adds the header of a layer, which is complete.
    pub(super) fn lower_headers(&mut self, id: LayerId) {
        let Some(HeaderVars(vars)) = self.headers else { return };
        let name = &self.layer(id).protocol.name;
        let Some(kind) = HEADER_LAYERS.iter().position(|known| known == name) else { return };
        let start = self.b.read(self.vars(id).start.expect("declared"));
        let (bits, number) = (self.b.int(u64::from(KIND_BITS)), self.b.int(kind as u64 + 1));
        let shifted = self.b.binary(BinaryOp::Shl, start, bits);
        let header = self.b.binary(BinaryOp::Or, shifted, number);
        let none = self.b.int(0);
        if kind < 2 {
            self.keep_header(vars[IP], header, IP);
            self.set_header(vars[INNER_IP], header, INNER_IP);
            self.set_header(vars[INNER_TRANSPORT], none, INNER_TRANSPORT);
            let (before, one) = (self.b.read(vars[IP_HEADERS]), self.b.int(1));
            let count = self.b.binary(BinaryOp::Add, before, one);
            return self.set_header(vars[IP_HEADERS], count, IP_HEADERS);
        }
        // The transport of the first header of IP, unless there is another one between.
        let (first, last) = (self.b.read(vars[IP]), self.b.read(vars[INNER_IP]));
        let is_outermost = self.b.compare(CompareOp::Eq, first, last);
        let before = self.b.read(vars[TRANSPORT]);
        let own = self.b.one(Op::Select(is_outermost, header, before));
        self.set_header(vars[TRANSPORT], own, TRANSPORT);
        self.set_header(vars[INNER_TRANSPORT], header, INNER_TRANSPORT);
    }

    fn keep_header(&mut self, variable: Variable, header: Value, slot: usize) {
        let (before, none) = (self.b.read(variable), self.b.int(0));
        let is_first = self.b.compare(CompareOp::Eq, before, none);
        let value = self.b.one(Op::Select(is_first, header, before));
        self.set_header(variable, value, slot);
    }

    fn set_header(&mut self, variable: Variable, value: Value, slot: usize) {
        self.b.write(variable, value);
        let out = Out((super::dispatch::DISPATCH_SLOTS.len() + slot) as u32);
        self.b.push(Op::Store { out, value });
    }
}
