//! The contract between a program (interpreted or native) and whoever runs it.
//!
//! The engine calls [`Program::head`] on every packet of a burst, overlaps the lookups that the
//! heads ask for, and then, in order, calls [`Program::resume`] with the flow of each packet, until the
//! program says [`Step::Done`]. While it runs, a program calls back through [`Host`].

use crate::graph::{Event, Graph, Sequence, Table, Var, VarKind};
use crate::key::KEY_WORDS_MAX;
use std::sync::Arc;
use weir_packet::{Block, Direction, DropReason, PacketMeta, Retention};

/// The most words that live across a lookup: a byte for each bool (a predicate has up to three), a word for each number.
pub const LIVE_VALUES_MAX: usize = 512;
/// Added to [`Continuation::swap`]: if the flow is made for this packet, the sender is its responder.
pub const REVERSED: u32 = 2;
/// The most loops of a program.
pub const FUELS_MAX: usize = 256;
/// The most slots of a packet's record.
pub const OUTS_MAX: usize = 384;

/// The slots of the packet's record that have the words of its terms behind the first one, which is
/// [`Continuation::terms`]: one after the other, each with this name. Programs of up to 64 classes have none.
pub const FURTHER_TERMS: &str = "terms";

/// The slots of the packet's record that have, where a connection is found in another one, which of the outer connection's
/// [`EngineVar::OpenTerms`](crate::engine_var::EngineVar::OpenTerms) hold before it: a word each, one after the other.
pub const OUTER_TERMS: &str = "outer_terms";

/// Bits of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): the bytes in order of the originator, and of the responder, are wanted. What is done
/// with one side (its cutoff is reached, whoever set it) clears that side's.
pub const WANTS_BYTES: [u64; 2] = [1, 8];
/// Bit of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): the flow's record is wanted.
pub const WANTS_RECORD: u64 = 2;
/// Bit of [`EngineVar::Wants`](crate::engine_var::EngineVar::Wants): what happens to the flow is wanted.
pub const WANTS_EVENTS: u64 = 4;
/// Bits of [`EngineVar::Verdict`](crate::engine_var::EngineVar::Verdict) that say something of a flow's sessions as a whole:
/// the highest ones of its first word.
pub const VERDICT_FLAGS: usize = 2;
/// Time-out of flows whose layer declares none, milliseconds.
pub const TIMEOUT_MS: u32 = 300_000;

/// Status of `seq.insert`: kept for later, or nothing new in it and nothing old.
pub const SEQ_QUEUED: u64 = 0;
/// The bytes (less those skipped) are the next in order.
pub const SEQ_ORDERED: u64 = 1;
/// All of them had been there before.
pub const SEQ_RETRANSMITTED: u64 = 2;
/// They lie outside the window or beyond a bound.
pub const SEQ_OUT_OF_WINDOW: u64 = 3;
/// Kept for later, and a bound was reached: the next bytes come with a gap (`seq.next` has them).
pub const SEQ_FORCED: u64 = 4;
/// Added to the status where the sequence tells it: some of the bytes differ from those that are kept for their places.
pub const SEQ_INCONSISTENT: u64 = 8;

/// Values that a sequence may remember with each piece.
pub const METAS_MAX: usize = 8;

/// Of a part of a whole: the message's edge and one, as far as it has one.
pub const WHOLE_EDGE: u64 = (1 << 16) - 1;
/// Of a part of a whole: the whole begins with it.
pub const WHOLE_BEGINS: u64 = 1 << 16;
/// Of a part of a whole: the whole ends with it.
pub const WHOLE_ENDS: u64 = 1 << 17;

/// Of `next_messages`: what is at hand is no message, and where one begins nobody knows.
pub const MESSAGES_LOST: u64 = u64::MAX;
/// Of `next_messages`: what is left is for the next packet.
pub const MESSAGES_LATER: u64 = u64::MAX - 1;

/// Packets in a row after which the straight way is not tried for [`PAUSE_PACKETS`]; then one decides.
const DETOURS_MAX: u16 = 4;
const PAUSE_PACKETS: u16 = 60;

/// A range of a block that somebody keeps a reference to.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// The block.
    pub block: Arc<Block>,
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

impl Slice {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.block.range(self.offset as usize, self.length as usize)
    }

    /// A reference to the range of `block` that `bytes` is; `None` if they lie elsewhere. It may be used while the
    /// packet at hand is: who keeps it longer calls [`hold`](Self::hold).
    pub fn within(block: &Arc<Block>, bytes: &[u8]) -> Option<Self> {
        let offset = u32::try_from(block.locate(bytes)?).ok()?;
        let length = u32::try_from(bytes.len()).ok()?;
        Some(Self { block: Arc::clone(block), offset, length })
    }

    /// A block of its own with these bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a packet is shorter than 4 GiB");
        Self { block: Arc::new(Block::from(bytes.to_vec())), offset: 0, length }
    }

    /// The reference itself, where its block may be referred to beyond the burst. `None`: the memory goes back to
    /// its source with the burst, and the bytes have to be copied ([`copy_of`](Self::copy_of)).
    ///
    /// Everything that keeps packet bytes by reference asks here.
    pub fn hold(self) -> Option<Self> {
        (self.block.retention() != Retention::Copy).then_some(self)
    }
}

/// What `seq.next` yields.
#[derive(Debug, Clone, Default)]
pub struct Ordered {
    /// Bytes missing before these.
    pub gap_bytes: u64,
    /// The bytes, as far as captured.
    pub bytes: Slice,
    /// Their number as the headers claim it.
    pub claimed_bytes: u64,
    /// They are the other direction's than was asked for.
    pub of_other: bool,
    /// What was remembered with them.
    pub metas: [u64; METAS_MAX],
}

/// A flow as a program sees it.
#[derive(Debug)]
pub struct FlowRecord<'a> {
    /// The engine's number of the flow in its table.
    pub id: u32,
    /// The flow's variables, laid out by [`Layout`].
    pub data: &'a mut [u8],
}

impl FlowRecord<'_> {
    /// The same flow, lent on.
    #[inline]
    pub fn reborrow(&mut self) -> FlowRecord<'_> {
        FlowRecord { id: self.id, data: self.data }
    }
}

/// Bytes that are offered to a sequence ([`Op::SeqInsert`](crate::graph::Op::SeqInsert)).
#[derive(Debug)]
pub struct SeqInsert<'a> {
    /// The sequence.
    pub sequence: Sequence,
    /// The flow.
    pub flow: FlowRecord<'a>,
    /// Who sent the bytes.
    pub direction: Direction,
    /// Sequence number of the first byte.
    pub at: u64,
    /// The bytes, as far as they were captured.
    pub bytes: &'a [u8],
    /// Their number as the headers claim it.
    pub claimed_bytes: u64,
    /// Sequence numbers that they use up.
    pub span: u64,
    /// Values to remember until the bytes are in order.
    pub metas: &'a [u64],
}

/// What became of bytes that were offered to a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeqInserted {
    /// [`SEQ_QUEUED`] and others.
    pub status: u64,
    /// How many bytes at the front were there before.
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

/// Bytes of a direction that are in order.
#[derive(Debug, Clone, Copy)]
pub struct OrderedBytes<'a> {
    /// Bytes missing before these.
    pub gap_bytes: u64,
    /// The bytes, as far as they were captured.
    pub bytes: &'a [u8],
    /// Their number as the headers claim it.
    pub claimed_bytes: u64,
}

/// The engine as a program calls it. An implementation that keeps nothing needs [`Host::seq_insert`] alone.
pub trait Host {
    /// Offers bytes to a sequence.
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted;

    /// All sequence numbers of a direction before `at` arrived, whether or not the capture has them.
    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        let _ = (of, at);
    }

    /// The next queued bytes that are in order: of this direction, or of the other one where this direction's packet
    /// acknowledged them.
    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        let _ = of;
        None
    }

    /// The retained bytes as one buffer.
    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        let _ = of;
        Slice::default()
    }

    /// Adds bytes in order to those of which a direction's messages are made. `whole` is empty, or says which part of a
    /// whole the bytes are ([`WHOLE_EDGE`], [`WHOLE_BEGINS`], [`WHOLE_ENDS`]), followed by values that go with the whole.
    fn collect(&mut self, of: FlowSide<'_>, bytes: OrderedBytes<'_>, whole: &[u64]) {
        let _ = (of, bytes, whole);
    }

    /// The value `number` that the first part of the current whole brought; 0 where there is no current whole.
    fn whole_value(&mut self, number: usize) -> u64 {
        let _ = number;
        0
    }

    /// The first run of a direction's collected bytes that may hold a message, or an empty slice. It becomes the current
    /// run, which [`Host::next_messages`] and [`Host::whole_value`] refer to.
    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        let _ = of;
        Slice::default()
    }

    /// The first `done` bytes of the current run are a message that is over. `wanted` bytes make the next message;
    /// [`MESSAGES_LOST`] and [`MESSAGES_LATER`] are the exceptions. The result is the rest of the run, or the next run,
    /// or an empty slice where there is no current run.
    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        let _ = (done, wanted);
        Slice::default()
    }

    /// Hands bytes in order to the flow's sessions.
    fn deliver(&mut self, of: FlowSide<'_>, bytes: OrderedBytes<'_>) {
        let _ = (of, bytes);
    }

    /// Keeps bytes for this packet's events, whose columns name them by the number returned.
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        let _ = bytes;
        0
    }

    /// Emits an event. Without a flow, the event belongs to the flow that was found last.
    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        let _ = (event, flow, values);
    }
}

/// The packet and the flow with which a program goes on after a lookup.
#[derive(Debug)]
pub struct Resume<'a> {
    /// What the capture says of the packet.
    pub packet: &'a PacketMeta,
    /// The packet's bytes: the frame that the head ran on.
    pub frame: &'a [u8],
    /// The flow that was found or made.
    pub flow: FlowRecord<'a>,
    /// Who of the flow sent the packet.
    pub direction: Direction,
    /// The flow was made for this packet.
    pub is_new: bool,
}

/// What a program wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the terms are in [`Continuation::terms`].
    Done(Option<DropReason>),
    /// The flow of [`Continuation::table`] and [`Continuation::key`].
    Lookup,
    /// The same, but the flow that is there ends first.
    Restart,
}

/// The state of one packet between head and tail. Reused from packet to packet without being cleared.
/// What every packet touches stands first, within a few cache lines.
///
/// What native code goes on with after a lookup (where, with which values) nobody else can change: a program
/// binds the continuation to itself and the packet's frame, and resumes none that is bound otherwise.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Continuation {
    /// The table asked for.
    pub table: u32,
    /// Where the program goes on.
    pub(crate) resume: u32,
    /// 1 where the sender stands second in the key, and [`REVERSED`].
    pub swap: u32,
    /// Number of words of the requested key.
    pub(crate) key_words: u32,
    /// Packets in a row that left the straight way, and packets that do not try it.
    detours: u16,
    pause: u16,
    /// The engine's hash of the key.
    pub hash: u64,
    /// A bit for each of the first 64 classes that the packet is of; the others are in the slots called
    /// [`FURTHER_TERMS`]. Valid when done.
    pub terms: u64,
    /// The secret of the program that it is bound to, and address and length of the frame; 0: to none.
    bound: [u64; 3],
    /// Buffers that must live until the packet is done.
    pub(crate) buffers: Vec<Slice>,
    /// The requested key: the first `key_words` words. Keys of up to five words end within the second cache line.
    pub(crate) key: [u64; KEY_WORDS_MAX],
    /// The packet's record.
    pub outs: [u64; OUTS_MAX],
    /// How often each loop has been taken for this packet.
    pub fuels: [u32; FUELS_MAX],
    /// Values that live across the lookup (a buffer takes two: address or number, and length).
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
            detours: 0,
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
    /// Where native code stores the place at which it goes on.
    pub const RESUME_OFFSET: usize = std::mem::offset_of!(Self, resume);
    /// Where native code stores the values that live across the lookup.
    pub const LIVE_OFFSET: usize = std::mem::offset_of!(Self, live);

    /// Where native code stores the words of a key.
    pub const KEY_OFFSET: usize = std::mem::offset_of!(Self, key);
    /// Where native code stores the number of these words.
    pub const KEY_WORDS_OFFSET: usize = std::mem::offset_of!(Self, key_words);

    /// The words of the requested key, in the table's [`KeyLayout`](crate::key::KeyLayout).
    #[inline]
    pub fn key(&self) -> &[u64] {
        &self.key[..(self.key_words as usize).min(KEY_WORDS_MAX)]
    }

    /// Sets the requested key.
    ///
    /// # Panics
    /// If it has more than [`KEY_WORDS_MAX`] words.
    pub fn set_key(&mut self, words: impl IntoIterator<Item = u64>) {
        self.key_words = 0;
        for word in words {
            self.key[self.key_words as usize] = word;
            self.key_words += 1;
        }
    }

    /// The place in [`crate::liveness::lookups`] at which the program goes on.
    pub fn resume(&self) -> usize {
        self.resume as usize
    }

    /// Whether a packet should try the straight way ([`crate::straight`]): not for a while where packet after
    /// packet left it, for what runs there is run once more then. It changes speed, never meaning.
    #[inline]
    pub fn tries_straight(&mut self) -> bool {
        let tries = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        tries
    }

    /// A packet tried the straight way, and left it or not.
    #[inline]
    pub fn note_straight(&mut self, left: bool) {
        self.detours = if left { (self.detours + 1).min(DETOURS_MAX) } else { 0 };
        if self.detours == DETOURS_MAX {
            self.pause = PAUSE_PACKETS;
        }
    }

    /// Binds it to the program with this secret and to a frame: what it holds was saved by that program's
    /// head, run on that frame. Who does not know the secret can't bind.
    #[inline]
    pub fn bind(&mut self, secret: u64, frame: &[u8]) {
        self.bound = [secret, frame.as_ptr() as u64, frame.len() as u64];
    }

    /// Whether the sender stands second in the key; and whether it is the responder of a flow that is made now.
    #[inline]
    pub fn sender(&self) -> (bool, bool) {
        (self.swap & 1 != 0, self.swap & REVERSED != 0)
    }

    /// Whether it is bound so.
    #[inline]
    pub fn is_bound(&self, secret: u64, frame: &[u8]) -> bool {
        // Word by word: as arrays, what is in registers would be written to memory to be compared at once.
        let [of, address, length] = self.bound;
        let difference = (of ^ secret) | (address ^ frame.as_ptr() as u64) | (length ^ frame.len() as u64);
        secret != 0 && difference == 0
    }

    /// Keeps a buffer until the packet is done.
    pub fn keep(&mut self, buffer: Slice) {
        self.buffers.push(buffer);
    }

    /// Buffers that it keeps.
    pub fn kept(&self) -> usize {
        self.buffers.len()
    }

    /// The packet is done: its buffers go, and nothing can be resumed.
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
    /// The graph that it was made from, after the passes.
    fn graph(&self) -> &Graph;

    /// Where the variables of each table's flow records lie.
    fn layout(&self) -> &Layout;

    /// Runs the part before the first lookup. Touches nothing but the packet and `k`, which it
    /// releases first; [`Continuation::outs`] keeps what is not stored anew.
    fn head(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Step;

    /// Goes on after a lookup; [`Continuation::resume`](Continuation::resume()) is its place in [`crate::liveness::lookups`].
    /// After a restart the program goes on from the same lookup again, with the same values.
    fn resume(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation) -> Step;

    /// So many packets more were run. What runs often may be compiled better, beside the run.
    fn note_packets(self: Arc<Self>, packets: usize) {
        let _ = packets;
    }

    /// Runs a graph without packet (a residual filter) on a record's numbers and bytes; its terms.
    fn ask(&self, numbers: &[u64], bytes: &[&[u8]], k: &mut Continuation) -> u64;
}

/// Where the variables of flow records lie: little-endian (native order), aligned to their size.
///
/// A variable with sides lies twice, the responder's [`Layout::stride`] bytes after the originator's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    offsets: Vec<u32>,
    strides: Vec<u32>,
    sizes: Vec<u32>,
}

impl Layout {
    /// Lays out all variables of a graph: per table first the originator's, then the responder's, then
    /// the others, each group by falling size.
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

    /// Offset of a variable (the originator's, where it has sides) in its flow record.
    pub fn offset(&self, var: Var) -> usize {
        self.offsets[var.index()] as usize
    }

    /// Bytes from an originator's variable to the responder's.
    pub fn stride(&self, table: Table) -> usize {
        self.strides[table.index()] as usize
    }

    /// Bytes of a flow record's variables.
    pub fn size(&self, table: Table) -> usize {
        self.sizes[table.index()] as usize
    }
}
