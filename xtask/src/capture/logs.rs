//! Rows of logs, and how they are written into a `.expect.json`: a list of rows per log.

use std::fmt::Write;

use crate::lab::SCRATCH;
use crate::shell::Result;

/// The client's addresses. Servers also talk to each other, where nobody records.
pub const CLIENT: [&str; 2] = ["192.0.2.10", "2001:db8:1::10"];

/// One line of a log: members of a JSON object, as text.
pub type Row = Vec<(&'static str, String)>;

/// One log: its name, what it counts in words, its rows.
pub struct Log {
    pub name: &'static str,
    pub counts: &'static str,
    pub rows: Vec<Row>,
}

/// What all logs of a recording say.
pub struct Facts {
    frames: u64,
    logs: Vec<Log>,
}

impl Facts {
    /// Errors where a log is empty: then its peer said something that nobody understands.
    pub fn of(frames: u64, logs: Vec<Log>) -> Result<Self> {
        match logs.iter().find(|log| log.rows.is_empty()) {
            Some(empty) => Err(format!("nothing was logged: {}", empty.counts)),
            None => Ok(Self { frames, logs }),
        }
    }

    /// How many frames were recorded.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Lines for the page beside the capture.
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

/// What is all digits is a number.
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

/// A file that the lab's programs wrote.
pub fn read(name: &str) -> Result<String> {
    crate::shell::read(format!("{SCRATCH}/{name}"))
}

/// What stands between `before` and `after`; empty if it does not.
pub fn between<'a>(line: &'a str, before: &str, after: &str) -> &'a str {
    let Some((_, rest)) = line.split_once(before) else { return "" };
    rest.split_once(after).map_or(rest, |(found, _)| found)
}

/// The same as text to be kept.
pub fn cut(line: &str, before: &str, after: &str) -> String {
    between(line, before, after).to_string()
}
