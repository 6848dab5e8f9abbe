//! Lowers the keys by which packets are assigned to workers: numbers that are equal for both directions of a
//! connection. Instead of the keys, a program can find where the packet has headers of IP, TCP and UDP: an
//! index of packets reads its keys there.
//!
//! The program that computes the keys has no tables. A packet's keys come from its own bytes: from a first
//! fragment, as if the fragment were the datagram; from other fragments, only the key of the datagram.

use super::Lower;
use crate::dispatch::is_shared;
use weir_ir::build::Variable;
use weir_ir::graph::{BinaryOp, CompareOp, Op, Out, Type, Value};
use weir_lang::model::{EdgeKind, LayerId};

/// The slots of a packet's record that contain its keys, and their names. 0: the packet has no such key.
pub const DISPATCH_SLOTS: [&str; 6] =
    ["hosts", "outermost", "innermost", "datagram", "inner_datagram", "inner_hosts"];

/// The key of the outermost connection if its header is cut off or invalid.
pub const DISPATCH_UNKNOWN: u64 = 1;

/// The pair of hosts of the first layer named in the stack's `dispatch` clause.
const HOSTS: Out = Out(0);
/// The first and the last instance of the packet; equal if there is one.
const OUTERMOST: Out = Out(1);
const INNERMOST: Out = Out(2);
/// The outermost datagram of which the packet contains a fragment, and the innermost one; equal if there is
/// one.
const DATAGRAM: Out = Out(3);
const INNER_DATAGRAM: Out = Out(4);
/// The pair of hosts of the last such layer, which is inside of tunnels; equal if there is one.
const INNER_HOSTS: Out = Out(5);

/// An odd number that spreads the bits of a word over the word.
const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// The keys so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct DispatchVars {
    hosts: Variable,
    outermost: Variable,
    innermost: Variable,
    datagram: Variable,
    inner_datagram: Variable,
    inner_hosts: Variable,
}

/// The names of the slots that follow those of the dispatch in a packet's record. The first four contain
/// headers, which [`header_in`] reads: the first IP header of the packet, the TCP or UDP header behind the
/// first IP header, the last IP header, and the TCP or UDP header behind the last IP header. The fifth slot
/// contains the number of IP headers. A slot without a header contains 0.
pub const HEADER_SLOTS: [&str; 5] =
    ["first_ip", "first_transport", "last_ip", "last_transport", "ip_headers"];

/// The lowest bits of a slot contain the kind of the header, from 1; the offset in the frame is above.
const KIND_BITS: u32 = 3;

/// The layer of a header that is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderKind {
    /// The layer `ip`.
    Ipv4,
    /// The layer `ipv6`.
    Ipv6,
    /// The layer `tcp`.
    Tcp,
    /// The layer `udp`.
    Udp,
}

/// Layers whose headers are found, and their names; their numbers begin with 1.
const HEADER_LAYERS: [(HeaderKind, &str); 4] = [
    (HeaderKind::Ipv4, "ip"),
    (HeaderKind::Ipv6, "ipv6"),
    (HeaderKind::Tcp, "tcp"),
    (HeaderKind::Udp, "udp"),
];

/// The header in a slot, and its offset in the frame. `None`: there is none.
pub fn header_in(slot: u64) -> Option<(HeaderKind, u32)> {
    let number = (slot & ((1 << KIND_BITS) - 1)) as usize;
    let (kind, _) = HEADER_LAYERS.get(number.checked_sub(1)?)?;
    Some((*kind, (slot >> KIND_BITS) as u32))
}

/// The slots of headers so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderVars([Variable; HEADER_SLOTS.len()]);

const FIRST_IP: usize = 0;
const FIRST_TRANSPORT: usize = 1;
const LAST_IP: usize = 2;
const LAST_TRANSPORT: usize = 3;
const IP_HEADERS: usize = 4;

impl Lower<'_> {
    /// Starts the keys of a packet.
    pub(super) fn lower_first_dispatch(&mut self) {
        if self.need.dispatch {
            let variables = [(); 6].map(|()| self.b.variable(Type::Int));
            let zero = self.b.int(0);
            variables.into_iter().for_each(|variable| self.b.write(variable, zero));
            let [hosts, outermost, innermost, datagram, inner_datagram, inner_hosts] = variables;
            self.dispatch =
                Some(DispatchVars { hosts, outermost, innermost, datagram, inner_datagram, inner_hosts });
        }
    }

    /// Marks the packet before a layer's header is checked: if the header is cut off, the connection is
    /// unknown.
    pub(super) fn lower_unknown_dispatch(&mut self, id: LayerId) {
        let has_instances =
            self.layer(id).protocol.instance.is_some() && !self.hands_up(id) && !is_shared(self.stack, id);
        if let Some(vars) = self.dispatch.filter(|_| has_instances && !self.need.headers) {
            let (before, none) = (self.b.read(vars.outermost), self.b.int(0));
            let is_first = self.b.compare(CompareOp::Eq, before, none);
            let unknown = self.b.int(DISPATCH_UNKNOWN);
            let value = self.b.one(Op::Select(is_first, unknown, before));
            self.b.push(Op::Store { out: OUTERMOST, value });
        }
    }

    /// Lowers a layer's part of the keys. A fragment that is not the first one of its datagram ends here.
    pub(super) fn lower_dispatch(&mut self, id: LayerId) {
        let vars = self.dispatch.expect("the program computes keys");
        // Beside headers, only datagrams are of interest.
        let has_hosts = !self.need.headers;
        if self.need.headers && !self.hands_up(id) {
            return;
        }
        if let Some(&(_, source, destination)) =
            self.stack.dispatch.iter().find(|pair| has_hosts && pair.0 == id)
        {
            let (a, b) = (self.field_pair(id, source), self.field_pair(id, destination));
            // A sum is equal for both directions. Sums of plain addresses would be equal for many pairs of
            // one network.
            let (one, other) = (self.lower_hash(&[a.0, a.1]), self.lower_hash(&[b.0, b.1]));
            let sum = self.b.binary(BinaryOp::Add, one, other);
            self.keep_first(vars.hosts, sum, HOSTS);
            let quoted = self.b.read(self.quoted);
            let is_own = self.b.one(Op::Not(quoted));
            self.keep_last(vars.inner_hosts, is_own, sum, INNER_HOSTS);
        }
        let Some(instance) = &self.layer(id).protocol.instance else { return };
        if is_shared(self.stack, id) {
            return;
        }
        let quoted = self.b.read(self.quoted);
        let mut is_keyed = self.b.one(Op::Not(quoted));
        if let Some(when) = &instance.condition {
            let when = self.truth(id, when);
            is_keyed = self.b.binary(BinaryOp::And, is_keyed, when);
        }
        let hash = match self.has_instances_in_messages(id) {
            // Whether there is a fragment is enough.
            _ if self.need.headers => self.b.int(DISPATCH_UNKNOWN),
            true => self.b.read(vars.hosts),
            false => {
                // Directions of a connection may differ in their tags.
                let (words, _) = self.lower_key_of_ends(id, instance);
                self.lower_hash(&words)
            }
        };
        let none = self.b.int(0);
        let key = self.b.one(Op::Select(is_keyed, hash, none));
        if !self.hands_up(id) {
            self.keep_first(vars.outermost, key, OUTERMOST);
            self.keep_last(vars.innermost, is_keyed, hash, INNERMOST);
            return;
        }
        self.keep_first(vars.datagram, key, DATAGRAM);
        self.keep_last(vars.inner_datagram, is_keyed, hash, INNER_DATAGRAM);
        let at = self.layer(id).protocol.sequence.as_ref().map(|sequence| &sequence.at);
        let at = self.int(id, at.expect("its bytes are handed up in order"));
        let is_later = self.b.compare(CompareOp::Ne, at, none);
        let is_cut_off = self.b.binary(BinaryOp::And, is_keyed, is_later);
        let (done, whole) = (self.finish.of(None), self.b.block());
        self.b.branch(is_cut_off, done, whole);
        self.b.seal(whole);
        self.b.switch_to(whole);
    }

    /// Whether the messages of a layer contain layers with instances: several connections may share these, so
    /// all connections of two hosts have one key.
    fn has_instances_in_messages(&self, id: LayerId) -> bool {
        let has_instance = |id: LayerId| self.layer(id).protocol.instance.is_some();
        let messages =
            self.stack.edges.iter().filter(|edge| edge.from == id && edge.kind == EdgeKind::Messages);
        messages.map(|edge| edge.to).any(|to| has_instance(to) || self.reach.above(to).any(has_instance))
    }

    /// Sets a key, unless an earlier layer has set the key.
    fn keep_first(&mut self, variable: Variable, key: Value, out: Out) {
        let (before, none) = (self.b.read(variable), self.b.int(0));
        let is_first = self.b.compare(CompareOp::Eq, before, none);
        let value = self.b.one(Op::Select(is_first, key, before));
        self.b.write(variable, value);
        self.b.push(Op::Store { out, value });
    }

    /// Sets a key to `hash` if the layer has one.
    fn keep_last(&mut self, variable: Variable, is_keyed: Value, hash: Value, out: Out) {
        let before = self.b.read(variable);
        let value = self.b.one(Op::Select(is_keyed, hash, before));
        self.b.write(variable, value);
        self.b.push(Op::Store { out, value });
    }

    /// A number made of the words of a key; neither 0 nor [`DISPATCH_UNKNOWN`].
    fn lower_hash(&mut self, words: &[Value]) -> Value {
        let [mut hash, one, factor, half] = [0, 1, FACTOR, 32].map(|number| self.b.int(number));
        for &word in words {
            let mixed = self.b.binary(BinaryOp::Xor, hash, word);
            let product = self.b.binary(BinaryOp::Mul, mixed, factor);
            let high = self.b.binary(BinaryOp::Shr, product, half);
            hash = self.b.binary(BinaryOp::Xor, product, high);
        }
        let is_unknown = self.b.compare(CompareOp::Le, hash, one);
        let other = self.b.int(FACTOR);
        self.b.one(Op::Select(is_unknown, other, hash))
    }

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
        let Some(kind) = HEADER_LAYERS.iter().position(|(_, known)| known == name) else { return };
        let start = self.b.read(self.vars(id).start.expect("declared"));
        let (bits, number) = (self.b.int(u64::from(KIND_BITS)), self.b.int(kind as u64 + 1));
        let shifted = self.b.binary(BinaryOp::Shl, start, bits);
        let header = self.b.binary(BinaryOp::Or, shifted, number);
        let none = self.b.int(0);
        if matches!(HEADER_LAYERS[kind].0, HeaderKind::Ipv4 | HeaderKind::Ipv6) {
            self.keep_header(vars[FIRST_IP], header, FIRST_IP);
            self.set_header(vars[LAST_IP], header, LAST_IP);
            self.set_header(vars[LAST_TRANSPORT], none, LAST_TRANSPORT);
            let (before, one) = (self.b.read(vars[IP_HEADERS]), self.b.int(1));
            let count = self.b.binary(BinaryOp::Add, before, one);
            return self.set_header(vars[IP_HEADERS], count, IP_HEADERS);
        }
        // The transport of the first header of IP, unless there is another one between.
        let (first, last) = (self.b.read(vars[FIRST_IP]), self.b.read(vars[LAST_IP]));
        let is_outermost = self.b.compare(CompareOp::Eq, first, last);
        let before = self.b.read(vars[FIRST_TRANSPORT]);
        let own = self.b.one(Op::Select(is_outermost, header, before));
        self.set_header(vars[FIRST_TRANSPORT], own, FIRST_TRANSPORT);
        self.set_header(vars[LAST_TRANSPORT], header, LAST_TRANSPORT);
    }

    fn keep_header(&mut self, variable: Variable, header: Value, slot: usize) {
        let (before, none) = (self.b.read(variable), self.b.int(0));
        let is_first = self.b.compare(CompareOp::Eq, before, none);
        let value = self.b.one(Op::Select(is_first, header, before));
        self.set_header(variable, value, slot);
    }

    fn set_header(&mut self, variable: Variable, value: Value, slot: usize) {
        self.b.write(variable, value);
        let out = Out((DISPATCH_SLOTS.len() + slot) as u32);
        self.b.push(Op::Store { out, value });
    }
}
