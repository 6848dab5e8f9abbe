//! TCP in tunnels: GTP-U of mobile networks; GRE and PPP of PPTP.

use std::path::Path;

use super::conversation::Conversation;
use super::{FLOWS, Filler, Flow, record};
use crate::layers::mobile::gtp_of;
use crate::layers::tunnels::{ACK, KEY, NUMBER, gre_of};
use crate::shell::Result;
use crate::traces::frame::{Ends, ethernet, ipv4, summed_udp};
use std::cell::RefCell;
use std::rc::Rc;
use weir_testing::Random;

/// The largest datagram that fits into a tunnel without fragmentation, as configured in both kinds of
/// network.
const DATAGRAM_BYTES_MAX: usize = 1400;

/// A connection, and the encapsulation of its datagrams.
struct Tunnelled<W> {
    conversation: Conversation,
    wrap: W,
}

impl<W: FnMut(bool, &[u8]) -> Vec<u8>> Flow for Tunnelled<W> {
    fn next(&mut self, random: &mut Random, filler: &Filler) -> Option<Vec<u8>> {
        let (forward, datagram) = self.conversation.next(random, filler)?;
        Some((self.wrap)(forward, &datagram))
    }
}

/// A port without a protocol that tshark would try to dissect in arbitrary bytes.
const SERVERS_PORT: u16 = 5201;

/// A user's connection to one of many servers.
fn users_ends(user: usize, random: &mut Random) -> Ends {
    let numbers = random.bits();
    Ends {
        src: 0x0a00_0002 + user as u32,
        dst: 0xc633_6400 + (numbers & 0xff) as u32,
        src_port: 10_240 + (numbers >> 32) as u16 % 50_000,
        dst_port: SERVERS_PORT,
    }
}

const USERS: usize = 64;
const STATIONS: u32 = 4;
const GTP_PORT: u16 = 2152;

/// 64 users behind four base stations. Half of them as in a 5G network, with a PDU session container; half of
/// the others with sequence numbers.
pub fn gtp(file: &Path, scale: f64) -> Result {
    record(file, scale, 29_281, |slot, random| {
        let user = slot % USERS;
        let station = 0xc000_0210 + user as u32 % STATIONS;
        let there = Ends { src: station, dst: 0xc000_0201, src_port: GTP_PORT, dst_port: GTP_PORT };
        let mut packets = 0u16;
        let wrap = move |forward: bool, datagram: &[u8]| {
            packets = packets.wrapping_add(1);
            let number = packets.to_be_bytes();
            let teid = user as u32 + if forward { 0x1000 } else { 0x8000 };
            let rest = match user % 4 {
                0 | 1 => [&[0, 0, 0, 0x85, 1, u8::from(forward) << 4, 9, 0], datagram].concat(),
                2 => [&[number[0], number[1], 0, 0], datagram].concat(),
                _ => datagram.to_vec(),
            };
            let flags = [4, 4, 2, 0][user % 4];
            let ends = if forward { there } else { there.reversed() };
            let outer = summed_udp(ends, &gtp_of(flags, 255, teid, &rest));
            ethernet(0x0800, &ipv4(ends, 17, packets, 0, &outer))
        };
        let conversation = Conversation::new(users_ends(user, random), DATAGRAM_BYTES_MAX, random);
        Tunnelled { conversation, wrap }
    })
}

const CALLS: usize = 24;

/// The last number that an end of a call sent, and the last one received that is not acknowledged yet.
#[derive(Clone, Copy, Default)]
struct CallEnd {
    sent: u32,
    to_ack: Option<u32>,
}

/// 24 calls to one access server, some with compressed PPP fields (RFC 2637, section 4.1). The calls were set
/// up before the recording.
pub fn pptp(file: &Path, scale: f64) -> Result {
    let calls = Rc::new(RefCell::new([[CallEnd::default(); 2]; CALLS]));
    const { assert!(FLOWS > CALLS) };
    record(file, scale, 2637, |slot, random| {
        let (call, calls) = (slot % CALLS, Rc::clone(&calls));
        let there = Ends { src: 0xc000_0210 + call as u32, dst: 0xc000_0201, src_port: 0, dst_port: 0 };
        let wrap = move |forward: bool, datagram: &[u8]| {
            let ends = &mut calls.borrow_mut()[call];
            let (me, peer) = (usize::from(!forward), usize::from(forward));
            ends[me].sent += 1;
            let (number, to_ack) = (ends[me].sent, ends[me].to_ack.take());
            ends[peer].to_ack = Some(number);
            let ppp = [[0xff, 3, 0, 0x21].as_slice(), &[0, 0x21], &[0x21]][call % 3];
            let payload = [ppp, datagram].concat();
            let receivers_call = call as u32 + if forward { 0x400 } else { 0x100 };
            let key = (payload.len() as u32) << 16 | receivers_call;
            let words = [key, number, to_ack.unwrap_or(0)];
            let (flags, words) = if to_ack.is_some() { (ACK, &words[..]) } else { (0, &words[..2]) };
            let gre = gre_of(KEY | NUMBER | flags | 1, 0x880b, words, &payload);
            let ends = if forward { there } else { there.reversed() };
            ethernet(0x0800, &ipv4(ends, 47, number as u16, 0, &gre))
        };
        let conversation = Conversation::new(users_ends(call, random), DATAGRAM_BYTES_MAX, random);
        Tunnelled { conversation, wrap }
    })
}
