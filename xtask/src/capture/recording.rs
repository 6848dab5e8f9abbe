//! Shared by all recordings: runs scenes while tcpdump records, keeps logs, writes files to `examples/`.

use crate::capture::logs::Facts;
use crate::capture::scenes::{Scene, describe};
use crate::lab::{SCRATCH, inside, tap};
use crate::shell::{Result, output, root, sh, write};

const RECORDER_BUFFER_MIB: u32 = 64;

/// A capture of the folder `examples/`.
pub struct Recording {
    /// Its name there.
    pub name: &'static str,
    /// Maximum file size in bytes; more indicates a mistake.
    pub bytes_max: u64,
    /// The source file of its scenes.
    pub source: &'static str,
}

impl Recording {
    fn file(&self) -> String {
        format!("{SCRATCH}/{}.pcap", self.name)
    }

    /// Runs scenes on the client, each after `prelude`. Returns the number of frames.
    ///
    /// All scenes run, even after a failure: a log tells more than the first error.
    pub fn play<'a>(&self, prelude: &str, scenes: impl Iterator<Item = &'a Scene>) -> Result<u64> {
        let recorder = tap::record(self.file().as_ref(), RECORDER_BUFFER_MIB)?;
        let mut failed = vec![];
        for scene in scenes {
            eprintln!("  {:14} {}", scene.name, scene.shows);
            let script = format!("{prelude}\n{}", scene.script);
            if let Err(trouble) = output(&mut inside("client", &script)) {
                failed.push(format!("scene {}: {trouble}", scene.name));
            }
        }
        let frames = recorder.stop()?;
        if failed.is_empty() { Ok(frames) } else { Err(failed.join("\n")) }
    }

    /// Copies all logs and the capture to `target/lab/NAME`, because the lab's file system is temporary.
    pub fn keep_logs(&self) -> Result {
        let logs = root().join("target/lab").join(self.name);
        sh(&format!(
            "mkdir -p '{0}'; rm -f '{0}'/*
             cp {SCRATCH}/*.log {SCRATCH}/*.out {SCRATCH}/*/*.log {SCRATCH}/xferlog {SCRATCH}/*.pcap '{0}' 2>/dev/null || true",
            logs.display()
        ))?;
        Ok(())
    }

    /// Writes the capture, its expectation, and its page; `intro` receives the numbers of frames and bytes.
    pub fn publish(
        &self,
        intro: impl FnOnce(u64, u64) -> String,
        scenes: &[&Scene],
        facts: &Facts,
    ) -> Result {
        let Self { name, bytes_max, source } = self;
        let (file, frames) = (self.file(), facts.frames());
        let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
        if bytes > *bytes_max {
            return Err(format!("{bytes} bytes recorded, more than {bytes_max}: make the scenes smaller"));
        }
        let examples = root().join("examples");
        let page = describe(name, &intro(frames, bytes), scenes.iter().copied(), &facts.totals(), source);
        write(examples.join(format!("{name}.md")), page)?;
        write(examples.join(format!("{name}.expect.json")), facts.json())?;
        std::fs::copy(&file, examples.join(format!("{name}.pcap"))).map_err(|e| format!("{file}: {e}"))?;
        eprintln!("recorded {frames} frames, {bytes} bytes: examples/{name}.pcap, .expect.json, .md");
        Ok(())
    }
}
