//! Written files are read back with the readers of the same crates.

use crate::batch::{BYTES_MAX, ROWS_MAX};
use crate::parquet::{GROUP_BYTES_MAX, GROUP_ROWS_MAX};
use crate::{ArrowSink, ParquetSink};
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::file::metadata::ParquetMetaData;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, TimeUnit};
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};
use weir_packet::{Batch, Column, RowSink, Timestamp, Value, ValueType};

/// A writer whose bytes stay accessible.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A batch of one row.
fn one(values: &[Value<'_>]) -> Batch {
    let mut batch = Batch::default();
    batch.push(values);
    batch
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn fill(sink: &mut dyn RowSink, columns: &[Column], rows: impl Iterator<Item = Vec<Value<'static>>>) {
    sink.begin(columns).unwrap();
    let mut batch = Batch::new(columns.len());
    for row in rows {
        batch.push(&row);
        if batch.rows() == 100 {
            sink.batch(&batch).unwrap();
            batch.clear();
        }
    }
    sink.batch(&batch).unwrap();
    sink.end().unwrap();
}

/// The rows in Parquet: the footer's metadata, and the batches.
fn parquet(
    columns: &[Column],
    rows: impl Iterator<Item = Vec<Value<'static>>>,
) -> (ParquetMetaData, Vec<RecordBatch>) {
    let out = Shared::default();
    fill(&mut ParquetSink::new(Box::new(out.clone()), "conn"), columns, rows);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(out.bytes())).unwrap();
    let metadata = builder.metadata().as_ref().clone();
    (metadata, builder.build().unwrap().map(Result::unwrap).collect())
}

/// The rows as an Arrow stream: its batches.
fn arrow(columns: &[Column], rows: impl Iterator<Item = Vec<Value<'static>>>) -> Vec<RecordBatch> {
    let out = Shared::default();
    fill(&mut ArrowSink::new(Box::new(out.clone()), "conn"), columns, rows);
    StreamReader::try_new(Cursor::new(out.bytes()), None).unwrap().map(Result::unwrap).collect()
}

/// A value that was read back, as text; `None` for null.
fn cell(column: &dyn Array, row: usize) -> Option<String> {
    let list = |list: Arc<dyn Array>| {
        let cells = (0..list.len()).map(|at| cell(&list, at).unwrap_or_default());
        cells.collect::<Vec<_>>().join("|")
    };
    column.is_valid(row).then(|| match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            assert_eq!(zone.as_deref(), Some("UTC"));
            column.as_primitive::<TimestampNanosecondType>().value(row).to_string()
        }
        DataType::Utf8 => column.as_string::<i32>().value(row).to_string(),
        DataType::Binary => format!("{:?}", column.as_binary::<i32>().value(row)),
        DataType::List(_) => list(column.as_list::<i32>().value(row)),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            cell(column.values(), column.keys().value(row) as usize).unwrap()
        }
        other => panic!("no column is of {other}"),
    })
}

/// A row with a value of every type, and the expected text of each.
fn every_type() -> (Vec<Column>, Vec<Value<'static>>, Vec<&'static str>) {
    let texts = vec!["a,b".to_string(), String::new()];
    let rows = [
        ("ts", ValueType::Time, Value::Time(Timestamp(1_795_226_401_123_456_789)), "1795226401123456789"),
        ("id.orig_h", ValueType::Address, Value::Address("10.0.0.1".parse().unwrap()), "10.0.0.1"),
        ("id.resp_h", ValueType::Ipv6, Value::Address("fe80::1".parse().unwrap()), "fe80::1"),
        ("most", ValueType::Unsigned, Value::Unsigned(u64::MAX), "18446744073709551615"),
        ("share", ValueType::Fraction, Value::Fraction(0.25), "0.25"),
        ("duration", ValueType::Interval, Value::Interval(1_002_003_004), "1.002003004"),
        ("local", ValueType::Bool, Value::Bool(true), "true"),
        ("mac", ValueType::Mac, Value::Mac([0, 1, 2, 0xfd, 0xfe, 0xff]), "00:01:02:fd:fe:ff"),
        ("host", ValueType::Text, Value::Text("x\u{1b}é\0".into()), "x\u{1b}é\0"),
        ("empty", ValueType::Text, Value::Text("".into()), ""),
        ("uid", ValueType::Text, Value::Text("Cabc".into()), "Cabc"),
        ("number", ValueType::Text, Value::Unsigned(2), "2"),
        ("raw", ValueType::Bytes, Value::Bytes(vec![0, 0xab].into()), "[0, 171]"),
        ("names", ValueType::Texts, Value::Texts(texts.into()), "a,b|"),
        ("sizes", ValueType::Numbers, Value::Numbers(vec![1, 20].into()), "1|20"),
        ("none", ValueType::Numbers, Value::Numbers(vec![].into()), ""),
    ];
    let mut all = (vec![], vec![], vec![]);
    for (name, value_type, value, read) in rows {
        all.0.push(Column::new(name, value_type, "what it means"));
        all.1.push(value);
        all.2.push(read);
    }
    all
}

#[test]
fn every_value_is_read_as_it_was_written_and_what_is_absent_is_null() {
    let (columns, row, expected) = every_type();
    let absent = vec![Value::Absent; columns.len()];
    let rows = || [row.clone(), absent.clone()].into_iter();
    for batches in [parquet(&columns, rows()).1, arrow(&columns, rows())] {
        let [batch] = &batches[..] else { panic!("two rows are one batch") };
        for (at, expected) in expected.iter().enumerate() {
            let (column, name) = (batch.column(at), &columns[at].name);
            assert_eq!(cell(column, 0).as_deref(), Some(*expected), "{name}");
            assert_eq!(cell(column, 1), None, "{name}");
        }
    }
}

#[test]
fn nothing_is_a_file_too() {
    let (columns, ..) = every_type();
    assert_eq!(parquet(&columns, std::iter::empty()).0.num_row_groups(), 0);
    assert!(arrow(&columns, std::iter::empty()).is_empty());
}

const TWO: &[Column] = &[
    Column::new("uid", ValueType::Text, "identifier of the connection"),
    Column::new("service", ValueType::Text, "application protocol"),
];

fn two(n: usize) -> Vec<Value<'static>> {
    vec![Value::Text(format!("C{n}").into()), Value::Text(["ssl", "dns", "http"][n % 3].into())]
}

#[test]
fn row_groups_are_bounded_in_rows() {
    let rows = 2 * GROUP_ROWS_MAX + 5;
    let (metadata, batches) = parquet(TWO, (0..rows).map(two));
    let groups: Vec<_> = metadata.row_groups().iter().map(|group| group.num_rows() as usize).collect();
    assert_eq!(groups, [GROUP_ROWS_MAX, GROUP_ROWS_MAX, 5]);
    let mut n = 0;
    for batch in batches {
        for row in 0..batch.num_rows() {
            assert_eq!(cell(batch.column(0), row).unwrap(), format!("C{n}"));
            n += 1;
        }
    }
    assert_eq!(n, rows);
}

#[test]
fn row_groups_and_batches_are_bounded_in_bytes() {
    // All values differ, and zstd cannot compress them: the bound applies to buffered bytes.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + (state >> 32) as u8 % 95)
    };
    let text: Vec<String> = (0..64).map(|_| (0..1 << 16).map(|_| random()).collect()).collect();
    let long =
        |n: usize| vec![Value::Text(format!("{n}{}{}", &text[n % 64][n..], n / 64).into()), Value::Absent];
    let rows = 768;
    let (metadata, _) = parquet(TWO, (0..rows).map(long));
    let sizes: Vec<_> = metadata.row_groups().iter().map(|group| group.compressed_size() as usize).collect();
    assert!(sizes.len() >= 2 && sizes.iter().all(|size| *size < GROUP_BYTES_MAX + BYTES_MAX), "{sizes:?}");
    let batches = arrow(TWO, (0..rows).map(long));
    let largest = batches.iter().map(|batch| batch.column(0).as_string::<i32>().value_data().len()).max();
    assert!(largest.is_some_and(|bytes| bytes < BYTES_MAX + (1 << 17)), "{largest:?}");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
}

#[test]
fn text_is_a_dictionary_in_either_and_compressed_in_parquet() {
    let (metadata, batches) = parquet(TWO, (0..10_000).map(two));
    let service = metadata.row_group(0).column(1);
    assert!(service.dictionary_page_offset().is_some(), "{service:?}");
    assert!(service.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY), "{service:?}");
    assert!(matches!(service.compression(), Compression::ZSTD(_)));
    assert_eq!(batches[0].column(1).data_type(), &DataType::Utf8, "readers see text");

    let batches = arrow(TWO, (0..10_000).map(two));
    assert_eq!(batches.len(), 10_000usize.div_ceil(ROWS_MAX));
    assert_eq!(batches[0].column(0).data_type(), &DataType::Utf8, "identifiers hardly come twice");
    for batch in &batches {
        assert_eq!(batch.column(1).as_dictionary::<Int32Type>().values().len(), 3);
    }
    assert_eq!(cell(batches[1].column(1), 0).as_deref(), Some("http"), "row 8192");
}

#[test]
fn a_file_says_which_log_it_is_and_what_its_columns_mean() {
    let (metadata, _) = parquet(TWO, (0..1).map(two));
    let about = metadata.file_metadata().key_value_metadata().unwrap();
    let of = |key: &str| about.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref());
    assert_eq!(of("weir.log"), Some("conn"));
    assert_eq!(of("weir.doc.service"), Some("application protocol"));
    let batches = arrow(TWO, (0..1).map(two));
    let schema = batches[0].schema();
    assert_eq!(schema.metadata()["weir.log"], "conn");
    assert_eq!(schema.metadata()["weir.doc.service"], "application protocol");
}

#[test]
fn a_value_of_another_type_is_an_error_that_names_the_column() {
    let columns = [Column::new("port", ValueType::Unsigned, "a port")];
    let mut sink = ParquetSink::new(Box::new(io::sink()), "");
    sink.begin(&columns).unwrap();
    let error = sink.batch(&one(&[Value::Text("https".into())])).unwrap_err();
    assert!(error.to_string().contains("`port`"), "{error}");
}

/// A writer without a reader.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_broken_pipe_stays_one() {
    let sinks: [Box<dyn RowSink>; 2] =
        [Box::new(ParquetSink::new(Box::new(Broken), "")), Box::new(ArrowSink::new(Box::new(Broken), ""))];
    for mut sink in sinks {
        let written = sink.begin(TWO).and_then(|()| sink.batch(&one(&two(1)))).and_then(|()| sink.end());
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
