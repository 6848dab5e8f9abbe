//! The layer by which a connection carries another one, in the packet's record.

use super::Lower;
use crate::tunnels::tunnel_layers;
use weir_ir::graph::{Op, Out};
use weir_ir::slot::EngineSlot;
use weir_lang::model::LayerId;

impl Lower<'_> {
    /// Declares the slot, if a question asks.
    pub(super) fn declare_tunnel(&mut self) {
        if (self.need.tunnels || self.need.service) && !self.need.dispatch {
            self.tunnels = tunnel_layers(self.stack);
        }
        if !self.tunnels.is_empty() {
            self.tunnel = Some(Out(self.b.graph.outs.len() as u32));
            self.b.graph.outs.push(EngineSlot::Tunnel.into());
        }
    }

    /// Stores the layer, if a connection may carry another one by it.
    pub(super) fn lower_tunnel(&mut self, id: LayerId) {
        if let Some(out) = self.tunnel.filter(|_| self.tunnels.contains(&id)) {
            let value = self.b.int(id.0.into());
            self.b.push(Op::Store { out, value });
        }
    }
}
