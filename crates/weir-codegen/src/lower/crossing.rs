//! Leaving for a lookup and going on after it: what lives across it is saved in the continuation, the
//! values in the crossing's order.

use super::{Lowering, Parts, of_run};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use std::mem::offset_of;
use weir_ir::abi::Continuation;
use weir_ir::graph::{Block, Fuel, Graph, Terminator, Type, Value};
use weir_ir::liveness::words_of_bools;

impl Lowering<'_> {
    /// A tail goes on after its lookup.
    pub(super) fn resume(&mut self, number: usize, flags: ir::Value) {
        let crossing = &self.plan.crossings[number];
        let mut slots = Slots::of(self.graph, &crossing.values);
        for &value in &crossing.values {
            let loaded = self.load_live(value, &mut slots);
            self.define(value, loaded);
        }
        let responder = self.b.ins().band_imm_u(flags, 1);
        let responder = self.b.ins().ireduce(types::I8, responder);
        let new = self.b.ins().ushr_imm_u(flags, 1);
        let new = self.b.ins().ireduce(types::I8, new);
        let then = self.made(crossing.then);
        self.b.ins().jump(then, &[BlockArg::Value(responder), BlockArg::Value(new)]);
    }

    fn load_live(&mut self, value: Value, slots: &mut Slots) -> Parts {
        let k = self.arguments.k;
        let mut load = |ty, at| self.b.ins().load(ty, of_run(), k, at);
        match self.graph.type_of(value) {
            Type::Bool => Parts::One(load(types::I8, slots.bool())),
            Type::Int => Parts::One(load(types::I64, slots.word())),
            Type::Buf => Parts::Two(load(types::I64, slots.word()), load(types::I64, slots.word())),
            Type::Flow(_) => Parts::None,
        }
    }

    /// Saves what lives across the lookup that ends `from` and goes on at `then`; the lookup's number.
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
        let mut slots = Slots::of(self.graph, values);
        for &value in values {
            match (self.read(value), self.graph.type_of(value)) {
                (Parts::None, _) => {}
                (Parts::One(_), Type::Bool) => {
                    let one = self.one(value);
                    self.store_live(one, slots.bool());
                }
                (Parts::One(_), _) => {
                    let one = self.one(value);
                    self.store_live(one, slots.word());
                }
                (Parts::Two(address, bytes), _) => {
                    self.store_live(address, slots.word());
                    self.store_live(bytes, slots.word());
                }
            }
        }
    }

    fn store_live(&mut self, value: ir::Value, at: i32) {
        let k = self.arguments.k;
        self.b.ins().store(of_run(), value, k, at);
    }

    fn store_spent(&mut self, fuel: Fuel, spent: u32) {
        let spent = self.b.ins().iconst(types::I32, i64::from(spent));
        let at = (offset_of!(Continuation, fuels) + 4 * fuel.index()) as i32;
        self.b.ins().store(of_run(), spent, self.arguments.k, at);
    }
}

/// Where values lie that live across a lookup, one after the other: bytes for bools, then words.
struct Slots {
    bools: usize,
    words: usize,
}

impl Slots {
    fn of(graph: &Graph, values: &[Value]) -> Self {
        Self { bools: 0, words: words_of_bools(graph, values) }
    }

    fn bool(&mut self) -> i32 {
        self.bools += 1;
        (Continuation::LIVE_OFFSET + self.bools - 1) as i32
    }

    fn word(&mut self) -> i32 {
        self.words += 1;
        (Continuation::LIVE_OFFSET + 8 * (self.words - 1)) as i32
    }
}
