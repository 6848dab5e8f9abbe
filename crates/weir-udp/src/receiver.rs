//! Receives packets on a port.

use crate::counters::{ArrivalCounts, Arrivals};
use crate::name::{Form, Name};
use crate::socket::{Batch, dropped, stamp};
use crate::streams::Streams;
use crate::tzsp::Senders;
use crate::unpack::Sink;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_packet::Timestamp;

/// Bytes of the socket's buffer that are asked for. The kernel grants at most `net.core.rmem_max`, and to
/// root everything.
const BUFFER_BYTES: usize = 64 << 20;
/// Time of waiting for datagrams, in nanoseconds: while datagrams wait for others, and otherwise.
const SHORT_WAIT_NS: i64 = 5_000_000;
const LONG_WAIT_NS: i64 = 500_000_000;
/// Number of ports that the system may select until one is free for IPv4 and for IPv6.
const ATTEMPTS_MAX: usize = 16;

/// A port on which packets are received: of one address, or of both loopback addresses.
pub struct Receiver {
    sockets: Vec<Port>,
    decoder: Decoder,
    batch: Batch,
    counts: Arc<Arrivals>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

struct Port {
    socket: UdpSocket,
    /// What the kernel had dropped at the last look.
    dropped: u32,
}

enum Decoder {
    Weir(Streams),
    Tzsp(Senders),
}

/// The result of [`Receiver::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Datagrams came, or packets were given up.
    Something,
    /// Nothing came for half a second.
    Nothing,
}

impl Receiver {
    /// Opens the sockets of a name. From now on, the kernel keeps datagrams. What is counted is added to
    /// `counts`.
    ///
    /// # Errors
    /// The name is none of a receiver ([`ErrorKind::InvalidInput`], with the right form), or the address is
    /// in use, not of this host, or not permitted.
    pub fn bind(name: &Name, counts: Arc<Arrivals>) -> io::Result<Self> {
        let wrong = |message| io::Error::new(ErrorKind::InvalidInput, message);
        let (address, port) = name.local().map_err(wrong)?;
        let sockets = match address {
            Some(address) => vec![UdpSocket::bind((address, port))?],
            None => bind_loopback(port)?,
        };
        let decoder = match name.form {
            Form::Weir => Decoder::Weir(Streams::default()),
            Form::Tzsp => Decoder::Tzsp(Senders::default()),
        };
        for socket in &sockets {
            if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).is_err() {
                // The kernel grants what it permits; the caller reports it.
                let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES);
            }
            // Without times of the kernel, datagrams have those at which they are read.
            let _ = if name.form == Form::Tzsp { stamp(socket) } else { Ok(()) };
        }
        let sockets = sockets.into_iter().map(|socket| Port { socket, dropped: 0 }).collect();
        Ok(Self { sockets, decoder, batch: Batch::new(), counts })
    }

    /// The local addresses and ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|port| port.socket.local_addr().ok()).collect()
    }

    /// Bytes that datagrams may occupy in the kernel until they are read, its own overhead not counted.
    /// `None`: unknown.
    pub fn buffer_bytes(&self) -> Option<usize> {
        // The kernel doubles the size that is asked for (socket(7)).
        let sizes =
            self.sockets.iter().filter_map(|port| sockopt::socket_recv_buffer_size(&port.socket).ok());
        sizes.min().map(|bytes| bytes / 2)
    }

    /// Waits for datagrams, half a second at most, and passes their packets on, in the order of each stream.
    ///
    /// # Errors
    /// A socket has failed.
    pub fn receive(&mut self, sink: &mut Sink<'_>) -> io::Result<Received> {
        let wait_ns = match &self.decoder {
            Decoder::Weir(streams) if streams.wait() => SHORT_WAIT_NS,
            Decoder::Tzsp(senders) if senders.wait() => SHORT_WAIT_NS,
            _ => LONG_WAIT_NS,
        };
        let flags = PollFlags::IN;
        let mut ready: Vec<PollFd<'_>> =
            self.sockets.iter().map(|port| PollFd::new(&port.socket, flags)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ns };
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = ready.iter().map(|one| !one.revents().is_empty()).collect();
        let mut counts = ArrivalCounts::default();
        let (mut has_come, mut is_full) = (false, false);
        for (port, _) in self.sockets.iter_mut().zip(&ready).filter(|(_, is_ready)| **is_ready) {
            self.batch.receive(&port.socket)?;
            let read_at = Instant::now();
            for datagram in self.batch.datagrams() {
                has_come = true;
                match &mut self.decoder {
                    Decoder::Weir(streams) => streams.take(datagram.bytes, read_at, &mut counts, sink),
                    Decoder::Tzsp(senders) => {
                        let from = (datagram.sender, datagram.time.unwrap_or_else(now), read_at);
                        senders.take(datagram.bytes, from, &mut counts, sink);
                    }
                }
            }
            is_full |= self.batch.is_full();
        }
        match &mut self.decoder {
            Decoder::Weir(streams) => streams.expire(Instant::now(), &mut counts, sink),
            Decoder::Tzsp(senders) => senders.expire(Instant::now(), &mut counts),
        }
        // The kernel drops datagrams while the buffer is full, so there is no reason to ask before all of
        // them are read.
        if !is_full {
            for port in &mut self.sockets {
                let now = dropped(&port.socket).unwrap_or(port.dropped);
                counts.datagrams_dropped +=
                    u64::from(now.wrapping_sub(std::mem::replace(&mut port.dropped, now)));
            }
        }
        self.counts.add(&counts);
        let is_something = has_come || counts != ArrivalCounts::default();
        Ok(if is_something { Received::Something } else { Received::Nothing })
    }
}

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX))
}

/// Sockets for both loopback addresses, or one if the system has no IPv6.
fn bind_loopback(port: u16) -> io::Result<Vec<UdpSocket>> {
    let mut attempts = 0..ATTEMPTS_MAX;
    loop {
        let four = UdpSocket::bind((IpAddr::from(Ipv4Addr::LOCALHOST), port))?;
        match UdpSocket::bind((Ipv6Addr::LOCALHOST, four.local_addr()?.port())) {
            Ok(six) => return Ok(vec![four, six]),
            Err(error) if error.kind() == ErrorKind::AddrInUse && port == 0 && attempts.next().is_some() => {}
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
            Err(_) => return Ok(vec![four]),
        }
    }
}
