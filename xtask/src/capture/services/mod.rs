//! `cargo xtask capture services`: records `examples/services.pcap`: databases, messages, calls, devices and
//! tunnels, with real programs.
//!
//! One file per protocol: its servers, its scene, and the conversion of its peers' logs into the expectation
//! that tests compare with. All logs are in `target/lab/services` afterwards. With names of scenes as
//! arguments only these run, to inspect their logs; `examples/` stays unchanged.

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
    /// Required programs beyond the lab's, with their packages.
    tools: &'static [(&'static str, &'static str)],
    /// Files for its peers: name and content.
    files: &'static [(&'static str, &'static str)],
    /// A script that prepares other files, outside of the namespaces.
    stage: &'static str,
    /// Long-running servers: namespace and command.
    servers: &'static [(&'static str, &'static str)],
    /// Addresses that must accept connections before the scene begins, `ADDRESS:PORT`.
    listens: &'static [&'static str],
    /// A script that queries the servers' state at the end.
    ask: &'static str,
    /// The logs: name, unit, parser.
    logs: &'static [(&'static str, &'static str, ReadLog)],
}

type ReadLog = fn() -> Result<Vec<Row>>;

/// In the order of the recording.
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

/// Shell functions of all scenes. `fails N COMMAND` requires exit status N.
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

/// Runs the scenes of these services; returns the number of frames.
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
    std::thread::sleep(std::time::Duration::from_secs(2)); // for servers without a listening address
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
