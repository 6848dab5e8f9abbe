//! The contract between a program (interpreted or native) and the engine that runs it.
//!
//! The engine calls [`Program::head`] on every packet of a burst and overlaps the flow lookups that the heads
//! request. Then it calls [`Program::resume`] with the flow of each packet, in packet order, until the
//! program returns [`Step::Done`]. A running program calls the engine through [`Host`].

use crate::graph::{Event, Graph, Sequence, Table, Var, VarKind};
use crate::key::KEY_WORDS_MAX;
use std::sync::Arc;
use weir_packet::{Block, Direction, DropReason, LinkType, PacketMeta, Retention};

/// Maximum number of words that are live across a lookup: one byte per bool (at most three per predicate),
/// one word per number.
pub const LIVE_VALUES_MAX: usize = 512;
/// Flag in [`Continuation::swap`]: if this packet creates the flow, its sender is the responder.
pub const REVERSED: u32 = 2;
/// Maximum number of loops of a program.
pub const FUELS_MAX: usize = 256;
/// Maximum number of slots of a packet's record.
pub const OUTS_MAX: usize = 384;

/// Bits of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): the in-order bytes of the originator,
/// and of the responder, are wanted. A side's bit is cleared once that side is finished, for example at a
/// cutoff.
pub const WANTS_BYTES: [u64; 2] = [1, 8];
/// Bit of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): the flow's record is wanted.
pub const WANTS_RECORD: u64 = 2;
/// Bit of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): the flow's events are wanted.
pub const WANTS_EVENTS: u64 = 4;
/// Bit of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants) while the program is asked whether a
/// packet with other tags joins the flow. The program clears the bit if so; else it requests a restart.
pub const WANTS_ANSWER: u64 = 128;
/// Number of bits of [`EngineVar::Verdict`](crate::engine_var::EngineVar::Verdict) that describe all sessions
/// of a flow together: the highest bits of its first word.
pub const VERDICT_FLAGS: usize = 2;
/// Default idle timeout of flows whose layer declares none, in milliseconds.
pub const TIMEOUT_MS: u32 = 300_000;

/// Status of `seq.insert`: queued, or the bytes are neither new nor old (no payload).
pub const SEQ_QUEUED: u64 = 0;
/// The bytes, after `skip_bytes`, are next in order.
pub const SEQ_ORDERED: u64 = 1;
/// All bytes were received before.
pub const SEQ_RETRANSMITTED: u64 = 2;
/// The bytes are outside the window or exceed a limit.
pub const SEQ_OUT_OF_WINDOW: u64 = 3;
/// Queued, and a limit was reached: the next bytes, from `seq.next`, follow a gap.
pub const SEQ_FORCED: u64 = 4;
/// Added to the status if the sequence reports it: some bytes differ from the bytes kept for the same
/// sequence numbers.
pub const SEQ_INCONSISTENT: u64 = 8;

/// Maximum number of values that a sequence stores with each piece.
pub const METAS_MAX: usize = 8;

/// Mask in the flags of a chunk: the number of the edge to its message plus one; 0 if there is no edge.
pub const WHOLE_EDGE: u64 = (1 << 16) - 1;
/// Flag of a chunk: first chunk of its message.
pub const WHOLE_BEGINS: u64 = 1 << 16;
/// Flag of a chunk: last chunk of its message.
pub const WHOLE_ENDS: u64 = 1 << 17;

/// Argument of `next_messages`: the remaining bytes are no message, and the next message boundary is unknown.
pub const MESSAGES_LOST: u64 = u64::MAX;
/// Argument of `next_messages`: the remaining bytes are parsed with the next packet.
pub const MESSAGES_LATER: u64 = u64::MAX - 1;

/// Link type of [`gap_packet`]. No capture can contain it with the number [`GAP_NUMBER`].
pub const GAP_LINK: LinkType = LinkType(u16::MAX);
/// Number of [`gap_packet`]. Packets are numbered from 1.
pub const GAP_NUMBER: u64 = 0;

/// The empty packet that stands for a gap found when a flow of `table` ends, which no packet shows. The
/// program requests a lookup, and is resumed with the flow that ends and the direction of the missing bytes.
/// If it requests none, nothing depends on such gaps.
pub fn gap_packet(table: Table) -> PacketMeta {
    PacketMeta { number: GAP_NUMBER, link: GAP_LINK, interface: table.0 as u16, ..PacketMeta::default() }
}

/// After this many packets in a row have left the fast path, the next [`PAUSE_PACKETS`] do not try it; then a
/// single packet decides.
const FAST_PATH_MISSES_MAX: u16 = 4;
const PAUSE_PACKETS: u16 = 60;

/// A reference-counted range of a block.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// The block.
    pub block: Arc<Block>,
    /// Offset of the first byte in the block.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
}

impl Slice {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.block.range(self.offset as usize, self.length as usize)
    }

    /// A reference to the range of `block` that `bytes` occupies; `None` if the bytes are not in `block`.
    /// Valid while the current packet is processed; call [`hold`](Self::hold) to keep it longer.
    pub fn within(block: &Arc<Block>, bytes: &[u8]) -> Option<Self> {
        let offset = u32::try_from(block.locate(bytes)?).ok()?;
        let length = u32::try_from(bytes.len()).ok()?;
        Some(Self { block: Arc::clone(block), offset, length })
    }

    /// Copies the bytes to a new block.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a packet is shorter than 4 GiB");
        Self { block: Arc::new(Block::from(bytes.to_vec())), offset: 0, length }
    }

    /// The reference itself if its block may be kept after the burst. `None` if the memory returns to its
    /// source with the burst: then the bytes must be copied ([`copy_of`](Self::copy_of)).
    ///
    /// All code that keeps packet bytes by reference calls this function.
    pub fn hold(self) -> Option<Self> {
        (self.block.retention() != Retention::Copy).then_some(self)
    }
}

/// The result of `seq.next`.
#[derive(Debug, Clone, Default)]
pub struct Ordered {
    /// Number of bytes missing before these.
    pub gap_bytes: u64,
    /// The captured bytes.
    pub bytes: Slice,
    /// Number of bytes according to the headers.
    pub claimed_bytes: u64,
    /// Whether the bytes belong to the opposite direction of the one requested.
    pub of_other: bool,
    /// The values stored with the bytes.
    pub metas: [u64; METAS_MAX],
}

/// A flow as a program sees it.
#[derive(Debug)]
pub struct FlowRecord<'a> {
    /// Number of the flow in its table, assigned by the engine.
    pub id: u32,
    /// The flow's variables, laid out by [`Layout`].
    pub data: &'a mut [u8],
}

impl FlowRecord<'_> {
    /// Reborrows the flow.
    #[inline]
    pub fn reborrow(&mut self) -> FlowRecord<'_> {
        FlowRecord { id: self.id, data: self.data }
    }
}

/// Bytes to insert into a sequence ([`Op::SeqInsert`](crate::graph::Op::SeqInsert)).
#[derive(Debug)]
pub struct SeqInsert<'a> {
    /// The sequence.
    pub sequence: Sequence,
    /// The flow.
    pub flow: FlowRecord<'a>,
    /// Direction of the bytes.
    pub direction: Direction,
    /// Sequence number of the first byte.
    pub at: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Number of bytes according to the headers.
    pub claimed_bytes: u64,
    /// Number of sequence numbers that the bytes consume.
    pub span: u64,
    /// Values to store until the bytes are in order.
    pub metas: &'a [u64],
}

/// The result of inserting bytes into a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeqInserted {
    /// [`SEQ_QUEUED`] or another status.
    pub status: u64,
    /// Number of leading bytes that were received before.
    pub skip_bytes: u64,
}

/// One direction of a sequence.
#[derive(Debug)]
pub struct SeqSide<'a> {
    /// The sequence.
    pub sequence: Sequence,
    /// The flow.
    pub flow: FlowRecord<'a>,
    /// The direction.
    pub direction: Direction,
}

/// One direction of a flow.
#[derive(Debug)]
pub struct FlowSide<'a> {
    /// The flow's table.
    pub table: Table,
    /// The flow.
    pub flow: FlowRecord<'a>,
    /// The direction.
    pub direction: Direction,
}

/// In-order bytes of one direction.
#[derive(Debug, Clone, Copy)]
pub struct OrderedBytes<'a> {
    /// Number of bytes missing before these.
    pub gap_bytes: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Number of bytes according to the headers.
    pub claimed_bytes: u64,
}

/// The engine as seen by a program. An implementation that stores nothing only needs [`Host::seq_insert`].
pub trait Host {
    /// Inserts bytes into a sequence.
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted;

    /// Acknowledges all sequence numbers of a direction before `at`, whether or not the capture contains
    /// them.
    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        let _ = (of, at);
    }

    /// Records that a direction's numbers begin at `at`, because their receiver says so. No effect once
    /// numbers of the direction have passed.
    fn seq_begin(&mut self, of: SeqSide<'_>, at: u64) {
        let _ = (of, at);
    }

    /// Records that the `span` numbers of a direction from `at` on, or with a span of 0 all that follow those
    /// that have passed, count only once their receiver has acknowledged some of them.
    fn seq_hold(&mut self, of: SeqSide<'_>, at: u64, span: u64) {
        let _ = (of, at, span);
    }

    /// The next queued bytes that are in order: of this direction, or of the opposite one if this direction's
    /// packet acknowledged them.
    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        let _ = of;
        None
    }

    /// All retained bytes as one buffer.
    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        let _ = of;
        Slice::default()
    }

    /// Appends in-order bytes to a direction's input for messages. `whole` is empty, or has the flags of a
    /// chunk ([`WHOLE_EDGE`], [`WHOLE_BEGINS`], [`WHOLE_ENDS`]) and then the values of its chunked message.
    fn collect(&mut self, of: FlowSide<'_>, bytes: OrderedBytes<'_>, whole: &[u64]) {
        let _ = (of, bytes, whole);
    }

    /// Value `number` that the first chunk of the current chunked message carried; 0 if there is no current
    /// one.
    fn whole_value(&mut self, number: usize) -> u64 {
        let _ = number;
        0
    }

    /// The first contiguous run of a direction's collected bytes that may contain a message, or an empty
    /// slice. The run becomes the current run, to which [`Host::next_messages`] and [`Host::whole_value`]
    /// refer.
    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        let _ = of;
        Slice::default()
    }

    /// Consumes the first `done` bytes of the current run, a finished message. The next message needs
    /// `wanted` bytes, or `wanted` is [`MESSAGES_LOST`] or [`MESSAGES_LATER`]. Returns the rest of the run,
    /// or the next run, or an empty slice if there is no current run.
    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        let _ = (done, wanted);
        Slice::default()
    }

    /// Delivers in-order bytes to the flow's sessions.
    fn deliver(&mut self, of: FlowSide<'_>, bytes: OrderedBytes<'_>) {
        let _ = (of, bytes);
    }

    /// Keeps bytes for this packet's events; event columns refer to them by the returned number.
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        let _ = bytes;
        0
    }

    /// Emits an event. If `flow` is `None`, the event belongs to the flow of the last lookup.
    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        let _ = (event, flow, values);
    }
}

/// The packet and the flow with which a program resumes after a lookup.
#[derive(Debug)]
pub struct Resume<'a> {
    /// The capture's metadata of the packet.
    pub packet: &'a PacketMeta,
    /// The packet's bytes: the same frame as for the head.
    pub frame: &'a [u8],
    /// The flow that was found or created.
    pub flow: FlowRecord<'a>,
    /// Direction of the packet in the flow.
    pub direction: Direction,
    /// Whether the flow was created for this packet.
    pub is_new: bool,
}

/// What a program requests next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the program is done, and [`Continuation::terms`] holds the terms.
    Done(Option<DropReason>),
    /// A lookup of the flow with [`Continuation::table`] and [`Continuation::key`].
    Lookup,
    /// The same lookup, after the existing flow is ended.
    Restart,
}

/// The state of one packet between head and tail. Reused for other packets without being cleared. The fields
/// that every packet uses come first, within a few cache lines.
///
/// Only the program can change the state from which native code resumes after a lookup (the resume point and
/// the live values). A program binds the continuation to itself and to the packet's frame, and refuses to
/// resume with any other binding.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Continuation {
    /// The requested table.
    pub table: u32,
    /// The resume point: the number of the lookup.
    pub(crate) resume: u32,
    /// Bit 0: the sender is second in the key. May include [`REVERSED`].
    pub swap: u32,
    /// Number of words of the requested key.
    pub(crate) key_words: u32,
    /// Packets in a row that left the fast path, and packets that will not try it.
    fast_path_misses: u16,
    pause: u16,
    /// The engine's hash of the key.
    pub hash: u64,
    /// One bit for each of the first 64 classes that the packet belongs to; the slots
    /// [`EngineSlot::FurtherTerms`](crate::slot::EngineSlot) hold the other classes. Valid after
    /// [`Step::Done`].
    pub terms: u64,
    /// The binding: the program's secret, and address and length of the frame; 0 if unbound.
    bound: [u64; 3],
    /// Buffers that must live until the packet is finished.
    pub(crate) buffers: Vec<Slice>,
    /// The requested key: the first `key_words` words. Keys of up to five words end in the second cache line.
    pub(crate) key: [u64; KEY_WORDS_MAX],
    /// The packet's record.
    pub outs: [u64; OUTS_MAX],
    /// Number of iterations of each loop for this packet.
    pub fuels: [u32; FUELS_MAX],
    /// Values that are live across the lookup (a buffer takes two words: address or number, and length).
    pub(crate) live: [u64; LIVE_VALUES_MAX],
}

impl std::fmt::Debug for Continuation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Continuation");
        shown.field("key", &self.key()).field("table", &self.table).field("terms", &self.terms);
        shown.finish_non_exhaustive()
    }
}

const _: () = assert!(Continuation::KEY_OFFSET + 5 * 8 <= 128);

impl Default for Continuation {
    fn default() -> Self {
        Self {
            table: 0,
            resume: 0,
            swap: 0,
            key_words: 0,
            fast_path_misses: 0,
            pause: 0,
            hash: 0,
            terms: 0,
            bound: [0; 3],
            buffers: Vec::new(),
            key: [0; KEY_WORDS_MAX],
            outs: [0; OUTS_MAX],
            fuels: [0; FUELS_MAX],
            live: [0; LIVE_VALUES_MAX],
        }
    }
}

impl Continuation {
    /// Offset at which native code stores the resume point.
    pub const RESUME_OFFSET: usize = std::mem::offset_of!(Self, resume);
    /// Offset at which native code stores the live values.
    pub const LIVE_OFFSET: usize = std::mem::offset_of!(Self, live);

    /// Offset at which native code stores the words of a key.
    pub const KEY_OFFSET: usize = std::mem::offset_of!(Self, key);
    /// Offset at which native code stores the number of words of a key.
    pub const KEY_WORDS_OFFSET: usize = std::mem::offset_of!(Self, key_words);

    /// The words of the requested key, in the table's [`KeyLayout`](crate::key::KeyLayout).
    #[inline]
    pub fn key(&self) -> &[u64] {
        &self.key[..(self.key_words as usize).min(KEY_WORDS_MAX)]
    }

    /// Sets the requested key.
    ///
    /// # Panics
    /// If the key has more than [`KEY_WORDS_MAX`] words.
    pub fn set_key(&mut self, words: impl IntoIterator<Item = u64>) {
        self.key_words = 0;
        for word in words {
            self.key[self.key_words as usize] = word;
            self.key_words += 1;
        }
    }

    /// The resume point: the lookup's index in [`crate::liveness::lookups`].
    pub fn resume(&self) -> usize {
        self.resume as usize
    }

    /// Whether a packet should try the fast path ([`crate::fast_path`]). After many packets in a row left it,
    /// the next packets do not try it, because the work of the fast path is repeated when it is left. Affects
    /// speed only.
    #[inline]
    pub fn tries_fast_path(&mut self) -> bool {
        let tries = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        tries
    }

    /// Records whether a packet that tried the fast path left it.
    #[inline]
    pub fn note_fast_path(&mut self, left: bool) {
        self.fast_path_misses = if left { (self.fast_path_misses + 1).min(FAST_PATH_MISSES_MAX) } else { 0 };
        if self.fast_path_misses == FAST_PATH_MISSES_MAX {
            self.pause = PAUSE_PACKETS;
        }
    }

    /// Binds the continuation to the program with this secret and to a frame: the state was saved by that
    /// program's head, run on that frame. Code that does not know the secret cannot bind.
    #[inline]
    pub fn bind(&mut self, secret: u64, frame: &[u8]) {
        self.bound = [secret, frame.as_ptr() as u64, frame.len() as u64];
    }

    /// Whether the sender is second in the key, and whether the sender is the responder of a flow created
    /// now.
    #[inline]
    pub fn sender(&self) -> (bool, bool) {
        (self.swap & 1 != 0, self.swap & REVERSED != 0)
    }

    /// Whether the continuation is bound to this program and frame.
    #[inline]
    pub fn is_bound(&self, secret: u64, frame: &[u8]) -> bool {
        // Word by word: comparing arrays would first write the registers to memory.
        let [of, address, length] = self.bound;
        let difference = (of ^ secret) | (address ^ frame.as_ptr() as u64) | (length ^ frame.len() as u64);
        secret != 0 && difference == 0
    }

    /// Keeps a buffer until the packet is done.
    pub fn keep(&mut self, buffer: Slice) {
        self.buffers.push(buffer);
    }

    /// Number of buffers kept.
    pub fn kept(&self) -> usize {
        self.buffers.len()
    }

    /// Finishes the packet: releases its buffers and prevents resuming.
    #[inline]
    pub fn release(&mut self) {
        self.bound[0] = 0;
        if !self.buffers.is_empty() {
            self.buffers.clear();
        }
    }
}

/// A compiled question. Shared by all workers.
pub trait Program: Send + Sync {
    /// The optimized graph that the program was compiled from.
    fn graph(&self) -> &Graph;

    /// The layout of the variables of each table's flow records.
    fn layout(&self) -> &Layout;

    /// Runs the part before the first lookup. Accesses only the packet and `k`, which it releases first;
    /// slots of [`Continuation::outs`] that it does not store keep their old values.
    fn head(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Step;

    /// Resumes after a lookup; [`Continuation::resume`](Continuation::resume()) is the lookup's index in
    /// [`crate::liveness::lookups`]. After a restart the program resumes from the same lookup again, with the
    /// same values.
    fn resume(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation) -> Step;

    /// Reports that `packets` more packets were run. A frequently run program may be recompiled with better
    /// optimization in the background.
    fn note_packets(self: Arc<Self>, packets: usize) {
        let _ = packets;
    }

    /// Runs a graph without a packet (a deferred predicate) on the numbers and bytes of a record. Returns its
    /// terms.
    fn ask(&self, numbers: &[u64], bytes: &[&[u8]], k: &mut Continuation) -> u64;
}

/// Layout of the variables of flow records: native byte order (little-endian), aligned to their size.
///
/// A variable with one instance per side is stored twice; the responder's is [`Layout::stride`] bytes after
/// the originator's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    offsets: Vec<u32>,
    strides: Vec<u32>,
    sizes: Vec<u32>,
}

impl Layout {
    /// Lays out all variables of a graph. Per table: the originator's, the responder's, then the shared ones,
    /// each group by descending size.
    pub fn of(graph: &Graph) -> Self {
        let bytes = |kind: VarKind| match kind {
            VarKind::Bits(bits) => u32::from(bits) / 8,
            VarKind::Letters(max) => u32::from(max) + 1,
        };
        let align = |kind: VarKind| match kind {
            VarKind::Bits(bits) => u32::from(bits) / 8,
            VarKind::Letters(_) => 1,
        };
        let mut layout = Layout {
            offsets: vec![0; graph.vars.len()],
            strides: vec![0; graph.tables.len()],
            sizes: vec![0; graph.tables.len()],
        };
        for table in 0..graph.tables.len() {
            let mut place = |each_side: bool, start: u32| {
                let mut vars: Vec<usize> = (0..graph.vars.len())
                    .filter(|&v| graph.vars[v].table.index() == table && graph.vars[v].each_side == each_side)
                    .collect();
                vars.sort_by_key(|&v| {
                    std::cmp::Reverse((align(graph.vars[v].kind), bytes(graph.vars[v].kind)))
                });
                let mut end = start;
                for v in vars {
                    let a = align(graph.vars[v].kind);
                    end = end.next_multiple_of(a);
                    layout.offsets[v] = end;
                    end += bytes(graph.vars[v].kind);
                }
                end
            };
            let stride = place(true, 0).next_multiple_of(8);
            let end = place(false, stride * 2);
            layout.strides[table] = stride;
            layout.sizes[table] = end.next_multiple_of(8);
        }
        layout
    }

    /// Offset of a variable in its flow record (of the originator's instance, if there is one per side).
    pub fn offset(&self, var: Var) -> usize {
        self.offsets[var.index()] as usize
    }

    /// Distance in bytes from an originator's variable to the responder's.
    pub fn stride(&self, table: Table) -> usize {
        self.strides[table.index()] as usize
    }

    /// Size of the variables of a flow record, in bytes.
    pub fn size(&self, table: Table) -> usize {
        self.sizes[table.index()] as usize
    }
}
