//! The layers and fields of a packet, with the places of their bytes: `weir packets -V`.
//!
//! A program that notes every field runs on the interpreter, packet by packet, beside the program that
//! answers the questions. It has no flows: layers in messages of streams, and in datagrams whose fragments
//! came in several packets, are not parsed.

use crate::ask::compile::{Compiler, without_source};
use crate::rows::events;
use std::ops::Range;
use weir_compile::types::value_type;
use weir_compile::{Lowered, Need, NoteOf, Question, StackCatalog, lower};
use weir_ir::abi::Continuation;
use weir_ir::interpret::{Interpreter, TraceStep};
use weir_lang::diag::{Diagnostic, Diagnostics};
use weir_lang::filter;
use weir_lang::model::{Expr, Field, FieldId, FieldType, LayerId, LetId, PresenceId, Stack};
use weir_packet::{DropReason, PacketMeta, Value, ValueType, readable};

/// A packet's layers and fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketDetail {
    /// The layers, outermost first; the last one may be incomplete.
    pub layers: Vec<LayerDetail>,
    /// Why the packet was not parsed to its end, if so.
    pub reason: Option<DropReason>,
}

/// A layer of a packet. A layer that occurs several times is there each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerDetail {
    /// The layer.
    pub layer: LayerId,
    /// The bytes of its header. If the header is incomplete, they end with the last field.
    pub header: Range<usize>,
    /// The bytes of its payload, as the headers claim them. `None` if the header is incomplete: truncated or
    /// malformed.
    pub payload: Option<Range<usize>>,
    /// Its fields and items, in the order of the header.
    pub parts: Vec<PartDetail>,
    /// The derived values that filters can name, if the packet has all fields that they depend on.
    pub derived: Vec<(LetId, u64)>,
}

/// A part of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartDetail {
    /// A field.
    Field(FieldDetail),
    /// An item of a run (`options: run { … }`).
    Item(ItemDetail),
}

/// A field of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDetail {
    /// The field.
    pub field: FieldId,
    /// Its bytes, as the headers claim them: the capture may lack some at the end.
    pub bytes: Range<usize>,
    /// Its bits, counted from the most significant bit of the packet's first byte.
    pub bits: Range<usize>,
    /// Its number, the high word first; 0 for bytes and text.
    pub words: [u64; 2],
}

/// An item of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemDetail {
    /// Which kind of item.
    pub item: PresenceId,
    /// Its tag.
    pub tag: u64,
    /// Its bytes, with the tag.
    pub bytes: Range<usize>,
    /// Whether the item fits the run and keeps its rules. Filters take any other item for absent.
    pub is_whole: bool,
    /// Its fields.
    pub parts: Vec<PartDetail>,
}

/// Finds the layers and fields of packets.
#[derive(Debug)]
pub struct Dissector {
    program: Interpreter,
    notes: Vec<NoteOf>,
    stack: Stack,
}

impl Compiler {
    /// A dissector for packets of the stack in use.
    ///
    /// # Errors
    /// The stack exceeds a limit of one program.
    pub fn dissector(&self) -> Result<Dissector, Diagnostics> {
        Dissector::new(self.stack(), self.catalog()).map_err(without_source)
    }
}

impl Dissector {
    pub(crate) fn new(stack: &Stack, catalog: &StackCatalog) -> Result<Self, Diagnostic> {
        let filter = filter::compile("", catalog).map_err(|mut wrong| wrong.remove(0))?;
        let need = Need { packets: true, detail: true, ..Need::default() };
        let Lowered { mut graph, notes, .. } = lower(stack, catalog, &[Question { filter, need }])?;
        // Nothing that is needed depends on flows, so the passes remove the lookups.
        weir_ir::passes::optimize(&mut graph, &weir_ir::passes::Options::default());
        let program =
            Interpreter::new(graph).map_err(|wrong| Diagnostic::error("W0199", wrong.to_string()))?;
        Ok(Self { program, notes, stack: stack.clone() })
    }

    /// The stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The layers and fields of a packet with these bytes.
    pub fn packet(&self, meta: &PacketMeta, frame: &[u8]) -> PacketDetail {
        let steps = self.program.trace_into(meta, frame, &mut Continuation::default());
        let mut reading = Reading { stack: &self.stack, detail: PacketDetail::default(), open: vec![] };
        for step in steps {
            match step {
                TraceStep::Note { what, values } => {
                    if let Some(&of) = self.notes.get(what as usize) {
                        reading.note(of, &values);
                    }
                }
                TraceStep::Done { reason, .. } => reading.detail.reason = reason,
                _ => {}
            }
        }
        reading.close_items(0, false);
        reading.detail
    }

    /// The value of a field; of bytes and text, as far as they were captured.
    pub fn value<'a>(&self, layer: LayerId, field: &FieldDetail, frame: &'a [u8]) -> Value<'a> {
        let bytes = || &frame[clipped(&field.bytes, frame.len())];
        match value_type(&self.stack, layer, &Expr::Field(field.field)) {
            ValueType::Bytes => Value::Bytes(bytes().into()),
            ValueType::Text => Value::Text(readable(bytes())),
            value_type => events::value(value_type, field.words[0], field.words[1]),
        }
    }
}

impl LayerDetail {
    /// The field as filters see it: its last occurrence outside of malformed items. `None` if the packet
    /// lacks the field.
    pub fn field(&self, field: FieldId) -> Option<&FieldDetail> {
        fn last(parts: &[PartDetail], field: FieldId) -> Option<&FieldDetail> {
            parts.iter().rev().find_map(|part| match part {
                PartDetail::Field(one) => (one.field == field).then_some(one),
                PartDetail::Item(item) if item.is_whole => last(&item.parts, field),
                PartDetail::Item(_) => None,
            })
        }
        last(&self.parts, field)
    }
}

/// The part of a range that a packet of so many bytes has.
pub(crate) fn clipped(range: &Range<usize>, bytes: usize) -> Range<usize> {
    let start = range.start.min(bytes);
    start..range.end.clamp(start, bytes)
}

/// A value of a field for people: at most `length_max` bytes, or characters of text. Text is not escaped.
pub fn shown_value(value: &Value<'_>, length_max: usize) -> String {
    match value {
        Value::Address(address) => address.to_string(),
        Value::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
        Value::Unsigned(number) => number.to_string(),
        Value::Text(text) => {
            let end = text.char_indices().nth(length_max).map_or(text.len(), |(at, _)| at);
            format!("{}{}", &text[..end], if end < text.len() { "…" } else { "" })
        }
        Value::Bytes(bytes) => {
            let digits = bytes.iter().take(length_max).map(|byte| format!("{byte:02x}"));
            let cut = if bytes.len() > length_max { "…" } else { "" };
            digits.chain([cut.to_string()]).collect()
        }
        _ => String::new(),
    }
}

/// Makes a packet's detail of the program's notes.
struct Reading<'a> {
    stack: &'a Stack,
    detail: PacketDetail,
    /// The items that have begun, the innermost last.
    open: Vec<ItemDetail>,
}

impl Reading<'_> {
    fn note(&mut self, of: NoteOf, values: &[u64]) {
        let offset =
            |at: usize| values.get(at).map_or(0, |&value| usize::try_from(value).unwrap_or(usize::MAX));
        let start = offset(0);
        match of {
            NoteOf::Layer(layer) => {
                self.close_items(0, false);
                let (parts, derived) = (vec![], vec![]);
                self.detail.layers.push(LayerDetail {
                    layer,
                    header: start..start,
                    payload: None,
                    parts,
                    derived,
                });
            }
            NoteOf::Field { layer, field, bit } => {
                let ty = &self.field(layer, field).ty;
                let bits = bits_of(ty, offset(1));
                let first = start.saturating_mul(8).saturating_add(bit as usize);
                let bits = first..first.saturating_add(bits);
                let low = values.get(2).copied().unwrap_or(0);
                let words = [values.get(3).copied().unwrap_or(0), low];
                let bytes = start..bits.end.div_ceil(8).max(start);
                self.push(PartDetail::Field(FieldDetail { field, bytes, bits, words }));
            }
            NoteOf::Item { item, depth, .. } => {
                // An item that is not complete when the next one begins was malformed.
                self.close_items(depth, false);
                let (tag, bytes) = (values.get(1).copied().unwrap_or(0), start..start);
                self.open.push(ItemDetail { item, tag, bytes, is_whole: false, parts: vec![] });
            }
            NoteOf::ItemEnd { depth } => {
                self.close_items(depth + 1, false);
                if let Some(item) = self.open.last_mut() {
                    item.bytes.end = start;
                }
                self.close_items(depth, true);
            }
            NoteOf::LayerEnd(_) => {
                self.close_items(0, false);
                if let Some(layer) = self.detail.layers.last_mut() {
                    layer.header.end = start;
                    layer.payload = Some(start..start.saturating_add(offset(1)));
                }
            }
            NoteOf::Let(_, value) => {
                if let (Some(layer), Some(&number)) = (self.detail.layers.last_mut(), values.first()) {
                    layer.derived.push((value, number));
                }
            }
        }
    }

    fn field(&self, layer: LayerId, field: FieldId) -> &Field {
        &self.stack.layers[usize::from(layer.0)].protocol.fields[usize::from(field.0)]
    }

    fn push(&mut self, part: PartDetail) {
        let end = match &part {
            PartDetail::Field(field) => field.bytes.end,
            PartDetail::Item(item) => item.bytes.end,
        };
        if let Some(item) = self.open.last_mut() {
            item.bytes.end = item.bytes.end.max(end);
            item.parts.push(part);
        } else if let Some(layer) = self.detail.layers.last_mut() {
            layer.header.end = layer.header.end.max(end);
            layer.parts.push(part);
        }
    }

    /// Ends the items that have begun, except the `depth` outermost ones.
    fn close_items(&mut self, depth: usize, is_whole: bool) {
        while self.open.len() > depth
            && let Some(item) = self.open.pop()
        {
            self.push(PartDetail::Item(ItemDetail { is_whole, ..item }));
        }
    }
}

/// The number of bits of a field; `bytes`: of a field of bytes, their number.
fn bits_of(ty: &FieldType, bytes: usize) -> usize {
    match ty {
        FieldType::Unsigned { bits, .. } => *bits as usize,
        FieldType::Mac => 48,
        FieldType::Ipv4 => 32,
        FieldType::Ipv6 => 128,
        FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => bytes.saturating_mul(8),
    }
}
