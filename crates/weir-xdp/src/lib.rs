//! The packet part of questions as eBPF, so that the kernel discards packets that no question needs before
//! they cost anything.
//!
//! * `sink`: the part of a graph that needs nothing but the packet.
//! * `select`: that part as code for a machine of eBPF with any number of registers (`code`).
//! * `allocate`, `emit`: registers, the stack, instructions.
//!
//! The kernel's part passes too many packets rather than too few: what eBPF cannot express counts as true.
//! `weir-link` loads the instructions.
#![forbid(unsafe_code)]

mod allocate;
mod code;
mod emit;
mod select;
mod sink;

pub use select::Place;
pub use sink::sink;

use weir_ir::graph::Graph;
use weir_ir::kernel_flows::KernelLayout;
use weir_packet::BpfInstruction;

/// Translates a graph that [`sink`] has made. A loop runs at most `turns` times, then the packet is passed.
/// `layout`: the entries of the flows of the graph.
///
/// # Errors
/// What the graph has that eBPF cannot express, as part of a sentence.
pub fn translate(
    sunk: &Graph,
    place: Place,
    turns: u32,
    layout: &KernelLayout,
) -> Result<Vec<BpfInstruction>, &'static str> {
    let code = select::select(sunk, place, turns, layout).map_err(|unfit| unfit.0)?;
    emit::emit(&code).map_err(|unfit| unfit.0)
}
