//! A worker that takes bursts with the ticks of the clock between their packets.

use weir_engine::clock::Clock;
use weir_engine::subscriber::Subscriber;
use weir_engine::worker::Worker;
use weir_packet::Burst;

/// A worker, and the clock of its packets. Results come with the call that takes their packets.
pub(crate) struct TickedWorker<S> {
    pub worker: Worker<S>,
    pub clock: Clock,
    /// Number of parts of bursts so far, and of ticks.
    number: u64,
}

impl<S: Subscriber> TickedWorker<S> {
    pub fn new(worker: Worker<S>) -> Self {
        Self { worker, clock: Clock::default(), number: 0 }
    }

    /// Processes the packets of a burst.
    pub fn take(&mut self, burst: &Burst) {
        let mut first = 0;
        for (index, packet) in burst.packets.iter().enumerate() {
            if self.clock.tick(packet.time.0) {
                self.worker.take(burst, first..index, self.number);
                first = index;
                self.number += 1;
                while self.worker.pass_time(self.number, self.clock.ticked()) {}
            }
        }
        self.worker.take(burst, first..burst.packets.len(), self.number);
        self.number += 1;
    }
}
