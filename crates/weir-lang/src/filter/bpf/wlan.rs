//! 802.11: addresses, whose places depend on the frame's type and direction, and the length of its headers.

use super::link::{Headers, WlanPrefix};
use super::tree::Direction;
use crate::filter::frame_test::{Arithmetic, Number, Register, Test};

/// Bits of the first byte: the frame is a control frame or reserved, a data frame, a data frame with quality
/// of service.
const TYPE_CONTROL: u32 = 0x04;
const TYPE_DATA: u32 = 0x08;
const WITH_QOS: u32 = 0x80;
/// Bits of the second byte.
const TO_DS: u32 = 0x01;
const FROM_DS: u32 = 0x02;

/// Bits of radiotap's first word of present fields, as read in network byte order.
const HAS_FLAGS: u32 = 0x0200_0000;
const HAS_TIME: u32 = 0x0100_0000;
const HAS_MORE_WORDS: u32 = 0x0000_0080;
/// Bit of radiotap's flags: the payload is aligned to four bytes.
const IS_PADDED: u32 = 0x20;

/// The test of an 802.11 header: the places of an address depend on the frame.
pub(super) fn address(headers: &Headers, direction: Direction, test: &dyn Fn(&Headers, u32) -> Test) -> Test {
    let byte = |at: u32| headers.link.after(at).load(1);
    let is = |bits| Test::has_bits(byte(0), bits);
    let has = |bits| Test::has_bits(byte(1), bits);
    let at = |offset| test(headers, offset);
    let (management, data) = match direction {
        Direction::Source => {
            let from_ds = Test::any([Test::all([has(TO_DS).not(), at(16)]), Test::all([has(TO_DS), at(24)])]);
            let data =
                Test::any([Test::all([has(FROM_DS).not(), at(10)]), Test::all([has(FROM_DS), from_ds])]);
            (at(10), data)
        }
        Direction::Destination => {
            (at(4), Test::any([Test::all([has(TO_DS).not(), at(4)]), Test::all([has(TO_DS), at(16)])]))
        }
        Direction::Either | Direction::Both => {
            let ends = [Direction::Source, Direction::Destination].map(|end| address(headers, end, test));
            return if direction == Direction::Both { Test::all(ends) } else { Test::any(ends) };
        }
    };
    let data = Test::all([is(TYPE_DATA), data]);
    Test::all([is(TYPE_CONTROL).not(), Test::any([Test::all([is(TYPE_DATA).not(), management]), data])])
}

/// Computes the places of an 802.11 header and of its payload, before the test that uses them.
pub(super) fn prelude(headers: &Headers, prefix: WlanPrefix, uses: &dyn Fn(Register) -> bool) -> Vec<Test> {
    let mut steps = vec![];
    let fixed = |plus, bytes| Number::Load { at: None, plus, bytes };
    if prefix == WlanPrefix::Ppi {
        // The number of the link type that follows, in little-endian byte order; libpcap supports 802.11
        // only.
        steps.push(Test::equals(fixed(4, 4), 105u32.swap_bytes()));
    }
    let (Some(payload), link) = (headers.payload.register, headers.link.register) else { return steps };
    let needs_payload = uses(payload);
    if let Some(link) = link.filter(|&link| needs_payload || uses(link)) {
        // The length of the preceding header, in little-endian byte order.
        let high = Number::binary(Arithmetic::Shl, fixed(3, 1), Number::Constant(8));
        steps.push(Test::Set(link, Number::binary(Arithmetic::Or, high, fixed(2, 1))));
    }
    if !needs_payload {
        return steps;
    }
    let start = link.map_or(Number::Constant(0), Number::Register);
    let plus = |number, more| Number::binary(Arithmetic::Add, number, Number::Constant(more));
    let longer = |bytes| Test::Set(payload, plus(Number::Register(payload), bytes));
    steps.push(Test::Set(payload, plus(start, 24)));
    let first = headers.link.load(1);
    let mut data = vec![when(Test::has_bits(first.clone(), WITH_QOS), longer(2))];
    if prefix == WlanPrefix::Radiotap {
        let present = |bits| Test::has_bits(fixed(4, 4), bits);
        let flags = Test::any([
            Test::all([present(HAS_TIME), Test::has_bits(fixed(16, 1), IS_PADDED)]),
            Test::all([present(HAS_TIME).not(), Test::has_bits(fixed(8, 1), IS_PADDED)]),
        ]);
        let is_padded = Test::all([present(HAS_FLAGS), present(HAS_MORE_WORDS).not(), flags]);
        let aligned = plus(Number::Register(payload), 3).masked(!3);
        data.push(when(is_padded, Test::Set(payload, aligned)));
    }
    let is_data =
        Test::all([Test::has_bits(first.clone(), TYPE_DATA), Test::has_bits(first, TYPE_CONTROL).not()]);
    steps.push(when(is_data, Test::all(data)));
    steps
}

/// Evaluates `then` if the condition holds; holds in any case, if `then` does.
fn when(condition: Test, then: Test) -> Test {
    Test::any([condition.not(), then])
}
