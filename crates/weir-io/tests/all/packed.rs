//! What was written is read again, and damaged input is an error.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_io::packed::{PackedSink, ReadError, Reader};
use weir_packet::{Batch, Column, RowSink, Timestamp, Value, ValueType};

fn columns() -> Vec<Column> {
    let types = [
        ValueType::Bool,
        ValueType::Unsigned,
        ValueType::Fraction,
        ValueType::Time,
        ValueType::Interval,
        ValueType::Address,
        ValueType::Mac,
        ValueType::Text,
        ValueType::Bytes,
        ValueType::Texts,
        ValueType::Numbers,
        ValueType::Ipv4,
        ValueType::Ipv6,
    ];
    let column = |(at, value_type): (usize, ValueType)| Column {
        name: format!("c{at}").into(),
        value_type,
        doc: format!("the column {at}").into(),
    };
    types.into_iter().enumerate().map(column).collect()
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..300, any::<u64>(), 1_700_000_000_000_000_000_u64..1_700_000_000_000_100_000]
}

fn row() -> impl Strategy<Value = Vec<Value<'static>>> {
    let first = (any::<bool>(), number(), any::<i32>(), any::<i64>(), number(), any::<u128>());
    let second = (any::<[u8; 6]>(), ".{0,9}", prop::collection::vec(any::<u8>(), 0..9));
    let third = (prop::collection::vec(".{0,5}", 0..4), prop::collection::vec(number(), 0..20), any::<u16>());
    (first, second, third).prop_map(|((a, b, c, d, e, f), (g, h, i), (j, k, absent))| {
        let v4 = Ipv4Addr::from_bits(f as u32);
        let v6 = Ipv6Addr::from_bits(f);
        let mut row = vec![
            Value::Bool(a),
            Value::Unsigned(b),
            Value::Fraction(f64::from(c) / 8.0),
            Value::Time(Timestamp(d)),
            Value::Interval(e),
            Value::Address(if a { IpAddr::V4(v4) } else { IpAddr::V6(v6) }),
            Value::Mac(g),
            Value::Text(h.into()),
            Value::Bytes(i.into()),
            Value::Texts(j.into()),
            Value::Numbers(k.into()),
            Value::Address(v4.into()),
            Value::Address(v6.into()),
        ];
        for (at, value) in row.iter_mut().enumerate() {
            if absent & absent >> 3 & 1 << at != 0 {
                *value = Value::Absent;
            }
        }
        row
    })
}

fn packed(rows: &[Vec<Value<'_>>], flush_each: usize) -> Vec<u8> {
    let mut bytes = vec![];
    let mut sink = PackedSink::new(&mut bytes, "test");
    sink.begin(&columns()).expect("memory takes all");
    for rows in rows.chunks(flush_each) {
        let mut batch = Batch::new(columns().len());
        rows.iter().for_each(|row| batch.push(row));
        sink.batch(&batch).expect("memory takes all");
        sink.flush().expect("memory takes all");
    }
    sink.end().expect("memory takes all");
    drop(sink);
    bytes
}

/// The rows before the end, or before the error.
fn unpacked(bytes: &[u8]) -> (Vec<Vec<Value<'static>>>, Result<(), ReadError>) {
    let mut rows = vec![];
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (rows, Err(error)),
    };
    loop {
        match reader.read() {
            Ok(Some(batch)) => {
                let owned =
                    |row: weir_packet::Row<'_>| row.values().into_iter().map(Value::into_owned).collect();
                rows.extend(batch.iter().map(owned));
            }
            Ok(None) => return (rows, Ok(())),
            Err(error) => {
                assert!(reader.read().expect("nothing follows an error").is_none());
                return (rows, Err(error));
            }
        }
    }
}

proptest! {
    #[test]
    fn rows_are_read_as_they_were_written(rows in prop::collection::vec(row(), 0..60), flush_each in 1_usize..70) {
        let bytes = packed(&rows, flush_each);
        let (read, end) = unpacked(&bytes);
        prop_assert!(end.is_ok(), "{:?}", end);
        prop_assert_eq!(read, rows);
        let reader = Reader::new(&bytes[..]).expect("a head");
        prop_assert_eq!((reader.log(), reader.columns()), ("test", &columns()[..]));
    }

    /// A file that was cut anywhere has the rows of its whole blocks, and an error.
    #[test]
    fn a_cut_file_is_read_to_its_last_block(rows in prop::collection::vec(row(), 1..20), cut in 0.0..1.0_f64) {
        let bytes = packed(&rows, 1);
        let length = (bytes.len() as f64 * cut) as usize;
        let (read, end) = unpacked(&bytes[..length]);
        prop_assert!(matches!(end, Err(ReadError::Truncated { .. } | ReadError::NotPacked)), "{:?}", end);
        prop_assert_eq!(&read[..], &rows[..read.len()]);
    }

    /// No input panics, and a changed byte is found.
    #[test]
    fn damage_is_found(rows in prop::collection::vec(row(), 1..6), at in any::<prop::sample::Index>(), change in 1_u8..=255) {
        let mut bytes = packed(&rows, 2);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let (read, end) = unpacked(&bytes);
        // A block of another kind is skipped only if its checksum is right.
        prop_assert!(end.is_err());
        prop_assert_eq!(&read[..], &rows[..read.len()]);
    }

    /// The same with a right checksum: the contents are checked as well.
    #[test]
    fn blocks_of_any_bytes_are_read_or_refused(block in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = packed(&[], 1);
        // The last block is the end: one byte of kind, one of length, and the checksum.
        bytes.truncate(bytes.len() - 6);
        let start = bytes.len();
        bytes.extend([2, block.len() as u8 | 0x80, (block.len() >> 7) as u8]);
        bytes.extend(&block);
        let checksum = crc32fast::hash(&bytes[start..]);
        bytes.extend(checksum.to_le_bytes());
        let _ = unpacked(&bytes);
    }

    #[test]
    fn any_bytes_are_no_packed_rows(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Reader::new(&bytes[..]).is_err());
    }
}

/// Wherever a file ends too early, also between two blocks, the error says that the file was cut.
#[test]
fn every_cut_is_said_to_be_a_cut() {
    let bytes = packed(&[vec![Value::Absent; columns().len()]], 1);
    for length in 0..bytes.len() {
        let (_, end) = unpacked(&bytes[..length]);
        assert!(
            matches!(end, Err(ReadError::Truncated { .. } | ReadError::NotPacked)),
            "{length} bytes: {end:?}"
        );
    }
}

/// Columns of text take any value, as text; other columns refuse values of other types.
#[test]
fn values_of_other_types_are_text_or_refused() {
    let text = [Column::new("version", ValueType::Text, "")];
    let mut bytes = vec![];
    let mut sink = PackedSink::new(&mut bytes, "");
    sink.begin(&text).expect("memory takes all");
    let mut batch = Batch::new(1);
    for value in
        [Value::Unsigned(2), Value::Texts(vec!["a".to_string(), "b".to_string()].into()), Value::Absent]
    {
        batch.push(&[value]);
    }
    sink.batch(&batch).expect("text takes all");
    sink.end().expect("memory takes all");
    drop(sink);
    let (read, end) = unpacked(&bytes);
    assert!(end.is_ok());
    assert_eq!(read, [[Value::Text("2".into())], [Value::Text("a,b".into())], [Value::Absent]]);
    let mut sink = PackedSink::new(vec![], "");
    sink.begin(&[Column::new("port", ValueType::Unsigned, "")]).expect("memory takes all");
    let refused = sink.batch(&batch).expect_err("a list is no number").to_string();
    assert!(refused.contains("a value of the column `port` has another type"), "{refused}");
}

#[test]
fn lists_of_a_block_are_bounded() {
    let mut bytes = vec![];
    let mut sink = PackedSink::new(&mut bytes, "");
    sink.begin(&[Column::new("names", ValueType::Texts, "")]).expect("memory takes all");
    sink.end().expect("memory takes all");
    drop(sink);
    bytes.truncate(bytes.len() - 6);
    let start = bytes.len();
    // One row with a list of more empty texts than a block may have.
    let count = weir_io::packed::ELEMENTS_MAX + 1;
    let number = |mut number: usize| {
        let mut out = vec![];
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    };
    let values = [vec![1], number(count), vec![0; count]].concat();
    let block = [vec![1], number(values.len()), values].concat();
    bytes.extend([vec![2], number(block.len()), block].concat());
    let checksum = crc32fast::hash(&bytes[start..]);
    bytes.extend(checksum.to_le_bytes());
    let (rows, end) = unpacked(&bytes);
    assert!(
        rows.is_empty()
            && end.expect_err("too many").to_string().contains("the lists have too many elements")
    );
}

#[test]
fn errors_say_where_and_what() {
    let said = |bytes: &[u8]| unpacked(bytes).1.expect_err("wrong bytes").to_string();
    assert_eq!(said(b"\xd4\xc3\xb2\xa1"), "these are no packed rows: the first bytes are others");
    let mut bytes = packed(&[], 1);
    let end = bytes.len();
    assert_eq!(said(&bytes[..end - 3]), format!("byte {}: the input ends within this block", end - 6));
    assert_eq!(said(&bytes[..end - 6]), format!("byte {}: the input ends within this block", end - 6));
    let twice = [&bytes[..], &bytes].concat();
    assert_eq!(said(&twice), format!("byte {}: the block is damaged: bytes follow the end", end));
    bytes[end - 1] ^= 1;
    let damaged = format!("byte {}: the block is damaged: the checksum is another one", end - 6);
    assert_eq!(said(&bytes), damaged);
    bytes[8] = 2;
    assert_eq!(said(&bytes), "packed rows of version 2: this reader knows version 1");
}
