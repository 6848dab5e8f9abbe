//! `--memory`: the memory of a run, and the part of each worker.
//!
//! The process itself needs memory that the accounts of workers do not contain: its code, the blocks of
//! captures that are being read, the compiler, and the queues of outputs. Workers have equal parts of the
//! rest.

use crate::input_options::Input;
use crate::messages::failure::Failure;
use crate::quantity::bytes;
use crate::source::machine_memory::{self, Available, kilobytes_of};
use std::fs;
use weir::io::human;
use weir::link::{LinkOptions, dpdk};

/// Bytes of the process besides the accounts of workers.
const PROCESS_BYTES: u64 = 32 << 20;

/// With little memory, the process counts as this part of the whole.
const PROCESS_PART: u64 = 2;

/// The memory of a run if the memory of the machine is not known.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// Memory that a live run needs for flows.
const FLOWS_BYTES_MIN: u64 = 64 << 20;

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
/// If an option is no number of bytes.
pub fn of_worker(input: &Input) -> Result<usize, Failure> {
    let whole = match &input.memory {
        Some(text) => {
            let whole = bytes("--memory", text)?;
            if whole < MEMORY_MIN {
                return Err(Failure::new(format!(
                    "--memory {text}: {whole} bytes hold no connection: did you mean {whole}M?"
                )));
            }
            whole
        }
        None => {
            let half = machine_memory::total_bytes().map_or(UNKNOWN_BYTES, |machine| machine / 2);
            half.min(left_for_flows(input)?)
        }
    };
    let of_workers = whole - PROCESS_BYTES.min(whole / PROCESS_PART);
    let workers = input.workers.max(1) as u64;
    Ok(usize::try_from(of_workers / workers).unwrap_or(usize::MAX))
}

/// The least memory that can be asked for: fewer bytes are most likely meant as megabytes.
const MEMORY_MIN: u64 = 1000;

/// Memory that a run takes at once, before its first packet.
struct Claim {
    /// The option, with what multiplies it.
    what: String,
    bytes: u64,
}

/// The rings of a live run: that of a recorder, and those between the kernel and the workers.
fn claims(input: &Input) -> Result<Vec<Claim>, Failure> {
    let mut claims = vec![];
    // Huge pages that are set aside are not among the memory that is available.
    let ring = input.ring_bytes;
    if ring > 0 && machine_memory::free_huge_bytes() < ring {
        claims.push(Claim { what: format!("--ring {}", human::bytes(ring)), bytes: ring });
    }
    let sockets: Vec<&String> =
        input.interface.iter().filter(|name| !name.starts_with(dpdk::PREFIX)).collect();
    if sockets.is_empty() {
        return Ok(claims);
    }
    let usual = LinkOptions::default().buffer_bytes as u64;
    let buffer = input.buffer.as_deref().map_or(Ok(usual), |text| bytes("--buffer", text))?;
    let (each, count, of_what) = match input.method.as_str() {
        "af_xdp" => {
            let queues = sockets.iter().map(|name| queues(name)).sum();
            // Frames are a power of two, as the rings of their descriptions.
            (buffer.checked_next_power_of_two().unwrap_or(u64::MAX), queues, "queues")
        }
        _ => (buffer, (sockets.len() * input.workers.max(1)) as u64, "rings (interfaces × workers)"),
    };
    let what = format!("--buffer {} for each of {count} {of_what}", human::bytes(each));
    claims.push(Claim { what, bytes: each.saturating_mul(count) });
    Ok(claims)
}

/// The number of receive queues of an interface.
fn queues(name: &str) -> u64 {
    let entries = fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
    let receive = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"));
    (receive.count() as u64).max(1)
}

/// Memory that a live run leaves for flows; without limit for a run over files, which takes nothing at once.
fn left_for_flows(input: &Input) -> Result<u64, Failure> {
    let claims = claims(input)?;
    let Some(available) = machine_memory::available_at_start().filter(|_| !claims.is_empty()) else {
        return Ok(u64::MAX);
    };
    let taken = claims.iter().fold(0, |sum: u64, claim| sum.saturating_add(claim.bytes));
    Ok(available.bytes.saturating_sub(taken).max(FLOWS_BYTES_MIN))
}

/// Checks that the memory that the options ask for is there: all of them together, before anything is taken.
/// Otherwise the kernel would end a process for want of memory, and maybe that of somebody else.
///
/// # Errors
/// It is not there; the message has the figures.
pub fn check(input: &Input) -> Result<(), Failure> {
    let stated = input.memory.as_deref().map(|text| bytes("--memory", text)).transpose()?;
    let of_flows = |bytes: u64| Claim { what: format!("--memory {}", human::bytes(bytes)), bytes };
    let mut claims = claims(input)?;
    let is_live = !claims.is_empty();
    let there = match is_live {
        true => machine_memory::available_at_start().cloned(),
        // A run over files takes memory little by little, and others may give theirs back meanwhile.
        false => machine_memory::total_bytes()
            .map(|bytes| Available { bytes, by: "MemTotal, or the control group".to_string() }),
    };
    claims.extend(match stated {
        Some(bytes) => Some(of_flows(bytes)),
        None => is_live.then(|| Claim {
            what: format!("{} for flows", human::bytes(FLOWS_BYTES_MIN)),
            bytes: FLOWS_BYTES_MIN,
        }),
    });
    let wanted = claims.iter().fold(0, |sum: u64, claim| sum.saturating_add(claim.bytes));
    match there {
        Some(Available { bytes, by }) if wanted > bytes => {
            let parts: Vec<String> = claims.into_iter().map(|claim| claim.what).collect();
            Err(Failure::new(format!(
                "the run asks for {} of memory, and {} are there ({by}): {}; give smaller values",
                human::bytes(wanted),
                human::bytes(bytes),
                parts.join(" + ")
            )))
        }
        _ => Ok(()),
    }
}

/// The largest resident memory of this process so far, in bytes. `None` if the system does not say.
pub fn process_peak_bytes() -> Option<u64> {
    kilobytes_of(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}
