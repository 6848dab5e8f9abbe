//! A binary form of rows for temporary files of this process.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir::packet::{Batch, Cell, Row, RowWriter, Texts, Timestamp};

/// Writes a row.
///
/// # Errors
/// Those of `out`.
pub fn write(row: Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&(row.len() as u32).to_le_bytes())?;
    row.iter().try_for_each(|cell| write_cell(cell, out))
}

fn write_cell(cell: Cell<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut word = |kind: u8, word: u64| {
        out.write_all(&[kind])?;
        out.write_all(&word.to_le_bytes())
    };
    match cell {
        Cell::Absent => word(0, 0),
        Cell::Bool(v) => word(1, u64::from(v)),
        Cell::Unsigned(v) => word(2, v),
        Cell::Fraction(v) => word(3, v.to_bits()),
        Cell::Time(v) => word(4, v.0 as u64),
        Cell::Interval(v) => word(5, v),
        Cell::Address(IpAddr::V4(v)) => word(6, u64::from(v.to_bits())),
        Cell::Address(IpAddr::V6(v)) => {
            word(7, 0)?;
            out.write_all(&v.octets())
        }
        Cell::Mac(v) => {
            word(8, 0)?;
            out.write_all(&v)
        }
        Cell::Text(v) => {
            word(9, v.len() as u64)?;
            out.write_all(v.as_bytes())
        }
        Cell::Bytes(v) => {
            word(10, v.len() as u64)?;
            out.write_all(v)
        }
        Cell::Texts(v) => {
            word(11, v.len() as u64)?;
            v.iter().try_for_each(|text| write_cell(Cell::Text(text), out))
        }
        Cell::Numbers(v) => {
            word(12, v.len() as u64)?;
            v.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
        }
    }
}

/// Appends the next row of a file to `batch`, whose first row decides about the number of columns. Returns
/// `false` at the end of the file.
///
/// # Errors
/// Those of `file`; `InvalidData` if the bytes are no row.
pub fn read(file: &mut dyn Read, batch: &mut Batch) -> io::Result<bool> {
    let mut count = [0; 4];
    match file.read_exact(&mut count) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let count = u32::from_le_bytes(count) as usize;
    if batch.columns() == 0 {
        *batch = Batch::new(count);
    }
    let mut row = batch.add();
    (0..count).try_for_each(|_| read_cell(file, &mut row))?;
    Ok(true)
}

fn read_cell(file: &mut dyn Read, row: &mut RowWriter<'_>) -> io::Result<()> {
    let [kind] = array(file)?;
    let word = u64::from_le_bytes(array(file)?);
    let invalid = || io::Error::from(ErrorKind::InvalidData);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| invalid());
    let (long_text, long_bytes, texts, numbers);
    row.push(match kind {
        0 => Cell::Absent,
        1 => Cell::Bool(word != 0),
        2 => Cell::Unsigned(word),
        3 => Cell::Fraction(f64::from_bits(word)),
        4 => Cell::Time(Timestamp(word as i64)),
        5 => Cell::Interval(word),
        6 => Cell::Address(Ipv4Addr::from_bits(word as u32).into()),
        7 => Cell::Address(Ipv6Addr::from(array::<16>(file)?).into()),
        8 => Cell::Mac(array(file)?),
        9 => {
            long_text = text(bytes(file, word)?)?;
            Cell::Text(&long_text)
        }
        10 => {
            long_bytes = bytes(file, word)?;
            Cell::Bytes(&long_bytes)
        }
        11 => {
            let each = |_| match (array(file)?, u64::from_le_bytes(array(file)?)) {
                ([9], length) => text(bytes(file, length)?),
                _ => Err(invalid()),
            };
            texts = (0..word).map(each).collect::<io::Result<Vec<_>>>()?;
            Cell::Texts(Texts::Whole(&texts))
        }
        12 => {
            let each = |_| Ok(u64::from_le_bytes(array(file)?));
            numbers = (0..word).map(each).collect::<io::Result<Vec<_>>>()?;
            Cell::Numbers(&numbers)
        }
        _ => return Err(invalid()),
    });
    Ok(())
}

fn array<const N: usize>(file: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    file.read_exact(&mut array)?;
    Ok(array)
}

fn bytes(file: &mut dyn Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    let read = file.take(count).read_to_end(&mut bytes)?;
    if read as u64 == count { Ok(bytes) } else { Err(ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::packet::Value;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let row = vec![
            Value::Absent,
            Value::Bool(true),
            Value::Unsigned(u64::MAX),
            Value::Fraction(-0.5),
            Value::Time(Timestamp(-1)),
            Value::Interval(7),
            Value::Address("10.1.2.3".parse().unwrap()),
            Value::Address("fe80::1".parse().unwrap()),
            Value::Mac([1, 2, 3, 4, 5, 6]),
            Value::Text("é\0".into()),
            Value::Bytes(vec![0xff, 0].into()),
            Value::Texts(vec!["a".to_string(), String::new()].into()),
            Value::Numbers(vec![1, u64::MAX].into()),
        ];
        let mut batch = Batch::default();
        (0..2).for_each(|_| batch.push(&row));
        let mut file = vec![];
        batch.iter().for_each(|row| write(row, &mut file).unwrap());
        let (mut file, mut again) = (&file[..], Batch::default());
        while read(&mut file, &mut again).unwrap() {}
        assert_eq!(format!("{batch:?}"), format!("{again:?}"));
        assert_eq!(again.rows(), 2);
        assert!(read(&mut &[1, 0, 0, 0, 99][..], &mut again).is_err());
    }
}
