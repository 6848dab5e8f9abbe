//! Pairs of hosts, for programs that divide captures among several runs: which pair a packet belongs to, and
//! of which pairs a run still has flows.
//!
//! The packets between the two outermost addresses, with all fragments and everything in tunnels, are the
//! smallest part of a capture that a run can be about. A run over some pairs has the rows of these pairs,
//! provided that its source [states the time](weir_packet::Source::clock) of the whole capture.

use super::ticked_worker::TickedWorker;
use crate::ask::compile::{Ask, Compiler, Options};
use crate::run::units::PacketKeys;
use crate::run::workers;
use std::sync::Arc;
use std::time::Duration;
use weir_compile::{DISPATCH_SLOTS, Need};
use weir_engine::clock::Clock;
use weir_engine::plan::{Plan, Want};
use weir_engine::stream::StreamSubscriber;
use weir_engine::subscriber::Subscriber;
use weir_engine::worker::Worker;
use weir_ir::abi::Continuation;
use weir_lang::diag::Diagnostics;
use weir_packet::{Burst, PacketMeta};

/// Finds the pair of hosts of packets.
pub struct HostPairs {
    /// `None`: the stack cannot be divided, so all packets are of one pair.
    plan: Option<Arc<Plan>>,
    k: Continuation,
}

/// The pair of hosts of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketPair {
    /// A number of the two outermost addresses; 0 for packets without addresses, which are one pair.
    pub pair: u64,
    /// The number of the two innermost addresses, which are those of the packet's innermost connection; the
    /// same number if the packet is in no tunnel. The same connection may be in several tunnels, or in none:
    /// pairs with equal inner ones cannot be divided, and neither can a pair and its inner ones.
    pub inner: u64,
}

impl HostPairs {
    /// Pairs as the stack of `compiler` finds them. A stack without a `dispatch` clause that keeps
    /// connections together has only one.
    ///
    /// # Errors
    /// The options contradict the stack.
    pub fn new(compiler: &Compiler, options: &Options) -> Result<Self, Diagnostics> {
        let k = Continuation::default();
        if workers::one_worker(compiler.stack()).is_some() {
            return Ok(Self { plan: None, k });
        }
        let need = Need { dispatch: true, ..Need::default() };
        let ask = Ask { filter: String::new(), need, want: Want::Packets };
        let compiled = compiler.compile(&[ask], &plain(options))?;
        Ok(Self { plan: Some(compiled.plan), k })
    }

    /// The pair of a packet.
    pub fn of(&mut self, packet: &PacketMeta, frame: &[u8]) -> PacketPair {
        let Some(plan) = &self.plan else { return PacketPair::default() };
        self.k.outs[..DISPATCH_SLOTS.len()].fill(0);
        plan.program.head(packet, frame, &mut self.k);
        let PacketKeys { hosts, inner_hosts, .. } = PacketKeys::of(&self.k.outs);
        PacketPair { pair: hosts, inner: inner_hosts }
    }
}

impl std::fmt::Debug for HostPairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPairs").field("is_divisible", &self.plan.is_some()).finish_non_exhaustive()
    }
}

/// The longest idle time-out of any flow of the stack of `compiler`; `None` if some flows have none.
pub fn longest_timeout(compiler: &Compiler, options: &Options) -> Option<Duration> {
    workers::longest_timeout(compiler.stack(), options.limits.idle_timeout_ms)
}

/// The options that decide about flows, without those of questions.
fn plain(options: &Options) -> Options {
    Options { timed: false, bpf: false, watch: None, narrow: false, sample: None, ..options.clone() }
}

/// A run that answers no question, and knows which flows exist.
pub struct FlowWatch(TickedWorker<Nothing>);

impl FlowWatch {
    /// A run without flows.
    ///
    /// # Errors
    /// The options contradict the stack.
    pub fn new(compiler: &Compiler, options: &Options) -> Result<Self, Diagnostics> {
        let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
        let compiled = compiler.compile(&[ask], &plain(options))?;
        Ok(Self(TickedWorker::new(Worker::new(compiled.plan, Nothing))))
    }

    /// Processes the packets of a burst.
    pub fn take(&mut self, burst: &Burst) {
        self.0.take(burst);
    }

    /// The clock of the run.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The number of the first packet of each flow, and the time in nanoseconds since 1970 at which its idle
    /// time-out passes if no more packets come. A packet that waits beside a flow counts as the first packet
    /// of one.
    pub fn live_flows(&self) -> impl Iterator<Item = (u64, i64)> {
        self.0.worker.live_flows()
    }
}

impl std::fmt::Debug for FlowWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowWatch").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}

struct Nothing;

impl Subscriber for Nothing {}
impl StreamSubscriber for Nothing {}
