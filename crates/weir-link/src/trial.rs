//! Runs filters on single frames in the kernel, without an interface (`BPF_PROG_TEST_RUN`): for tests and benchmarks.

use crate::bpf::{CountMap, Program, ProgramKind, ScratchMap};
use crate::programs::{Fate, for_interface, for_socket};
use std::io;
use weir_packet::KernelFilter;

/// The result of XDP for packets that a question needs.
const XDP_PASS: u32 = 2;

/// A filter in the kernel.
#[derive(Debug)]
pub struct Trial {
    program: Program,
    needed: u32,
}

impl Trial {
    /// Loads a filter as a program of XDP.
    ///
    /// # Errors
    /// If the process lacks the right, or the kernel refuses the program, with the reason.
    pub fn of_interface(filter: &KernelFilter) -> io::Result<Self> {
        let counts = CountMap::new()?;
        let program = for_interface(Fate { sockets: None, drops: true }, Some(filter), &counts);
        Ok(Self { program: Program::load(ProgramKind::Xdp, &program)?, needed: XDP_PASS })
    }

    /// Loads a filter as a socket filter.
    ///
    /// # Errors
    /// As [`of_interface`](Self::of_interface).
    pub fn of_socket(filter: &KernelFilter) -> io::Result<Self> {
        let (scratch, counts) = (ScratchMap::new()?, CountMap::new()?);
        let program = for_socket(filter, &scratch, &counts);
        Ok(Self { program: Program::load(ProgramKind::Frames, &program)?, needed: i32::MAX as u32 })
    }

    /// Whether some question needs the frame.
    ///
    /// # Errors
    /// If the kernel does not take frames of this length: shorter than 14 bytes, or longer than a page.
    pub fn needs(&self, frame: &[u8]) -> io::Result<bool> {
        self.program.run(frame, 1).map(|(result, _)| result == self.needed)
    }

    /// Nanoseconds for a frame, over `repeat` runs.
    ///
    /// # Errors
    /// As [`needs`](Self::needs).
    pub fn nanoseconds(&self, frame: &[u8], repeat: u32) -> io::Result<u32> {
        self.program.run(frame, repeat).map(|(_, nanoseconds)| nanoseconds)
    }
}
