//! The recorder: tcpdump on the router's client side, with a check for lost frames.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::lab::inside;
use crate::shell::{Result, said};

pub struct Recorder {
    tcpdump: Child,
    words: BufReader<std::process::ChildStderr>,
}

/// Starts recording complete frames into `file`; returns once tcpdump captures.
pub fn record(file: &Path, buffer_mib: u32) -> Result<Recorder> {
    let script =
        format!("exec tcpdump -i net0 -n -s 0 -Z root -B {} -w '{}'", buffer_mib * 1024, file.display());
    let mut tcpdump = inside("router", &script).stderr(Stdio::piped()).spawn().map_err(said("tcpdump"))?;
    let mut words = BufReader::new(tcpdump.stderr.take().ok_or("tcpdump has no standard error")?);
    let mut line = String::new();
    while words.read_line(&mut line).map_err(said("tcpdump"))? > 0 {
        if line.contains("listening on") {
            return Ok(Recorder { tcpdump, words });
        }
    }
    let _ = tcpdump.wait();
    Err(format!("tcpdump did not start:\n{line}"))
}

impl Recorder {
    /// Stops, and returns the number of frames recorded. Frames lost by the recorder are an error.
    pub fn stop(mut self) -> Result<u64> {
        std::thread::sleep(std::time::Duration::from_millis(1500)); // waits for frames in flight
        crate::shell::sh(&format!("kill -INT {}", self.tcpdump.id()))?;
        let mut said_last = String::new();
        for line in (&mut self.words).lines() {
            said_last.push_str(&line.map_err(said("tcpdump"))?);
            said_last.push('\n');
        }
        let _ = self.tcpdump.wait();
        let count = |words: &str| -> Option<u64> {
            said_last.lines().find(|l| l.ends_with(words))?.split(' ').next()?.parse().ok()
        };
        match (count("captured"), count("dropped by kernel")) {
            (Some(captured), Some(0)) => Ok(captured),
            _ => Err(format!("tcpdump lost frames; record again, more slowly:\n{said_last}")),
        }
    }
}
