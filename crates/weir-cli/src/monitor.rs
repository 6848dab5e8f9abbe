//! `--monitor`: a line each second on standard error, with rates, losses, flows, memory, and what becomes of
//! packets.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir::{Glance, Watch};

/// Time between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Prints lines until it is dropped.
pub struct Monitor {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Prints the state of the run that `watch` shows.
    pub fn start(watch: Watch) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("weir-monitor".into());
        let thread = thread.spawn(move || {
            let (begun, mut before, mut at) = (Instant::now(), Glance::default(), Instant::now());
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let (now, glance) = (Instant::now(), watch.glance());
                tell!("weir: {}", line(&before, &glance, now - at, begun.elapsed()));
                (before, at) = (glance, now);
            }
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The line about the time between two glances.
fn line(before: &Glance, now: &Glance, passed: Duration, since_begin: Duration) -> String {
    let seconds = passed.as_secs_f64().max(1e-9);
    let difference = |of: fn(&Glance) -> u64| of(now).saturating_sub(of(before)) as f64;
    let packets = difference(|glance| glance.counters.packet.packets + glance.source.discarded()[0]);
    let share = |of| difference(of) * 100.0 / packets.max(1.0);
    let card = match now.source.card_dropped {
        0 => String::new(),
        count => format!(", by the card {count}"),
    };
    let memory: u64 = now.memory.iter().map(|(_, bytes, _)| bytes).sum();
    format!(
        "{:.0} s  {}pps  {}bit/s  lost so far {} ({:.2} %){card}  flows {}  memory {}B  delivered {:.1} %, filtered {:.1} %, dropped {:.1} %",
        since_begin.as_secs_f64(),
        scaled(packets / seconds),
        scaled(
            difference(|glance| glance.counters.packet.wire_bytes + glance.source.discarded()[1]) * 8.0
                / seconds
        ),
        now.source.dropped(),
        now.source.dropped() as f64 * 100.0 / now.source.received.max(1) as f64,
        now.flows,
        scaled(memory as f64),
        share(|glance| glance.counters.packet.delivered + glance.source.counted),
        share(|glance| glance.counters.packet.filtered + glance.source.filtered),
        share(|glance| glance.counters.drops.total()),
    )
}

/// A number with three digits, and its unit's prefix.
pub fn scaled(number: f64) -> String {
    let (divided, prefix) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| number >= *unit)
        .map_or((number, ""), |(unit, prefix)| (number / unit, prefix));
    let decimals = if prefix.is_empty() { 0 } else { (2.0 - divided.log10().floor()).max(0.0) as usize };
    format!("{divided:.decimals$} {prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_losses_and_shares() {
        let mut now = Glance { flows: 12, ..Glance::default() };
        now.counters.packet.packets = 3_000_000;
        now.counters.packet.wire_bytes = 1_500_000_000;
        now.counters.packet.delivered = 750_000;
        now.source.received = 3_000_300;
        now.source.ring_full = 300;
        now.memory.tables = 5_000_000;
        let line = line(&Glance::default(), &now, Duration::from_secs(2), Duration::from_secs(7));
        assert_eq!(
            line,
            "7 s  1.50 Mpps  6.00 Gbit/s  lost so far 300 (0.01 %)  flows 12  memory 5.00 MB  delivered 25.0 %, filtered 0.0 %, \
             dropped 0.0 %"
        );
    }

    #[test]
    fn numbers_have_three_digits() {
        let all = [0.0, 999.0, 1000.0, 12_345.0, 123_456.0, 7e9].map(scaled);
        assert_eq!(all, ["0 ", "999 ", "1.00 k", "12.3 k", "123 k", "7.00 G"]);
    }
}
