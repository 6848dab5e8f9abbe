//! The programs that the kernel runs for a capture. Each consists of the filter of the questions, if there is
//! one, and of what becomes of the packets.
//!
//! Registers: 6 is the length of the frame, 7 the start of the bytes, 8 their end, 9 the context.

use crate::assembly::{
    Assembly, DIFFERENT, EQUAL, FRAME_LENGTH, GREATER, LESS, LOAD_BYTES, LOOKUP, Label, MAKE_META, REDIRECT,
    TIME,
};
use crate::bpf::{CountMap, OF_FLOWS, ScratchMap, SocketMap, UNNEEDED};
use weir_packet::bpf::code::{DOUBLE, HALF, LOAD_NUMBER, STACK, WORD};
use weir_packet::{BpfInstruction, KernelFilter};

/// Bytes in front of each packet: a mark, and the time.
pub(crate) const META_BYTES: usize = 16;

/// The packet is dropped.
const XDP_DROP: i32 = 1;
/// The packet goes to the machine.
const XDP_PASS: i32 = 2;
/// A socket filter's result for whole packets.
const WHOLE_PACKET: i32 = i32::MAX;

/// Places in the context of a program of XDP (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// Places in the context of a socket filter (`struct __sk_buff`).
const LENGTH: i16 = 0;
const VLAN_PRESENT: i16 = 20;
const VLAN_TAG: i16 = 24;
const VLAN_TYPE: i16 = 28;

/// Bytes in front of a VLAN tag.
const BEFORE_TAG: i32 = 12;
/// Bytes of a VLAN tag.
const TAG_BYTES: i32 = 4;

/// What becomes of packets that a program of XDP sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate<'a> {
    /// The sockets for packets that a question needs, and the mark before the times that the program writes;
    /// `None`: these packets go to the machine.
    pub sockets: Option<(&'a SocketMap, u64)>,
    /// All other packets are dropped. Otherwise they go to the machine.
    pub drops: bool,
}

/// Writes a filter, with the number of the map of the connections that it takes over.
fn filter(all: &mut Assembly, filter: &[BpfInstruction], flows: Option<i32>) {
    let is_map = |one: &BpfInstruction| {
        one.registers >> 4 == KernelFilter::IS_MAP
            && one.code == LOAD_NUMBER
            && one.number == KernelFilter::FLOWS
    };
    let number = flows.unwrap_or(KernelFilter::FLOWS);
    let filter: Vec<BpfInstruction> =
        filter.iter().map(|&one| if is_map(&one) { BpfInstruction { number, ..one } } else { one }).collect();
    all.filter(&filter);
}

/// A program of XDP. `counts` counts the packets that no question needs.
pub(crate) fn for_interface(
    fate: Fate<'_>,
    of_questions: Option<&[BpfInstruction]>,
    counts: &CountMap,
    flows: Option<i32>,
) -> Vec<BpfInstruction> {
    let mut all = Assembly::default();
    all.copy(9, 1);
    let [unneeded, of_flow, discarded] = [(); 3].map(|()| all.label());
    if let Some(of_questions) = of_questions {
        all.call(FRAME_LENGTH);
        all.copy(6, 0);
        all.load(WORD, 7, 9, DATA);
        all.load(WORD, 8, 9, DATA_END);
        filter(&mut all, of_questions, flows);
        all.jump_if(EQUAL, 0, KernelFilter::UNNEEDED, unneeded);
        all.jump_if(EQUAL, 0, KernelFilter::COUNTED, of_flow);
    }
    match fate.sockets {
        Some((sockets, mark)) => redirect(&mut all, sockets, mark),
        None => verdict(&mut all, XDP_PASS),
    }
    if of_questions.is_some() {
        all.place(of_flow);
        count(&mut all, counts, OF_FLOWS);
        all.jump(discarded);
        all.place(unneeded);
        count(&mut all, counts, UNNEEDED);
        all.place(discarded);
        verdict(&mut all, if fate.drops { XDP_DROP } else { XDP_PASS });
    }
    all.finish()
}

fn verdict(all: &mut Assembly, number: i32) {
    all.set(0, number);
    all.exit();
}

/// Gives the packet to the socket of its queue, with the time of reception in front of it.
fn redirect(all: &mut Assembly, sockets: &SocketMap, mark: u64) {
    let timeless = all.label();
    all.copy(1, 9);
    all.set(2, -(META_BYTES as i32));
    all.call(MAKE_META);
    // Drivers without room in front of packets refuse.
    all.jump_if(DIFFERENT, 0, 0, timeless);
    all.call(TIME);
    all.load(WORD, 7, 9, DATA);
    all.load(WORD, 8, 9, DATA_META);
    all.copy(1, 8);
    all.add(1, META_BYTES as i32);
    all.jump_if_register(GREATER, 1, 7, timeless);
    all.set_double(2, mark);
    all.store(DOUBLE, 8, 0, 2);
    all.store(DOUBLE, 8, 8, 0);
    all.place(timeless);
    all.load(WORD, 2, 9, QUEUE);
    all.set_map(1, sockets.number());
    // Without a socket the packet goes to the machine.
    all.set(3, XDP_PASS);
    all.call(REDIRECT);
    all.exit();
}

/// Looks up an entry of a map. Register 0 points to it, or is 0.
fn look_up(all: &mut Assembly, map: i32, entry: u32) {
    all.set(1, entry as i32);
    all.store(WORD, STACK, -4, 1);
    all.copy(2, STACK);
    all.add(2, -4);
    all.set_map(1, map);
    all.call(LOOKUP);
}

/// Counts a packet and its bytes.
fn count(all: &mut Assembly, counts: &CountMap, which: u32) {
    let uncounted = all.label();
    look_up(all, counts.number(), which);
    all.jump_if(EQUAL, 0, 0, uncounted);
    all.load(DOUBLE, 1, 0, 0);
    all.add(1, 1);
    all.store(DOUBLE, 0, 0, 1);
    all.load(DOUBLE, 1, 0, 8);
    all.add_register(1, 6);
    all.store(DOUBLE, 0, 8, 1);
    all.place(uncounted);
}

/// The program of a socket's filter. The socket receives the packets that a question needs; the others are
/// discarded, and `counts` counts them.
pub(crate) fn for_socket(
    of_questions: &[BpfInstruction],
    scratch: &ScratchMap,
    counts: &CountMap,
    flows: Option<i32>,
) -> Vec<BpfInstruction> {
    let mut all = Assembly::default();
    let [needed, unneeded, of_flow, discarded, whole, copied] = [(); 6].map(|()| all.label());
    all.copy(9, 1);
    all.load(WORD, 6, 9, LENGTH);
    look_up(&mut all, scratch.number(), 0);
    all.jump_if(EQUAL, 0, 0, needed);
    all.copy(7, 0);
    all.load(WORD, 1, 9, VLAN_PRESENT);
    all.jump_if(EQUAL, 1, 0, whole);
    // The kernel has taken the tag out of the frame; the copy has it again.
    all.jump_if(LESS, 6, BEFORE_TAG + 1, needed);
    all.set(2, 0);
    all.copy(3, 7);
    all.set(4, BEFORE_TAG);
    load_bytes(&mut all, needed);
    all.load(WORD, 1, 9, VLAN_TYPE);
    all.store(HALF, 7, BEFORE_TAG as i16, 1);
    all.load(WORD, 1, 9, VLAN_TAG);
    all.swap_half(1);
    all.store(HALF, 7, BEFORE_TAG as i16 + 2, 1);
    all.copy(4, 6);
    all.add(4, -BEFORE_TAG);
    all.add(6, TAG_BYTES);
    limit(&mut all, KernelFilter::COPY_BYTES as i32 - BEFORE_TAG - TAG_BYTES, needed);
    all.set(2, BEFORE_TAG);
    all.copy(3, 7);
    all.add(3, BEFORE_TAG + TAG_BYTES);
    load_bytes(&mut all, needed);
    all.jump(copied);
    all.place(whole);
    all.copy(4, 6);
    limit(&mut all, KernelFilter::COPY_BYTES as i32, needed);
    all.set(2, 0);
    all.copy(3, 7);
    load_bytes(&mut all, needed);
    all.place(copied);
    filter(&mut all, of_questions, flows);
    all.jump_if(EQUAL, 0, KernelFilter::UNNEEDED, unneeded);
    all.jump_if(EQUAL, 0, KernelFilter::COUNTED, of_flow);
    all.place(needed);
    verdict(&mut all, WHOLE_PACKET);
    all.place(of_flow);
    count(&mut all, counts, OF_FLOWS);
    all.jump(discarded);
    all.place(unneeded);
    count(&mut all, counts, UNNEEDED);
    all.place(discarded);
    verdict(&mut all, 0);
    all.finish()
}

/// Limits register 4 to a number of bytes; jumps if there are none.
fn limit(all: &mut Assembly, bytes: i32, none: Label) {
    let few = all.label();
    all.jump_if(LESS, 4, bytes + 1, few);
    all.set(4, bytes);
    all.place(few);
    all.jump_if(EQUAL, 4, 0, none);
}

/// Copies bytes of the frame: register 2 is their offset, 3 their target, 4 their number. Jumps if that
/// fails.
fn load_bytes(all: &mut Assembly, failed: Label) {
    all.copy(1, 9);
    all.call(LOAD_BYTES);
    all.jump_if(DIFFERENT, 0, 0, failed);
}
