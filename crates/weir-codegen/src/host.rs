//! What native code calls: searching, sets, and the engine behind [`Host`].
//!
//! Every function here is called by native code with the [`Env`] that `native.rs` made for this one
//! run. A panic of the host can't unwind through native code, which has no unwind tables: it is
//! caught and kept in [`Env::fault`], everything that is called after it does nothing and yields 0 (so
//! the packet's work, which the graph bounds, comes to its end), and `native.rs` lets it go on.
//!
//! Host functions find their arguments in an array of words and leave their results in it, from the
//! start.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, METAS_MAX, OrderedBytes, SeqInsert, SeqInserted, SeqSide, Slice,
};
use weir_ir::graph::{Event, Graph, Pattern, Sequence, Set, Table};
use weir_ir::patterns::Patterns;
use weir_packet::Direction;

/// Bytes as native code reads them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    pub address: *const u8,
    pub length: usize,
}

/// The world of one run.
#[repr(C)]
pub(crate) struct Env<'a> {
    /// The numbers of a residual filter; native code reads them.
    pub numbers: *const u64,
    /// Its bytes; native code reads them.
    pub bytes: *const Bytes,
    pub graph: &'a Graph,
    pub patterns: &'a Patterns,
    pub host: Option<&'a mut dyn Host>,
    pub flow_id: u32,
    pub flow_data: *mut u8,
    pub flow_bytes: usize,
    pub k: *mut Continuation,
    /// What a callee panicked with.
    pub fault: Option<Box<dyn Any + Send>>,
}

impl<'a> Env<'a> {
    /// Calls `f`, keeps what it panics with. Does nothing after a fault.
    fn guard<T: Default>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        if self.fault.is_some() {
            return T::default();
        }
        // The run is over once something has panicked: nobody looks at what it left half done.
        match catch_unwind(AssertUnwindSafe(|| f(self))) {
            Ok(result) => result,
            Err(fault) => {
                self.fault = Some(fault);
                T::default()
            }
        }
    }

    /// The host and the flow.
    fn split(&mut self) -> (&mut dyn Host, FlowRecord<'_>) {
        // SAFETY: the two describe the `data` of the flow record that `resume` was given, which it
        // borrows until native code has returned; native code waits for us, so nobody else uses it.
        let data = unsafe { slice_mut(self.flow_data, self.flow_bytes) };
        let host = self.host.as_deref_mut().expect("a program asks for the host before its first lookup");
        (host, FlowRecord { id: self.flow_id, data })
    }

    /// Keeps a slice until the packet is done; its bytes as native code reads them.
    fn keep(&mut self, slice: Slice) -> Bytes {
        let bytes = slice.bytes();
        let bytes = Bytes { address: bytes.as_ptr(), length: bytes.len() };
        // SAFETY: `k` is the continuation that the program was called with, borrowed until it returns.
        unsafe { (*self.k).keep(slice) };
        bytes
    }
}

/// # Safety
/// `address` is that of `length` bytes that nobody else uses for as long as `'a`.
unsafe fn slice_mut<'a>(address: *mut u8, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(address, length) }
}

/// `offset .. offset + length` of a buffer, cut to it.
///
/// # Safety
/// `address` is that of `bytes` bytes that nobody writes to for as long as `'a`.
unsafe fn cut<'a>(address: u64, bytes: u64, offset: u64, length: u64) -> &'a [u8] {
    let start = offset.min(bytes);
    let length = length.min(bytes - start);
    if length == 0 {
        return &[];
    }
    // SAFETY: within the buffer, as the caller promises.
    unsafe { std::slice::from_raw_parts((address as *const u8).add(start as usize), length as usize) }
}

/// Words that the array of a host function has at least, however few arguments are in it.
pub(crate) const WORDS_MIN: usize = NEXT_WORDS + METAS_MAX;
/// Of these what comes before the metas of what `seq_next` yields.
const NEXT_WORDS: usize = 7;

/// The array of words of a host function that leaves results in it.
///
/// # Safety
/// `words` is that of native code, which waits for us, and has `count` words or [`WORDS_MIN`].
unsafe fn array<'a>(words: *mut u64, count: u64) -> &'a mut [u64] {
    // SAFETY: as the caller promises; words that nobody has written yet hold some number.
    unsafe { std::slice::from_raw_parts_mut(words, (count as usize).max(WORDS_MIN)) }
}

/// A direction as a word of native code: 0 is the originator's.
fn direction(word: u64) -> Direction {
    Direction::responder_if(word != 0)
}

/// The direction of a sequence that a host function was called for.
fn seq_side(sequence: u64, flow: FlowRecord<'_>, side: u64) -> SeqSide<'_> {
    SeqSide { sequence: Sequence(sequence as u32), flow, direction: direction(side) }
}

/// Whether a pattern occurs.
pub(crate) unsafe extern "C" fn search(
    env: *mut Env<'_>,
    pattern: u64,
    address: u64,
    bytes: u64,
    offset: u64,
    length: u64,
) -> u64 {
    // SAFETY: native code passes on the `env` that it was called with.
    let env = unsafe { &mut *env };
    // SAFETY: a buffer is the frame, an input, or a slice in `k.buffers`: alive and unchanged until the
    // packet is done.
    let bytes = unsafe { cut(address, bytes, offset, length) };
    env.guard(|env| u64::from(env.patterns.search(Pattern(pattern as u32), bytes)))
}

/// The sum of a part of a buffer and a number. It can't panic: nothing is to be caught.
pub(crate) unsafe extern "C" fn sum16(address: u64, bytes: u64, offset: u64, length: u64, first: u64) -> u64 {
    // SAFETY: as in `search`.
    let all = unsafe { cut(address, bytes, 0, bytes) };
    weir_ir::checksum::sum16(all, offset, length, first)
}

/// The first bytes of a part of a buffer. It can't panic either.
pub(crate) unsafe extern "C" fn excerpt(address: u64, bytes: u64, offset: u64, length: u64) -> u64 {
    // SAFETY: as in `search`.
    weir_ir::excerpt::excerpt(unsafe { cut(address, bytes, offset, length) })
}

/// Whether a number lies in a set.
pub(crate) unsafe extern "C" fn member(env: *mut Env<'_>, set: u64, high: u64, low: u64) -> u64 {
    // SAFETY: native code passes on the `env` that it was called with.
    let env = unsafe { &mut *env };
    env.guard(|env| {
        let number = u128::from(high) << 64 | u128::from(low);
        let ranges = &env.graph.sets[Set(set as u32).index()];
        let after = ranges.partition_point(|&(first, _)| first <= number);
        u64::from(after > 0 && number <= ranges[after - 1].1)
    })
}

/// Of `side, at, address, bytes, offset, length, span, metas …` makes `status, skip`.
pub(crate) unsafe extern "C" fn seq_insert(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: native code passes on the `env` that it was called with, and an array on its stack.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    let SeqInserted { status, skip_bytes } = env.guard(|env| {
        let [side, at, address, bytes, offset, length, span] = *words.first_chunk().expect("seven words");
        // SAFETY: as in `search`.
        let bytes = unsafe { cut(address, bytes, offset, length) };
        let sequence = Sequence(id as u32);
        let metas = usize::from(env.graph.sequences[sequence.index()].metas);
        let (host, flow) = env.split();
        let (direction, metas) = (direction(side), &words[7..][..metas]);
        host.seq_insert(SeqInsert {
            sequence,
            flow,
            direction,
            at,
            bytes,
            claimed_bytes: length,
            span,
            metas,
        })
    });
    words[0] = status;
    words[1] = skip_bytes;
}

/// Of `side, at` makes nothing.
pub(crate) unsafe extern "C" fn seq_acknowledge(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.seq_acknowledge(seq_side(id, flow, words[0]), words[1]);
    });
}

/// Of `side` makes `there, gap, address, bytes, offset, length, of the other, metas …`.
pub(crate) unsafe extern "C" fn seq_next(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    let results = env.guard(|env| {
        let (host, flow) = env.split();
        let ordered = host.seq_next(seq_side(id, flow, words[0]))?;
        let bytes = env.keep(ordered.bytes);
        let (length, other) = (ordered.claimed_bytes, u64::from(ordered.of_other));
        let found = [1, ordered.gap_bytes, bytes.address as u64, bytes.length as u64, 0, length, other];
        Some((found, ordered.metas))
    });
    let (found, metas) = results.unwrap_or_default();
    words[..NEXT_WORDS].copy_from_slice(&found);
    words[NEXT_WORDS..WORDS_MIN].copy_from_slice(&metas);
}

/// Of `side` makes `address, bytes`.
pub(crate) unsafe extern "C" fn seq_assemble(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    let bytes = env.guard(|env| {
        let (host, flow) = env.split();
        let slice = host.seq_assemble(seq_side(id, flow, words[0]));
        let bytes = env.keep(slice);
        [bytes.address as u64, bytes.length as u64]
    });
    words[..2].copy_from_slice(&bytes);
}

/// Of `side, gap, address, bytes, offset, length` makes nothing.
pub(crate) unsafe extern "C" fn deliver(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let [side, gap, address, bytes, offset, length] = *words.first_chunk().expect("six words");
        // SAFETY: as in `search`.
        let bytes = unsafe { cut(address, bytes, offset, length) };
        let (host, flow) = env.split();
        let of = FlowSide { table: Table(id as u32), flow, direction: direction(side) };
        host.deliver(of, OrderedBytes { gap_bytes: gap, bytes, claimed_bytes: length });
    });
}

/// Of `side, gap, address, bytes, offset, length, whole …` makes nothing.
pub(crate) unsafe extern "C" fn collect(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let [side, gap, address, bytes, offset, length] = *words.first_chunk().expect("six words");
        // SAFETY: as in `search`.
        let bytes = unsafe { cut(address, bytes, offset, length) };
        let (host, flow) = env.split();
        let of = FlowSide { table: Table(id as u32), flow, direction: direction(side) };
        let bytes = OrderedBytes { gap_bytes: gap, bytes, claimed_bytes: length };
        host.collect(of, bytes, &words[6..(count as usize).max(6)]);
    });
}

/// The value of that number of the whole at hand; `id` is the number.
pub(crate) unsafe extern "C" fn whole_value(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    words[0] = env.guard(|env| env.host.as_mut().map_or(0, |host| host.whole_value(id as usize)));
}

/// Of `side` makes `address, bytes`.
pub(crate) unsafe extern "C" fn messages(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    let bytes = env.guard(|env| {
        let (host, flow) = env.split();
        let of = FlowSide { table: Table(id as u32), flow, direction: direction(words[0]) };
        let slice = host.messages(of);
        let bytes = env.keep(slice);
        [bytes.address as u64, bytes.length as u64]
    });
    words[..2].copy_from_slice(&bytes);
}

/// Of `done, wanted` makes `address, bytes`.
pub(crate) unsafe extern "C" fn next_messages(env: *mut Env<'_>, words: *mut u64, _: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    let bytes = env.guard(|env| {
        let host = env.host.as_mut();
        let slice = host.map(|host| host.next_messages(words[0], words[1])).unwrap_or_default();
        let bytes = env.keep(slice);
        [bytes.address as u64, bytes.length as u64]
    });
    words[..2].copy_from_slice(&bytes);
}

/// Of `address, bytes, offset, length` makes the number by which columns name these bytes: 0 before any flow.
pub(crate) unsafe extern "C" fn keep(env: *mut Env<'_>, words: *mut u64, _: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    words[0] = env.guard(|env| {
        let [address, bytes, offset, length] = *words.first_chunk().expect("four words");
        // SAFETY: as in `search`.
        let bytes = unsafe { cut(address, bytes, offset, length) };
        env.host.as_mut().map_or(0, |host| host.keep(bytes))
    });
}

/// An event of a flow. Of its columns makes nothing.
pub(crate) unsafe extern "C" fn emit_of_flow(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`; the columns are `count` words.
    let (env, words) = unsafe { (&mut *env, std::slice::from_raw_parts(words, count as usize)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.emit(Event(id as u32), Some(flow), words);
    });
}

/// An event without a flow: of the one found last, and of none before any. Of its columns makes nothing.
pub(crate) unsafe extern "C" fn emit(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`; the columns are `count` words.
    let (env, words) = unsafe { (&mut *env, std::slice::from_raw_parts(words, count as usize)) };
    env.guard(|env| env.host.iter_mut().for_each(|host| host.emit(Event(id as u32), None, words)));
}
