//! `cargo xtask capture`: records `examples/first-light.pcap` from real programs in a lab of network
//! namespaces.
//!
//! `scenes.rs` lists the scenes; `facts.rs` converts the servers' logs into the expectation that tests
//! compare with. Root can repeat the recording: the flows are the same, and times, ports and keys differ.
//! `sessions/`, `services/` and `tunnels/` are three further recordings: `cargo xtask capture sessions`.
//! `recording.rs` and `logs.rs` are shared by these.

mod facts;
mod logs;
mod recording;
mod scenes;
mod services;
mod sessions;
mod tunnels;

use crate::lab::{self, SCRATCH, inside, servers, tap};
use crate::shell::{Result, output, root, sh, write};

const NAME: &str = "first-light";
const BYTES_MAX: u64 = 5_000_000;
const RECORDER_BUFFER_MIB: u32 = 64;

pub fn run(args: &[String]) -> Result {
    match args {
        [] => first_light(args),
        [name] if name == "sessions" => sessions::run(args),
        [name, ..] if name == "services" => services::run(args),
        [name] if name == "tunnels" => tunnels::run(args),
        _ => Err("usage: cargo xtask capture [sessions | services [NAME…] | tunnels]".into()),
    }
}

fn first_light(args: &[String]) -> Result {
    if !lab::enter("capture", args)? {
        return Ok(());
    }
    lab::build(4)?;
    servers::keys()?;
    servers::objects(&[("small.bin", 3_000), ("page.bin", 24_000), ("big.bin", 300_000)])?;
    let nginx = servers::nginx(1000, 1, &[])?;
    let _dnsmasq = servers::dnsmasq()?;
    let _sshd = servers::sshd()?;
    sh(scenes::ROUTES)?;

    let file = format!("{SCRATCH}/{NAME}.pcap");
    let recorder = tap::record(file.as_ref(), RECORDER_BUFFER_MIB)?;
    let mut words = String::new();
    for scene in scenes::SCENES {
        eprintln!("  {:14} {}", scene.name, scene.shows);
        let script = format!("{}\n{}", scenes::PRELUDE, scene.script);
        words += &output(&mut inside("client", &script)).map_err(|e| format!("scene {}: {e}", scene.name))?;
    }
    let frames = recorder.stop()?;
    sh(&format!("kill -QUIT {}", nginx.id()))?; // makes nginx write its log
    std::thread::sleep(std::time::Duration::from_millis(500));

    let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
    if bytes > BYTES_MAX {
        return Err(format!("{bytes} bytes recorded, more than {BYTES_MAX}: make the scenes smaller"));
    }
    let facts = facts::gather(frames, &words)?;
    let examples = root().join("examples");
    write(examples.join(format!("{NAME}.expect.json")), facts.json())?;
    let intro = format!(
        "{frames} frames, {bytes} bytes, Ethernet, recorded by `cargo xtask capture` as root: real clients and servers \
         (nginx,\ncurl, openssl, OpenSSH, dnsmasq, ping) in network namespaces, on the client's side of a router. \
         Nothing in it is\nanybody's: addresses and names are those reserved for documentation, keys were thrown away."
    );
    let source = "xtask/src/capture/scenes.rs";
    let page = scenes::describe(NAME, &intro, scenes::SCENES, &facts.totals(), source);
    write(examples.join(format!("{NAME}.md")), page)?;
    std::fs::copy(&file, examples.join(format!("{NAME}.pcap"))).map_err(|e| format!("{file}: {e}"))?;
    eprintln!("recorded {frames} frames, {bytes} bytes: examples/{NAME}.pcap, .expect.json, .md");
    Ok(())
}
