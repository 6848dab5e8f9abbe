//! Where packets end: one block per reason; there the predicates' values become terms.

use super::Lower;
use std::collections::HashMap;
use weir_ir::graph::{BinaryOp, Block, Op, Out, Value};
use weir_packet::DropReason;

/// The final blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct FinishBlocks {
    blocks: HashMap<Option<DropReason>, Block>,
}

impl FinishBlocks {
    /// The final block for `reason`.
    pub fn of(&self, reason: Option<DropReason>) -> Block {
        self.blocks[&reason]
    }
}

/// Reasons that a program can find by itself; the engine has further ones.
const REASONS: [Option<DropReason>; 6] = [
    None,
    Some(DropReason::Truncated),
    Some(DropReason::Malformed),
    Some(DropReason::UnknownLink),
    Some(DropReason::NestingLimit),
    Some(DropReason::FragmentWaiting),
];

impl Lower<'_> {
    pub(super) fn declare_finish(&mut self) {
        for reason in REASONS {
            let block = self.b.block();
            self.finish.blocks.insert(reason, block);
        }
    }

    pub(super) fn lower_finish(&mut self) {
        for reason in REASONS {
            let block = self.finish.of(reason);
            self.b.seal(block);
            self.b.switch_to(block);
            if self.need.path || self.need.lines {
                for (slot, word) in self.path.into_iter().enumerate() {
                    let value = self.b.read(word);
                    self.b.push(Op::Store { out: Out(slot as u32), value });
                }
            }
            let terms = self.terms_value();
            self.b.done(terms, reason);
        }
    }

    /// A bit for every residue one of whose terms has all its packet predicates fulfilled here.
    pub(super) fn terms_value(&mut self) -> Value {
        let mut all = self.b.int(0);
        for bit in 0..self.terms.bits.len() {
            let mut holds = self.b.bool(false);
            for term in self.terms.terms.clone().iter().filter(|t| t.bit == bit) {
                let mut every = self.b.bool(true);
                for &p in &term.predicates {
                    let value = self.predicate_value(p);
                    every = self.b.binary(BinaryOp::And, every, value);
                }
                holds = self.b.binary(BinaryOp::Or, holds, every);
            }
            let (set, unset) = (self.b.int(1 << bit), self.b.int(0));
            let value = self.b.one(Op::Select(holds, set, unset));
            all = self.b.binary(BinaryOp::Or, all, value);
        }
        all
    }
}
