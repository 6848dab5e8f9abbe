//! Notes about the layers and fields of a packet, from which its tree is made (`weir packets -V`).
//!
//! The program notes each thing when it is parsed, so the notes are in the order of the packet: a layer or an
//! item that occurs several times is noted each time, and of a header that is cut short its first fields are
//! noted.

use super::Lower;
use weir_ir::graph::{Op, Value};
use weir_lang::model::{Expr, FieldId, LayerId, LetId, PresenceId};

/// The meaning of a note, and of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteOf {
    /// A layer begins: the offset of its header.
    Layer(LayerId),
    /// A field: offset, number of bytes, and unless the field is bytes or text its number, the low word
    /// first.
    Field {
        /// The layer.
        layer: LayerId,
        /// The field.
        field: FieldId,
        /// The field begins at this bit of its first byte, counted from the most significant one.
        bit: u32,
    },
    /// An item of a run begins: the offset of its tag, and the tag. The notes up to the item's end are about
    /// its contents. Without an end, the item is malformed, and filters take it for absent.
    Item {
        /// The layer.
        layer: LayerId,
        /// The item.
        item: PresenceId,
        /// The number of items that contain the item.
        depth: usize,
    },
    /// The last item of this depth is complete: the offset after it.
    ItemEnd {
        /// The number of items that contain the item.
        depth: usize,
    },
    /// A layer's header is complete: the offset after it, and the number of bytes of payload that its headers
    /// claim.
    LayerEnd(LayerId),
    /// A derived value: the number. Noted only if the packet has all fields that the value depends on.
    Let(LayerId, LetId),
}

impl Lower<'_> {
    /// Adds a note, if detail is needed.
    pub(super) fn note(&mut self, of: NoteOf, values: impl IntoIterator<Item = Value>) {
        if !self.need.detail {
            return;
        }
        let what = self.notes.len() as u32;
        self.notes.push(of);
        self.b.push(Op::Note { what, values: values.into_iter().collect() });
    }

    /// Notes the end of a layer's header, and the derived values that filters can name.
    pub(super) fn note_layer_end(&mut self, id: LayerId) {
        if !self.need.detail {
            return;
        }
        let vars = self.vars(id);
        let [at, bytes] =
            [vars.payload_at, vars.payload_bytes].map(|var| self.b.read(var.expect("declared")));
        self.note(NoteOf::LayerEnd(id), [at, bytes]);
        let lets = &self.layer(id).protocol.lets;
        for (index, _) in lets.iter().enumerate().filter(|(_, one)| !one.doc.is_empty()) {
            let value = LetId(index as u16);
            let number = self.int(id, &Expr::Let(value));
            let known = self.b.read(vars.lets_known[index]);
            self.lower_either(known, |l| l.note(NoteOf::Let(id, value), [number]), |_| {});
        }
    }
}
