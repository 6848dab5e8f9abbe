//! The output of packets to instances of applications, over UDP.

use crate::metrics::totals::QuestionCounters;
use std::io;
use std::time::Instant;
use weir::io::udp::{self, FrontEnd, Name, SendNote};

/// Why packets were not sent.
const UNSENT: &str = "could not be reached";
const TOO_LONG: &str = "accepts no packets of more than 262144 bytes";

/// Instances that receive packets.
pub struct Instances {
    front_end: FrontEnd,
    /// Losses that were counted.
    lost: u64,
}

impl Instances {
    /// Opens the sockets of all instances.
    pub fn open(name: &Name) -> io::Result<Self> {
        let report = |note| match note {
            SendNote::Refused(instance) => say!("weir: nothing receives at {instance}: its packets are lost"),
            SendNote::Failed(instance, why) => say!("weir: packets cannot be sent to {instance}: {why}"),
        };
        Ok(Self { front_end: FrontEnd::open(name, report)?, lost: 0 })
    }

    /// Changes the instances. Packets that wait go to the previous ones.
    pub fn change(&mut self, name: &Name) -> io::Result<()> {
        self.front_end.change(name)
    }

    /// Sends packets, each with the number of its key, if they fill datagrams; others wait for some
    /// milliseconds.
    pub fn write<'p>(
        &mut self,
        packets: impl IntoIterator<Item = (udp::Packet<'p>, u64)>,
        counters: &QuestionCounters,
    ) {
        packets.into_iter().for_each(|(packet, key)| self.front_end.write(&packet, key));
        self.front_end.pass_time(Instant::now());
        self.count(counters);
    }

    /// Sends all packets.
    pub fn flush(&mut self, counters: &QuestionCounters) {
        self.front_end.flush();
        self.count(counters);
    }

    /// Sends all packets, and says that nothing follows. `report` receives the number of packets that were
    /// lost, for each reason.
    pub fn finish(mut self, counters: &QuestionCounters, report: impl Fn(u64, &'static str)) {
        self.flush(counters);
        let losses = self.front_end.finish();
        for (packets, why) in [(losses.unsent, UNSENT), (losses.too_long, TOO_LONG)] {
            if packets > 0 {
                report(packets, why);
            }
        }
    }

    fn count(&mut self, counters: &QuestionCounters) {
        let losses = self.front_end.losses();
        let lost = losses.unsent + losses.too_long;
        counters.add_lost(lost - std::mem::replace(&mut self.lost, lost));
    }
}
