//! Runs programs on single frames in the kernel, without an interface (`BPF_PROG_TEST_RUN`): for tests and
//! benchmarks.

use crate::bpf::{Program, ProgramKind};
use crate::fanout_program::{PLACES, hash_alone};
use crate::flow_map::FlowMap;
use crate::place::{Place, PlaceKind};
use crate::placement::Placement;
use crate::proof;
use std::io;
use std::sync::Arc;
#[cfg(doc)]
use weir_packet::KernelFilters;
use weir_packet::{KernelFilter, KernelFlows};

/// The result of XDP for packets that a question needs.
const XDP_PASS: u32 = 2;

/// A filter in the kernel.
#[derive(Debug)]
pub struct Trial {
    program: Program,
    needed: u32,
    flows: Option<Arc<FlowMap>>,
}

impl Trial {
    /// Loads a filter as a program of XDP. `flow_words`: those of the table of connections that the filter
    /// takes over ([`KernelFilters::flow_words`]), which is empty.
    ///
    /// # Errors
    /// If the process lacks the right, or the kernel refuses the program, with the reason.
    pub fn of_interface(filter: &KernelFilter, flow_words: Option<[usize; 3]>) -> io::Result<Self> {
        let place = PlaceKind::Interface { sockets: None, drops: true };
        Self::load(place, ProgramKind::Xdp, filter, flow_words, XDP_PASS)
    }

    /// Loads a filter as a socket filter.
    ///
    /// # Errors
    /// As [`of_interface`](Self::of_interface).
    pub fn of_socket(filter: &KernelFilter, flow_words: Option<[usize; 3]>) -> io::Result<Self> {
        Self::load(PlaceKind::Sockets, ProgramKind::Frames, filter, flow_words, i32::MAX as u32)
    }

    fn load(
        place: PlaceKind,
        kind: ProgramKind,
        filter: &KernelFilter,
        flow_words: Option<[usize; 3]>,
        needed: u32,
    ) -> io::Result<Self> {
        let place = Place::new(place)?;
        let flows = flow_words.map(FlowMap::new).transpose()?.map(Arc::new);
        let filter = place.part_of(filter);
        let program = place.program(Some(filter), flows.as_deref().map(FlowMap::number));
        Ok(Self { program: Program::load(kind, &program)?, needed, flows })
    }

    /// Whether some question needs the frame.
    ///
    /// # Errors
    /// If the kernel does not take frames of this length: shorter than 14 bytes, or longer than a page.
    pub fn needs(&self, frame: &[u8]) -> io::Result<bool> {
        self.program.run(frame, 1).map(|(result, _)| result == self.needed)
    }

    /// The connections that the filter takes over.
    pub fn flows(&self) -> Option<Arc<dyn KernelFlows>> {
        self.flows.clone().map(|flows| flows as Arc<dyn KernelFlows>)
    }

    /// Nanoseconds for a frame, over `repeat` runs.
    ///
    /// # Errors
    /// As [`needs`](Self::needs).
    pub fn nanoseconds(&self, frame: &[u8], repeat: u32) -> io::Result<u32> {
        self.program.run(frame, repeat).map(|(_, nanoseconds)| nanoseconds)
    }
}

/// Whether a [`Keeper`](crate::Keeper) loads a filter, for a driver and for a socket.
///
/// # Errors
/// The instruction that filters do not have.
pub fn check(filter: &KernelFilter, flow_words: Option<[usize; 3]>) -> Result<(), String> {
    let key_words = flow_words.map(|[key_words, ..]| key_words);
    proof::check(&filter.frame, true, key_words)?;
    proof::check(&filter.copy, false, key_words)
}

/// The assignment of packets to two workers in the kernel.
#[derive(Debug)]
pub struct Assignment {
    hash: Program,
    placement: Placement,
}

impl Assignment {
    /// Loads the program. No pair of hosts is known, and new ones go to the worker that their hash selects.
    ///
    /// # Errors
    /// If the process lacks the right, or the kernel refuses the program, with the reason.
    pub fn new() -> io::Result<Self> {
        Ok(Self { hash: Program::load(ProgramKind::Socket, &hash_alone())?, placement: Placement::new(2)? })
    }

    /// New pairs go to the worker that their hash does not select, from now on.
    pub fn move_new_pairs(&self) {
        (0..PLACES).for_each(|place| self.placement.assign(place, (place + 1) % 2));
    }

    /// The worker of a packet.
    ///
    /// # Errors
    /// If the kernel does not take frames of this length: shorter than an IP header, or longer than a page.
    pub fn worker_of(&self, frame: &[u8]) -> io::Result<u32> {
        self.placement.program().run(frame, 1).map(|(worker, _)| worker)
    }

    /// Nanoseconds for a frame, over `repeat` runs: of the hash alone, and of the whole program.
    ///
    /// # Errors
    /// As [`worker_of`](Self::worker_of).
    pub fn nanoseconds(&self, frame: &[u8], repeat: u32) -> io::Result<[u32; 2]> {
        Ok([self.hash.run(frame, repeat)?.1, self.placement.program().run(frame, repeat)?.1])
    }
}
