//! The number by which samples of connections are taken: of the two hosts of the outermost header that a
//! stack's `dispatch` clause names, so that both directions, all fragments and everything in a tunnel have
//! one number. It is 0 until that header is parsed.

use super::Lower;
use super::groups::PredicateVars;
use crate::catalog::{FieldKey, SAMPLES};
use weir_ir::graph::{BinaryOp, Op, Type, Value};
use weir_lang::model::LayerId;

/// Odd numbers that spread the bits of a word over the word. Workers are selected by other numbers: every
/// worker gets its share of a sample.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

impl Lower<'_> {
    /// Evaluates a predicate before the hosts are known.
    pub(super) fn lower_first_sample(&mut self, p: usize) {
        let (zero, yes) = (self.b.int(0), self.b.bool(true));
        let holds = self.compare_words(&self.trie.predicates[p], zero, zero);
        self.record(p, yes, holds, holds);
        if self.sampled.is_none() {
            let (known, no) = (self.b.variable(Type::Bool), self.b.bool(false));
            self.b.write(known, no);
            self.sampled = Some(known);
        }
    }

    /// Evaluates the predicates at the first layer that names the hosts.
    pub(super) fn lower_sample(&mut self, id: LayerId) {
        let Some(known) = self.sampled else { return };
        let pair = self.stack.dispatch.iter().find(|pair| pair.0 == id);
        let Some(&(_, source, destination)) = pair else { return };
        let hosts = [source, destination].map(|field| self.field_pair(id, field));
        let number = self.sample_of(hosts);
        let (is_known, zero) = (self.b.read(known), self.b.int(0));
        for p in 0..self.trie.predicates.len() {
            if self.catalog.key(self.trie.predicates[p].field) != FieldKey::Sample {
                continue;
            }
            let PredicateVars::Own { any, either_way, .. } = self.predicates[p] else { continue };
            let holds = self.compare_words(&self.trie.predicates[p], zero, number);
            let before = self.b.read(any);
            let holds = self.b.one(Op::Select(is_known, before, holds));
            self.b.write(any, holds);
            self.b.write(either_way, holds);
        }
        let yes = self.b.bool(true);
        self.b.write(known, yes);
    }

    /// The number of two hosts, in either order.
    fn sample_of(&mut self, [a, b]: [super::Pair; 2]) -> Value {
        let low = self.b.binary(BinaryOp::Add, a.1, b.1);
        let high = self.b.binary(BinaryOp::Add, a.0, b.0);
        let mut hash = self.b.binary(BinaryOp::Add, low, high);
        for factor in FACTORS {
            let (factor, half) = (self.b.int(factor), self.b.int(32));
            let product = self.b.binary(BinaryOp::Mul, hash, factor);
            let upper = self.b.binary(BinaryOp::Shr, product, half);
            hash = self.b.binary(BinaryOp::Xor, product, upper);
        }
        let last = self.b.int(SAMPLES - 1);
        self.b.binary(BinaryOp::And, hash, last)
    }
}
