//! The leading columns of rows about one direction of a connection: a time, the connection, the sender, the receiver.

use weir::packet::{Column, Timestamp, Value, ValueType};
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

/// The values of the columns, followed by `more`. `uid`: that of the stream.
pub fn row<const N: usize>(
    stream: &Stream<'_, '_>,
    uid: String,
    time: Timestamp,
    more: [Value<'static>; N],
) -> Vec<Value<'static>> {
    let [(_, src_p), (_, dst_p)] = stream.endpoints();
    let [src_h, dst_h] = stream.hosts();
    let own = [
        Value::Time(time),
        Value::Text(uid.into()),
        Value::Bool(stream.is_orig()),
        src_h,
        Value::Unsigned(src_p.into()),
        dst_h,
        Value::Unsigned(dst_p.into()),
        Value::Text(stream.proto().to_owned().into()),
    ];
    own.into_iter().chain(more).collect()
}
