//! The reader.

use super::decode::{Bytes, Column as Decoder, Lists, Wrong};
use super::error::ReadError;
use super::form::{
    BLOCK_BYTES_MAX, CELLS_MAX, COLUMNS, COLUMNS_MAX, ELEMENTS_MAX, END, MAGIC, ROWS, ROWS_MAX, TYPES,
    VERSION,
};
use std::io::{self, Read};
use weir_packet::{Batch, Column};

/// Bytes that are read at once of a block: memory grows only with the bytes that are there.
const PART_BYTES: usize = 1 << 20;

/// Reads packed rows. Needs no seeking: pipes and sockets will do.
pub struct Reader<R> {
    input: R,
    /// Bytes read so far.
    at: u64,
    /// The first byte of the current block.
    block_at: u64,
    block: Vec<u8>,
    log: String,
    columns: Vec<Column>,
    batch: Batch,
    has_ended: bool,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the head: the version and the columns. `input` should have a buffer.
    ///
    /// # Errors
    /// If the input has no packed rows, or another version of them, or is damaged.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input,
            at: 0,
            block_at: 0,
            block: vec![],
            log: String::new(),
            columns: vec![],
            batch: Batch::default(),
            has_ended: false,
        };
        let mut head = [0; MAGIC.len() + 1];
        match reader.fill(&mut head) {
            Err(ReadError::Truncated { .. }) => return Err(ReadError::NotPacked),
            result => result?,
        }
        if head[..MAGIC.len()] != MAGIC[..] {
            return Err(ReadError::NotPacked);
        }
        if head[MAGIC.len()] != VERSION {
            return Err(ReadError::Version(head[MAGIC.len()]));
        }
        match reader.read_block()? {
            Some(COLUMNS) => {
                reader.read_columns().map_err(|what| ReadError::Damaged { at: reader.block_at, what })?;
            }
            Some(_) => return Err(reader.damaged("the columns are missing")),
            None => return Err(ReadError::Truncated { at: reader.at }),
        }
        reader.batch = Batch::new(reader.columns.len());
        Ok(reader)
    }

    /// The name of the log; empty if unknown.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Reads the next rows, at most [`ROWS_MAX`]. `None` at the end. Blocks of unknown kinds are skipped.
    ///
    /// # Errors
    /// If the next block is damaged or cut. Nothing can be read after an error.
    pub fn read(&mut self) -> Result<Option<&Batch>, ReadError> {
        while !self.has_ended {
            match self.read_block() {
                Ok(Some(ROWS)) => {
                    if let Err(what) = self.read_rows() {
                        return Err(self.damaged(what));
                    }
                    return Ok(Some(&self.batch));
                }
                Ok(Some(END)) => {
                    self.has_ended = true;
                    let mut more = [0];
                    if self.input.read(&mut more).map_err(ReadError::Io)? > 0 {
                        return Err(ReadError::Damaged { at: self.at, what: "bytes follow the end" });
                    }
                }
                Ok(Some(COLUMNS)) => return Err(self.damaged("the columns come again")),
                Ok(Some(_)) => {}
                // Without an end, the writer was interrupted between two blocks.
                Ok(None) => {
                    self.has_ended = true;
                    return Err(ReadError::Truncated { at: self.at });
                }
                Err(error) => {
                    self.has_ended = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn damaged(&mut self, what: Wrong) -> ReadError {
        self.has_ended = true;
        ReadError::Damaged { at: self.block_at, what }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ReadError::Truncated { at: self.block_at })
            }
            Err(error) => Err(ReadError::Io(error)),
        }
    }

    /// Reads a block into `block`. Returns its kind; `None` at the end of the input.
    fn read_block(&mut self) -> Result<Option<u8>, ReadError> {
        self.block_at = self.at;
        let mut hash = crc32fast::Hasher::new();
        let mut kind = [0];
        loop {
            match self.input.read(&mut kind) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        self.at += 1;
        hash.update(&kind);
        let mut length = vec![];
        while length.last().is_none_or(|byte| byte & 0x80 != 0) && length.len() < 10 {
            let mut byte = [0];
            self.fill(&mut byte)?;
            length.push(byte[0]);
        }
        hash.update(&length);
        let length = Bytes(&length).number().ok().and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= BLOCK_BYTES_MAX) else {
            return Err(ReadError::Damaged { at: self.block_at, what: "the block is too long" });
        };
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        while block.len() < length {
            let start = block.len();
            block.resize(length.min(start + PART_BYTES), 0);
            self.fill(&mut block[start..])?;
        }
        self.block = block;
        hash.update(&self.block);
        let mut checksum = [0; 4];
        self.fill(&mut checksum)?;
        if u32::from_le_bytes(checksum) != hash.finalize() {
            return Err(ReadError::Damaged { at: self.block_at, what: "the checksum is another one" });
        }
        Ok(Some(kind[0]))
    }

    fn read_columns(&mut self) -> Result<(), Wrong> {
        let mut bytes = Bytes(&self.block);
        self.log = bytes.text()?.to_string();
        let count = bytes.count()?;
        if count > COLUMNS_MAX {
            return Err("there are too many columns");
        }
        for _ in 0..count {
            let number = bytes.byte()?;
            let known = TYPES.iter().find(|(known, _)| *known == number);
            let (_, value_type) = known.ok_or("a column has an unknown type")?;
            let (name, doc) = (bytes.text()?.to_string().into(), bytes.text()?.to_string().into());
            self.columns.push(Column { name, value_type: *value_type, doc });
        }
        Ok(())
    }

    fn read_rows(&mut self) -> Result<(), Wrong> {
        self.batch.clear();
        let mut bytes = Bytes(&self.block);
        let rows = usize::try_from(bytes.number()?).ok().filter(|rows| *rows <= ROWS_MAX);
        let rows = rows.ok_or("the block has too many rows")?;
        if rows.saturating_mul(self.columns.len()) > CELLS_MAX {
            return Err("the block has too many values");
        }
        let decoder = |column: &Column| Decoder::new(bytes.bytes()?, column.value_type, rows);
        let mut decoders = self.columns.iter().map(decoder).collect::<Result<Vec<_>, Wrong>>()?;
        if decoders.is_empty() && rows > 0 {
            return Err("rows have no columns");
        }
        let mut lists = Lists { numbers: vec![], texts: vec![], elements: ELEMENTS_MAX };
        for _ in 0..rows {
            let mut row = self.batch.add();
            decoders.iter_mut().try_for_each(|column| column.write(&mut row, &mut lists))?;
        }
        decoders.iter().try_for_each(Decoder::end)?;
        if bytes.0.is_empty() { Ok(()) } else { Err("bytes follow the last column") }
    }
}
