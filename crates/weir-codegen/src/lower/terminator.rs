//! Lowers the terminators of blocks.

use super::{DONE, LOOKUP, Lowering, REJOIN, RESTART, done, of_run};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::Switch;
use std::collections::HashSet;
use std::mem::offset_of;
use weir_ir::abi::{Continuation, REVERSED};
use weir_ir::graph::{Block, Target, Terminator, Value};

/// From this number of cases on, a switch becomes a search tree with jump tables instead of a chain of
/// comparisons.
const TREE_CASES_MIN: usize = 5;

impl Lowering<'_> {
    pub(super) fn terminator(&mut self, block: Block, terminator: &Terminator) {
        match terminator {
            Terminator::Jump(target) => self.jump(target),
            Terminator::Branch { condition, then, otherwise } => {
                let condition = self.one(*condition);
                self.branch(condition, then, otherwise);
            }
            Terminator::Switch { value, cases, otherwise } => self.switch(*value, cases, otherwise),
            Terminator::Check { buf, offset, bytes, then, otherwise } => {
                match self.fits(*buf, *offset, *bytes) {
                    Some(fits) => self.branch(fits, then, otherwise),
                    None => self.jump(otherwise),
                }
            }
            Terminator::Again { fuel, max, then, otherwise } => {
                // The counter is in memory: as a value, every block of every loop would have it as a
                // parameter.
                let at = (offset_of!(Continuation, fuels) + 4 * fuel.index()) as i32;
                let k = self.arguments.k;
                let spent = self.b.ins().load(types::I32, of_run(), k, at);
                let more = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, spent, i64::from(*max));
                let one = self.b.ins().uextend(types::I32, more);
                let spent = self.b.ins().iadd(spent, one);
                self.b.ins().store(of_run(), spent, k, at);
                self.branch(more, then, otherwise);
            }
            Terminator::Lookup { table, key, swap, reversed, then } => {
                let k = self.arguments.k;
                for (word, &value) in key.iter().enumerate() {
                    let value = self.one(value);
                    let offset = Continuation::KEY_OFFSET + 8 * word;
                    self.b.ins().store(of_run(), value, k, offset as i32);
                }
                self.store_number(key.len() as u32, Continuation::KEY_WORDS_OFFSET);
                let swap = self.one(*swap);
                let mut swap = self.b.ins().uextend(types::I32, swap);
                if let Some(reversed) = reversed {
                    let reversed = self.one(*reversed);
                    let reversed = self.b.ins().uextend(types::I32, reversed);
                    let reversed = self.b.ins().imul_imm_u(reversed, i64::from(REVERSED));
                    swap = self.b.ins().bor(swap, reversed);
                }
                self.b.ins().store(of_run(), swap, k, offset_of!(Continuation, swap) as i32);
                let resume = self.save_live(block, *then);
                self.store_number(table.0, offset_of!(Continuation, table));
                self.store_number(resume as u32, Continuation::RESUME_OFFSET);
                self.leave(LOOKUP);
            }
            Terminator::Restart => self.leave(RESTART),
            Terminator::Rejoin { .. } => self.leave(REJOIN),
            Terminator::Done { terms, reason } => {
                let terms = self.one(*terms);
                let k = self.arguments.k;
                self.b.ins().store(of_run(), terms, k, offset_of!(Continuation, terms) as i32);
                self.leave(reason.map_or(DONE, |reason| done(Some(reason))));
            }
        }
    }

    pub(super) fn store_number(&mut self, number: u32, offset: usize) {
        let number = self.b.ins().iconst(types::I32, i64::from(number));
        let k = self.arguments.k;
        self.b.ins().store(of_run(), number, k, offset as i32);
    }

    pub(super) fn leave(&mut self, status: u64) {
        let status = self.b.ins().iconst(types::I64, status as i64);
        self.b.ins().return_(&[status]);
    }

    fn jump(&mut self, target: &Target) {
        let (block, arguments) = self.edge(target);
        self.b.ins().jump(block, &arguments);
    }

    fn branch(&mut self, condition: ir::Value, then: &Target, otherwise: &Target) {
        let (then, then_arguments) = self.edge(then);
        let (otherwise, otherwise_arguments) = self.edge(otherwise);
        self.b.ins().brif(condition, then, &then_arguments, otherwise, &otherwise_arguments);
    }

    /// Whether `offset + bytes` bytes are in `buf`; `None` if that is impossible.
    fn fits(&mut self, buf: Value, offset: Value, bytes: u32) -> Option<ir::Value> {
        let (_, length) = self.buf(buf);
        if let Some(offset) = self.plan.int(offset) {
            // No slice is longer than `isize::MAX`.
            let end = i64::try_from(offset.checked_add(u64::from(bytes))?).ok()?;
            return Some(self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, length, end));
        }
        let wraps = self.plan.ranges.max(offset).checked_add(u64::from(bytes)).is_none();
        let offset = self.one(offset);
        let end = self.b.ins().iadd_imm_u(offset, i64::from(bytes));
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        if !wraps {
            return Some(fits);
        }
        let no_wrap = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, offset, end);
        Some(self.b.ins().band(fits, no_wrap))
    }

    fn switch(&mut self, value: Value, cases: &[(u64, Target)], otherwise: &Target) {
        let value = self.one(value);
        let mut seen = HashSet::new();
        let cases = cases.iter().filter(|(number, _)| seen.insert(*number));
        let cases: Vec<&(u64, Target)> = cases.collect();
        if cases.len() < TREE_CASES_MIN {
            for (number, target) in cases {
                let equal = self.b.ins().icmp_imm_s(IntCC::Equal, value, *number as i64);
                let (block, arguments) = self.edge(target);
                let next = self.b.create_block();
                self.b.ins().brif(equal, block, &arguments, next, &[]);
                self.b.switch_to_block(next);
            }
            return self.jump(otherwise);
        }
        // The search tree only supports target blocks without arguments.
        let mut tree = Switch::new();
        let mut edges = Vec::new();
        for (number, target) in cases {
            let (block, arguments) = self.edge(target);
            if arguments.is_empty() {
                tree.set_entry(u128::from(*number), block);
            } else {
                let edge = self.b.create_block();
                tree.set_entry(u128::from(*number), edge);
                edges.push((edge, block, arguments));
            }
        }
        let none = self.b.create_block();
        tree.emit(&mut self.b, value, none);
        self.b.switch_to_block(none);
        self.jump(otherwise);
        for (edge, block, arguments) in edges {
            self.b.switch_to_block(edge);
            self.b.ins().jump(block, &arguments);
        }
    }
}
