//! Packets over UDP: what sending and receiving cost, next to a TCP connection; and how keys are divided over
//! instances.

use std::fmt::Write;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::child;
use super::progress;
use crate::shell::{Result, said};
use weir_udp::{Balance, hash};

pub const TITLE: &str = "Front end: UDP and TCP";
pub const BALANCE_TITLE: &str = "Front end: keys and instances";

/// Kinds of traffic: lengths of packets in turn, and the number of packets.
const KINDS: [(&str, &[usize], usize); 2] =
    [("64 bytes", &[64], 4_000_000), ("64 to 1514 bytes", &[64, 64, 64, 64, 576, 576, 1514], 1_500_000)];
/// Time for a receiver to begin, and to read what has arrived.
const SETTLE: Duration = Duration::from_millis(1500);
/// Keys of the simulation.
const KEYS: u64 = 1 << 20;

/// The first table.
pub fn table(weir: &Path, scratch: &Path) -> Result<String> {
    let mut table = format!(
        "\n### {TITLE}\n\n`weir packets FILE -w OUT` sends a capture over loopback as fast as it can, and `weir packets -r IN --count` \
         receives it. The rates are packets for each second of processor time of all threads of a process, system time included. \
         A sender of UDP waits for nobody, so a receiver that is slower loses packets; TCP slows the sender down.\n\n\
         | packets | over | sender, Mpps of a core | receiver, Mpps of a core | arrived |\n|---|---|--:|--:|--:|\n"
    );
    for (kind, lengths, packets) in KINDS {
        let capture = scratch.join("front-end.pcap");
        write_capture(&capture, lengths, packets)?;
        for instances in [1, 4] {
            let name = format!("UDP, {instances} instance{}", if instances > 1 { "s" } else { "" });
            progress(&format!("{TITLE} · {kind} · {name}"));
            let ports = ports(instances)?;
            let names: Vec<String> = ports.iter().map(|port| format!("udp://127.0.0.1:{port}")).collect();
            let ends: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            let measured = measure(weir, scratch, &capture, &names, &format!("udp://{}", ends.join(",")))?;
            row(&mut table, kind, &name, packets, &measured)?;
        }
        progress(&format!("{TITLE} · {kind} · TCP"));
        let port = ports(1)?[0];
        let names = [format!("tcp-listen:{port}")];
        let measured = measure(weir, scratch, &capture, &names, &format!("tcp://127.0.0.1:{port}"))?;
        row(&mut table, kind, "TCP", packets, &measured)?;
        fs::remove_file(&capture).map_err(said(capture.display()))?;
    }
    progress("");
    Ok(table)
}

struct Measured {
    sender_s: f64,
    receivers_s: f64,
    received: u64,
}

fn row(table: &mut String, kind: &str, name: &str, packets: usize, measured: &Measured) -> Result {
    let Measured { sender_s, receivers_s, received } = measured;
    writeln!(
        table,
        "| {kind} | {name} | {:.2} | {:.2} | {:.1} % |",
        packets as f64 / sender_s / 1e6,
        *received as f64 / receivers_s / 1e6,
        *received as f64 * 100.0 / packets as f64
    )
    .map_err(said(TITLE))
}

/// Sends the capture to `output`, which are the receivers with the names `inputs`.
fn measure(weir: &Path, scratch: &Path, capture: &Path, inputs: &[String], output: &str) -> Result<Measured> {
    let counts: Vec<_> = (0..inputs.len()).map(|n| scratch.join(format!("front-end-{n}"))).collect();
    let start = |(input, count): (&String, &std::path::PathBuf)| -> Result<Child> {
        let out = File::create(count).map_err(said(count.display()))?;
        let mut command = Command::new(weir);
        command
            .args(["packets", "--count", "-r", input])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null());
        command.spawn().map_err(said(weir.display()))
    };
    let receivers: Vec<Child> = inputs.iter().zip(&counts).map(start).collect::<Result<_>>()?;
    sleep(SETTLE);
    let command = [weir.display().to_string(), "packets".into(), capture.display().to_string(), "-w".into()];
    let sent = child::measure(&[&command[..], &[output.to_string()]].concat(), scratch, false)?;
    sleep(SETTLE);
    let (mut receivers_s, mut received) = (0.0, 0);
    for (receiver, count) in receivers.iter().zip(&counts) {
        // A receiver of a connection has ended by itself.
        let _ = Command::new("kill")
            .args(["-s", "INT", &receiver.id().to_string()])
            .stderr(Stdio::null())
            .status();
        let (_, usage) = child::wait(receiver.id())?;
        receivers_s += child::busy_s(&usage);
        let count = fs::read_to_string(count).map_err(said(count.display()))?;
        received += count.trim().parse::<u64>().map_err(said("the count of a receiver"))?;
    }
    Ok(Measured { sender_s: sent.busy_s, receivers_s, received })
}

/// Free ports of loopback.
fn ports(count: usize) -> Result<Vec<u16>> {
    let free = || UdpSocket::bind("127.0.0.1:0").map_err(said("a free port"));
    let sockets: Vec<UdpSocket> = (0..count).map(|_| free()).collect::<Result<_>>()?;
    sockets.iter().map(|socket| Ok(socket.local_addr().map_err(said("a free port"))?.port())).collect()
}

/// Writes a capture of UDP packets of 65 536 hosts and these lengths.
fn write_capture(path: &Path, lengths: &[usize], packets: usize) -> Result {
    let mut bytes = Vec::with_capacity(packets * 200);
    bytes.extend([0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat());
    for number in 0..packets {
        let length = lengths[number % lengths.len()];
        let words = [
            1_700_000_000 + number as u32 / 1_000_000,
            number as u32 % 1_000_000,
            length as u32,
            length as u32,
        ];
        bytes.extend(words.map(u32::to_le_bytes).concat());
        let begin = bytes.len();
        let host = hash(0, number as u64).to_be_bytes();
        bytes.extend([2; 12]);
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend((length as u16 - 14).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, host[0], host[1], 192, 0, 2, 1, 0x30, 0x39, 0, 53]);
        bytes.extend((length as u16 - 34).to_be_bytes());
        bytes.resize(begin + length, 0);
    }
    fs::write(path, bytes).map_err(said(path.display()))
}

/// The second table: the balancing code over a million keys.
pub fn balance_table() -> Result<String> {
    let mut table = format!(
        "\n### {BALANCE_TITLE}\n\nThe balancing code of `weir packets -w udp://…` over {} keys. A key moves if it gets another instance when \
         one instance is added (from the line above) or removed. The least that must move is 1/n.\n\n\
         | instances | smallest share × n | largest share × n | keys moved by adding this one | 1/n | kept keys that moved |\n\
         |--:|--:|--:|--:|--:|--:|\n",
        KEYS
    );
    let mut before: Option<Vec<usize>> = None;
    for count in 1..=16 {
        let names: Vec<String> = (0..count).map(|number| format!("10.0.0.{}:9000", number + 1)).collect();
        let balance = Balance::over(&names);
        let owners: Vec<usize> = (0..KEYS).map(|key| balance.instance(hash(0, key))).collect();
        let mut shares = vec![0u64; count];
        owners.iter().for_each(|owner| shares[*owner] += 1);
        let share = |keys: Option<&u64>| *keys.unwrap_or(&0) as f64 * count as f64 / KEYS as f64;
        let (moved, needless) = before.as_ref().map_or((0, 0), |before| {
            let moves = before.iter().zip(&owners).filter(|(old, now)| old != now);
            (moves.clone().count(), moves.filter(|(_, now)| **now != count - 1).count())
        });
        writeln!(
            table,
            "| {count} | {:.3} | {:.3} | {:.2} % | {:.2} % | {needless} |",
            share(shares.iter().min()),
            share(shares.iter().max()),
            moved as f64 * 100.0 / KEYS as f64,
            if count > 1 { 100.0 / count as f64 } else { 0.0 }
        )
        .map_err(said(BALANCE_TITLE))?;
        before = Some(owners);
    }
    Ok(table)
}
