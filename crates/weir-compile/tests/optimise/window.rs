//! Windows of sequences: bytes outside are neither delivered nor stored, and the event is emitted.

use super::told::told;

/// Sequence numbers of eight bits, which wrap soon.
const TEXT: &str = "
//! Bytes with numbers
protocol seg {
    header { from: u8  to: u8  seq: u8  ack: u8  window: u8 }
    payload = rest
    instance (from) <-> (to)
    each side { acked: u8 = seq  size: u8 = max }
    prepare { me.acked = ack  me.size = window }
    sequence at seq of payload window peer.acked .. peer.acked + peer.size from first
    timeout 1m
    event data on ordered { assemble, seq }
    event late on out_of_window { seq }
}
//! Of them
stack segs { start 147: seg }
";

/// From, to, sequence number, acknowledgement, window, bytes.
type Segment<'a> = (u8, u8, u8, u8, u8, &'a [u8]);

#[test]
fn what_lies_outside_is_not_delivered() {
    let segments: [Segment<'_>; 11] = [
        // Before the peer's first packet, its window has the maximum size.
        (1, 2, 250, 0, 9, b"ab"),
        // The peer has these bytes, and accepts four more: 252 to 255.
        (2, 1, 0, 252, 4, b""),
        (1, 2, 4, 0, 9, b"x"),
        (1, 2, 0, 0, 9, b"x"),
        (1, 2, 246, 0, 9, b"x"),
        (1, 2, 252, 0, 9, b"cdef"),
        // A segment that starts before the window and reaches into it is accepted; the `f` is a
        // retransmission.
        (2, 1, 0, 1, 4, b""),
        (1, 2, 255, 0, 9, b"fghi"),
        // The window is closed: only empty segments at its end are accepted.
        (2, 1, 0, 3, 0, b""),
        (1, 2, 3, 0, 9, b"x"),
        (1, 2, 3, 0, 9, b""),
    ];
    let frame =
        |&(from, to, seq, ack, window, bytes): &Segment<'_>| [&[from, to, seq, ack, window], bytes].concat();
    let frames: Vec<Vec<u8>> = segments.iter().map(frame).collect();
    let told = told(TEXT, "segs", "seg.late", &frames);
    let data = |seq: u8, bytes: &str| vec![format!("data {seq}"), format!("gap 0 {bytes}")];
    assert_eq!(told[0], data(250, "[61,62]of2"));
    assert_eq!(told[2..5], [["late 4", "yes"], ["late 0", "yes"], ["late 246", "yes"]]);
    assert_eq!(told[5], data(252, "[63,64,65,66]of4"));
    assert_eq!(told[7], data(255, "[67,68,69]of3"));
    assert_eq!(told[9], ["late 3", "yes"]);
    assert_eq!(told[10][0], "data 3");
}
