//! A socket of the family AF_XDP on one queue of an interface (Documentation/networking/af_xdp.rst).
//!
//! The socket takes all packets of the queue from the machine: an XDP program redirects them, and the
//! machine's own programs do not receive them. The network card may write packets into the socket's memory
//! itself (zero copy), or the kernel copies them.

use crate::bpf::SocketMap;
use crate::flow_maps::FlowMaps;
use crate::link_socket::{LinkSocket, Target};
use crate::names::{NamedInterface, Names, link_of};
use crate::options::{LinkOptions, Note, Notes};
use crate::packet_socket::promiscuous;
use crate::programs::META_BYTES;
use crate::sieve::Sieve;
use crate::system::{self, InterfaceQuery, Socket};
use crate::umem::{FRAME_BYTES, FillRing, ReceiveRing, TakenFrames, Umem};
use libc::SOL_XDP;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_packet::{
    BURST_PACKETS_MAX, Block, Burst, KernelFilters, LinkType, PacketMeta, Retention, SourceStats, Timestamp,
};

/// Time for which a queue may still belong to a socket that was closed.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// A socket, its memory and its rings.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    target: Target,
    socket: Socket,
    umem: Arc<Umem>,
    fill: FillRing,
    receive: ReceiveRing,
    /// The program that gives the packets to the sockets of the interface's queues.
    sieve: Option<Arc<Sieve>>,
    /// Of the sockets of the interface, the one that knows what its sieve discards.
    is_first: bool,
    /// While this socket exists, the interface receives packets for other hosts, too.
    member: Option<Arc<Socket>>,
    names: Names,
    notes: Notes,
    link: LinkType,
    number: Option<u16>,
    /// The mark before the times that the program writes.
    mark: u64,
    /// The network card writes into the socket's memory.
    is_zero_copy: bool,
    /// The entries of the last burst; their memory is reused.
    entries: Vec<libc::xdp_desc>,
    /// Packets taken.
    taken: u64,
    invalid: u64,
}

/// Opens a socket on each queue of an interface, and attaches the program that gives them the packets.
pub(crate) fn open(
    target: &Target,
    options: &LinkOptions,
    flows: &FlowMaps,
    names: &Names,
) -> io::Result<Vec<XdpSocket>> {
    let asks = InterfaceQuery::new()?;
    let queues = asks.queues(&target.name).unwrap_or(1);
    let link = link_of(asks.hardware(&target.name).unwrap_or(libc::ARPHRD_ETHER));
    let sockets = SocketMap::new(queues)?;
    // Another program's bytes in front of a packet hardly look like this.
    let mark = RandomState::new().hash_one(target.index);
    let mut all = vec![];
    let mut modes = vec![];
    for queue in 0..queues {
        let socket = XdpSocket::open(target, queue, options, names, link, mark)?;
        sockets.set(queue, socket.socket.raw())?;
        modes.push(if socket.is_zero_copy { "zero copy" } else { "copy mode" });
        all.push(socket);
    }
    modes.dedup();
    let place = (target.name.as_str(), target.index);
    let sieve = Sieve::of_interface(place, link, Some((sockets, mark)), options, flows)?;
    let member = options.promiscuous.then(|| promiscuous(target.index)).transpose()?.map(Arc::new);
    for (number, socket) in all.iter_mut().enumerate() {
        socket.sieve = Some(Arc::clone(&sieve));
        socket.is_first = number == 0;
        socket.member.clone_from(&member);
    }
    options
        .notes
        .tell(Note::Method(target.name.clone(), format!("AF_XDP, {}, queues: {queues}", modes.join(", "))));
    Ok(all)
}

/// Binds a socket to a queue. The first attempt asks for zero copy and for packets in several pieces; drivers
/// refuse what they cannot do, and the later attempts ask for less.
fn bind(socket: &Socket, target: &Target, queue: u32) -> io::Result<()> {
    let attempts = [libc::XDP_ZEROCOPY | libc::XDP_USE_SG, libc::XDP_ZEROCOPY, libc::XDP_USE_SG, 0];
    let started = Instant::now();
    loop {
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for flags in attempts {
            let address = libc::sockaddr_xdp {
                sxdp_family: libc::AF_XDP as u16,
                sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP,
                sxdp_ifindex: target.index,
                sxdp_queue_id: queue,
                sxdp_shared_umem_fd: 0,
            };
            match socket.bind(&address) {
                Ok(()) => return Ok(()),
                Err(error) => refused = error,
            }
            if refused.raw_os_error() == Some(libc::EBUSY) {
                break;
            }
        }
        if refused.raw_os_error() != Some(libc::EBUSY) || started.elapsed() > BUSY_MAX {
            return Err(refused);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl XdpSocket {
    fn open(
        target: &Target,
        queue: u32,
        options: &LinkOptions,
        names: &Names,
        link: LinkType,
        mark: u64,
    ) -> io::Result<Self> {
        let socket = Socket::new(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let frames = (options.buffer_bytes / FRAME_BYTES).clamp(64, 1 << 20).next_power_of_two();
        let umem = Umem::new(frames)?;
        umem.register(&socket)?;
        let size = frames as libc::c_uint;
        socket.set(SOL_XDP, libc::XDP_UMEM_FILL_RING, &size)?;
        socket.set(SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &64u32)?;
        socket.set(SOL_XDP, libc::XDP_RX_RING, &size)?;
        let none = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
        let none = libc::xdp_mmap_offsets { rx: none, tx: none, fr: none, cr: none };
        let offsets = socket.get(SOL_XDP, libc::XDP_MMAP_OFFSETS, none)?;
        let mut fill = FillRing::map(&socket, &offsets, size)?;
        let receive = ReceiveRing::map(&socket, &offsets, size)?;
        fill.refill(&umem);
        bind(&socket, target, queue)?;
        let got = socket.get(SOL_XDP, libc::XDP_OPTIONS, libc::xdp_options { flags: 0 })?;
        let socket = Self {
            target: target.clone(),
            socket,
            umem,
            fill,
            receive,
            sieve: None,
            is_first: false,
            member: None,
            names: names.clone(),
            notes: options.notes.clone(),
            link,
            number: None,
            mark,
            is_zero_copy: got.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            entries: vec![],
            taken: 0,
            invalid: 0,
        };
        Ok(socket)
    }

    fn number(&mut self) -> u16 {
        let (names, notes, link) = (&self.names, &self.notes, self.link);
        let name = &self.target.name;
        *self.number.get_or_insert_with(|| {
            names.number_of(self.target.index as i32, || {
                notes.tell(Note::Interface(NamedInterface { name: name.clone(), link }));
            })
        })
    }

    /// The time of a packet at `address`: the program's, or `now` if the driver does not keep what programs
    /// write.
    fn time_of(&self, address: u64, since_start: i64, now: i64) -> i64 {
        let meta = (address as usize).checked_sub(META_BYTES).and_then(|at| self.umem.bytes(at, META_BYTES));
        let (mark, time) = meta.map_or((&[][..], &[][..]), |meta| meta.split_at(8));
        match <[u8; 8]>::try_from(time) {
            Ok(time) if *mark == self.mark.to_ne_bytes() => {
                i64::from_ne_bytes(time).saturating_add(now.saturating_sub(since_start))
            }
            _ => now,
        }
    }

    fn describe(&self, entry: &libc::xdp_desc, interface: u16, (since_start, now): (i64, i64)) -> PacketMeta {
        PacketMeta {
            time: Timestamp(self.time_of(entry.addr, since_start, now)),
            number: 0,
            offset: entry.addr as u32,
            captured_bytes: entry.len,
            wire_bytes: entry.len,
            link: self.link,
            interface,
        }
    }
}

impl LinkSocket for XdpSocket {
    fn target(&self) -> &Target {
        &self.target
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }

    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.sieve.iter().for_each(|sieve| sieve.stop());
        Ok(())
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.sieve.iter().for_each(|sieve| sieve.narrow(filters));
    }

    fn stats(&self) -> SourceStats {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let counters = self.socket.get(SOL_XDP, libc::XDP_STATISTICS, none).unwrap_or(none);
        let sieve = self.sieve.as_ref().filter(|_| self.is_first);
        let mut all = sieve.map(|sieve| sieve.discarded()).unwrap_or_default();
        // In copy mode each packet without a buffer counts in both; with zero copy, drivers count attempts to
        // get one.
        let no_buffer = if self.is_zero_copy { 0 } else { counters.rx_fill_ring_empty_descs };
        let lost = SourceStats {
            ring_full: counters.rx_ring_full,
            no_buffer,
            refused: counters.rx_dropped.saturating_sub(no_buffer),
            invalid: self.invalid,
            ..SourceStats::default()
        };
        all.add(SourceStats { received: self.taken + lost.dropped(), ..lost });
        all
    }

    fn fill(&mut self, burst: &mut Burst) -> io::Result<bool> {
        self.fill.refill(&self.umem);
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        let mut is_in_pieces = false;
        self.invalid += self.receive.take_while(&self.umem, |entry| {
            let goes_on = entry.options & libc::XDP_PKT_CONTD != 0;
            // A packet in pieces has a burst of its own.
            let wants = match entries.last() {
                None => {
                    is_in_pieces = goes_on;
                    true
                }
                Some(last) if is_in_pieces => last.options & libc::XDP_PKT_CONTD != 0,
                Some(_) => !goes_on && entries.len() < BURST_PACKETS_MAX,
            };
            if wants {
                entries.push(*entry);
            }
            wants
        });
        // poll(2) wakes the kernel's side, if it sleeps.
        if !entries.is_empty() {
            let (interface, clock) = (self.number(), system::clock());
            let packets = entries.iter().map(|entry| self.describe(entry, interface, clock));
            burst.packets.extend(packets);
            burst.block = Arc::new(if is_in_pieces {
                join_pieces(&self.umem, &entries, &mut burst.packets)
            } else {
                let frames = entries.iter().map(|entry| entry.addr).collect();
                let memory = TakenFrames { umem: Arc::clone(&self.umem), frames };
                Block::foreign(Box::new(memory), Retention::Copy)
            });
            self.taken += burst.packets.len() as u64;
        }
        self.entries = entries;
        Ok(!burst.packets.is_empty())
    }
}

/// Copies the pieces of one packet to a block of its own, and gives their frames back. One packet of those
/// described remains.
fn join_pieces(umem: &Umem, pieces: &[libc::xdp_desc], packets: &mut Vec<PacketMeta>) -> Block {
    let bytes = pieces.iter().filter_map(|piece| umem.bytes(piece.addr as usize, piece.len as usize));
    let bytes = bytes.collect::<Vec<_>>().concat();
    umem.give_back(pieces.iter().map(|piece| piece.addr));
    packets.truncate(1);
    for packet in packets {
        packet.offset = 0;
        packet.captured_bytes = bytes.len() as u32;
        packet.wire_bytes = packet.captured_bytes;
    }
    Block::shared(bytes)
}
