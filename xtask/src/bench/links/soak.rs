//! Minutes of mixed traffic, while questions come and go and metrics are read: memory must not grow, and the
//! accounts must add up.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::receivers::{Receiver, Running, counter};
use super::watched;
use crate::bench::table::median;
use crate::bench::{Options, progress};
use crate::lab::{self, inside, servers};
use crate::shell::{Result, output, read, said, write};

pub const TITLE: &str = "Soak";

/// Metrics and memory are read, and a question comes or goes.
const STEP: Duration = Duration::from_secs(5);
/// Memory is measured after this time, when tables have their size.
const SETTLED_S: f64 = 60.0;
/// The memory at the end may exceed the memory after [`SETTLED_S`] by this factor.
const GROWTH: f64 = 1.05;
const REST: Duration = Duration::from_secs(1);

const QUESTIONS: [&str; 4] = ["flows", "tls", "http", "dns"];
/// Questions that come and go.
const CHANGES: [&str; 4] = [
    "packets 'udp.port == 53'",
    "tls 'tls.sni contains \"example\"'",
    "flows 'tcp.port == 80 and ip.addr == 198.51.100.11'",
    "http 'http.response.code == 404'",
];

/// A run of Weir, and what was seen of it.
struct Soaked {
    method: &'static str,
    running: Running,
    socket: String,
    port: u16,
    /// Seconds since the start, and megabytes.
    memory: Vec<(f64, f64)>,
    changes: usize,
}

/// The table.
pub fn table(weir: &Path, scratch: &Path, options: &Options) -> Result<String> {
    lab::build(4)?;
    servers::keys()?;
    servers::objects(&[("small.bin", 4000), ("large.bin", 400_000)])?;
    let _servers = [servers::nginx(100, 1, &[])?, servers::dnsmasq()?];
    watched::mirror()?;
    let mut all = vec![];
    for (port, (interface, method)) in (9464..).zip(watched::METHODS) {
        let name = method.split(' ').next().unwrap_or_default();
        let (file, socket) = (scratch.join(format!("{name}.toml")), scratch.join(format!("{name}.sock")));
        write(&file, QUESTIONS.map(question).concat())?;
        let socket = socket.display().to_string();
        let args = format!("run {} --control {socket} --metrics {port}", file.display());
        let receiver = Receiver::weir(weir, &args, interface, method).within("router");
        let running = receiver.start()?;
        all.push(Soaked { method: name, running, socket, port, memory: vec![], changes: 0 });
    }
    let interfaces = watched::METHODS.map(|(interface, _)| interface);
    let before = interfaces.map(watched::interface);
    let is_over = AtomicBool::new(false);
    let time = Duration::from_secs(60 * options.minutes);
    std::thread::scope(|scope| -> Result {
        let clients: Vec<_> = CLIENTS.map(|line| scope.spawn(|| repeat(line, &is_over))).into();
        let watched = watch(weir, &mut all, time);
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        watched
    })?;
    std::thread::sleep(REST);
    let mut passed = vec![];
    for (before, after) in before.into_iter().zip(interfaces.map(watched::interface)) {
        passed.push(after?[0] - before?[0]);
    }
    report(all, &passed, options.minutes)
}

/// What the client does again and again, about every second.
const CLIENTS: [&str; 4] = [
    "ab -q -n 200 -c 4 http://198.51.100.11/small.bin",
    "ab -q -n 40 -c 2 https://198.51.100.12/large.bin",
    "for n in 1 2 3 4 5 6 7 8 9; do echo host$n.example.com; done > /run/lab/names; dig +tries=1 +timeout=5 -f /run/lab/names",
    "curl -sS --http2-prior-knowledge http://198.51.100.13/missing -o /dev/null || true",
];

fn repeat(line: &str, is_over: &AtomicBool) -> Result {
    while !is_over.load(Ordering::Relaxed) {
        output(&mut inside("client", line))?;
        std::thread::sleep(Duration::from_millis(700));
    }
    Ok(())
}

fn question(ask: &str) -> String {
    format!("[[question]]\nname = \"{ask}\"\nask = \"{ask}\"\nformat = \"json\"\noutput = \"/dev/null\"\n")
}

/// Reads memory and metrics, and changes questions, for a time.
fn watch(weir: &Path, all: &mut [Soaked], time: Duration) -> Result {
    let began = Instant::now();
    while began.elapsed() < time {
        let step = Instant::now();
        for one in &mut *all {
            let status = read(format!("/proc/{}/status", one.running.process()))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kilobytes: f64 = line
                .and_then(|line| line.trim().split(' ').next()?.parse().ok())
                .ok_or("the process has no memory: it has ended")?;
            one.memory.push((began.elapsed().as_secs_f64(), kilobytes / 1000.0));
            let page =
                output(&mut inside("router", &format!("curl -sS http://127.0.0.1:{}/metrics", one.port)))?;
            if !page.contains("weir_packets_received_total") {
                return Err(format!("the metrics lack the packets: {page}"));
            }
            let change = match one.changes % 2 {
                0 => format!("add extra {} -o /dev/null", CHANGES[one.changes / 2 % CHANGES.len()]),
                _ => "remove extra".to_string(),
            };
            output(&mut inside("router", &format!("{} ctl {} {change}", weir.display(), one.socket)))?;
            one.changes += 1;
            progress(&format!(
                "{TITLE} · {:.0} s · {:.0} MB",
                began.elapsed().as_secs_f64(),
                kilobytes / 1000.0
            ));
        }
        std::thread::sleep(STEP.saturating_sub(step.elapsed()));
    }
    progress("");
    Ok(())
}

/// Ends the runs. An error if memory has grown, or an account does not add up.
fn report(all: Vec<Soaked>, passed: &[u64], minutes: u64) -> Result<String> {
    let mut text = format!(
        "\n### {TITLE}\n\n{minutes} minutes of HTTP, HTTPS and DNS between real programs, watched on a router with both methods at \
         once (AF_XDP takes copies), while every {} s metrics are read and a question comes or goes. The run fails if the median of \
         the memory in the last minute is more than {:.0} % above that in the minute after the first {SETTLED_S:.0} s, or if the \
         packets received are not exactly the packets processed, filtered and lost.\n\n| | packets of the interface | received | \
         processed | filtered | lost | changes | memory after a minute, MB | at the end, MB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        STEP.as_secs(),
        (GROWTH - 1.0) * 100.0
    );
    let mut faults = vec![];
    for (one, on_interface) in all.into_iter().zip(passed) {
        let end = one.memory.last().map_or(0.0, |(time, _)| *time);
        let between = |from: f64, to: f64| {
            let times = one.memory.iter().filter(|(time, _)| (from..=to).contains(time));
            median(times.map(|(_, megabytes)| *megabytes))
        };
        let (settled, last) = (between(SETTLED_S, SETTLED_S + 60.0), between(end - 60.0, end));
        if last > settled * GROWTH {
            faults.push(format!("{}: memory has grown from {settled:.1} to {last:.1} MB", one.method));
        }
        let account = one.running.end()?;
        let count = |name: &str| counter(&account.text, name).unwrap_or_default();
        let received = count("source_received");
        let lost = received - account.received;
        // Every other counter of the source is a reason for which a packet did not reach the program.
        let is_reason = |line: &&str| {
            line.starts_with("source_") && !line.starts_with("source_received") && !line.contains("_bytes")
        };
        let reasons: u64 = account
            .text
            .lines()
            .filter(is_reason)
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum();
        if received != account.processed + reasons {
            faults.push(format!("{}: the accounts do not add up: {}", one.method, account.text));
        }
        let _ = writeln!(
            text,
            "| weir run, {} | {on_interface} | {received} | {} | {} | {lost} | {} | {settled:.1} | {last:.1} |",
            one.method,
            account.processed,
            reasons - lost,
            one.changes,
        );
    }
    if faults.is_empty() {
        Ok(text)
    } else {
        Err(format!("{text}\n{}", faults.join("\n"))).map_err(said(TITLE))
    }
}
