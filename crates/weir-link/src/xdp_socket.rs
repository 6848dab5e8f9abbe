//! A socket of the family AF_XDP on one queue of an interface (Documentation/networking/af_xdp.rst).
//!
//! The socket takes all packets of the queue from the machine: an XDP program redirects them, and the machine's own programs do not
//! receive them. The network card may write packets into the socket's memory itself (zero copy), or the kernel copies them.

use crate::bpf::{Attachment, SocketMap, XdpProgram};
use crate::link_socket::{LinkSocket, Target};
use crate::names::{NamedInterface, Names, link_of};
use crate::options::{LinkOptions, Note, Notes};
use crate::redirect::{self, META_BYTES};
use crate::system::{self, InterfaceQuery, Socket};
use crate::umem::{FRAME_BYTES, FillRing, ReceiveRing, TakenFrames, Umem};
use libc::SOL_XDP;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_packet::{BURST_PACKETS_MAX, Block, Burst, LinkType, PacketMeta, Retention, SourceStats, Timestamp};

/// Time for which a queue may still belong to a socket that was closed.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// The attachment of an interface's program, shared by the sockets of its queues.
pub(crate) type Attached = Arc<Attachment>;

/// A socket, its memory and its rings.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    target: Target,
    socket: Socket,
    umem: Arc<Umem>,
    fill: FillRing,
    receive: ReceiveRing,
    /// Detached when the capture ends.
    attached: Option<Attached>,
    names: Names,
    notes: Notes,
    link: LinkType,
    number: Option<u16>,
    /// The mark before the times that the program writes.
    mark: u64,
    /// Packets taken.
    taken: u64,
    stats: SourceStats,
    is_down: bool,
}

/// Opens a socket on each queue of an interface, and attaches the program that gives them the packets.
pub(crate) fn open(target: &Target, options: &LinkOptions, names: &Names) -> io::Result<Vec<XdpSocket>> {
    let asks = InterfaceQuery::new()?;
    let queues = asks.queues(&target.name).unwrap_or(1);
    let link = link_of(asks.hardware(&target.name).unwrap_or(libc::ARPHRD_ETHER));
    let sockets = SocketMap::new(queues)?;
    // Another program's bytes in front of a packet hardly look like this.
    let mark = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), target.index);
    let mut all = vec![];
    let mut modes = vec![];
    for queue in 0..queues {
        let (socket, is_zero_copy) = XdpSocket::open(target, queue, options, names, link, mark)?;
        sockets.set(queue, socket.socket.raw())?;
        modes.push(if is_zero_copy { "zero copy" } else { "copy mode" });
        all.push(socket);
    }
    modes.dedup();
    let attached = Arc::new(XdpProgram::load(&redirect::program(&sockets, mark))?.attach(target.index)?);
    all.iter_mut().for_each(|socket| socket.attached = Some(Arc::clone(&attached)));
    options
        .notes
        .tell(Note::Method(target.name.clone(), format!("AF_XDP, {}, queues: {queues}", modes.join(", "))));
    Ok(all)
}

impl XdpSocket {
    fn open(
        target: &Target,
        queue: u32,
        options: &LinkOptions,
        names: &Names,
        link: LinkType,
        mark: u64,
    ) -> io::Result<(Self, bool)> {
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
        let address = |flags| libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: target.index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let started = Instant::now();
        // Packets in several pieces, where the driver can; zero copy, where the driver can.
        while let Err(error) =
            socket.bind(&address(libc::XDP_USE_SG)).or_else(|error| match error.raw_os_error() {
                Some(libc::EBUSY) => Err(error),
                _ => socket.bind(&address(0)),
            })
        {
            if error.raw_os_error() != Some(libc::EBUSY) || started.elapsed() > BUSY_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let got = socket.get(SOL_XDP, libc::XDP_OPTIONS, libc::xdp_options { flags: 0 })?;
        let socket = Self {
            target: target.clone(),
            socket,
            umem,
            fill,
            receive,
            attached: None,
            names: names.clone(),
            notes: options.notes.clone(),
            link,
            number: None,
            mark,
            taken: 0,
            stats: SourceStats::default(),
            is_down: false,
        };
        Ok((socket, got.flags & libc::XDP_OPTIONS_ZEROCOPY != 0))
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

    /// The time of a packet at `address`: the program's, or `now` if the driver does not keep what programs write.
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

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.attached = None;
        Ok(())
    }

    fn down(&mut self) -> &mut bool {
        &mut self.is_down
    }

    fn stats(&self) -> SourceStats {
        SourceStats { received: self.taken + self.stats.dropped(), ..self.stats }
    }

    fn read_counters(&mut self) {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        if let Ok(counters) = self.socket.get(SOL_XDP, libc::XDP_STATISTICS, none) {
            self.stats.ring_full = counters.rx_ring_full;
            self.stats.no_buffer = counters.rx_fill_ring_empty_descs;
            // The kernel counts packets without a buffer in both.
            self.stats.refused = counters.rx_dropped.saturating_sub(counters.rx_fill_ring_empty_descs);
        }
    }

    fn fill(&mut self, burst: &mut Burst, numbers: &AtomicU64) -> io::Result<bool> {
        self.fill.refill(&self.umem);
        let mut entries: Vec<libc::xdp_desc> = vec![];
        let mut is_in_pieces = false;
        self.receive.take_while(|entry| {
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
        if entries.is_empty() {
            if self.fill.needs_wakeup() {
                self.socket.wake();
            }
            return Ok(false);
        }
        let (interface, clock) = (self.number(), system::clock());
        if is_in_pieces {
            let pieces = entries.iter().map(|entry| self.umem.bytes(entry.addr as usize, entry.len as usize));
            let bytes = pieces.collect::<Option<Vec<_>>>().ok_or(io::ErrorKind::InvalidData)?.concat();
            let length = bytes.len() as u32;
            let first = self.describe(&entries[0], interface, clock);
            self.umem.give_back(entries.iter().map(|entry| entry.addr));
            burst.block = Arc::new(Block::shared(bytes));
            burst.packets.push(PacketMeta { offset: 0, captured_bytes: length, wire_bytes: length, ..first });
        } else {
            let packets = entries.iter().map(|entry| self.describe(entry, interface, clock));
            burst.packets.extend(packets);
            let frames = entries.iter().map(|entry| entry.addr).collect();
            let memory = TakenFrames { umem: Arc::clone(&self.umem), frames };
            burst.block = Arc::new(Block::foreign(Box::new(memory), Retention::Copy));
        }
        let count = burst.packets.len() as u64;
        self.taken += count;
        let first = numbers.fetch_add(count, Ordering::Relaxed) + 1;
        burst.packets.iter_mut().zip(first..).for_each(|(packet, number)| packet.number = number);
        Ok(true)
    }
}
