//! `cargo xtask capture sessions`: records `examples/sessions.pcap`: thirteen session protocols, by real programs.
//!
//! `servers.rs` starts who answers, `scenes.rs` is the list of what is played, `facts/` turns the logs into the
//! expectation that tests compare with. What all wrote lies in `target/lab` afterwards.

mod facts;
mod scenes;
mod servers;

use crate::capture::scenes::describe;
use crate::lab::{self, SCRATCH, inside, tap};
use crate::shell::{Result, need, output, root, sh, write};

const NAME: &str = "sessions";
const BYTES_MAX: u64 = 2_000_000;
const RECORDER_BUFFER_MIB: u32 = 64;

pub fn run(args: &[String]) -> Result {
    need(servers::TOOLS)?;
    let python = servers::python()?.display().to_string();
    if !lab::enter("capture", args)? {
        return Ok(());
    }
    lab::build(2)?;
    lab::servers::keys()?;
    lab::servers::objects(&[("small.bin", 3_000), ("page.bin", 24_000)])?;
    servers::stage()?;
    let recorded = record(&python);
    let logs = root().join("target/lab");
    sh(&format!(
        "mkdir -p '{0}'; cp {SCRATCH}/*.log {SCRATCH}/*.out {SCRATCH}/*/*.log {SCRATCH}/xferlog {SCRATCH}/*.pcap '{0}' || true",
        logs.display()
    ))?;
    let (file, frames) = recorded?;
    let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
    if bytes > BYTES_MAX {
        return Err(format!("{bytes} bytes recorded, more than {BYTES_MAX}: make the scenes smaller"));
    }
    let facts = facts::gather(frames)?;
    let examples = root().join("examples");
    let intro = format!(
        "{frames} frames, {bytes} bytes, Ethernet, recorded by `cargo xtask capture sessions` as root: sessions of thirteen \
         protocols,\nby real clients and servers of Debian 12 (QUIC: aioquic), in network namespaces, on the \
         client's side of a\nrouter. Nothing in it is anybody's: addresses and names are those reserved for \
         documentation, keys and passwords were\nthrown away."
    );
    let source = "xtask/src/capture/sessions/scenes.rs";
    let page = describe(NAME, &intro, scenes::SCENES, &facts.totals(), source);
    write(examples.join(format!("{NAME}.md")), page)?;
    write(examples.join(format!("{NAME}.expect.json")), facts.json())?;
    std::fs::copy(&file, examples.join(format!("{NAME}.pcap"))).map_err(|e| format!("{file}: {e}"))?;
    eprintln!("recorded {frames} frames, {bytes} bytes: examples/{NAME}.pcap, .expect.json, .md");
    Ok(())
}

/// Plays all scenes; the capture's file, and how many frames it has.
fn record(python: &str) -> Result<(String, u64)> {
    let _servers = servers::start(python)?;
    let _sshd = lab::servers::sshd()?;
    let file = format!("{SCRATCH}/{NAME}.pcap");
    let recorder = tap::record(file.as_ref(), RECORDER_BUFFER_MIB)?;
    let mut failed = vec![];
    for scene in scenes::SCENES {
        eprintln!("  {:14} {}", scene.name, scene.shows);
        let script = format!("PYTHON={python}\n{}\n{}", scenes::PRELUDE, scene.script);
        if let Err(trouble) = output(&mut inside("client", &script)) {
            failed.push(format!("scene {}: {trouble}", scene.name));
        }
    }
    let frames = recorder.stop()?;
    sh(&format!("chronyc -h {SCRATCH}/chrony/chronyd.sock serverstats > {SCRATCH}/chronyc.out"))?;
    if failed.is_empty() { Ok((file, frames)) } else { Err(failed.join("\n")) }
}
