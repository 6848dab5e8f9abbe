//! A sender of frames that is faster than programs which receive them: a program of XDP that the kernel runs by itself
//! (`BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, Documentation/bpf/bpf_prog_run.rst).
//!
//! The program writes the next frame of a map into each packet, and redirects the packet to an interface. One system call sends
//! many packets; sockets and their buffers are not involved.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::shell::{Result, said};

/// Bytes of a frame at most: those of Ethernet without tags.
pub const FRAME_BYTES_MAX: usize = 1514;
/// Bytes of a frame at least: its header.
const FRAME_BYTES_MIN: usize = 14;
/// A value of the map: the length, and the frame.
const VALUE_BYTES: usize = (8 + FRAME_BYTES_MAX).next_multiple_of(8);

/// Packets of a group. The kernel makes and sends a group at once, as a network card interrupts the machine once for several
/// packets. The number is a power of two, and less than the 256 places of a queue of veth.
const GROUP_PACKETS: u32 = 64;
/// Times that the program looks whether a packet is due before it gives up: together about a millisecond. The kernel's verifier
/// accepts up to 8192.
const WAITS_MAX: i32 = 4096;
/// Readings of the clock each time.
const READINGS: usize = 8;
/// Packets of a call at most. A call takes 25 ms more, in which nothing is sent (2026-11-26).
const CALL_PACKETS_MAX: f64 = 4e6;
/// More packets per second than a processor sends.
const UNBOUNDED_PER_S: f64 = 1e9;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_XDP: u32 = 6;
const LIVE_FRAMES: u32 = 1 << 1;

/// `union bpf_attr` (linux/bpf.h): the kernel reads the members of a command, by their places.
type Attributes = [u64; 16];

/// What program and process share: the number of the next frame, packets sent, the start in nanoseconds of the monotonic clock,
/// and packets per nanosecond, times 2 to the power of [`RATE_BITS`].
type State = [u64; 4];
const RATE_BITS: i32 = 24;

/// Sends frames again and again, in order.
#[derive(Debug)]
pub struct LiveFrames {
    program: OwnedFd,
    state: OwnedFd,
    /// The frames are in this map.
    _frames: OwnedFd,
    longest_bytes: usize,
}

impl LiveFrames {
    /// A sender on the interface of this name, in the network namespace of the process.
    ///
    /// # Errors
    /// If a frame is too long or too short, there is no such interface, or the process lacks CAP_BPF and CAP_NET_ADMIN.
    pub fn new(interface: &str, frames: &[Vec<u8>]) -> Result<Self> {
        if let Some(wrong) = frames.iter().find(|f| !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&f.len())) {
            return Err(format!("a frame of {} bytes: frames have 14 to {FRAME_BYTES_MAX}", wrong.len()));
        }
        let name = std::ffi::CString::new(interface).map_err(said(interface))?;
        // SAFETY: the name ends with a zero byte.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(format!("{interface}: {}", io::Error::last_os_error()));
        }
        let map_of_frames = map(VALUE_BYTES, frames.len()).map_err(said("a map of frames"))?;
        for (number, frame) in frames.iter().enumerate() {
            let mut value = [0u8; VALUE_BYTES];
            value[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
            value[8..8 + frame.len()].copy_from_slice(frame);
            set(&map_of_frames, number as u32, &value).map_err(said("a map of frames"))?;
        }
        let longest_bytes = frames.iter().map(Vec::len).max().unwrap_or(FRAME_BYTES_MIN);
        let state = map(size_of::<State>(), 1).map_err(said("a map"))?;
        let maps = (map_of_frames.as_raw_fd(), state.as_raw_fd());
        let program = load(&code(maps, index, frames.len(), longest_bytes)).map_err(said("the sender"))?;
        Ok(Self { program, state, _frames: map_of_frames, longest_bytes })
    }

    /// Sends for a time, at a rate of packets per second or, with `None`, as fast as possible. Returns the number of packets
    /// sent, of which the interface may lose some, and the time that sending took. The time between two calls of the kernel is
    /// not made up for.
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub fn send(&self, rate: Option<f64>, time: Duration) -> Result<(u64, Duration)> {
        let rate = rate.unwrap_or(UNBOUNDED_PER_S);
        let per_ns = rate / 1e9 * f64::from(1 << RATE_BITS);
        let (began, mut sent) = (Instant::now(), 0);
        while began.elapsed() < time {
            let [next, ..] = self.read().map_err(said("the sender's map"))?;
            let state: State = [next, 0, now_ns(), per_ns as u64];
            let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_ne_bytes()).collect();
            set(&self.state, 0, &bytes).map_err(said("the sender's map"))?;
            let left = (time.saturating_sub(began.elapsed()).as_secs_f64() * rate).min(CALL_PACKETS_MAX);
            self.run((left as u32).next_multiple_of(GROUP_PACKETS).max(GROUP_PACKETS))
                .map_err(said("live frames"))?;
            sent += self.read().map_err(said("the sender's map"))?[1];
        }
        Ok((sent, began.elapsed()))
    }

    fn read(&self) -> io::Result<State> {
        let (key, mut state) = (0u32, State::default());
        let mut attributes = Attributes::default();
        // map_fd; key; value.
        attributes[0] = self.state.as_raw_fd() as u64;
        attributes[1] = (&raw const key).expose_provenance() as u64;
        attributes[2] = state.as_mut_ptr().expose_provenance() as u64;
        call(MAP_LOOKUP_ELEM, &mut attributes)?;
        Ok(state)
    }

    fn run(&self, packets: u32) -> io::Result<()> {
        let frame = [0u8; FRAME_BYTES_MAX];
        let mut attributes = Attributes::default();
        // prog_fd, retval; data_size_in, data_size_out; data_in; data_out; repeat, duration; ctx_size_in, ctx_size_out; ctx_in;
        // ctx_out; flags, cpu; batch_size.
        attributes[0] = self.program.as_raw_fd() as u64;
        attributes[1] = self.longest_bytes as u64;
        attributes[2] = frame.as_ptr().expose_provenance() as u64;
        attributes[4] = u64::from(packets);
        attributes[8] = u64::from(LIVE_FRAMES);
        attributes[9] = u64::from(GROUP_PACKETS);
        call(PROG_TEST_RUN, &mut attributes).map(drop)
    }
}

/// Binds the calling thread to a processor, where it runs before all programs without real-time priority.
///
/// # Errors
/// If there is no such processor, or the process lacks CAP_SYS_NICE.
pub fn claim_processor(number: usize) -> Result {
    // SAFETY: zeros are an empty set; the set and the parameters live across the calls.
    let is_done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number, &mut set);
        let first = libc::sched_param { sched_priority: 1 };
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
            && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0
    };
    if is_done { Ok(()) } else { Err(format!("processor {number}: {}", io::Error::last_os_error())) }
}

/// The monotonic clock, nanoseconds, as `bpf_ktime_get_ns` reads it.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}

fn call(command: libc::c_int, attributes: &mut Attributes) -> io::Result<libc::c_long> {
    // SAFETY: the kernel accesses the attributes, and the buffers that the callers name in them and keep alive.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of::<Attributes>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor(command: libc::c_int, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Two members of 32 bits, in the order of memory.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// An array of values.
fn map(value_bytes: usize, entries: usize) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    // map_type, key_size; value_size, max_entries.
    attributes[0] = pair(MAP_TYPE_ARRAY, 4);
    attributes[1] = pair(value_bytes as u32, entries as u32);
    descriptor(MAP_CREATE, &mut attributes)
}

fn set(map: &OwnedFd, key: u32, value: &[u8]) -> io::Result<()> {
    let mut attributes = Attributes::default();
    // map_fd; key; value; flags.
    attributes[0] = map.as_raw_fd() as u64;
    attributes[1] = (&raw const key).expose_provenance() as u64;
    attributes[2] = value.as_ptr().expose_provenance() as u64;
    call(MAP_UPDATE_ELEM, &mut attributes).map(drop)
}

fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    // prog_type, insn_cnt; insns; license; log_level, log_size; log_buf.
    attributes[0] = pair(PROG_TYPE_XDP, code.len() as u32);
    attributes[1] = code.as_ptr().expose_provenance() as u64;
    attributes[2] = c"Apache-2.0".as_ptr().expose_provenance() as u64;
    descriptor(PROG_LOAD, &mut attributes)
}

/// The offset of jumps to the end of the program, which drops the packet.
const TO_DROP: i16 = i16::MIN;

/// The program. r6: the context, r7: the state, r8: the value of the frame, r9: its length.
fn code((frames, state): (i32, i32), interface: u32, count: usize, longest_bytes: usize) -> Vec<u64> {
    // An instruction of eBPF: operation, registers, offset, constant (RFC 9669, section 3).
    let op = |code: u8, to: u8, from: u8, offset: i16, value: i32| (code, from << 4 | to, offset, value);
    let call = |function: i32| op(0x85, 0, 0, 0, function);
    // The entry of a map, by the key at r10 - 4; r0 is its place. bpf_map_lookup_elem.
    let entry = |map: i32| {
        let lookup =
            [op(0x18, 1, 1, 0, map), op(0, 0, 0, 0, 0), op(0xbf, 2, 10, 0, 0), op(0x07, 2, 0, 0, -4)];
        lookup.into_iter().chain([call(1), op(0x15, 0, 0, TO_DROP, 0)])
    };
    let mut all = vec![op(0xbf, 6, 1, 0, 0), op(0x62, 10, 0, -4, 0)];
    all.extend(entry(state));
    all.extend([
        op(0xbf, 7, 0, 0, 0),
        // r0: the packets that are due, by bpf_ktime_get_ns. r1: those sent. r8: attempts.
        op(0xb7, 8, 0, 0, 0),
    ]);
    all.extend([call(5); READINGS]);
    all.extend([
        op(0x79, 1, 7, 16, 0),
        op(0x1f, 0, 1, 0, 0),
        op(0x79, 1, 7, 24, 0),
        op(0x2f, 0, 1, 0, 0),
        op(0x77, 0, 0, 0, RATE_BITS),
        op(0x57, 0, 0, 0, -(GROUP_PACKETS as i32)),
        op(0x79, 1, 7, 8, 0),
        op(0xad, 1, 0, 3, 0),
        op(0x07, 8, 0, 0, 1),
        op(0xa5, 8, 0, -10 - READINGS as i16, WAITS_MAX),
        op(0x05, 0, 0, TO_DROP, 0),
        op(0x07, 1, 0, 0, 1),
        op(0x7b, 7, 1, 8, 0),
        // r2: the number of the frame that is sent now. The state gets the number of the frame after it, which is 0 after the last one.
        op(0x79, 2, 7, 0, 0),
        op(0x63, 10, 2, -4, 0),
        op(0x07, 2, 0, 0, 1),
        op(0xa5, 2, 0, 1, count as i32),
        op(0xb7, 2, 0, 0, 0),
        op(0x7b, 7, 2, 0, 0),
    ]);
    all.extend(entry(frames));
    all.extend([
        op(0xbf, 8, 0, 0, 0),
        op(0x61, 9, 8, 0, 0),
        op(0x25, 9, 0, TO_DROP, FRAME_BYTES_MAX as i32),
        op(0xa5, 9, 0, TO_DROP, FRAME_BYTES_MIN as i32),
        // bpf_xdp_adjust_tail: the packet, which has the longest length, gets the frame's.
        op(0xbf, 1, 6, 0, 0),
        op(0xbf, 2, 9, 0, 0),
        op(0x07, 2, 0, 0, -(longest_bytes as i32)),
        call(65),
        // bpf_xdp_store_bytes.
        op(0xbf, 1, 6, 0, 0),
        op(0xb7, 2, 0, 0, 0),
        op(0xbf, 3, 8, 0, 0),
        op(0x07, 3, 0, 0, 8),
        op(0xbf, 4, 9, 0, 0),
        call(190),
        // bpf_redirect.
        op(0xb7, 1, 0, 0, interface.cast_signed()),
        op(0xb7, 2, 0, 0, 0),
        call(23),
        op(0x95, 0, 0, 0, 0),
    ]);
    let drop = all.len() as i16;
    all.extend([op(0xb7, 0, 0, 0, 1), op(0x95, 0, 0, 0, 0)]);
    let encoded = |(index, (code, registers, offset, value)): (usize, (u8, u8, i16, i32))| {
        let offset = if offset == TO_DROP { drop - index as i16 - 1 } else { offset };
        u64::from(code)
            | u64::from(registers) << 8
            | u64::from(offset.cast_unsigned()) << 16
            | u64::from(value.cast_unsigned()) << 32
    };
    all.into_iter().enumerate().map(encoded).collect()
}
