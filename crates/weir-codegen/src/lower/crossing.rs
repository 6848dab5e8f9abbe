//! Leaving for a lookup and going on after it: what lives across it is saved in the continuation, the
//! values in the plan's order.

use super::{Lowering, Parts, of_run};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::Switch;
use std::mem::offset_of;
use weir_ir::abi::Continuation;
use weir_ir::graph::{Block, Type, Value};

impl Lowering<'_> {
    /// The tail goes on after the lookup that the continuation names.
    pub(super) fn resume(&mut self, flags: ir::Value) {
        let mut switch = Switch::new();
        let mut resumed = Vec::new();
        for (number, crossing) in self.plan.crossings.iter().enumerate() {
            if self.blocks[crossing.then.index()].is_some() {
                let block = self.b.create_block();
                switch.set_entry(number as u128, block);
                resumed.push((block, crossing));
            }
        }
        let never = self.b.create_block();
        self.b.set_cold_block(never);
        let k = self.arguments.k;
        let number = self.b.ins().load(types::I32, of_run(), k, offset_of!(Continuation, resume) as i32);
        switch.emit(&mut self.b, number, never);
        self.b.switch_to_block(never);
        self.b.ins().trap(ir::TrapCode::unwrap_user(1));
        for (block, crossing) in resumed {
            self.b.switch_to_block(block);
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

    /// Saves what lives across the lookup that ends `from`; the lookup's number.
    pub(super) fn save_live(&mut self, from: Block) -> usize {
        let number = self.plan.crossings.iter().position(|crossing| crossing.from == from);
        let number = number.expect("the plan knows every lookup");
        let mut slot = 0;
        for &value in &self.plan.crossings[number].values {
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
        number
    }

    fn store_live(&mut self, word: ir::Value, slot: &mut usize) {
        let k = self.arguments.k;
        self.b.ins().store(of_run(), word, k, live_offset(slot));
    }
}

fn live_offset(slot: &mut usize) -> i32 {
    *slot += 1;
    (offset_of!(Continuation, live) + 8 * (*slot - 1)) as i32
}
