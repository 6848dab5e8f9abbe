//! Sends packets to instances.

use crate::Packet;
use crate::balance::Balance;
use crate::name::{End, Name};
use crate::pack::{DATAGRAM_BYTES_MAX, Datagram, Packer, TooLong, fitting};
use crate::socket::divide;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes of the headers of IPv4 and UDP, and of IPv6 and UDP.
const IPV4_BYTES: usize = 28;
const IPV6_BYTES: usize = 48;
/// Bytes of the buffer of a socket that are asked for; the kernel grants at most `net.core.wmem_max`.
const BUFFER_BYTES: usize = 4 << 20;
/// Packets wait for others for this time.
const WAIT: Duration = Duration::from_millis(5);
/// How often the end of a stream is sent: nobody would notice that it is missing.
const ENDS: usize = 3;
/// The time in which a host on the same network answers that nothing receives.
const ANSWER_WAIT: Duration = Duration::from_millis(20);

/// What the sender of packets reports during its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendNote {
    /// Nothing receives at this instance. Said once, until the instance is changed.
    Refused(String),
    /// Datagrams to this instance cannot be sent, for this reason. Said once for each reason in succession.
    Failed(String, String),
}

/// Packets that were not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendLosses {
    /// Packets of datagrams that the kernel did not send.
    pub unsent: u64,
    /// Packets longer than [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX).
    pub too_long: u64,
}

/// Sends packets to instances, each of them to the one that has its key.
pub struct FrontEnd {
    stream: u64,
    /// The number of the next instance. Numbers are never used again.
    number: u32,
    instances: Vec<Instance>,
    balance: Balance,
    losses: SendLosses,
    report: Box<dyn Fn(SendNote) + Send>,
}

impl std::fmt::Debug for FrontEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ends: Vec<&End> = self.instances.iter().map(|instance| &instance.end).collect();
        f.debug_struct("FrontEnd")
            .field("stream", &self.stream)
            .field("instances", &ends)
            .finish_non_exhaustive()
    }
}

struct Instance {
    end: End,
    socket: UdpSocket,
    packer: Packer,
    /// Bytes of a datagram at most; 0: not known yet.
    bytes_max: usize,
    /// Bytes of the datagrams into which the kernel divides what is sent with one call; 0: it does not.
    divided: usize,
    /// Since when packets wait for others, as far as it is known.
    since: Option<Instant>,
    is_refused: bool,
    fault: Option<ErrorKind>,
}

impl FrontEnd {
    /// Opens a socket for each instance. Nothing is sent yet. Blocks for the time that the system needs to
    /// look up names. `report` is called when an instance cannot be reached.
    ///
    /// # Errors
    /// What went wrong, with a remedy.
    pub fn open(name: &Name, report: impl Fn(SendNote) + Send + 'static) -> io::Result<Self> {
        let mut new = Self {
            stream: RandomState::new().hash_one(0u8),
            number: 0,
            instances: vec![],
            balance: Balance::over(&["none"]),
            losses: SendLosses::default(),
            report: Box::new(report),
        };
        new.change(name)?;
        Ok(new)
    }

    /// Changes the instances. Those that stay continue. Packets that wait for others are sent first, so that
    /// no packet is lost or sent twice. If the new instances cannot be opened, the previous ones stay.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn change(&mut self, name: &Name) -> io::Result<()> {
        let invalid = |message| io::Error::new(ErrorKind::InvalidInput, message);
        let ends = name.instances().map_err(invalid)?;
        let is_new = |end: &&End| !self.instances.iter().any(|known| known.end == **end);
        let numbers = self.number..;
        let opened = ends.iter().filter(is_new).zip(numbers);
        let opened: Vec<Instance> = opened
            .map(|(end, number)| Instance::open(end, self.stream, number))
            .collect::<io::Result<_>>()?;
        self.number += opened.len() as u32;
        let (stay, gone): (Vec<Instance>, Vec<Instance>) =
            std::mem::take(&mut self.instances).into_iter().partition(|known| ends.contains(&known.end));
        gone.into_iter().for_each(|mut instance| self.end(&mut instance));
        self.instances = stay.into_iter().chain(opened).collect();
        let names: Vec<String> = self.instances.iter().map(|instance| instance.end.to_string()).collect();
        self.balance = Balance::over(&names);
        Ok(())
    }

    /// Sends a packet to the instance that has its key, together with others: at the latest when
    /// [`flush`](Self::flush) is called.
    pub fn write(&mut self, packet: &Packet<'_>, key: u64) {
        let index = self.balance.instance(key);
        match self.instances[index].packer.push(packet) {
            Ok(false) => {}
            Ok(true) => self.send(index),
            Err(TooLong) => self.losses.too_long += 1,
        }
    }

    /// Sends packets that have waited for others for some milliseconds. Called between two writes.
    pub fn pass_time(&mut self, now: Instant) {
        for index in 0..self.instances.len() {
            let instance = &mut self.instances[index];
            match instance.since {
                _ if instance.packer.is_empty() => instance.since = None,
                None => instance.since = Some(now),
                Some(since) if now.saturating_duration_since(since) >= WAIT => {
                    instance.packer.flush();
                    self.send(index);
                }
                Some(_) => {}
            }
        }
    }

    /// Sends all packets.
    pub fn flush(&mut self) {
        for index in 0..self.instances.len() {
            self.instances[index].packer.flush();
            self.send(index);
        }
    }

    /// Packets that were not sent, so far.
    pub fn losses(&self) -> SendLosses {
        self.losses
    }

    /// Sends all packets and the ends of the streams. Returns the packets that were not sent.
    pub fn finish(mut self) -> SendLosses {
        let mut instances = std::mem::take(&mut self.instances);
        instances.iter_mut().for_each(|instance| self.end(instance));
        // The answer that nothing receives comes after the last datagram.
        std::thread::sleep(ANSWER_WAIT);
        instances.iter_mut().for_each(|instance| instance.look_for_refusal(&self.report));
        self.losses
    }

    fn send(&mut self, index: usize) {
        let Self { instances, losses, report, .. } = self;
        losses.unsent += instances[index].send(report);
    }

    /// Ends the stream to an instance.
    fn end(&mut self, instance: &mut Instance) {
        instance.packer.flush();
        self.losses.unsent += instance.send(&self.report);
        instance.packer.end();
        if let [.., end] = instance.packer.complete() {
            // Whether the end arrives is not known in any case.
            let refusals = (0..ENDS).filter_map(|_| instance.socket.send(&end.bytes).err());
            if refusals.filter(|error| error.kind() == ErrorKind::ConnectionRefused).count() > 0 {
                instance.report_refusal(&self.report);
            }
        }
    }
}

impl Instance {
    fn open(end: &End, stream: u64, number: u32) -> io::Result<Self> {
        let address = address_of(end)?;
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let connected = UdpSocket::bind(local).and_then(|socket| socket.connect(address).map(|()| socket));
        let socket = connected.map_err(|error| {
            let message = format!("{end} cannot be reached: check the address and the route to it ({error})");
            io::Error::new(error.kind(), message)
        })?;
        // A smaller buffer makes more system calls wait.
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
        let packer = Packer::new(stream, number);
        let mut new = Self {
            end: end.clone(),
            socket,
            packer,
            bytes_max: 0,
            divided: 0,
            since: None,
            is_refused: false,
            fault: None,
        };
        new.fit_path();
        Ok(new)
    }

    /// Datagrams become as long as the path permits. The kernel learns its length while datagrams are sent.
    fn fit_path(&mut self) {
        let is_v4 = self.socket.local_addr().is_ok_and(|address| address.is_ipv4());
        let (mtu, headers) = match is_v4 {
            true => (sockopt::ip_mtu(&self.socket), IPV4_BYTES),
            false => (sockopt::ipv6_mtu(&self.socket), IPV6_BYTES),
        };
        let bytes_max = mtu.map_or(self.bytes_max, |mtu| fitting((mtu as usize).saturating_sub(headers)));
        let before = std::mem::replace(&mut self.bytes_max, bytes_max);
        if before == bytes_max {
            return;
        }
        self.packer.limit(bytes_max);
        // A datagram that was begun for a longer path would be divided, too.
        let divided = if before == 0 && 2 * bytes_max <= DATAGRAM_BYTES_MAX { bytes_max } else { 0 };
        self.divided = if divide(&self.socket, divided as u16).is_ok() { divided } else { 0 };
    }

    /// From now on, each datagram is sent by itself.
    fn stop_dividing(&mut self) {
        self.divided = 0;
        // If the kernel cannot divide, there is nothing to stop.
        let _ = divide(&self.socket, 0);
    }

    /// Reports that the instance's host answers that nothing receives, once.
    fn look_for_refusal(&mut self, report: &dyn Fn(SendNote)) {
        let is_refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
        if self.socket.take_error().ok().flatten().is_some_and(is_refused) {
            self.report_refusal(report);
        }
    }

    fn report_refusal(&mut self, report: &dyn Fn(SendNote)) {
        if !std::mem::replace(&mut self.is_refused, true) {
            report(SendNote::Refused(self.end.to_string()));
        }
    }

    /// Sends the complete datagrams. Returns the packets that could not be sent.
    fn send(&mut self, report: &dyn Fn(SendNote)) -> u64 {
        let (mut sent, mut lost, mut retried) = (0, 0, false);
        while sent < self.packer.complete().len() {
            match send_some(&self.socket, &self.packer.complete()[sent..], self.divided) {
                Ok(more) => {
                    sent += more.max(1);
                    (retried, self.fault) = (false, None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An earlier datagram was refused, and this one is not sent yet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && !retried => {
                    retried = true;
                    self.report_refusal(report);
                }
                // Some interfaces cannot send divided messages, and a path may have become shorter.
                Err(_) if self.divided > 0 => self.stop_dividing(),
                Err(error) => {
                    lost += u64::from(self.packer.complete()[sent].packets);
                    sent += 1;
                    retried = false;
                    if self.fault.replace(error.kind()) != Some(error.kind()) {
                        report(SendNote::Failed(self.end.to_string(), error.to_string()));
                    }
                }
            }
        }
        self.packer.clear();
        self.since = None;
        self.fit_path();
        lost
    }
}

/// Sends datagrams with one call; returns how many were sent. Those of `divided` bytes in succession are one
/// message, which the kernel divides.
fn send_some(socket: &UdpSocket, datagrams: &[Datagram], divided: usize) -> io::Result<usize> {
    let parts: Vec<IoSlice<'_>> = datagrams.iter().map(|datagram| IoSlice::new(&datagram.bytes)).collect();
    // The last datagram of a message may be shorter.
    let is_one = |one: &IoSlice<'_>, _: &IoSlice<'_>| one.len() == divided;
    let messages = parts.chunk_by(is_one).flat_map(|run| run.chunks(message_datagrams(divided)));
    let messages: Vec<&[IoSlice<'_>]> = messages.collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        messages.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let headers = messages.iter().zip(&mut controls);
    let mut headers: Vec<MMsgHdr<'_>> =
        headers.map(|(parts, control)| MMsgHdr::new(parts, control)).collect();
    let sent = sendmmsg(socket, &mut headers, SendFlags::empty())?;
    Ok(messages[..sent].iter().map(|message| message.len()).sum())
}

/// Datagrams of this length that are one message, at most.
fn message_datagrams(divided: usize) -> usize {
    /// The limit of Linux before 6.8 (`UDP_MAX_SEGMENTS`).
    const DATAGRAMS_MAX: usize = 64;
    DATAGRAM_BYTES_MAX.checked_div(divided).map_or(1, |count| count.min(DATAGRAMS_MAX))
}

/// The first address of an instance.
fn address_of(end: &End) -> io::Result<SocketAddr> {
    let addresses = (end.host.as_str(), end.port).to_socket_addrs().map_err(|error| {
        let message = format!("unknown host `{}`: check the name, or give an address ({error})", end.host);
        io::Error::new(ErrorKind::NotFound, message)
    })?;
    let none = || io::Error::new(ErrorKind::NotFound, format!("the host `{}` has no address", end.host));
    addresses.into_iter().next().ok_or_else(none)
}
