//! Where packets end: one block per reason; there the predicates' values become terms.

use super::Lower;
use crate::trie::{Node, NodeId, Trie};
use std::collections::HashMap;
use weir_ir::graph::{BinaryOp, Block, Op, Out, Value};
use weir_lang::filter::Stage;
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

    /// A bit for every class of residues one of whose terms has all its packet predicates fulfilled here.
    pub(super) fn terms_value(&mut self) -> Value {
        let none = self.b.int(0);
        self.terms_below(Trie::ROOT, None, none)
    }

    /// `all` and the bits of the terms that pass `node`, where `holds` says whether this path does.
    fn terms_below(&mut self, node: NodeId, holds: Option<Value>, all: Value) -> Value {
        let Node { predicate, children, class, .. } = &self.trie.nodes[node];
        let mut holds = holds;
        if let Some(p) = *predicate {
            let value = self.predicate_value(p);
            holds = Some(match holds {
                Some(holds) => self.b.binary(BinaryOp::And, holds, value),
                None => value,
            });
        }
        let mut all = all;
        let mask = class.map_or(0, |class| 1 << class);
        if mask != 0 {
            let set = self.b.int(mask);
            let value = match holds {
                Some(holds) => {
                    let unset = self.b.int(0);
                    self.b.one(Op::Select(holds, set, unset))
                }
                None => set,
            };
            all = self.b.binary(BinaryOp::Or, all, value);
        }
        for &child in children {
            if self.trie.nodes[child].stage == Some(Stage::Packet) {
                all = self.terms_below(child, holds, all);
            }
        }
        all
    }
}
