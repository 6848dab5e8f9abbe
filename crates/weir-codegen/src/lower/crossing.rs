//! Code around lookups. Before a lookup, the live values are saved in the continuation, in the order that the
//! plan lists for this [crossing](weir_ir::liveness::Crossing); the tail reads them from there. A jump from a
//! tail to a block of the head saves the values that are live at that block in the same way.

use super::{ENTER, Lowering, Parts, of_run};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::Switch;
use std::mem::offset_of;
use weir_ir::abi::Continuation;
use weir_ir::graph::{Block, Fuel, Graph, Target, Terminator, Type, Value};
use weir_ir::liveness::{live_words, words_of_bools};

impl Lowering<'_> {
    /// Resumes a tail after its lookup.
    pub(super) fn resume(&mut self, number: usize, flags: ir::Value) {
        let crossing = &self.plan.crossings[number];
        self.keep(&crossing.values);
        let responder = self.b.ins().band_imm_u(flags, 1);
        let responder = self.b.ins().ireduce(types::I8, responder);
        let new = self.b.ins().ushr_imm_u(flags, 1);
        let new = self.b.ins().ireduce(types::I8, new);
        let then = self.made(crossing.then);
        self.b.ins().jump(then, &[BlockArg::Value(responder), BlockArg::Value(new)]);
    }

    /// Assigns slots in the continuation to these values.
    pub(super) fn keep(&mut self, values: &[Value]) {
        let mut slots = Slots::of(self.graph, values);
        for &value in values {
            let at = slots.next(self.graph.type_of(value));
            self.saved[value.index()] = Some(Saved { at, held: None });
        }
    }

    /// Starts the head at the graph's entry, or at the block where a tail enters it.
    pub(super) fn enter(&mut self, entry: ir::Value) {
        let entries = &self.plan.entries;
        if entries.list.is_empty() {
            return self.start();
        }
        self.keep(&entries.values);
        let start = self.b.create_block();
        let mut tree = Switch::new();
        let mut entered = Vec::with_capacity(entries.list.len());
        for number in 0..entries.list.len() {
            let block = self.b.create_block();
            tree.set_entry(number as u128 + 1, block);
            entered.push(block);
        }
        tree.emit(&mut self.b, entry, start);
        self.b.switch_to_block(start);
        self.start();
        for (entry, block) in entries.list.iter().zip(entered) {
            self.b.switch_to_block(block);
            let params = &self.graph.block(entry.block).params;
            let mut slots = Slots::behind(self.graph, &entries.values, params);
            let mut arguments = Vec::with_capacity(params.len());
            for &param in params {
                let at = slots.next(self.graph.type_of(param));
                self.load_live(param, at).for_each(|part| arguments.push(BlockArg::Value(part)));
            }
            let made = self.made(entry.block);
            self.b.ins().jump(made, &arguments);
        }
    }

    /// Leaves a tail for a block of the head.
    pub(super) fn leave_for_head(&mut self, target: &Target) {
        let entries = &self.plan.entries;
        let number = entries.number(target.block).expect("a block that is in no tail is an entry");
        let entry = &entries.list[number];
        // Reads all values before writing: a target slot may hold a value that is still needed.
        let needed: Vec<Parts> = entry.values.iter().map(|&value| self.read(value)).collect();
        let arguments: Vec<Parts> = target.args.iter().map(|&value| self.read(value)).collect();
        let mut slots = Slots::of(self.graph, &entries.values);
        for &value in &entries.values {
            let at = slots.next(self.graph.type_of(value));
            if let Ok(index) = entry.values.binary_search(&value) {
                self.store_live(needed[index], at);
            }
        }
        let params = &self.graph.block(target.block).params;
        let mut slots = Slots::behind(self.graph, &entries.values, params);
        for (&param, argument) in params.iter().zip(arguments) {
            let at = slots.next(self.graph.type_of(param));
            self.store_live(argument, at);
        }
        self.leave(ENTER + number as u64);
    }

    /// Loads a value saved at offset `at` of the continuation.
    fn load_live(&mut self, value: Value, at: i32) -> Parts {
        let k = self.arguments.k;
        let mut load = |ty, at| self.b.ins().load(ty, of_run(), k, at);
        match self.graph.type_of(value) {
            Type::Bool => Parts::One(load(types::I8, at)),
            Type::Int => Parts::One(load(types::I64, at)),
            Type::Buf => Parts::Two(load(types::I64, at), load(types::I64, at + 8)),
            Type::Flow(_) => Parts::None,
        }
    }

    /// A saved value stays in the continuation, and each block loads the values that it needs: most paths
    /// through a tail need few of them, and values loaded at the start would occupy registers on all paths.
    pub(super) fn read_saved(&mut self, value: Value) -> Option<Parts> {
        let Saved { at, held } = self.saved[value.index()]?;
        let block = self.b.current_block();
        if let Some((parts, _)) = held.filter(|(_, held_in)| Some(*held_in) == block) {
            return Some(parts);
        }
        let parts = self.load_live(value, at);
        self.saved[value.index()] = Some(Saved { at, held: block.map(|block| (parts, block)) });
        Some(parts)
    }

    /// Stores a saved value that a loop computes again.
    pub(super) fn define_saved(&mut self, value: Value, at: i32, parts: Parts) {
        self.store_live(parts, at);
        let held = self.b.current_block().map(|block| (parts, block));
        self.saved[value.index()] = Some(Saved { at, held });
    }

    /// Saves the values that are live across the lookup that ends `from` and continues at `then`. Returns the
    /// lookup's number.
    pub(super) fn save_live(&mut self, from: Block, then: Block) -> usize {
        let graph = self.graph;
        if let Terminator::Rejoin { lookup: Some(number), values, entered } = &graph.block(then).terminator {
            let number = *number as usize;
            self.save(values);
            for fuel in &self.whole[number].fuels {
                self.store_spent(*fuel, u32::from(entered.contains(fuel)));
            }
            return number;
        }
        let plan = self.plan;
        let number = plan.crossings.iter().position(|crossing| crossing.from == from);
        let number = number.expect("the plan knows every lookup");
        self.save(&plan.crossings[number].values);
        number
    }

    fn save(&mut self, values: &[Value]) {
        // Reads all values before writing: a target slot may hold a value that is still needed.
        let parts: Vec<Parts> = values.iter().map(|&value| self.read(value)).collect();
        let mut slots = Slots::of(self.graph, values);
        for (&value, parts) in values.iter().zip(parts) {
            let at = slots.next(self.graph.type_of(value));
            self.store_live(parts, at);
        }
    }

    fn store_live(&mut self, parts: Parts, at: i32) {
        let k = self.arguments.k;
        let mut store = |part, at| self.b.ins().store(of_run(), part, k, at);
        match parts {
            Parts::None => {}
            Parts::One(one) => _ = store(one, at),
            Parts::Two(address, bytes) => {
                store(address, at);
                store(bytes, at + 8);
            }
        }
    }

    fn store_spent(&mut self, fuel: Fuel, spent: u32) {
        let spent = self.b.ins().iconst(types::I32, i64::from(spent));
        let at = (offset_of!(Continuation, fuels) + 4 * fuel.index()) as i32;
        self.b.ins().store(of_run(), spent, self.arguments.k, at);
    }
}

/// A value in the continuation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saved {
    /// Offset in the continuation.
    pub at: i32,
    /// The value as last loaded or computed, and the block in which that happened.
    held: Option<(Parts, ir::Block)>,
}

/// Assigns slots to values that are live across a lookup, one after the other: bytes for bools, then words.
struct Slots {
    bools: usize,
    words: usize,
}

impl Slots {
    fn of(graph: &Graph, values: &[Value]) -> Self {
        Self { bools: 0, words: words_of_bools(graph, values) }
    }

    /// Slots for `values` after those of `others`.
    fn behind(graph: &Graph, others: &[Value], values: &[Value]) -> Self {
        let words = live_words(graph, others);
        Self { bools: 8 * words, words: words + words_of_bools(graph, values) }
    }

    /// The offset of the next value in the continuation.
    fn next(&mut self, ty: Type) -> i32 {
        let at = match ty {
            Type::Bool => self.bools,
            _ => 8 * self.words,
        };
        match ty {
            Type::Bool => self.bools += 1,
            Type::Int => self.words += 1,
            Type::Buf => self.words += 2,
            Type::Flow(_) => {}
        }
        (Continuation::LIVE_OFFSET + at) as i32
    }
}
