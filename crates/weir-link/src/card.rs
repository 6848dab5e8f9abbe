//! Packets that network cards drop before the kernel sees them, from the statistics of their interfaces.
//!
//! The kernel answers over a netlink socket (`RTM_GETSTATS`, linux/if_link.h), which belongs to the network
//! namespace of the capture; the files of sysfs may be those of another namespace.

use crate::system::Socket;
use std::cell::Cell;
use std::io;

/// Requests and answers about statistics (linux/rtnetlink.h), and the attribute with `rtnl_link_stats64`.
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
const IFLA_STATS_LINK_64: u16 = 1;
/// Bytes of `nlmsghdr`, of `if_stats_msg`, and of the header of an attribute.
const HEADER: usize = 16;
const STATS_MESSAGE: usize = 12;
const ATTRIBUTE: usize = 4;
/// Bytes of the longest answer: a header, a message and 25 counters are shorter.
const ANSWER_BYTES_MAX: usize = 4096;

/// The places of `rx_over_errors`, `rx_fifo_errors` and `rx_missed_errors` in `rtnl_link_stats64`.
/// `rx_dropped` is not among them: the kernel counts packets there that it has shown to the capture. Drivers
/// report a packet at one of these places.
const DROPS: [usize; 3] = [11, 14, 15];

/// The packets that the card of one interface has dropped since the capture began.
#[derive(Debug)]
pub(crate) struct CardDrops {
    socket: Socket,
    index: u32,
    /// The sum of the card's counters at the last look.
    last: Cell<u64>,
    dropped: Cell<u64>,
}

impl CardDrops {
    /// Begins to count for the interface of this index.
    ///
    /// # Errors
    /// The kernel gives no statistics of this interface.
    pub fn of(index: u32) -> io::Result<Self> {
        let socket = Socket::new(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let last = Cell::new(drops(&link_counters(&socket, index)?));
        Ok(Self { socket, index, last, dropped: Cell::new(0) })
    }

    /// The packets so far. If the interface is gone, the last number stays.
    pub fn dropped(&self) -> u64 {
        if let Ok(counters) = link_counters(&self.socket, self.index) {
            let now = drops(&counters);
            // Some drivers begin at 0 again when the interface goes down and up.
            let more = now.checked_sub(self.last.replace(now)).unwrap_or(now);
            self.dropped.set(self.dropped.get() + more);
        }
        self.dropped.get()
    }
}

fn drops(counters: &[u64]) -> u64 {
    DROPS.iter().filter_map(|&place| counters.get(place)).fold(0, |sum, count| sum.saturating_add(*count))
}

/// The counters of an interface, in the order of `rtnl_link_stats64`.
fn link_counters(socket: &Socket, index: u32) -> io::Result<Vec<u64>> {
    socket.send(&request(index))?;
    let mut bytes = [0; ANSWER_BYTES_MAX];
    // The kernel answers before the request returns.
    let length = socket.receive_now(&mut bytes)?;
    counters_of(&bytes[..length]).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn request(index: u32) -> Vec<u8> {
    let length = (HEADER + STATS_MESSAGE) as u32;
    let [kind, flags] = [RTM_GETSTATS, libc::NLM_F_REQUEST as u16];
    let filter = 1u32 << (IFLA_STATS_LINK_64 - 1);
    let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
    [header, vec![0; 4], index.to_ne_bytes().to_vec(), filter.to_ne_bytes().to_vec()].concat()
}

/// The counters in an answer. `None`: the answer is an error, or has none.
fn counters_of(answer: &[u8]) -> Option<Vec<u64>> {
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if short(4)? != RTM_NEWSTATS {
        return None;
    }
    let mut at = HEADER + STATS_MESSAGE;
    loop {
        let (length, kind) = (usize::from(short(at)?), short(at + 2)?);
        let value = answer.get(at + ATTRIBUTE..at + length.max(ATTRIBUTE))?;
        if kind == IFLA_STATS_LINK_64 {
            let words = value.chunks_exact(8).filter_map(|word| word.try_into().ok());
            return Some(words.map(u64::from_ne_bytes).collect());
        }
        at += length.max(ATTRIBUTE).next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::interface_index;
    use std::net::UdpSocket;

    fn answer(kind: u16, attributes: &[(u16, &[u64])]) -> Vec<u8> {
        let mut answer = [&[0; 4][..], &kind.to_ne_bytes(), &[0; 22]].concat();
        for (kind, counters) in attributes {
            answer.extend(((ATTRIBUTE + 8 * counters.len()) as u16).to_ne_bytes());
            answer.extend(kind.to_ne_bytes());
            answer.extend(counters.iter().flat_map(|counter| counter.to_ne_bytes()));
        }
        answer
    }

    #[test]
    fn the_drops_of_a_card_are_three_of_its_counters() {
        let mut counters = [1_000_000; 25];
        DROPS.iter().zip([5, 60, 700]).for_each(|(&place, count)| counters[place] = count);
        let answer = answer(RTM_NEWSTATS, &[(7, &[1, 2]), (IFLA_STATS_LINK_64, &counters)]);
        assert_eq!(drops(&counters_of(&answer).expect("counters")), 765);
        // A kernel may have fewer counters.
        assert_eq!(drops(&counters[..12]), 5);
    }

    #[test]
    fn no_answer_is_taken_for_another_one() {
        let whole = answer(RTM_NEWSTATS, &[(IFLA_STATS_LINK_64, &[0; 25])]);
        assert!((0..whole.len()).all(|length| counters_of(&whole[..length]).is_none()), "cut answers");
        assert_eq!(counters_of(&answer(libc::NLMSG_ERROR as u16, &[(IFLA_STATS_LINK_64, &[9; 25])])), None);
        let endless = answer(RTM_NEWSTATS, &[(9, &[][..]); 50]);
        assert_eq!(counters_of(&endless), None);
    }

    /// The kernel's counters are at the expected places: those of the loopback interface count our datagrams.
    #[test]
    fn the_kernel_gives_the_counters_of_an_interface() {
        let index = interface_index("lo").expect("the loopback interface");
        let socket = Socket::new(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).expect("a socket");
        let counters = || link_counters(&socket, index).expect("the kernel answers");
        let before = counters();
        let (from, to) = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback")).into();
        for _ in 0..10 {
            from.send_to(&[0; 1000], to.local_addr().expect("it is bound")).expect("it is sent");
        }
        let after = counters();
        // rx_packets and rx_bytes.
        assert!(after[0] >= before[0] + 10 && after[2] >= before[2] + 10_000, "{before:?} {after:?}");
        let card = CardDrops::of(index).expect("the kernel answers");
        assert_eq!(card.dropped(), 0);
        assert!(CardDrops::of(u32::MAX >> 1).is_err(), "there is no such interface");
    }

    /// Some drivers begin at 0 again.
    #[test]
    fn counters_that_go_back_lose_nothing() {
        let index = interface_index("lo").expect("the loopback interface");
        let card = CardDrops::of(index).expect("the kernel answers");
        let now = card.last.get();
        card.last.set(now + 100);
        card.dropped.set(7);
        assert_eq!((card.dropped(), card.dropped()), (7 + now, 7 + now));
    }
}
