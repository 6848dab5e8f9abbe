//! Rows of packets.

use super::format_packet::{self, Path};
use crate::flow::record::ColumnMask;
use weir_compile::OutValue;
use weir_lang::model::Stack;
use weir_packet::{Cell, Column, PacketMeta, RowWriter, ValueType};

/// The columns of packets.
pub const PACKET_COLUMNS: &[Column] = &[
    Column::new("number", ValueType::Unsigned, "number of the packet in the run"),
    Column::new("ts", ValueType::Time, "time of capture"),
    Column::new("length", ValueType::Unsigned, "bytes on the wire"),
    Column::new("layers", ValueType::Text, "layers, outermost first"),
    Column::new("info", ValueType::Text, "text of the layers"),
    Column::new("frame", ValueType::Bytes, "the captured bytes"),
];

/// Indexes of the columns of the layers, of their texts, and of the captured bytes.
pub(crate) const LAYERS: usize = 3;
pub(crate) const INFO: usize = 4;
pub(crate) const FRAME: usize = 5;

/// What rows of packets are made from, beside the packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketRows<'a> {
    pub stack: &'a Stack,
    pub outs: &'a [OutValue],
    /// Columns that are not among these are absent.
    pub shown: ColumnMask,
}

impl PacketRows<'_> {
    /// Writes a row of a packet with the record `outs`. `meta` describes `frame`, which is empty unless its
    /// column is shown.
    pub fn write(&self, meta: &PacketMeta, frame: &[u8], outs: &[u64], row: &mut RowWriter<'_>) {
        let shown = |column| self.shown.contains(column);
        let cell = |column, cell| if shown(column) { cell } else { Cell::Absent };
        row.push(cell(0, Cell::Unsigned(meta.number)));
        row.push(cell(1, Cell::Time(meta.time)));
        row.push(cell(2, Cell::Unsigned(u64::from(meta.wire_bytes))));
        match shown(LAYERS) {
            true => row.text_with(|text| Path::of_record(outs).push_name(self.stack, text)),
            false => row.push(Cell::Absent),
        }
        match shown(INFO) {
            true => row.text_with(|text| format_packet::push_line(self.stack, self.outs, outs, text)),
            false => row.push(Cell::Absent),
        }
        row.push(cell(FRAME, Cell::Bytes(frame)));
    }
}
