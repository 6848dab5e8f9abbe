//! The cost of programs in the kernel: of filters, and of the assignment of packets to workers.

use crate::shell::{Result, build_example_of, output};
use std::process::Command;

pub const TITLE: &str = "Filters in the kernel";

/// The table, as the example prints it.
pub fn table() -> Result<String> {
    let example = build_example_of("weir-testing", "kernel_costs")?;
    Ok(format!("\n### {TITLE}\n\n{}", output(&mut Command::new(example))?))
}
