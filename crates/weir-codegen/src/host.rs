//! The functions that native code calls: searching, sets, and the engine behind [`Host`].
//!
//! Native code calls every function here with the [`Env`] that `native.rs` created for the current run. A
//! panic of the host cannot unwind through native code, which has no unwind tables. So the panic is caught
//! and stored in [`Env::fault`]; all later calls do nothing and return 0, until the packet's work ends (the
//! graph bounds it); then `native.rs` resumes the panic.
//!
//! Host functions receive their arguments in an array of words and write their results to its start.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, METAS_MAX, OrderedBytes, SeqInsert, SeqInserted, SeqSide, Slice,
};
use weir_ir::graph::{Event, Graph, Pattern, Sequence, Set, Table};
use weir_ir::patterns::Patterns;
use weir_packet::Direction;

/// A byte string in the layout of native code.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    pub address: *const u8,
    pub length: usize,
}

/// The environment of one run.
#[repr(C)]
pub(crate) struct Env<'a> {
    /// The numbers of a deferred predicate; read by native code.
    pub numbers: *const u64,
    /// Its byte strings; read by native code.
    pub bytes: *const Bytes,
    pub graph: &'a Graph,
    pub patterns: &'a Patterns,
    pub host: Option<&'a mut dyn Host>,
    pub flow_id: u32,
    pub flow_data: *mut u8,
    pub flow_bytes: usize,
    pub k: *mut Continuation,
    /// The payload of a caught panic.
    pub fault: Option<Box<dyn Any + Send>>,
}

impl<'a> Env<'a> {
    /// Calls `f` and catches its panic. Does nothing after a fault.
    fn guard<T: Default>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        if self.fault.is_some() {
            return T::default();
        }
        // After a panic the run is abandoned: nothing reads its half-finished state.
        match catch_unwind(AssertUnwindSafe(|| f(self))) {
            Ok(result) => result,
            Err(fault) => {
                self.fault = Some(fault);
                T::default()
            }
        }
    }

    /// Borrows the host and the flow.
    fn split(&mut self) -> (&mut dyn Host, FlowRecord<'_>) {
        // SAFETY: both fields describe the `data` of the flow record that `resume` was given and borrows
        // until native code returns; native code waits for this call, so nothing else uses the record.
        let data = unsafe { slice_mut(self.flow_data, self.flow_bytes) };
        let host = self.host.as_deref_mut().expect("a program asks for the host before its first lookup");
        (host, FlowRecord { id: self.flow_id, data })
    }

    /// Keeps a slice until the packet is finished. Returns its bytes in the layout of native code.
    fn keep(&mut self, slice: Slice) -> Bytes {
        let bytes = slice.bytes();
        let bytes = Bytes { address: bytes.as_ptr(), length: bytes.len() };
        // SAFETY: `k` is the continuation with which the program was called, borrowed until it returns.
        unsafe { (*self.k).keep(slice) };
        bytes
    }
}

/// # Safety
/// `address` must point to `length` bytes that nothing else uses during `'a`.
unsafe fn slice_mut<'a>(address: *mut u8, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(address, length) }
}

/// The range `offset .. offset + length` of a buffer, clipped to the buffer.
///
/// # Safety
/// `address` must point to `bytes` bytes that nothing writes to during `'a`.
unsafe fn cut<'a>(address: u64, bytes: u64, offset: u64, length: u64) -> &'a [u8] {
    let start = offset.min(bytes);
    let length = length.min(bytes - start);
    if length == 0 {
        return &[];
    }
    // SAFETY: the range is inside the buffer; the caller guarantees the buffer.
    unsafe { std::slice::from_raw_parts((address as *const u8).add(start as usize), length as usize) }
}

/// Minimum size of the word array of a host function, for its results.
pub(crate) const WORDS_MIN: usize = NEXT_WORDS + METAS_MAX;
/// Number of result words of `seq_next` before the metas.
const NEXT_WORDS: usize = 7;

/// The word array of a host function that returns results in it.
///
/// # Safety
/// `words` must be the array of native code, which waits for this call, with at least `count` and
/// [`WORDS_MIN`] words.
unsafe fn array<'a>(words: *mut u64, count: u64) -> &'a mut [u64] {
    // SAFETY: guaranteed by the caller; words not yet written hold arbitrary numbers.
    unsafe { std::slice::from_raw_parts_mut(words, (count as usize).max(WORDS_MIN)) }
}

/// A direction from its word in native code: 0 is the originator's.
fn direction(word: u64) -> Direction {
    Direction::responder_if(word != 0)
}

/// The sequence direction for which a host function was called.
fn seq_side(sequence: u64, flow: FlowRecord<'_>, side: u64) -> SeqSide<'_> {
    SeqSide { sequence: Sequence(sequence as u32), flow, direction: direction(side) }
}

/// Whether a pattern matches.
pub(crate) unsafe extern "C" fn search(
    env: *mut Env<'_>,
    pattern: u64,
    address: u64,
    bytes: u64,
    offset: u64,
    length: u64,
) -> u64 {
    // SAFETY: native code passes the `env` with which it was called.
    let env = unsafe { &mut *env };
    // SAFETY: a buffer is the frame, an input, or a slice in `k.buffers`: valid and unchanged until the
    // packet is finished.
    let bytes = unsafe { cut(address, bytes, offset, length) };
    env.guard(|env| u64::from(env.patterns.search(Pattern(pattern as u32), bytes)))
}

/// The sum of a range of a buffer and a number. Cannot panic, so nothing is caught.
pub(crate) unsafe extern "C" fn sum16(address: u64, bytes: u64, offset: u64, length: u64, first: u64) -> u64 {
    // SAFETY: as in `search`.
    let all = unsafe { cut(address, bytes, 0, bytes) };
    weir_ir::checksum::sum16(all, offset, length, first)
}

/// Whether a range of a buffer is a list of items. Cannot panic either.
pub(crate) unsafe extern "C" fn items_fit(address: u64, bytes: u64, offset: u64, length: u64) -> u64 {
    // SAFETY: as in `search`.
    let all = unsafe { cut(address, bytes, 0, bytes) };
    u64::from(weir_ir::items::items_fit(all, offset, length))
}

/// The first bytes of a range of a buffer as a number. Cannot panic either.
pub(crate) unsafe extern "C" fn excerpt(address: u64, bytes: u64, offset: u64, length: u64) -> u64 {
    // SAFETY: as in `search`.
    weir_ir::excerpt::excerpt(unsafe { cut(address, bytes, offset, length) })
}

/// Whether a number is in a set.
pub(crate) unsafe extern "C" fn member(env: *mut Env<'_>, set: u64, high: u64, low: u64) -> u64 {
    // SAFETY: native code passes the `env` with which it was called.
    let env = unsafe { &mut *env };
    env.guard(|env| {
        let number = u128::from(high) << 64 | u128::from(low);
        let ranges = &env.graph.sets[Set(set as u32).index()];
        let after = ranges.partition_point(|&(first, _)| first <= number);
        u64::from(after > 0 && number <= ranges[after - 1].1)
    })
}

/// Arguments `side, at, address, bytes, offset, length, span, metas …`; results `status, skip`.
pub(crate) unsafe extern "C" fn seq_insert(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: native code passes the `env` with which it was called, and an array on its stack.
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

/// Arguments `side, at`; no results.
pub(crate) unsafe extern "C" fn seq_acknowledge(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.seq_acknowledge(seq_side(id, flow, words[0]), words[1]);
    });
}

/// Arguments `side, at`; no results.
pub(crate) unsafe extern "C" fn seq_begin(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.seq_begin(seq_side(id, flow, words[0]), words[1]);
    });
}

/// Arguments `side, at, span`; no results.
pub(crate) unsafe extern "C" fn seq_hold(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.seq_hold(seq_side(id, flow, words[0]), words[1], words[2]);
    });
}

/// Argument `side`; results `there, gap, address, bytes, offset, length, of the other, metas …`.
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

/// Argument `side`; results `address, bytes`.
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

/// Arguments `side, gap, address, bytes, offset, length`; no results.
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

/// Arguments `side, gap, address, bytes, offset, length, whole …`; no results.
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

/// Result: value number `id` of the current chunked message.
pub(crate) unsafe extern "C" fn whole_value(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`.
    let (env, words) = unsafe { (&mut *env, array(words, count)) };
    words[0] = env.guard(|env| env.host.as_mut().map_or(0, |host| host.whole_value(id as usize)));
}

/// Argument `side`; results `address, bytes`.
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

/// Arguments `done, wanted`; results `address, bytes`.
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

/// Arguments `address, bytes, offset, length`; result: the number by which columns refer to these bytes, 0
/// before the first lookup.
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

/// Emits an event of a flow. Arguments: its columns; no results.
pub(crate) unsafe extern "C" fn emit_of_flow(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`; the columns are `count` words.
    let (env, words) = unsafe { (&mut *env, std::slice::from_raw_parts(words, count as usize)) };
    env.guard(|env| {
        let (host, flow) = env.split();
        host.emit(Event(id as u32), Some(flow), words);
    });
}

/// Emits an event of the flow of the last lookup; does nothing before any lookup. Arguments: its columns; no
/// results.
pub(crate) unsafe extern "C" fn emit(env: *mut Env<'_>, words: *mut u64, id: u64, count: u64) {
    // SAFETY: as in `seq_insert`; the columns are `count` words.
    let (env, words) = unsafe { (&mut *env, std::slice::from_raw_parts(words, count as usize)) };
    env.guard(|env| env.host.iter_mut().for_each(|host| host.emit(Event(id as u32), None, words)));
}
