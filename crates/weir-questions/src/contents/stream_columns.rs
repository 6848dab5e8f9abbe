//! The leading columns of rows about one direction of a connection: a time, the connection, the sender, the
//! receiver.

use weir::packet::{Cell, Column, Timestamp, ValueType};
use weir::stream::Stream;

/// Number of the columns.
pub const COUNT: usize = 8;

/// The columns; `time_doc` says which time is the first one.
pub fn columns(time_doc: &'static str) -> [Column; COUNT] {
    [
        Column::new("ts", ValueType::Time, time_doc),
        Column::new("uid", ValueType::Text, "identifier of the connection"),
        Column::new("is_orig", ValueType::Bool, "whether the originator sends the stream"),
        Column::new("src_h", ValueType::Address, "address of the sender"),
        Column::new("src_p", ValueType::Unsigned, "port of the sender"),
        Column::new("dst_h", ValueType::Address, "address of the receiver"),
        Column::new("dst_p", ValueType::Unsigned, "port of the receiver"),
        Column::new("proto", ValueType::Text, "transport protocol"),
    ]
}

/// Emits a row: the values of the columns, followed by `more`. `uid`: that of the stream.
pub fn emit(stream: &mut Stream<'_, '_>, uid: &str, time: Timestamp, more: &[Cell<'_>]) {
    let [(_, src_p), (_, dst_p)] = stream.endpoints();
    let [src_h, dst_h] = stream.hosts();
    let proto = stream.proto().to_owned();
    let own = [
        Cell::Time(time),
        Cell::Text(uid),
        Cell::Bool(stream.is_orig()),
        src_h,
        Cell::Unsigned(src_p.into()),
        dst_h,
        Cell::Unsigned(dst_p.into()),
        Cell::Text(&proto),
    ];
    stream.emit(own.into_iter().chain(more.iter().copied()));
}
