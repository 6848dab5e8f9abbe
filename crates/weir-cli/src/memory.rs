//! `--memory`: the memory of a run, and the part of each worker.
//!
//! The process itself needs memory that the accounts of workers do not contain: its code, the blocks of
//! captures that are being read, the compiler, and the queues of outputs. Workers have equal parts of the
//! rest.

use crate::args::Input;
use crate::failure::Failure;
use crate::quantity::bytes;
use std::fs;

/// Bytes of the process besides the accounts of workers.
const PROCESS_BYTES: u64 = 32 << 20;

/// With little memory, the process counts as this part of the whole.
const PROCESS_PART: u64 = 2;

/// The memory of a run if the memory of the machine is not known.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// What questions keep until later rows, or until the end of the run, takes this part of a worker's memory.
const KEPT_PART: usize = 8;

/// Bytes of memory for each thing that a question keeps (hosts, names, rows to be sorted), if this many
/// questions of the run keep something.
///
/// # Errors
/// As [`of_worker`].
pub fn of_question(input: &Input, keepers: usize) -> Result<usize, Failure> {
    Ok(of_worker(input)? / KEPT_PART / keepers.max(1))
}

/// Bytes of memory of each worker.
///
/// # Errors
/// If the option is no number of bytes.
pub fn of_worker(input: &Input) -> Result<usize, Failure> {
    let whole = match &input.memory {
        Some(text) => bytes("--memory", text)?,
        None => machine_bytes().map_or(UNKNOWN_BYTES, |machine| machine / 2),
    };
    let of_workers = whole - PROCESS_BYTES.min(whole / PROCESS_PART);
    let workers = input.workers.max(1) as u64;
    Ok(usize::try_from(of_workers / workers).unwrap_or(usize::MAX))
}

/// The memory of the machine, or of the control group that the process runs in, if that is less. `None` if
/// the system does not say.
fn machine_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes_of(&text, "MemTotal:"));
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// The largest resident memory of this process so far, in bytes. `None` if the system does not say.
pub fn process_peak_bytes() -> Option<u64> {
    kilobytes_of(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// The bytes of a line `name  12 kB` in a text of `/proc`.
fn kilobytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let text = "MemTotal:       24690000 kB\nMemFree:         1234 kB\n";
        assert_eq!(kilobytes_of(text, "MemTotal:"), Some(24_690_000 * 1024));
        assert_eq!(kilobytes_of("MemFree: 12 kB\n", "MemTotal:"), None);
        assert_eq!(kilobytes_of("MemTotal: many kB\n", "MemTotal:"), None);
    }
}
