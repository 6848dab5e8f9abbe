//! The constructs of the protocol language, each in a protocol of a few lines.

use super::told::told;

fn frames(list: &[&[u8]]) -> Vec<Vec<u8>> {
    list.iter().map(|frame| frame.to_vec()).collect()
}

#[test]
fn functions_and_tables_stand_where_they_are_named() {
    // RFC 9000, section 16: the first two bits give the size of a number in bytes, and are part of it.
    let text = "
        fn bits(form) = (8 << form) - 2
        fn varint(raw, form) = raw & ((1 << bits(form)) - 1)
        table price { 0, 7: 10  1..3: 20  otherwise: 5 }
        //! Numbers of 1, 2, 4 or 8 bytes
        protocol number {
            header { peek form: u2  raw: uint[1 << form]  kind: u8 }
            instance (kind)
            timeout 1m
            event seen on packet { value = varint(raw, form), cost = price[kind], bytes = header.length }
        }
        //! Of them
        stack mine { start 147: number }";
    let told = told(
        text,
        "mine",
        "number.seen.value > 60",
        &frames(&[
            &[0x25, 0],
            &[0x7b, 0xbd, 1],
            &[0x9d, 0x7f, 0x3e, 0x7d, 3],
            &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c, 9],
            // Its last byte is missing.
            &[0x7b, 0xbd],
        ]),
    );
    // The examples of RFC 9000, appendix A.1.
    let wanted: [&[&str]; 5] = [
        &["seen 37 10 2"],
        &["seen 15293 20 3", "yes"],
        &["seen 494878333 20 5", "yes"],
        &["seen 151288809941952652 5 9", "yes"],
        &[],
    ];
    assert_eq!(told, wanted);
}

#[test]
fn the_cursor_says_how_far_the_header_was_read() {
    let text = "
        //! A header of a length that stands in it
        protocol sized {
            header {
                length: u8
                if length > 4 { extra: u16 }
                rest_of_header: bytes[length - cursor]
            }
            payload = rest
            instance (length)
            timeout 1m
            event seen on packet { header = header.length, payload = payload.length }
        }
        //! Of them
        stack mine { start 147: sized }";
    let told = told(text, "mine", "", &frames(&[&[1, 9, 9], &[4, 1, 2, 3, 9], &[6, 1, 2, 3, 4, 5, 9, 9]]));
    assert_eq!(told, [["seen 1 2", "yes"], ["seen 4 1", "yes"], ["seen 6 2", "yes"]]);
}

const ORDER: &str = "
    //! Steps of a conversation
    protocol step {
        header { who: u8  kind: u8 }
        instance (who)
        packet { doubled: u8  seen: u8 = 7 }
        vars { total: u16 }
        prepare {
            doubled = kind * 2
            if state.begun { total += doubled } else { seen += 1 }
        }
        states { idle: start  begun  over: accept }
        on begin: idle -> begun   when kind == 1
        on end:   begun -> over   when kind == 200
        timeout 1m
        event summary on packet after started, ended { doubled, seen, total, over = state.over }
        event started on begin { who }
        event ended on end
        event noted with started when who == 5 { kind }
    }
    //! Of them
    stack steps { start 147: step }";

#[test]
fn events_happen_with_others_and_after_others() {
    let told = told(ORDER, "steps", "", &frames(&[&[5, 1], &[5, 3], &[5, 200], &[6, 1]]));
    let wanted: [&[&str]; 4] = [
        &["started 5", "noted 1", "summary 2 8 0 0", "yes"],
        &["summary 6 7 6 0", "yes"],
        // 400 is 144 in eight bits; a delayed event has the columns of the time at which it occurred.
        &["ended", "summary 144 7 150 1", "yes"],
        &["started 6", "summary 2 8 0 0", "yes"],
    ];
    assert_eq!(told, wanted);
}

#[test]
fn filters_ask_what_happens() {
    let told = told(
        ORDER,
        "steps",
        "step.ended or step.noted.kind == 1",
        &frames(&[&[5, 1], &[5, 3], &[5, 200], &[6, 1]]),
    );
    let yes: Vec<bool> = told.iter().map(|told| told.iter().any(|word| word == "yes")).collect();
    assert_eq!(yes, [true, false, true, false]);
}

const CHUNKS: &str = "
    //! A packet of chunks
    protocol pack {
        header { from: u8  to: u8 }
        payload = rest
    }
    //! A numbered chunk; others may follow it
    protocol chunk {
        header { number: u8  flags { _: u7  last: u1 }  length: u8  data: bytes[length] }
        payload = rest
        instance (below.from) <-> (below.to)
        sequence at number of data spanning 1 from first SEQUENCE
        timeout 1m
        event part on ordered { ASSEMBLE number = ordered.number }
        event message on ordered when ordered.flags.last == 1
        event again on retransmission { number }
    }
    //! Of them
    stack chunks {
        start 147: pack
        repeat chunk 8
        pack, chunk -> chunk  when payload.length > 0
    }";

#[test]
fn a_field_is_put_in_order_and_its_sibling_follows() {
    let text = CHUNKS.replace("SEQUENCE", "").replace("ASSEMBLE", "assemble,");
    let told = told(
        &text,
        "chunks",
        "",
        &frames(&[
            // Two chunks in one packet, then a chunk out of order, then the missing one and a retransmission.
            &[1, 2, 10, 0, 2, b'a', b'b', 11, 1, 1, b'c'],
            &[1, 2, 13, 1, 1, b'e'],
            &[1, 2, 12, 0, 1, b'd', 10, 0, 2, b'a', b'b'],
        ]),
    );
    let wanted: [&[&str]; 3] = [
        &["part 10", "gap 0 [61,62]of2", "part 11", "message", "gap 0 [63]of1", "yes"],
        &["yes"],
        &["part 12", "gap 0 [64]of1", "part 13", "message", "gap 0 [65]of1", "again 10", "yes"],
    ];
    assert_eq!(told, wanted);
}

#[test]
fn headers_only_keep_the_order_without_the_bytes() {
    let text = CHUNKS.replace("SEQUENCE", "headers only").replace("ASSEMBLE", "");
    let told = told(
        &text,
        "chunks",
        "",
        &frames(&[&[1, 2, 10, 0, 1, b'a'], &[1, 2, 12, 0, 1, b'c'], &[1, 2, 11, 0, 1, b'b']]),
    );
    let wanted: [&[&str]; 3] = [&["part 10", "yes"], &["yes"], &["part 11", "part 12", "yes"]];
    assert_eq!(told, wanted);
}

#[test]
fn one_protocol_stands_at_several_places() {
    let text = "
        //! An address
        protocol place {
            header { from: u8  to: u8  next: u8 }
            payload = rest
            instance (from, to)
            timeout 1m
            event seen on packet { from, to }
        }
        //! One in another
        stack nested {
            layer outer: place
            layer inner: place
            start 147: outer
            outer -> inner when next == 1
        }";
    let packets = frames(&[&[1, 2, 1, 3, 4, 0], &[3, 4, 0]]);
    let both = told(text, "nested", "outer.from == 1 and inner.to == 4", &packets);
    assert_eq!(both, [vec!["seen 1 2", "seen 3 4", "yes"], vec!["seen 3 4"]]);
    let inner = told(text, "nested", "inner.seen.from == 3", &packets);
    assert_eq!(inner, [vec!["seen 1 2", "seen 3 4", "yes"], vec!["seen 3 4"]]);
}

#[test]
fn what_a_packet_began_it_does_not_restart() {
    let text = "
        //! Each packet but the first starts anew
        protocol one {
            header { who: u8 }
            instance (who)
            vars { seen: u8 }
            prepare { seen += 1 }
            states { idle: start  begun }
            on again: any -> restart
            on begin: idle -> begun
            timeout 1m
            event noted on begin { seen }
        }
        //! Of them
        stack ones { start 147: one }";
    let told = told(text, "ones", "", &frames(&[&[5], &[5], &[6]]));
    assert_eq!(told, [["noted 1", "yes"], ["noted 1", "yes"], ["noted 1", "yes"]]);
}

#[test]
fn loads_of_runs_in_runs_are_proven() {
    // `told` runs the verifier, whose facts about a load inside loops shrink more often than the limit on
    // visits.
    let text = "
        //! A run
        protocol around {
            header {
                src: macaddr  mark: u8
                few: run {
                    none = 0
                    some = 1 { bytes: u8  more: bytes[bytes & 3] }
                    last = 2
                } until cursor + (src & 15)
            }
            let kept = if mark then if few.last then src else header.length in { 1, 0..4 } else few.some.bytes
        }
        //! Runs in a run
        protocol deep {
            header {
                src: u64  dst: u64  a: u1  peek b: u7  c: u4 where <= 7  d: u1  e: u1  _: u1  f: u12  g: u19  h: u1
                outer: run u32 {
                    first = 0 { i: u13  j: u2  k: u1 }
                    second = 1 {
                        inner: run u16 { } until 9
                        other: run { item = 1 } until cursor + (outer.first & 15)
                    }
                } until cursor + 7
            }
        }
        //! Both
        stack both { layer top: deep  start 147: around  around -> top when few.none < 3 and kept < 4 }";
    assert_eq!(told(text, "both", "", &frames(&[&[0; 40]])), [["yes"]]);
}

#[test]
fn what_is_looked_ahead_at_is_nothing_where_nothing_is_left() {
    let text = "
        //! An address ahead
        protocol ahead {
            header { who: u8  peek address: ipv6addr }
            payload = rest
            instance (who)
            timeout 1m
            event seen on packet { who, address }
        }
        //! Two of them
        stack aheads { start 147: ahead  repeat ahead 2  ahead -> ahead }";
    let packet = [&[1][..], &[7; 16]].concat();
    let filter = |address: &str| format!("ahead.seen.address == {address}");
    let is_seen = |address| {
        told(text, "aheads", &filter(address), std::slice::from_ref(&packet))[0].contains(&"yes".to_string())
    };
    assert!(is_seen("707:707:707:707:707:707:707:707"), "of the first");
    assert!(!is_seen("::"), "what is absent has no value");
    assert!(!is_seen("707:707:707:707::"), "nothing is left of the first");
}

#[test]
fn a_circle_that_nothing_leads_into_is_compiled() {
    let text = "
        //! Met
        protocol met { header { who: u8 } payload = rest }
        //! Never met
        protocol lost { header { who: u8 } payload = rest }
        //! Both
        stack both { start 147: met  lost -> lost  repeat lost 2 }";
    assert_eq!(told(text, "both", "met.who == 1 or lost.who == 1", &frames(&[&[1, 1]])), [["yes"]]);
}
