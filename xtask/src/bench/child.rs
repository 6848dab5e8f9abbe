//! One measured run of a whole process: wall time, peak memory, processor time, the head of its output.
//! Processors of processes and threads.

use std::fs::File;
use std::io::{self, Read};
use std::mem::zeroed;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::shell::{Result, said};

#[derive(Clone, Debug)]
pub struct Run {
    pub wall_s: f64,
    /// User and system time of all its threads, in seconds.
    pub busy_s: f64,
    pub peak_bytes: u64,
    pub succeeded: bool,
    /// The first number in its output.
    pub answer: Option<u64>,
}

/// Runs `command` to its end. Its output is discarded or, with `keep_output`, written to a file under
/// `scratch` (a pipe would need a concurrent reader).
pub fn measure(command: &[String], scratch: &Path, keep_output: bool) -> Result<Run> {
    let (program, args) = command.split_first().ok_or("an empty command")?;
    let path = if keep_output { scratch.join("stdout") } else { "/dev/null".into() };
    let stdout = File::create(&path).map_err(said(path.display()))?;
    let begun = Instant::now();
    let child = Command::new(program)
        .args(args)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .map_err(said(program))?;
    let (status, usage) = wait(child.id())?;
    let wall_s = begun.elapsed().as_secs_f64();
    let answer = if keep_output { first_number(&path)? } else { None };
    Ok(Run {
        wall_s,
        busy_s: busy_s(&usage),
        peak_bytes: usage.ru_maxrss.cast_unsigned() * 1024, // kilobytes on Linux, getrusage(2)
        // Exit status 1 means that nothing matched, as for grep.
        succeeded: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) <= 1,
        answer,
    })
}

/// User and system time of a process that has ended, in seconds.
pub fn busy_s(usage: &libc::rusage) -> f64 {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// wait4(2): the only call that returns the memory of this one child.
pub fn wait(pid: u32) -> Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: rusage is plain data, valid when zero.
    let mut usage: libc::rusage = unsafe { zeroed() };
    loop {
        // SAFETY: both out-pointers live across the call; the child is ours and not waited for elsewhere.
        let got = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage) };
        if got == pid.cast_signed() {
            return Ok((status, usage));
        }
        let trouble = io::Error::last_os_error();
        if trouble.kind() != io::ErrorKind::Interrupted {
            return Err(format!("wait4: {trouble}"));
        }
    }
}

/// Processor time of a process so far, nanoseconds, those of its threads that have ended included
/// (clock_getcpuclockid(3)).
pub fn run_time_ns(pid: u32) -> Result<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both out-pointers live across the calls.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    match is_read {
        true => Ok((time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()),
        false => Err(format!("process {pid} has no processor time: it has ended")),
    }
}

/// Binds the calling thread to a processor, where it runs before all programs without real-time priority.
///
/// # Errors
/// If there is no such processor, or the process lacks CAP_SYS_NICE.
pub fn claim_processor(number: usize) -> Result {
    // SAFETY: zeros are an empty set; the set and the parameters live across the calls.
    let is_done = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(number, &mut set);
        let first = libc::sched_param { sched_priority: 1 };
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
            && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0
    };
    if is_done { Ok(()) } else { Err(format!("processor {number}: {}", io::Error::last_os_error())) }
}

fn first_number(path: &Path) -> Result<Option<u64>> {
    let mut head = Vec::new();
    File::open(path).and_then(|f| f.take(4096).read_to_end(&mut head)).map_err(said(path.display()))?;
    let digits: String = String::from_utf8_lossy(&head)
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| c.is_ascii_digit())
        .collect();
    Ok(digits.parse().ok())
}
