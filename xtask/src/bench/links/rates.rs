//! The highest rate that a program receives without loss, and its processor time for each packet.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::pair::Pair;
use super::receivers::{Account, Receiver};
use crate::bench::{Options, progress};
use crate::shell::{Result, read, said};
use crate::traces::frame::{Ends, ethernet, ipv4, udp};
use weir_testing::Random;

pub const TITLE: &str = "Rates on links";

/// Frames that are sent again and again.
const FRAMES: usize = 16_384;
/// Packets of which one may be lost: the machine is virtual, and does not always run.
const ONE_LOST_OF: u64 = 10_000;
/// The rate at which processor time is measured, packets per second.
pub const FIXED_PER_S: f64 = 250_000.0;
/// The lowest rate that is tried.
const LOWEST_PER_S: f64 = 100_000.0;
/// Two rates closer than this factor count as one.
const PRECISION: f64 = 1.1;
/// Attempts to receive everything at a rate.
const ATTEMPTS: u32 = 2;
const TRIAL: Duration = Duration::from_millis(1500);
/// Frames before the measurement, after which code has been compiled for the traffic: a time, and packets per
/// second.
const WARM_UP: (Duration, f64) = (Duration::from_millis(300), 100_000.0);
/// Until the last packets have arrived, and the blocks of rings that are not full are passed.
const REST: Duration = Duration::from_millis(400);

/// Until Weir has an exact filter in the kernel, which takes up to a second: its processor time is not that
/// of packets.
pub const SETTLE: Duration = Duration::from_secs(2);

/// What a program does with packets that come at a rate.
pub struct Trial {
    /// Packets that arrived on the interface.
    pub arrived: u64,
    rate_per_s: f64,
    pub account: Account,
    /// Processor time of the kernel's thread, for each packet.
    pub kernel_ns: f64,
    /// Processor time of the program, for each packet.
    pub program_ns: f64,
}

impl Trial {
    /// Runs the program. `settle`: the time between the first packets and those that count.
    ///
    /// # Errors
    /// If the sender or the program fails.
    pub fn run(pair: &Pair, receiver: &Receiver, rate: f64, settle: Duration) -> Result<Self> {
        let running = receiver.start()?;
        let (warm, _) = pair.send(Some(WARM_UP.1), WARM_UP.0)?;
        std::thread::sleep(settle);
        let before = (pair.kernel_ns()?, running.run_time_ns()?);
        let (arrived, time) = pair.send(Some(rate), TRIAL)?;
        std::thread::sleep(REST);
        let after = (pair.kernel_ns()?, running.run_time_ns()?);
        let account = running.end()?;
        let each = |before: u64, after: u64| (after - before) as f64 / arrived as f64;
        let (kernel_ns, program_ns) = (each(before.0, after.0), each(before.1, after.1));
        let rate_per_s = arrived as f64 / time.as_secs_f64();
        Ok(Self { arrived: warm + arrived, rate_per_s, account, kernel_ns, program_ns })
    }

    fn is_complete(&self) -> bool {
        self.arrived.saturating_sub(self.account.received) * ONE_LOST_OF <= self.arrived
    }
}

/// The highest rate without loss, and whether the sender was the limit.
fn highest(pair: &Pair, receiver: &Receiver, most: f64) -> Result<(f64, bool)> {
    // The rate that a program has received without loss, at a rate of the sender.
    let received = |rate: f64| -> Result<Option<f64>> {
        progress(&format!("{TITLE} · {} · {:.2} Mpps", receiver.name, rate / 1e6));
        for _ in 0..ATTEMPTS {
            match Trial::run(pair, receiver, rate, REST) {
                Ok(trial) if trial.is_complete() => return Ok(Some(trial.rate_per_s)),
                Ok(_) => {}
                // A program that does not end in time because of its packets.
                Err(why) => eprintln!("{}: {why}", receiver.name),
            }
        }
        Ok(None)
    };
    if let Some(rate) = received(most)? {
        return Ok((rate, true));
    }
    let (mut low, mut high, mut best) = (LOWEST_PER_S, most, 0.0);
    while high / low > PRECISION {
        let middle = (low * high).sqrt();
        match received(middle)? {
            Some(rate) => (low, best) = (middle, rate),
            None => high = middle,
        }
    }
    Ok((best, false))
}

/// The table.
pub fn table(weir: &Path, scratch: &Path, options: &Options) -> Result<String> {
    let mut text = format!(
        "\n### {TITLE}\n\nThe highest rate at which at most one of {ONE_LOST_OF} packets is lost, and the processor time for each \
         packet at {:.2} Mpps, in the kernel and in the program. One processor receives, the other one sends \
         (`xtask/src/bench/links`), on virtual Ethernet; buffers have 64 MB. {FRAMES} frames are sent again and again: UDP of 64 \
         bytes, each of another flow, or the beginning of the trace https. “≥”: the sender has reached its limit.\n\n\
         | | frames | Mpps without loss | Gbit/s | kernel, ns | program, ns | cycles together |\n|---|---|--:|--:|--:|--:|--:|\n",
        FIXED_PER_S / 1e6
    );
    for (name, frames) in [("UDP", datagrams()), ("https", recorded()?)] {
        if options.trace.as_ref().is_some_and(|trace| trace != name) {
            continue;
        }
        let bits = frames.iter().map(Vec::len).sum::<usize>() as f64 * 8.0 / frames.len() as f64;
        let pair = Pair::new(&frames)?;
        let (arrived, time) = pair.send(None, TRIAL)?;
        let most = arrived as f64 / time.as_secs_f64();
        for receiver in receivers(weir, scratch)? {
            if options.only.as_ref().is_some_and(|words| !receiver.name.contains(words)) {
                continue;
            }
            let (rate, is_open) = highest(&pair, &receiver, most)?;
            let fixed = Trial::run(&pair, &receiver, FIXED_PER_S, SETTLE)?;
            let _ = writeln!(
                text,
                "| {} | {name} | {}{:.2} | {:.1} | {:.0} | {:.0} | {:.0} |",
                receiver.name,
                if is_open { "≥ " } else { "" },
                rate / 1e6,
                rate * bits / 1e9,
                fixed.kernel_ns,
                fixed.program_ns,
                (fixed.kernel_ns + fixed.program_ns) * gigahertz()?,
            );
            progress("");
            println!("{}", text.lines().last().unwrap_or_default());
        }
        let _ =
            writeln!(text, "| the sender | {name} | {:.2} | {:.1} | | | |", most / 1e6, most * bits / 1e9);
    }
    Ok(text)
}

fn receivers(weir: &Path, scratch: &Path) -> Result<Vec<Receiver>> {
    let mut all = vec![];
    for question in ["packets --count", "flows -o /dev/null", "tls -o /dev/null"] {
        all.extend(["af_packet", "af_xdp"].map(|method| Receiver::weir(weir, question, "in0", method)));
    }
    all.push(Receiver::tcpdump("in0", ""));
    for records in ["flow", "tls"] {
        all.extend(Receiver::suricata("in0", records, scratch)?);
    }
    Ok(all)
}

/// Cycles of the processor's clock in a nanosecond.
fn gigahertz() -> Result<f64> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split_once(": "));
    let (_, megahertz) = line.ok_or("/proc/cpuinfo has no rate")?;
    megahertz.trim().parse::<f64>().map(|rate| rate / 1e3).map_err(said("/proc/cpuinfo"))
}

/// Datagrams of random flows.
pub fn datagrams() -> Vec<Vec<u8>> {
    let mut random = Random::new(64);
    let datagram = |number: usize| {
        let (addresses, ports) = (random.bits(), random.bits());
        let ends = Ends {
            src: 0x0a00_0000 | (addresses as u32 & 0x00ff_ffff),
            dst: 0x0a00_0000 | ((addresses >> 32) as u32 & 0x00ff_ffff),
            src_port: 1024 + (ports % 64_000) as u16,
            dst_port: 1024 + ((ports >> 32) % 64_000) as u16,
        };
        ethernet(0x0800, &ipv4(ends, 17, number as u16, 0, &udp(ends, &[0; 64 - 42])))
    };
    (0..FRAMES).map(datagram).collect()
}

/// The beginning of the trace https, without checksums of TCP: otherwise the kernel would join segments
/// (GRO).
fn recorded() -> Result<Vec<Vec<u8>>> {
    let file = crate::traces::folder().join("https.pcap");
    let why = |error| format!("{}: {error}; cargo xtask traces https, as root", file.display());
    let mut records = std::io::BufReader::new(std::fs::File::open(&file).map_err(why)?);
    let mut all = vec![];
    let mut header = [0; 24];
    std::io::Read::read_exact(&mut records, &mut header).map_err(why)?;
    while all.len() < FRAMES {
        let mut header = [0; 16];
        std::io::Read::read_exact(&mut records, &mut header).map_err(why)?;
        let captured = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let mut frame = vec![0; captured as usize];
        std::io::Read::read_exact(&mut records, &mut frame).map_err(why)?;
        let is_tcp = frame.get(12..15) == Some(&[0x08, 0x00, 0x45]) && frame.get(23) == Some(&6);
        if let Some(checksum) = frame.get_mut(50..52).filter(|_| is_tcp) {
            checksum.fill(0);
        }
        all.push(frame);
    }
    Ok(all)
}
