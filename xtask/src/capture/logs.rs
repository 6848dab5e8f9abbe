//! Rows of logs, and their form in a `.expect.json`: a list of rows per log.

use std::fmt::Write;

use crate::lab::SCRATCH;
use crate::shell::Result;

/// The client's addresses. Traffic between servers is not recorded.
pub const CLIENT: [&str; 2] = ["192.0.2.10", "2001:db8:1::10"];

/// One line of a log: members of a JSON object, as text.
pub type Row = Vec<(&'static str, String)>;

/// One log: its name, its unit, its rows.
pub struct Log {
    pub name: &'static str,
    pub counts: &'static str,
    pub rows: Vec<Row>,
}

/// The contents of all logs of a recording.
pub struct Facts {
    frames: u64,
    logs: Vec<Log>,
}

impl Facts {
    /// Fails if a log is empty: its format was not recognised then.
    pub fn of(frames: u64, logs: Vec<Log>) -> Result<Self> {
        match logs.iter().find(|log| log.rows.is_empty()) {
            Some(empty) => Err(format!("nothing was logged: {}", empty.counts)),
            None => Ok(Self { frames, logs }),
        }
    }

    /// The number of recorded frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The totals for the capture's page.
    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let logs = self.logs.iter().map(|log| (log.counts, log.rows.len() as u64));
        std::iter::once(("frames", self.frames)).chain(logs).collect()
    }

    pub fn json(&self) -> String {
        let mut out = format!("{{\n  \"frames\": {}", self.frames);
        for log in &self.logs {
            let rows: Vec<String> = log.rows.iter().map(|row| format!("    {{{}}}", members(row))).collect();
            let _ = write!(out, ",\n  {:?}: [\n{}\n  ]", log.name, rows.join(",\n"));
        }
        out + "\n}\n"
    }
}

/// A row as JSON members; a value of digits is a number.
fn members(row: &Row) -> String {
    let member = |(name, text): &(&str, String)| match text.parse::<u64>() {
        Ok(number) if number.to_string() == *text => format!("{name:?}: {text}"),
        _ => format!("{name:?}: {}", quoted(text)),
    };
    row.iter().map(member).collect::<Vec<_>>().join(", ")
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            _ if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            _ => out.push(char),
        }
    }
    out + "\""
}

/// The contents of a file written by the lab's programs.
pub fn read(name: &str) -> Result<String> {
    crate::shell::read(format!("{SCRATCH}/{name}"))
}

/// The text between `before` and `after`; empty if they do not occur.
pub fn between<'a>(line: &'a str, before: &str, after: &str) -> &'a str {
    let Some((_, rest)) = line.split_once(before) else { return "" };
    rest.split_once(after).map_or(rest, |(found, _)| found)
}

/// The same as an owned string.
pub fn cut(line: &str, before: &str, after: &str) -> String {
    between(line, before, after).to_string()
}
