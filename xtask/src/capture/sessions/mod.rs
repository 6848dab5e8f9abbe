//! `cargo xtask capture sessions`: records `examples/sessions.pcap`: thirteen session protocols, with real
//! programs.
//!
//! `servers.rs` starts the servers, `scenes.rs` lists the scenes, and `facts/` converts the logs into the
//! expectation that tests compare with. All logs are in `target/lab/sessions` afterwards.

mod facts;
mod scenes;
mod servers;

use crate::capture::recording::Recording;
use crate::lab::{self, SCRATCH};
use crate::shell::{Result, need, sh};

const RECORDING: Recording =
    Recording { name: "sessions", bytes_max: 2_000_000, source: "xtask/src/capture/sessions/scenes.rs" };

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
    RECORDING.keep_logs()?;
    let facts = facts::gather(recorded?)?;
    let intro = |frames, bytes| {
        format!(
            "{frames} frames, {bytes} bytes, Ethernet, recorded by `cargo xtask capture sessions` as root: sessions of \
             thirteen protocols,\nby real clients and servers of Debian 12 (QUIC: aioquic), in network namespaces, on \
             the client's side of a\nrouter. Nothing in it is anybody's: addresses and names are those reserved for \
             documentation, keys and passwords were\nthrown away."
        )
    };
    RECORDING.publish(intro, &scenes::SCENES.iter().collect::<Vec<_>>(), &facts)
}

/// Runs all scenes; returns the number of frames.
fn record(python: &str) -> Result<u64> {
    let _servers = servers::start(python)?;
    let _sshd = lab::servers::sshd()?;
    let prelude = format!("PYTHON={python}\n{}", scenes::PRELUDE);
    let frames = RECORDING.play(&prelude, scenes::SCENES.iter())?;
    sh(&format!("chronyc -h {SCRATCH}/chrony/chronyd.sock serverstats > {SCRATCH}/chronyc.out"))?;
    Ok(frames)
}
