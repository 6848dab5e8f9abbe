//! Output: rows as a table, as lines of text (JSON, CSV, Zeek's logs, Suricata's EVE) or as columns (Parquet,
//! Arrow), and packets as pcap or pcapng.
//!
//! A new format of rows is one file that implements [`RowSink`], and one line of the table below.

mod capture;
mod clients;
mod columns;
mod compressed;
mod csv;
mod eve;
mod eve_fields;
pub mod human;
mod jsonl;
mod markdown;
mod partition;
mod pcap;
mod pcapng;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod whole_file;
mod zeek;

pub use capture::{CaptureFormat, CaptureWriter};
pub use clients::{CaptureClients, ClientEvent, ClientLoss, WriteCapture};
pub use columns::{arrow_messages, complete_parquet};
pub use compressed::{Compressed, Compression};
pub use jsonl::json_text;
pub use partition::Partitions;
pub use pcap::PcapWriter;
pub use pcapng::PcapngWriter;
pub use text::file_time;
pub use whole_file::{WholeFile, Written};

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use weir_packet::RowSink;

/// The output of rows.
type Out = Box<dyn Write + Send>;

macro_rules! formats {
    ($($name:ident, $label:literal, $create:path, $text:literal;)*) => {
        /// A format of rows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $(#[doc = $text] $name,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Format] = &[$(Format::$name,)*];

            /// The name in command-line options.
            pub fn label(self) -> &'static str {
                match self { $(Format::$name => $label,)* }
            }

            /// One sentence of description.
            pub fn doc(self) -> &'static str {
                match self { $(Format::$name => $text,)* }
            }
        }

        /// A sink that writes rows of this format to `out`, which needs no buffering.
        pub fn create(format: Format, out: Out, options: &Options) -> Box<dyn RowSink + Send> {
            match format { $(Format::$name => Box::new($create(out, options)),)* }
        }
    };
}

formats! {
    Table, "table", table::Table::new, "Aligned columns for a person to read.";
    Json, "json", jsonl::JsonLines::new, "A JSON object per line, as Zeek's JSON logs.";
    Csv, "csv", csv::Csv::new, "Comma-separated values with a header line (RFC 4180).";
    Tsv, "tsv", csv::Csv::with_tabs, "As csv, with tabs in place of commas.";
    Markdown, "markdown", markdown::Markdown::new, "A table of Markdown, for reports and tickets.";
    Zeek, "zeek", zeek::Zeek::new, "Tab-separated values with the header of Zeek's logs.";
    Eve, "eve", eve::Eve::new, "A JSON object per event, as Suricata's EVE: connections and sessions.";
    Parquet, "parquet", columns::parquet, "Typed columns in a file: dictionaries, zstd.";
    Arrow, "arrow", columns::arrow, "Typed columns in a stream: Arrow's IPC format.";
    Packed, "packed", columns::packed, "A compact binary form that describes itself, for the crate weir-io.";
}

/// Like [`create`], for an empty regular file. The file is readable at all times, up to the last complete
/// block of rows, even if the process is killed or the disk is full. `written` counts the bytes of the file.
pub fn create_in_file(
    format: Format,
    file: File,
    options: &Options,
    written: Written,
) -> Box<dyn RowSink + Send> {
    match format {
        Format::Parquet => Box::new(columns::parquet_file(file, options, &written)),
        _ => create(format, Box::new(WholeFile::new(file, written)), options),
    }
}

impl Format {
    /// Whether the format stores columns rather than lines: unsuitable for a terminal; the files of a
    /// directory form one table.
    pub fn is_columnar(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow | Format::Packed)
    }

    /// The endings of file names, and the formats that they stand for.
    pub const ENDINGS: [(&'static str, Self); 12] = [
        ("json", Format::Json),
        ("jsonl", Format::Json),
        ("ndjson", Format::Json),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("md", Format::Markdown),
        ("log", Format::Zeek),
        ("parquet", Format::Parquet),
        ("arrow", Format::Arrow),
        ("arrows", Format::Arrow),
        ("packed", Format::Packed),
        ("txt", Format::Table),
    ];

    /// The format that the ending of a file name stands for, in upper or lower case, before the ending of a
    /// [`Compression`]; `None` if there is none.
    pub fn of_path(path: &Path) -> Option<Self> {
        let path = Compression::stripped(path);
        let ending = path.extension()?.to_str()?;
        let of = Self::ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
        of.map(|(_, format)| *format)
    }

    /// All names, for a sentence: `table, json or csv`.
    pub fn labels() -> String {
        let labels: Vec<_> = Self::ALL.iter().map(|format| format.label()).collect();
        match labels.split_last() {
            Some((last, before)) => format!("{} or {last}", before.join(", ")),
            None => String::new(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Parses a format's name; `jsonl` is an alias of `json`.
    fn from_str(name: &str) -> Result<Self, String> {
        let wanted = if name == "jsonl" { "json" } else { name };
        Self::ALL.iter().copied().find(|f| f.label() == wanted).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|f| f.label()).collect();
            format!("no format `{name}`: there are {}", known.join(", "))
        })
    }
}

/// Options of row formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether a table may use colour. (The caller decides: a terminal, and no `NO_COLOR`.)
    pub color: bool,
    /// The terminal's width in columns, which a table is fitted to; `None`: unlimited.
    pub width: Option<usize>,
    /// The name of the log, for formats that store it (Zeek's `#path`). Empty if unknown.
    pub path: &'static str,
    /// Whether times are those of the local time zone, with their offset, instead of UTC: in tables, and as
    /// texts (RFC 3339) in JSON, CSV and TSV. The other formats ignore it.
    pub local: bool,
    /// Whether a table shows times with microseconds; otherwise with milliseconds.
    pub precise: bool,
    /// Whether CSV prefixes texts that a spreadsheet would execute as formulas.
    pub csv_safe: bool,
}

/// Bytes of rows that are buffered before a write.
const BUFFER_BYTES: usize = 64 << 10;

/// Buffers rows and writes them in large blocks of complete rows: a reader of a pipe never sees part of a row
/// during the run.
struct Rows {
    out: Out,
    bytes: Vec<u8>,
}

impl Rows {
    fn new(out: Out) -> Self {
        Self { out, bytes: Vec::with_capacity(BUFFER_BYTES + 4096) }
    }

    /// Ends a row whose bytes were appended to `bytes`.
    fn end_row(&mut self) -> std::io::Result<()> {
        if self.bytes.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.hand_on()
    }

    fn hand_on(&mut self) -> std::io::Result<()> {
        let written = self.out.write_all(&self.bytes);
        // Also after an error, so that the rows are not written twice.
        self.bytes.clear();
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }
}
