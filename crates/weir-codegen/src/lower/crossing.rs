//! Leaving for a lookup and going on after it: what lives across it is saved in the continuation, the
//! values in the crossing's order.

use super::{Lowering, Parts, of_run};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use std::mem::offset_of;
use weir_ir::abi::Continuation;
use weir_ir::graph::{Block, Fuel, Terminator, Type, Value};

impl Lowering<'_> {
    /// A tail goes on after its lookup.
    pub(super) fn resume(&mut self, number: usize, flags: ir::Value) {
        let crossing = &self.plan.crossings[number];
        let mut slot = 0;
        for &value in &crossing.values {
            let loaded = self.load_live(value, &mut slot);
            self.define(value, loaded);
        }
        let responder = self.b.ins().band_imm_u(flags, 1);
        let responder = self.b.ins().ireduce(types::I8, responder);
        let new = self.b.ins().ushr_imm_u(flags, 1);
        let new = self.b.ins().ireduce(types::I8, new);
        let then = self.made(crossing.then);
        self.b.ins().jump(then, &[BlockArg::Value(responder), BlockArg::Value(new)]);
    }

    fn load_live(&mut self, value: Value, slot: &mut usize) -> Parts {
        let k = self.arguments.k;
        let mut load = |ty| self.b.ins().load(ty, of_run(), k, live_offset(slot));
        match self.graph.type_of(value) {
            Type::Bool => {
                let word = load(types::I64);
                Parts::One(self.b.ins().ireduce(types::I8, word))
            }
            Type::Int => Parts::One(load(types::I64)),
            Type::Buf => Parts::Two(load(types::I64), load(types::I64)),
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
        let mut slot = 0;
        for &value in values {
            match self.read(value) {
                Parts::None => {}
                Parts::One(_) => {
                    let word = self.word(value);
                    self.store_live(word, &mut slot);
                }
                Parts::Two(address, bytes) => {
                    self.store_live(address, &mut slot);
                    self.store_live(bytes, &mut slot);
                }
            }
        }
    }

    fn store_live(&mut self, word: ir::Value, slot: &mut usize) {
        let k = self.arguments.k;
        self.b.ins().store(of_run(), word, k, live_offset(slot));
    }

    fn store_spent(&mut self, fuel: Fuel, spent: u32) {
        let spent = self.b.ins().iconst(types::I32, i64::from(spent));
        let at = (offset_of!(Continuation, fuels) + 4 * fuel.index()) as i32;
        self.b.ins().store(of_run(), spent, self.arguments.k, at);
    }
}

fn live_offset(slot: &mut usize) -> i32 {
    *slot += 1;
    (Continuation::LIVE_OFFSET + 8 * (*slot - 1)) as i32
}
