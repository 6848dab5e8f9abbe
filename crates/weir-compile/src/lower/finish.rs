//! The ends of packets: one block per reason, in which the values of the predicates become terms.

use super::Lower;
use super::groups::Guarded;
use super::messages::MessageVars;
use crate::trie::{Node, NodeId, Trie};
use rustc_hash::FxHashMap;
use weir_ir::build::{Variable, to};
use weir_ir::graph::{BinaryOp, Block, Op, Out, Terminator, Type, Value};
use weir_lang::filter::Stage;
use weir_packet::DropReason;

/// The final blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct FinishBlocks {
    blocks: FxHashMap<Option<DropReason>, Block>,
    /// The block for packets that end without a reason if they may have messages; it tests whether a message
    /// had a reason.
    pending: Option<Block>,
    /// The end of a packet's messages: all are parsed.
    through: Option<Block>,
    /// The ends for layers inside messages, after which the next message may begin.
    in_messages: FxHashMap<Option<DropReason>, Block>,
    /// Whether the current layer is inside a message.
    is_inside: bool,
}

impl FinishBlocks {
    /// The final block for `reason`, for the current layer.
    pub fn of(&self, reason: Option<DropReason>) -> Block {
        match (self.pending, reason) {
            _ if self.is_inside => self.in_messages[&reason],
            (Some(pending), None) => pending,
            _ => self.blocks[&reason],
        }
    }

    /// Sets the block for packets that end without a reason but may have messages; it tests how the messages
    /// ended.
    pub fn set_pending(&mut self, block: Block) {
        self.pending = Some(block);
    }

    /// Sets whether the current layer is a message, or inside one.
    pub fn set_inside(&mut self, is_inside: bool) {
        self.is_inside = is_inside;
    }

    /// Sets the block to continue at when all messages are parsed.
    pub fn set_through(&mut self, block: Block) {
        self.through = Some(block);
    }

    /// The block to continue at when all messages of a packet are parsed.
    pub fn through(&self) -> Block {
        self.through.expect("declared with the others")
    }

    /// The index of a reason in [`REASONS`].
    pub fn number_of(&self, reason: DropReason) -> u64 {
        REASONS.iter().position(|one| *one == Some(reason)).expect("programs find it") as u64
    }
}

/// The reasons that a program itself can report; the engine has others.
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
        let beside = self.messages.clone().filter(|_| self.finish.pending.is_some());
        if let (Some(pending), Some(vars)) = (self.finish.pending.take(), &beside) {
            self.b.seal(pending);
            self.b.switch_to(pending);
            self.lower_through(vars.reason);
        }
        for reason in REASONS {
            let block = self.finish.of(reason);
            self.b.seal(block);
            self.b.switch_to(block);
            let asked = beside.iter().flat_map(|vars| &vars.asked);
            asked.for_each(|&[now, _, any]| self.note_any(any, now));
            if self.need.path || self.need.lines {
                for (slot, word) in self.path.into_iter().enumerate() {
                    let value = self.b.read(word);
                    self.b.push(Op::Store { out: Out(slot as u32), value });
                }
            }
            self.store_values();
            let terms = self.terms_value();
            let terms = self.needed_terms(terms);
            for (slot, &value) in self.further_terms.clone().zip(&terms[1..]) {
                self.b.push(Op::Store { out: Out(slot), value });
            }
            if reason == Some(DropReason::FragmentWaiting) {
                self.lower_fragment_terms();
            }
            self.b.done(terms[0], reason);
        }
    }

    pub(super) fn declare_finish_in_messages(&mut self) {
        for reason in REASONS {
            let block = self.b.block();
            self.finish.in_messages.insert(reason, block);
        }
    }

    /// Lowers the final blocks of layers inside messages: while a packet's messages are parsed, the next one
    /// begins.
    pub(super) fn lower_ends(&mut self, messages: &MessageVars) {
        for (number, reason) in (0..).zip(REASONS) {
            let (block, end) = (self.finish.in_messages[&reason], self.finish.blocks[&reason]);
            let next = self.b.block();
            self.b.seal(block);
            self.b.switch_to(block);
            let active = self.b.read(messages.active);
            self.b.branch(active, next, end);
            self.b.seal(next);
            self.b.switch_to(next);
            if number > 0 {
                let number = self.b.int(number);
                self.b.write(messages.reason, number);
            }
            self.b.jump(messages.over);
        }
    }

    /// Lowers the end of messages: the packet ends with the last reason for which a message could not be
    /// parsed to its end.
    pub(super) fn lower_through(&mut self, reason: Variable) {
        let value = self.b.read(reason);
        let end = |reason| to(self.finish.blocks[&reason]);
        let cases = (0..).zip(REASONS).skip(1).map(|(number, reason)| (number, end(reason))).collect();
        let otherwise = end(None);
        self.b.end(Terminator::Switch { value, cases, otherwise });
    }

    /// One bit for every class of remainders, in [`Trie::words`] words: whether all packet predicates of a
    /// term of the class hold here.
    pub(super) fn terms_value(&mut self) -> Vec<Value> {
        self.terms_where(&|_| None)
    }

    /// As [`terms_value`](Self::terms_value), with other values for some predicates.
    pub(super) fn terms_where(&mut self, known: &dyn Fn(usize) -> Option<Value>) -> Vec<Value> {
        let none = self.b.int(0);
        let mut all = vec![none; self.trie.words()];
        self.add_terms_below(Trie::ROOT, None, &mut all, known);
        all
    }

    /// Adds to `all` the bits of the terms that pass `node`; `holds` says whether this path holds.
    fn add_terms_below(
        &mut self,
        node: NodeId,
        holds: Option<Value>,
        all: &mut [Value],
        known: &dyn Fn(usize) -> Option<Value>,
    ) {
        let Node { predicate, children, class, .. } = &self.trie.nodes[node];
        let mut holds = holds;
        if let Some(p) = *predicate {
            let value = match known(p) {
                Some(known) => known,
                None => self.predicate_value(p),
            };
            holds = Some(match holds {
                Some(holds) => self.b.binary(BinaryOp::And, holds, value),
                None => value,
            });
        }
        if let Some(class) = *class {
            let set = self.b.int(1 << (class % 64));
            let value = match holds {
                Some(holds) => {
                    let unset = self.b.int(0);
                    self.b.one(Op::Select(holds, set, unset))
                }
                None => set,
            };
            all[class / 64] = self.b.binary(BinaryOp::Or, all[class / 64], value);
        }
        let trie = self.trie;
        let children =
            children.iter().copied().filter(|&child| trie.nodes[child].stage == Some(Stage::Packet));
        let Guarded { groups, others } =
            self.guarded(children, |child| trie.nodes[child].predicate.is_some_and(|p| known(p).is_none()));
        for child in others {
            self.add_terms_below(child, holds, all, known);
        }
        for (group, nodes) in groups {
            self.add_terms_of_group(group, &nodes, holds, all, known);
        }
    }

    /// As [`add_terms_below`](Self::add_terms_below), for nodes that need a predicate of the group.
    fn add_terms_of_group(
        &mut self,
        group: usize,
        nodes: &[NodeId],
        holds: Option<Value>,
        all: &mut [Value],
        known: &dyn Fn(usize) -> Option<Value>,
    ) {
        let words: Vec<Variable> = all.iter().map(|_| self.b.variable(Type::Int)).collect();
        words.iter().zip(&*all).for_each(|(&word, &value)| self.b.write(word, value));
        let bits = self.b.read(self.groups[group].any);
        let some = self.b.truth(bits);
        let [inside, after] = [(); 2].map(|()| self.b.block());
        self.b.branch(some, inside, after);
        self.b.seal(inside);
        self.b.switch_to(inside);
        for &node in nodes {
            self.add_terms_below(node, holds, all, known);
        }
        words.iter().zip(&*all).for_each(|(&word, &value)| self.b.write(word, value));
        self.b.jump(after);
        self.b.seal(after);
        self.b.switch_to(after);
        all.iter_mut().zip(words).for_each(|(value, word)| *value = self.b.read(word));
    }
}
