//! A sender of frames that is faster than programs which receive them, for benchmarks: a program of XDP that
//! the kernel runs by itself (`BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`,
//! Documentation/bpf/bpf_prog_run.rst; Linux 5.18).
//!
//! The program writes the next frame of a list into each packet, and redirects the packet to an interface.
//! One system call sends many packets; sockets and their buffers are not involved.

use crate::assembly::{
    ADD, ADJUST_TAIL, AND, Assembly, GREATER, LESS, MULTIPLY, REDIRECT_TO, SHIFT_RIGHT, STORE_BYTES,
    SUBTRACT, TIME,
};
use crate::bpf::{Program, ProgramKind, SharedWords};
use crate::system::{clock, interface_index};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_packet::BpfInstruction;
use weir_packet::bpf::code::DOUBLE;

/// Bytes of a frame at most: those of Ethernet without tags.
pub const FRAME_BYTES_MAX: usize = 1514;
/// Bytes of a frame at least: its header.
pub const FRAME_BYTES_MIN: usize = 14;
/// Frames at most: together 100 MB.
pub const FRAMES_MAX: usize = 1 << 16;
/// Words of a frame in the list: the length, and the bytes.
const FRAME_WORDS: usize = 1 + FRAME_BYTES_MAX.div_ceil(8);

/// Packets of a group. The kernel makes and sends a group at once, as a network card interrupts the machine
/// once for several packets. The number is a power of two, and less than the 256 places of a queue of veth.
const GROUP_PACKETS: u32 = 64;
/// Times that the program looks whether a packet is due before it gives up: together about a millisecond. The
/// kernel's verifier accepts up to 8192.
const WAITS_MAX: i32 = 4096;
/// Readings of the clock each time: one alone would take less time than the verifier's limit needs for a
/// millisecond.
const READINGS: usize = 8;
/// Packets of a call at most. A call takes 25 ms more, in which nothing is sent (2026-11-26).
const CALL_PACKETS_MAX: f64 = 4e6;
/// More packets per second than a processor sends.
const UNBOUNDED_PER_S: f64 = 1e9;

/// The words that program and process share: the number of the next frame.
const NEXT: usize = 0;
/// Packets sent in this call.
const SENT: usize = 1;
/// The start of the call, nanoseconds of the monotonic clock.
const START: usize = 2;
/// Packets per nanosecond, times 2 to the power of [`RATE_BITS`].
const RATE: usize = 3;
/// Packets that were due in this call when the program read the clock last.
const DUE: usize = 4;
const STATE_WORDS: usize = 5;
const RATE_BITS: i32 = 24;

/// The result of XDP for packets that are not sent.
const XDP_DROP: i32 = 1;

/// Sends frames again and again, in order.
#[derive(Debug)]
pub struct LiveFrames {
    program: Program,
    state: SharedWords,
    /// The program reads the frames.
    _frames: SharedWords,
    longest_bytes: usize,
}

impl LiveFrames {
    /// A sender on the interface of this name, in the network namespace of the process.
    ///
    /// # Errors
    /// If there are no frames or more than [`FRAMES_MAX`], a frame is shorter than [`FRAME_BYTES_MIN`] or
    /// longer than [`FRAME_BYTES_MAX`], there is no such interface, or the process lacks CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn new(interface: &str, frames: &[Vec<u8>]) -> io::Result<Self> {
        let wrong = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        if frames.is_empty() || frames.len() > FRAMES_MAX {
            return Err(wrong(format!("{} frames: there have to be 1 to {FRAMES_MAX}", frames.len())));
        }
        let lengths = FRAME_BYTES_MIN..=FRAME_BYTES_MAX;
        if let Some(frame) = frames.iter().find(|frame| !lengths.contains(&frame.len())) {
            let bytes = frame.len();
            return Err(wrong(format!(
                "a frame of {bytes} bytes: frames have {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"
            )));
        }
        let interface = interface_index(interface)?;
        let (list, state) = (SharedWords::new(frames.len() * FRAME_WORDS)?, SharedWords::new(STATE_WORDS)?);
        for (number, frame) in frames.iter().enumerate() {
            let first = number * FRAME_WORDS;
            list.word(first).store(frame.len() as u64, Ordering::Relaxed);
            for (index, bytes) in frame.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                list.word(first + 1 + index).store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
        }
        let longest_bytes = frames.iter().map(Vec::len).max().unwrap_or(FRAME_BYTES_MIN);
        let code = sender(&list, &state, interface, frames.len(), longest_bytes);
        let program = Program::load(ProgramKind::Xdp, &code)?;
        Ok(Self { program, state, _frames: list, longest_bytes })
    }

    /// Sends for a time, at a rate of packets per second or, with `None`, as fast as possible. Returns the
    /// number of packets sent, of which the interface may lose some, and the time that sending took. The time
    /// between two calls of the kernel is not made up for.
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub fn send(&self, rate: Option<f64>, time: Duration) -> io::Result<(u64, Duration)> {
        let rate = rate.unwrap_or(UNBOUNDED_PER_S);
        let per_ns = rate / 1e9 * f64::from(1 << RATE_BITS);
        let (began, mut sent) = (Instant::now(), 0);
        while began.elapsed() < time {
            let (now_ns, _) = clock();
            let start = [(SENT, 0), (DUE, 0), (START, now_ns.cast_unsigned()), (RATE, per_ns as u64)];
            for (word, value) in start {
                self.state.word(word).store(value, Ordering::SeqCst);
            }
            let left = (time.saturating_sub(began.elapsed()).as_secs_f64() * rate).min(CALL_PACKETS_MAX);
            let packets = (left as u32).next_multiple_of(GROUP_PACKETS).max(GROUP_PACKETS);
            self.program.run_live(&vec![0; self.longest_bytes], packets, GROUP_PACKETS)?;
            sent += self.state.word(SENT).load(Ordering::SeqCst);
        }
        Ok((sent, began.elapsed()))
    }
}

/// The place of a word.
fn place(word: usize) -> i16 {
    8 * word as i16
}

/// The program. Registers: 6 is the context, 7 the state, 8 the frame, 9 the frame's length.
fn sender(
    frames: &SharedWords,
    state: &SharedWords,
    interface: u32,
    count: usize,
    longest_bytes: usize,
) -> Vec<BpfInstruction> {
    let mut all = Assembly::default();
    let [is_due, has_frame, has_next, discarded] = [(); 4].map(|()| all.label());
    all.copy(6, 1);
    all.set_address(7, state.number(), 0);
    // Waits until a packet is due. Register 8: attempts; 0: packets that are due; 1: those sent. The clock is
    // read only if no packet was due at the last reading: eight readings take longer than sending a packet.
    all.load(DOUBLE, 1, 7, place(SENT));
    all.load(DOUBLE, 0, 7, place(DUE));
    all.jump_if_register(LESS, 1, 0, is_due);
    all.set(8, 0);
    let attempt = all.here();
    (0..READINGS).for_each(|_| all.call(TIME));
    all.load(DOUBLE, 1, 7, place(START));
    all.compute_with(SUBTRACT, 0, 1);
    all.load(DOUBLE, 1, 7, place(RATE));
    all.compute_with(MULTIPLY, 0, 1);
    all.compute(SHIFT_RIGHT, 0, RATE_BITS);
    all.compute(AND, 0, -GROUP_PACKETS.cast_signed());
    all.store(DOUBLE, 7, place(DUE), 0);
    all.load(DOUBLE, 1, 7, place(SENT));
    all.jump_if_register(LESS, 1, 0, is_due);
    all.compute(ADD, 8, 1);
    all.repeat_if(LESS, 8, WAITS_MAX, attempt);
    all.jump(discarded);
    all.place(is_due);
    all.compute(ADD, 1, 1);
    all.store(DOUBLE, 7, place(SENT), 1);
    // Register 2: the number of the frame; 3: that of the next one.
    all.load(DOUBLE, 2, 7, place(NEXT));
    all.jump_if(LESS, 2, count as i32, has_frame);
    all.set(2, 0);
    all.place(has_frame);
    all.copy(3, 2);
    all.compute(ADD, 3, 1);
    all.jump_if(LESS, 3, count as i32, has_next);
    all.set(3, 0);
    all.place(has_next);
    all.store(DOUBLE, 7, place(NEXT), 3);
    all.set_address(8, frames.number(), 0);
    all.compute(MULTIPLY, 2, 8 * FRAME_WORDS as i32);
    all.add_register(8, 2);
    all.load(DOUBLE, 9, 8, 0);
    all.jump_if(GREATER, 9, FRAME_BYTES_MAX as i32, discarded);
    all.jump_if(LESS, 9, FRAME_BYTES_MIN as i32, discarded);
    // The packet, which has the longest length, gets the frame's.
    all.copy(1, 6);
    all.copy(2, 9);
    all.add(2, -(longest_bytes as i32));
    all.call(ADJUST_TAIL);
    all.copy(1, 6);
    all.set(2, 0);
    all.copy(3, 8);
    all.add(3, place(1).into());
    all.copy(4, 9);
    all.call(STORE_BYTES);
    all.set(1, interface.cast_signed());
    all.set(2, 0);
    all.call(REDIRECT_TO);
    all.exit();
    all.place(discarded);
    all.set(0, XDP_DROP);
    all.exit();
    all.finish()
}
