//! A binary form of rows for temporary files of this process.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir::packet::{Timestamp, Value};

/// Writes a row.
///
/// # Errors
/// Those of `out`.
pub fn write(row: &[Value<'_>], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&(row.len() as u32).to_le_bytes())?;
    row.iter().try_for_each(|value| write_value(value, out))
}

fn write_value(value: &Value<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut word = |kind: u8, word: u64| {
        out.write_all(&[kind])?;
        out.write_all(&word.to_le_bytes())
    };
    match value {
        Value::Absent => word(0, 0),
        Value::Bool(v) => word(1, u64::from(*v)),
        Value::Unsigned(v) => word(2, *v),
        Value::Fraction(v) => word(3, v.to_bits()),
        Value::Time(v) => word(4, v.0 as u64),
        Value::Interval(v) => word(5, *v),
        Value::Address(IpAddr::V4(v)) => word(6, u64::from(v.to_bits())),
        Value::Address(IpAddr::V6(v)) => {
            word(7, 0)?;
            out.write_all(&v.octets())
        }
        Value::Mac(v) => {
            word(8, 0)?;
            out.write_all(v)
        }
        Value::Text(v) => {
            word(9, v.len() as u64)?;
            out.write_all(v.as_bytes())
        }
        Value::Bytes(v) => {
            word(10, v.len() as u64)?;
            out.write_all(v)
        }
        Value::Texts(v) => {
            word(11, v.len() as u64)?;
            v.iter().try_for_each(|text| write_value(&Value::Text(text.as_str().into()), out))
        }
        Value::Numbers(v) => {
            word(12, v.len() as u64)?;
            v.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
        }
    }
}

/// Reads a row; `None` at the end of the file.
///
/// # Errors
/// Those of `file`; `InvalidData` if the bytes are no row.
pub fn read(file: &mut dyn Read) -> io::Result<Option<Vec<Value<'static>>>> {
    let mut count = [0; 4];
    match file.read_exact(&mut count) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    (0..u32::from_le_bytes(count)).map(|_| read_value(file)).collect::<io::Result<_>>().map(Some)
}

fn read_value(file: &mut dyn Read) -> io::Result<Value<'static>> {
    let [kind] = array(file)?;
    let word = u64::from_le_bytes(array(file)?);
    Ok(match kind {
        0 => Value::Absent,
        1 => Value::Bool(word != 0),
        2 => Value::Unsigned(word),
        3 => Value::Fraction(f64::from_bits(word)),
        4 => Value::Time(Timestamp(word as i64)),
        5 => Value::Interval(word),
        6 => Value::Address(Ipv4Addr::from_bits(word as u32).into()),
        7 => Value::Address(Ipv6Addr::from(array::<16>(file)?).into()),
        8 => Value::Mac(array(file)?),
        9 => Value::Text(text(file, word)?.into()),
        10 => Value::Bytes(bytes(file, word)?.into()),
        11 => {
            let each = |_| match read_value(file)? {
                Value::Text(text) => Ok(text.into_owned()),
                _ => Err(io::Error::from(ErrorKind::InvalidData)),
            };
            Value::Texts(Cow::Owned((0..word).map(each).collect::<io::Result<_>>()?))
        }
        12 => {
            let each = |_| Ok(u64::from_le_bytes(array(file)?));
            Value::Numbers(Cow::Owned((0..word).map(each).collect::<io::Result<_>>()?))
        }
        _ => return Err(ErrorKind::InvalidData.into()),
    })
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

fn text(file: &mut dyn Read, count: u64) -> io::Result<String> {
    String::from_utf8(bytes(file, count)?).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut file = vec![];
        [&row[..], &[], &row[..1]].iter().for_each(|row| write(row, &mut file).unwrap());
        let mut file = &file[..];
        assert_eq!(read(&mut file).unwrap().as_ref(), Some(&row));
        assert_eq!(read(&mut file).unwrap(), Some(vec![]));
        assert_eq!(read(&mut file).unwrap(), Some(vec![Value::Absent]));
        assert_eq!(read(&mut file).unwrap(), None);
        assert!(read(&mut &[1, 0, 0, 0, 99][..]).is_err());
    }
}
