//! The rows of a [summary](crate::text::summary) as text for people: one block per section, with units and
//! bars.

use crate::text::summary::Row;
use console::Style;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use weir::io::human;
use weir::packet::{Batch, Column, RowSink, printable};

/// The name of the format.
pub const FORMAT: &str = "report";

/// What the lines of a block show.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A number of packets and of bytes, with their shares.
    Volumes,
    /// As `Volumes`, with a number of connections.
    Connections,
    /// As `Volumes`, with the bytes of both directions.
    Talkers,
    /// A count.
    Counts,
    /// A number of packets, with its share.
    Packets,
    /// A value with a unit.
    Values,
}

/// The sections in the order of the report: their name in rows, their title, the title of their names.
const SECTIONS: &[(&str, &str, Kind)] = &[
    ("all", "Traffic", Kind::Volumes),
    ("time", "Time (UTC)", Kind::Values),
    ("size", "Sizes of packets, bytes on the wire", Kind::Volumes),
    ("layer", "Layers", Kind::Volumes),
    ("path", "Paths of layers", Kind::Volumes),
    ("service", "Services", Kind::Connections),
    ("talker", "Hosts", Kind::Talkers),
    ("conversation", "Conversations", Kind::Connections),
    ("server_name", "Names of servers, by sessions", Kind::Counts),
    ("stopped", "Packets that were not parsed completely", Kind::Packets),
    ("weird", "Odd (weir weird)", Kind::Counts),
    ("reader", "Reader", Kind::Values),
];

/// The sections of an overview, and the maximum number of their lines.
const OVERVIEW: &[(&str, usize)] = &[
    ("all", 1),
    ("time", 3),
    ("service", 8),
    ("talker", 5),
    ("conversation", 5),
    ("server_name", 8),
    ("stopped", 8),
    ("weird", 5),
];

/// The width of a bar, in characters.
const BAR: usize = 16;
/// Maximum width of a name.
const NAME_WIDTH_MAX: usize = 48;

/// How the same traffic is read again.
pub struct Again {
    /// The captures.
    pub files: Vec<String>,
    /// The filter.
    pub filter: String,
}

/// Collects the rows, and writes the report at the end.
pub struct ReportLines {
    out: Box<dyn Write + Send>,
    color: bool,
    is_overview: bool,
    /// For commands to try next.
    again: Option<Again>,
    /// The named rows of each section.
    sections: BTreeMap<String, Vec<(String, Row)>>,
}

impl ReportLines {
    /// The report with all sections.
    pub fn whole(out: Box<dyn Write + Send>, color: bool) -> Box<dyn RowSink + Send> {
        Box::new(Self { out, color, is_overview: false, again: None, sections: BTreeMap::new() })
    }

    /// The report with the first lines of the most important sections, and commands to go on with.
    pub fn overview(
        out: Box<dyn Write + Send>,
        color: bool,
        again: Option<Again>,
    ) -> Box<dyn RowSink + Send> {
        Box::new(Self { out, color, is_overview: true, again, sections: BTreeMap::new() })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for &(section, title, kind) in SECTIONS {
            let most = match self.is_overview {
                true => OVERVIEW.iter().find(|(name, _)| *name == section).map_or(0, |(_, most)| *most),
                false => usize::MAX,
            };
            let lines = self.sections.get(section).map_or(&[][..], Vec::as_slice);
            let shown = lines.iter().filter(|(_, row)| is_shown(section, row)).take(most);
            let cells: Vec<Vec<String>> = shown.map(|(name, row)| cells(kind, section, name, row)).collect();
            if cells.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            push_block(&mut text, &self.styled(title), titles(kind), &cells);
        }
        if let Some(again) = &self.again {
            self.push_next(&mut text, again);
        }
        text
    }

    fn styled(&self, title: &str) -> String {
        Style::new().bold().force_styling(self.color).apply_to(title).to_string()
    }

    /// Commands to try next, for what the capture contains.
    fn push_next(&self, text: &mut String, again: &Again) {
        let filter = again.filter.trim();
        let files: Vec<String> = again.files.iter().map(|file| quoted(file)).collect();
        let files = files.join(" ");
        // The arguments that select the same traffic, or `more` of it.
        let with = |more: &str| match (filter, more) {
            ("", "") => files.clone(),
            ("", one) | (one, "") => format!("{files} {}", quoted(one)),
            (filter, more) => format!("{files} {}", quoted(&format!("({filter}) and {more}"))),
        };
        let has = |section: &str, word: &str| {
            self.sections
                .get(section)
                .is_some_and(|lines| lines.iter().any(|(name, _)| name.split(',').any(|name| name == word)))
        };
        let services = [
            ("ssl", "tls", "TLS handshakes, with the names of servers"),
            ("http", "http", "HTTP requests"),
            ("dns", "dns", "DNS queries"),
            ("quic", "quic", "QUIC handshakes"),
            ("smtp", "smtp", "mails"),
            ("ssh", "ssh", "SSH connections"),
        ];
        let mut next = vec![(format!("flows {}", with("")), "every connection".to_string())];
        let found = services.iter().filter(|(service, ..)| has("service", service)).take(3);
        next.extend(found.map(|(_, command, what)| (format!("{command} {}", with("")), (*what).to_string())));
        if let Some((host, _)) = self.sections.get("talker").and_then(|lines| lines.first()) {
            let field = if host.contains(':') { "ipv6.addr" } else { "ip.addr" };
            let of_host = with(&format!("{field} == {host}"));
            next.push((format!("flows {of_host}"), "the connections of a host".into()));
        }
        if self.sections.contains_key("stopped") {
            let what = "all counts, also why packets were not parsed";
            next.push((format!("stats {}", with("")), what.into()));
        }
        let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        text.push('\n');
        text.push_str(&self.styled("Next"));
        text.push('\n');
        for (command, what) in next {
            text.push_str(&format!("  weir {command:width$}  {what}\n"));
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+' | ':' | ',' | '@');
    // The word is shown on a terminal, so it must not control the terminal.
    let word = printable(word, &[]);
    if word.chars().all(is_plain) { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Whether a row says something.
fn is_shown(section: &str, row: &Row) -> bool {
    section != "reader" || row.value.is_some_and(|value| value > 0.0)
}

fn titles(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Volumes => &["", "packets", "bytes", "share", ""],
        Kind::Connections => &["", "connections", "packets", "bytes", "share", ""],
        Kind::Talkers => &["", "packets", "sent", "received", "share", ""],
        Kind::Counts | Kind::Values => &["", ""],
        Kind::Packets => &["", "packets", "share", ""],
    }
}

fn cells(kind: Kind, section: &str, name: &str, row: &Row) -> Vec<String> {
    let count = |number: Option<u64>| number.map_or_else(|| "-".to_string(), human::count);
    let bytes = |number: Option<u64>| number.map_or_else(|| "-".to_string(), human::bytes);
    let shown_name = name_of(section, name);
    let share = row.share.unwrap_or(0.0).clamp(0.0, 1.0);
    let percent = format!("{:.1} %", share * 100.0);
    match kind {
        Kind::Volumes => vec![shown_name, count(row.packets), bytes(row.bytes), percent, bar(share)],
        Kind::Connections => {
            vec![shown_name, count(row.count), count(row.packets), bytes(row.bytes), percent, bar(share)]
        }
        Kind::Talkers => {
            vec![
                shown_name,
                count(row.packets),
                bytes(row.sent_bytes),
                bytes(row.received_bytes),
                percent,
                bar(share),
            ]
        }
        Kind::Counts => vec![shown_name, count(row.count)],
        Kind::Packets => vec![shown_name, count(row.packets), percent, bar(share)],
        Kind::Values => vec![shown_name, value_of(name, row)],
    }
}

/// The name of a line for people.
fn name_of(section: &str, name: &str) -> String {
    let text = match (section, name) {
        ("all", "wire") => "on the wire",
        ("all", "captured") => "captured",
        ("time", "duration_s") => "duration",
        ("time", "packets_per_s") => "packets per second",
        ("time", "bits_per_s") => "bits per second",
        ("time", "largest_gap_s") => "longest time without a packet",
        ("reader", "blocks_skipped") => "blocks skipped",
        ("reader", "interfaces_beyond") => "interfaces beyond the bound",
        ("reader", "copies") => "packets that are copies of others",
        ("reader", "captures_joined") => "captures inside a file, behind another one",
        ("reader", "times_beyond") => "packets with times beyond the range",
        ("reader", "files_late") => "files that begin before others end",
        ("conversation", _) => return printable(&name.replace(' ', " - "), &[]).into_owned(),
        _ => name,
    };
    let text = printable(text, &[]);
    match text.char_indices().nth(NAME_WIDTH_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

fn value_of(name: &str, row: &Row) -> String {
    let value = row.value.unwrap_or(0.0);
    let at = row.time.map(human::moment);
    match (name, row.value, at) {
        (_, None, Some(at)) => at,
        (name, Some(_), at) if name.ends_with("_s") && !name.contains("_per_") => {
            let duration = human::duration((value * 1e9) as u64);
            at.map_or(duration.clone(), |at| format!("{duration}, from {at}"))
        }
        ("bits_per_s", Some(_), _) => human::bytes(value as u64).replace('B', "bit/s"),
        (_, Some(_), _) => human::count(value as u64),
        (_, None, None) => "-".to_string(),
    }
}

/// A bar in eighths of a character.
fn bar(share: f64) -> String {
    let eighths = (share * (BAR * 8) as f64).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8))
}

/// Writes a block: names and bars are aligned to the left, numbers to the right.
fn push_block(text: &mut String, title: &str, titles: &[&str], cells: &[Vec<String>]) {
    text.push_str(title);
    text.push('\n');
    let all = || cells.iter().map(Vec::as_slice);
    let width = |column: usize| {
        let widths = all().map(|row| console::measure_text_width(&row[column]));
        widths.chain([titles[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let has_titles = titles.iter().any(|title| !title.is_empty());
    let head: Vec<String> = titles.iter().map(|title| (*title).to_string()).collect();
    for row in has_titles.then_some(head.as_slice()).into_iter().chain(all()) {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - console::measure_text_width(cell));
            let is_last = column + 1 == row.len();
            line.push(' ');
            match column == 0 || is_last {
                true => line += &format!("{cell}{padding}"),
                false => line += &format!("{padding}{cell}"),
            }
            line.push(' ');
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

impl RowSink for ReportLines {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            let (section, name, row) = Row::of_values(&batch.row(index).values())
                .ok_or_else(|| io::Error::other("this is no row of a summary"))?;
            self.sections.entry(section).or_default().push((name, row));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let text = self.text();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
