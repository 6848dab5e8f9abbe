//! `cargo xtask capture services`: records `examples/services.pcap`: databases, messages, calls, devices and tunnels,
//! by real programs.
//!
//! One protocol per file: its servers, what is played, and how what its peers wrote is read into the expectation that
//! tests compare with. What all wrote lies in `target/lab/services` afterwards. With names of scenes only
//! these are played, for a look at the logs; `examples/` stays as it is.

mod bittorrent;
mod dhcpv6;
mod modbus;
mod mqtt;
mod openvpn;
mod postgresql;
mod radius;
mod rdp;
mod redis;
mod sip;
mod snmp;
mod wireguard;

use std::process::Child;

use crate::capture::logs::{Facts, Log, Row};
use crate::capture::recording::Recording;
use crate::capture::scenes::Scene;
use crate::lab::servers::await_port;
use crate::lab::{self, SCRATCH, spawn};
use crate::shell::{Result, need, sh, write};

/// One protocol.
struct Service {
    scene: Scene,
    /// Programs it takes beside the lab's, and their packages.
    tools: &'static [(&'static str, &'static str)],
    /// Files that its peers read: name and content.
    files: &'static [(&'static str, &'static str)],
    /// A script that makes the rest they need, outside the namespaces.
    stage: &'static str,
    /// Who runs all the time: namespace and command.
    servers: &'static [(&'static str, &'static str)],
    /// Where servers listen before the scene can begin, `ADDRESS:PORT`.
    listens: &'static [&'static str],
    /// A script that asks the servers what they know when all is over.
    ask: &'static str,
    /// What was written: name of the log, what it counts, how it is read.
    logs: &'static [(&'static str, &'static str, ReadLog)],
}

type ReadLog = fn() -> Result<Vec<Row>>;

/// In the order they are played.
const SERVICES: &[&Service] = &[
    &postgresql::SERVICE,
    &redis::SERVICE,
    &mqtt::SERVICE,
    &snmp::SERVICE,
    &radius::SERVICE,
    &sip::SERVICE,
    &modbus::SERVICE,
    &wireguard::SERVICE,
    &openvpn::SERVICE,
    &dhcpv6::SERVICE,
    &bittorrent::SERVICE,
    &rdp::SERVICE,
];

const RECORDING: Recording =
    Recording { name: "services", bytes_max: 1_000_000, source: "xtask/src/capture/services/" };

/// Words all scenes share. `fails N COMMAND` wants exit status N.
const PRELUDE: &str = "
cd /run/lab
fails() { want=$1; shift; got=0; \"$@\" || got=$?; test $got = $want; }
";

pub fn run(args: &[String]) -> Result {
    let names = &args[1..];
    let chosen = |service: &&&Service| names.is_empty() || names.iter().any(|n| n == service.scene.name);
    let services: Vec<&Service> = SERVICES.iter().filter(chosen).copied().collect();
    need(&services.iter().flat_map(|service| service.tools).copied().collect::<Vec<_>>())?;
    if !lab::enter("capture", args)? {
        return Ok(());
    }
    lab::build(2)?;
    lab::servers::keys()?;
    let recorded = record(&services);
    RECORDING.keep_logs()?;
    let facts = gather(recorded?, &services)?;
    if !names.is_empty() {
        println!("{}", facts.json());
        return Ok(());
    }
    let intro = |frames, bytes| {
        format!(
            "{frames} frames, {bytes} bytes, Ethernet, recorded by `cargo xtask capture services` as root: sessions of {} \
             protocols,\nby real clients and servers of Debian 12, in network namespaces, on the client's side of a \
             router. Nothing in it is\nanybody's: addresses and names are those reserved for documentation, keys and \
             passwords were thrown away.",
            SERVICES.len()
        )
    };
    RECORDING.publish(intro, &services.iter().map(|service| &service.scene).collect::<Vec<_>>(), &facts)
}

/// Plays what these show; how many frames there were.
fn record(services: &[&Service]) -> Result<u64> {
    sh(&format!("chmod 755 {SCRATCH}; chmod 644 {SCRATCH}/*.pem"))?;
    for service in services {
        for (name, content) in service.files {
            write(format!("{SCRATCH}/{name}"), content)?;
        }
        sh(&format!("cd {SCRATCH}\n{}", service.stage))
            .map_err(|e| format!("{}: {e}", service.scene.name))?;
    }
    let _servers = start(services)?;
    let frames = RECORDING.play(PRELUDE, services.iter().map(|service| &service.scene))?;
    for service in services {
        sh(&format!("cd {SCRATCH}\n{}", service.ask))?;
    }
    Ok(frames)
}

/// Starts all servers, and waits for them.
fn start(services: &[&Service]) -> Result<Vec<Child>> {
    let mut children = vec![];
    for (namespace, line) in services.iter().flat_map(|service| service.servers) {
        children.push(spawn(namespace, &format!("sh -c 'cd {SCRATCH}; exec {line}'"))?);
    }
    for address in services.iter().flat_map(|service| service.listens) {
        await_port(address)?;
    }
    std::thread::sleep(std::time::Duration::from_secs(2)); // those that listen nowhere
    Ok(children)
}

/// Reads every log.
fn gather(frames: u64, services: &[&Service]) -> Result<Facts> {
    let mut logs = vec![];
    for (name, counts, read) in services.iter().flat_map(|service| service.logs) {
        logs.push(Log { name, counts, rows: read()? });
    }
    Facts::of(frames, logs)
}
