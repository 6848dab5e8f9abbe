//! Lowers the keys by which packets are assigned to workers: numbers that are equal for both directions of a
//! connection.
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
        if let Some(vars) = self.dispatch.filter(|_| has_instances) {
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
        // Headers need only the datagrams.
        if self.need.headers && !self.hands_up(id) {
            return;
        }
        if let Some(&(_, source, destination)) = self.stack.dispatch.iter().find(|pair| pair.0 == id) {
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
}
