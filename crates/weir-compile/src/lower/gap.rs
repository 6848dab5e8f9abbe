//! Lowers what a layer does `on gap`: on the packet behind which queued bytes pass, or at the end of an
//! instance.
//!
//! At the end of an instance there is no packet. The engine then runs the program on [`gap_packet`], whose
//! link type and number no captured packet has, and resumes the lookup with the instance that ends. Only
//! statements run there: they use what the instance holds. Events belong to packets, so a gap at the end
//! causes none.

use super::Lower;
use super::instance::FlowContext;
use super::sequence::Piece;
use weir_ir::abi::{GAP_LINK, GAP_NUMBER};
use weir_ir::build::to;
use weir_ir::graph::{Block, CompareOp, Meta, Op, Table, Terminator, Type};
use weir_lang::model::{LayerId, Trigger};
use weir_packet::DropReason;

#[cfg(doc)]
use weir_ir::abi::gap_packet;

impl Lower<'_> {
    /// Lowers statements and events for the gap before the bytes that are in order now.
    pub(super) fn lower_gap(&mut self, id: LayerId, context: &FlowContext, piece: &Piece) {
        let protocol = &self.layer(id).protocol;
        let mut triggers = protocol.events.iter().flat_map(|event| &event.triggers);
        if !self.reacts_to_gaps(id) && !triggers.any(|trigger| *trigger == Trigger::Gap) {
            return;
        }
        let gap = self.b.read(piece.gap);
        let is_gap = self.b.truth(gap);
        let context = context.of_side(self.b.read(piece.side));
        let packet = self.flow.replace(context.clone());
        self.lower_either(
            is_gap,
            |l| {
                l.lower_gap_statements(id);
                l.lower_events(id, &context.telling, Trigger::Gap);
            },
            |_| {},
        );
        self.flow = packet;
    }

    fn lower_gap_statements(&mut self, id: LayerId) {
        let on = &self.layer(id).protocol.on;
        let lists = on.iter().filter(|(on, _)| *on == Trigger::Gap);
        lists.for_each(|(_, list)| self.lower_statements(id, list));
    }

    fn reacts_to_gaps(&self, id: LayerId) -> bool {
        self.layer(id).protocol.on.iter().any(|(on, _)| *on == Trigger::Gap)
    }

    /// Whether a row shows what the layer's instances hold at their ends, and statements for gaps may change
    /// that.
    fn heeds_last_gaps(&self, id: LayerId) -> bool {
        let is_shown = self.need.connections && self.is_two_sided(id) || self.reports_ends(id);
        (is_shown || self.need.variables) && !self.need.dispatch && self.reacts_to_gaps(id)
    }

    /// The case of the switch over link types that gaps at the ends of instances take, if a layer heeds them.
    pub(super) fn last_gaps_case(&mut self) -> Option<(u64, Block)> {
        let mut layers = (0..self.stack.layers.len() as u16).map(LayerId);
        let is_heeded = self.for_kernel.is_none() && layers.any(|id| self.heeds_last_gaps(id));
        is_heeded.then(|| (u64::from(GAP_LINK.0), self.b.block()))
    }

    /// Lowers the statements that run for gaps at the ends of instances, from the block of that case.
    pub(super) fn lower_last_gaps(&mut self, first: Block) {
        self.b.seal(first);
        self.b.switch_to(first);
        let (gaps, unknown) = (self.b.block(), self.finish.of(Some(DropReason::UnknownLink)));
        let number = self.b.one(Op::Meta(Meta::Number));
        let wanted = self.b.int(GAP_NUMBER);
        let is_gap = self.b.compare(CompareOp::Eq, number, wanted);
        self.b.branch(is_gap, gaps, unknown);
        self.b.seal(gaps);
        self.b.switch_to(gaps);
        let table = self.b.one(Op::Meta(Meta::Interface));
        let tables = self.tables.iter().enumerate().map(|(at, &id)| (id, Table(at as u32)));
        let heeding: Vec<(LayerId, Table)> = tables.filter(|&(id, _)| self.heeds_last_gaps(id)).collect();
        let heeding: Vec<(LayerId, Table, Block)> =
            heeding.into_iter().map(|(id, table)| (id, table, self.b.block())).collect();
        let cases = heeding.iter().map(|&(_, table, block)| (u64::from(table.0), to(block))).collect();
        self.b.end(Terminator::Switch { value: table, cases, otherwise: to(unknown) });
        for (id, table, block) in heeding {
            self.b.seal(block);
            self.b.switch_to(block);
            self.lower_last_gap(id, table);
        }
    }

    fn lower_last_gap(&mut self, id: LayerId, table: Table) {
        // The engine knows the flow, and does not look it up.
        let (zero, swap) = (self.b.int(0), self.b.bool(false));
        let key = vec![zero; self.b.graph.tables[table.index()].key.words()];
        let found = self.b.block();
        let flow = self.b.param(found, Type::Flow(table));
        let responder = self.b.param(found, Type::Bool);
        let new = self.b.param(found, Type::Bool);
        self.b.end(Terminator::Lookup { table, key, swap, reversed: None, then: found });
        self.b.seal(found);
        self.b.switch_to(found);
        self.flow = Some(self.packetless_context(id, table, [flow, responder, new]));
        self.lower_gap_statements(id);
        self.flow = None;
        let terms = self.b.int(0);
        self.b.done(terms, None);
    }
}
