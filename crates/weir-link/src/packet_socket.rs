//! A socket of the family AF_PACKET with a ring of version TPACKET_V3 (`packet(7)`).

use crate::fanout;
use crate::flow_maps::FlowMaps;
use crate::link_socket::{LinkSocket, Target};
use crate::names::{NamedInterface, Names, link_of};
use crate::options::{LinkOptions, Note, Notes};
use crate::placement::Placement;
use crate::ring::{Ring, TAG_BYTES, Walk};
use crate::sieve::Sieve;
use crate::system::{InterfaceQuery, Mapping, Socket, link_address};
use libc::{SOL_PACKET, SOL_SOCKET};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use weir_packet::{
    BURST_PACKETS_MAX, Block, Burst, ChecksumState, KernelFilters, PacketDirection, PacketExtra, PacketMeta,
    Retention, SourceStats, Timestamp,
};

/// The size of the largest blocks, bytes. The kernel joins received packets of a connection into one; with
/// "big TCP" such a packet has up to 512 KiB, and a block must have room for it.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The size of the smallest blocks, bytes. Without "big TCP", a joined packet has up to 64 KiB.
const BLOCK_BYTES_MIN: usize = 128 << 10;
/// The number of blocks of a ring, if blocks of a permitted size allow this number. The kernel passes a block
/// after [`RETIRE_MS`], full or not. With few blocks, all of them can be passed but nearly empty, and the
/// kernel has no block for the next packet.
const BLOCKS: usize = 16;
/// Time after which the kernel passes a block that is not full, milliseconds.
pub(crate) const RETIRE_MS: u32 = 8;
/// `SOF_TIMESTAMPING_RAW_HARDWARE`: times of the network card.
const RAW_HARDWARE: libc::c_uint = 1 << 6;

/// Lets an interface receive all packets of its link, as long as the socket exists.
fn make_promiscuous(socket: &Socket, interface: u32) -> io::Result<()> {
    let member = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    socket.set(SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
}

/// A socket that receives nothing, and as long as it exists, the interface receives all packets of its link.
pub(crate) fn promiscuous(interface: u32) -> io::Result<Socket> {
    let socket = Socket::new(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    make_promiscuous(&socket, interface)?;
    Ok(socket)
}

/// A socket and its ring.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    target: Target,
    socket: Socket,
    ring: Arc<Ring>,
    /// The block that the kernel passes next.
    next: usize,
    current: Option<(Arc<Block>, Walk)>,
    names: Names,
    notes: Notes,
    /// The interface of the last packet: its index, its hardware type, its number.
    last: Option<(i32, u16, u16)>,
    /// Packets that the kernel shows twice, and the source shows once.
    repeated: u64,
    /// The kernel's counters so far; reading them starts them anew.
    stats: Cell<SourceStats>,
    invalid: u64,
    /// What discards packets of the interface in the kernel; `None` for all interfaces.
    sieve: Option<Arc<Sieve>>,
    /// Of the sockets of the interface, the one that knows what its sieve discards.
    is_first: bool,
    /// The kernel's description of the next packet is invalid, which the next call reports.
    is_at_fault: bool,
}

impl PacketSocket {
    /// A socket on `target` that receives nothing before [`start`](LinkSocket::start).
    pub fn open(target: Target, options: &LinkOptions, names: &Names) -> io::Result<Self> {
        // Without a protocol the socket receives nothing before it is bound.
        let socket = Socket::new(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        socket.set_program(SOL_SOCKET, libc::SO_ATTACH_FILTER, &fanout::nothing())?;
        socket.set(SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))?;
        socket.set(SOL_PACKET, libc::PACKET_RESERVE, &(TAG_BYTES as libc::c_uint))?;
        if options.hardware_time {
            socket.set(SOL_PACKET, libc::PACKET_TIMESTAMP, &RAW_HARDWARE)?;
        }
        let block_bytes = (options.buffer_bytes / BLOCKS).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let block_bytes = 1 << block_bytes.ilog2();
        let blocks = (options.buffer_bytes / block_bytes).max(2);
        let frame_bytes = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_bytes,
            tp_frame_nr: (blocks * block_bytes) as u32 / frame_bytes,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let mapping = Mapping::of(&socket, blocks * block_bytes, 0)?;
        let ring = Arc::new(Ring::new(mapping, block_bytes, blocks));
        // The loopback interface shows each packet as sent and as received.
        if InterfaceQuery::new()?.hardware(&target.name) == Some(libc::ARPHRD_LOOPBACK) {
            socket.set(SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        }
        if target.index != 0 && options.promiscuous {
            make_promiscuous(&socket, target.index)?;
        }
        socket.bind(&link_address(target.index, libc::ETH_P_ALL as u16))?;
        Ok(Self {
            target,
            socket,
            ring,
            next: 0,
            current: None,
            names: names.clone(),
            notes: options.notes.clone(),
            last: None,
            repeated: 0,
            stats: Cell::default(),
            invalid: 0,
            sieve: None,
            is_first: false,
            is_at_fault: false,
        })
    }

    /// Joins the sockets of an interface into a group: each packet goes to one of them, which the placement
    /// selects, or a hash of the packet's hosts.
    pub fn join(sockets: &[Self], placement: Option<&Placement>) -> io::Result<()> {
        let [first, others @ ..] = sockets else { return Ok(()) };
        let kind = placement.map_or(libc::PACKET_FANOUT_CBPF, |_| libc::PACKET_FANOUT_EBPF) << 16;
        let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID << 16;
        first.socket.set(SOL_PACKET, libc::PACKET_FANOUT, &(kind | unique))?;
        // The kernel has selected an identifier that no other group has.
        let id: libc::c_uint = first.socket.get(SOL_PACKET, libc::PACKET_FANOUT, 0)?;
        for other in others {
            other.socket.set(SOL_PACKET, libc::PACKET_FANOUT, &(kind | id & 0xffff))?;
        }
        match placement {
            Some(placement) => {
                first.socket.set(SOL_PACKET, libc::PACKET_FANOUT_DATA, &placement.program().number())
            }
            None => first.socket.set_program(SOL_PACKET, libc::PACKET_FANOUT_DATA, &fanout::program()),
        }
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Adds a sieve to the sockets of an interface: their filters, or on a mirror port a program that drops
    /// packets in the driver.
    pub fn add_sieve(sockets: &mut [Self], options: &LinkOptions, flows: &FlowMaps) -> io::Result<()> {
        let [first, ..] = sockets else { return Ok(()) };
        let Target { name, index } = first.target.clone();
        let hardware = InterfaceQuery::new()?.hardware(&name);
        let link = link_of(hardware.unwrap_or(libc::ARPHRD_ETHER));
        let sieve = if options.mirror {
            Sieve::of_interface((&name, index), link, None, options, flows)?
        } else {
            let sockets: io::Result<_> = sockets.iter().map(|socket| socket.socket.duplicate()).collect();
            Sieve::of_sockets(&name, link, sockets?, options, flows)
        };
        for (number, socket) in sockets.iter_mut().enumerate() {
            socket.sieve = Some(Arc::clone(&sieve));
            socket.is_first = number == 0;
        }
        Ok(())
    }

    /// Takes the next block, if the kernel has passed it.
    fn take_block(&mut self) -> io::Result<bool> {
        let Some(block) = self.ring.take(self.next) else { return Ok(false) };
        self.next = (self.next + 1) % self.ring.blocks();
        let walk = Walk::of(&block).ok_or(io::ErrorKind::InvalidData)?;
        self.current = Some((Arc::new(Block::foreign(Box::new(block), Retention::Copy)), walk));
        Ok(true)
    }

    fn fill_from_block(&mut self, burst: &mut Burst) -> io::Result<()> {
        let Some((block, mut walk)) = self.current.take() else { return Ok(()) };
        burst.block = Arc::clone(&block);
        while burst.packets.len() < BURST_PACKETS_MAX {
            let Some(packet) = walk.next() else {
                self.invalid += u64::from(walk.left());
                self.is_at_fault = walk.left() > 0;
                return Ok(());
            };
            // Of all interfaces, the loopback interface shows each packet twice.
            if packet.hardware == libc::ARPHRD_LOOPBACK && packet.kind == libc::PACKET_OUTGOING {
                self.repeated += 1;
                continue;
            }
            let interface = match self.last {
                Some((index, hardware, number))
                    if (index, hardware) == (packet.interface, packet.hardware) =>
                {
                    number
                }
                _ => self.number_of(packet.interface, packet.hardware),
            };
            let extra = PacketExtra {
                vlan: packet.vlan,
                direction: (packet.kind == libc::PACKET_OUTGOING).then_some(PacketDirection::Outbound),
                checksum: match packet.status {
                    status if status & libc::TP_STATUS_CSUMNOTREADY != 0 => ChecksumState::Partial,
                    status if status & libc::TP_STATUS_CSUM_VALID != 0 => ChecksumState::Valid,
                    _ => ChecksumState::Unknown,
                },
                ..PacketExtra::default()
            };
            if extra != PacketExtra::default() {
                burst.extras.push(burst.packets.len(), extra);
            }
            burst.packets.push(PacketMeta {
                time: Timestamp(packet.time),
                number: 0,
                offset: packet.offset as u32,
                captured_bytes: packet.captured_bytes,
                wire_bytes: packet.wire_bytes,
                link: link_of(packet.hardware),
                interface,
            });
        }
        self.current = Some((block, walk));
        Ok(())
    }

    /// The number of an interface, which is announced when its first packet comes.
    fn number_of(&mut self, index: i32, hardware: u16) -> u16 {
        let socket = &self.socket;
        let name = || match self.target.index as i32 == index {
            true => self.target.name.clone(),
            false => socket.interface_name(index as u32).unwrap_or_else(|| format!("interface {index}")),
        };
        let notes = &self.notes;
        let number = self.names.number_of(index, || {
            notes.tell(Note::Interface(NamedInterface { name: name(), link: link_of(hardware) }));
        });
        self.last = Some((index, hardware, number));
        number
    }
}

impl LinkSocket for PacketSocket {
    fn target(&self) -> &Target {
        &self.target
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }

    fn start(&mut self) -> io::Result<()> {
        self.socket.set(SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    fn stop(&mut self) -> io::Result<()> {
        self.sieve.iter().for_each(|sieve| sieve.stop());
        self.socket.set_program(SOL_SOCKET, libc::SO_ATTACH_FILTER, &fanout::nothing())
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.sieve.iter().for_each(|sieve| sieve.narrow(filters));
    }

    fn stats(&self) -> SourceStats {
        let mut stats = self.stats.get();
        let empty = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        if let Ok(counters) = self.socket.get(SOL_PACKET, libc::PACKET_STATISTICS, empty) {
            stats.received += u64::from(counters.tp_packets);
            stats.ring_full += u64::from(counters.tp_drops);
            self.stats.set(stats);
        }
        let sieve = self.sieve.as_ref().filter(|_| self.is_first);
        let mut all = sieve.map(|sieve| sieve.discarded()).unwrap_or_default();
        let received = stats.received.saturating_sub(self.repeated);
        all.add(SourceStats { received, invalid: self.invalid, ..stats });
        all
    }

    fn fill(&mut self, burst: &mut Burst) -> io::Result<bool> {
        while burst.packets.is_empty() {
            if std::mem::take(&mut self.is_at_fault) {
                return Err(io::Error::other("the kernel described a packet that is not in its block"));
            }
            if self.current.is_none() && !self.take_block()? {
                return Ok(false);
            }
            self.fill_from_block(burst)?;
        }
        Ok(true)
    }
}
