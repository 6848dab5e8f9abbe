//! The system calls of receivers: several datagrams with one call, and how many of them the kernel dropped.
#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use weir_packet::Timestamp;

/// Datagrams that one call receives, at most.
const DATAGRAMS_MAX: usize = 32;
/// Bytes of the longest datagram.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Bytes for the time of a datagram: a `cmsghdr` and a `timespec`, aligned.
const CONTROL_WORDS: usize = 8;

/// Datagrams that were received together. The pages of memory that no datagram needs are never touched.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    senders: Vec<libc::sockaddr_storage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    received: usize,
}

// SAFETY: the pointers in `messages` and `parts` are written before each call and point into the vectors of
// the same value.
unsafe impl Send for Batch {}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram<'b> {
    pub bytes: &'b [u8],
    pub sender: SocketAddr,
    /// When the kernel received it; `None` unless [`stamp`] was called.
    pub time: Option<Timestamp>,
}

impl Batch {
    pub fn new() -> Self {
        // SAFETY: these types of the system are numbers and pointers, which may be zero.
        let (message, sender) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let part = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            bytes: vec![0; DATAGRAMS_MAX * DATAGRAM_BYTES_MAX],
            messages: vec![message; DATAGRAMS_MAX],
            parts: vec![part; DATAGRAMS_MAX],
            senders: vec![sender; DATAGRAMS_MAX],
            controls: vec![[0; CONTROL_WORDS]; DATAGRAMS_MAX],
            received: 0,
        }
    }

    /// Receives the datagrams that are there. None: the result is empty.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.received = 0;
        let slots = self.bytes.chunks_exact_mut(DATAGRAM_BYTES_MAX).zip(&mut self.parts);
        let slots = slots.zip(self.senders.iter_mut().zip(&mut self.controls)).zip(&mut self.messages);
        for (((slot, part), (sender, control)), message) in slots {
            *part = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut message.msg_hdr;
            header.msg_iov = ptr::from_mut(part);
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(sender).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(control) as _;
        }
        // SAFETY: each message points to a slot, an address and a control buffer of its own, with their
        // lengths, and all of them live as long as `self`. There are `DATAGRAMS_MAX` messages.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                DATAGRAMS_MAX as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(received) => self.received = received,
            Err(_) => {
                let error = io::Error::last_os_error();
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The datagrams that were received.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let slots = self.bytes.chunks_exact(DATAGRAM_BYTES_MAX).zip(&self.messages).zip(&self.senders);
        slots.take(self.received).map(|((slot, message), sender)| Datagram {
            bytes: &slot[..(message.msg_len as usize).min(slot.len())],
            sender: address(sender),
            time: time_of(&message.msg_hdr),
        })
    }

    /// Whether the batch is full: more datagrams may be there.
    pub fn is_full(&self) -> bool {
        self.received == DATAGRAMS_MAX
    }
}

fn address(storage: &libc::sockaddr_storage) -> SocketAddr {
    match i32::from(storage.ss_family) {
        libc::AF_INET6 => {
            // SAFETY: the kernel wrote an address of this family; the storage is large enough, and aligned,
            // for all of them.
            let of = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            (Ipv6Addr::from(of.sin6_addr.s6_addr), u16::from_be(of.sin6_port)).into()
        }
        libc::AF_INET => {
            // SAFETY: as above.
            let of = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            (Ipv4Addr::from(of.sin_addr.s_addr.to_ne_bytes()), u16::from_be(of.sin_port)).into()
        }
        _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

/// The time in the control data of a message.
fn time_of(header: &libc::msghdr) -> Option<Timestamp> {
    // SAFETY: the kernel wrote the control data, whose length is in the header, into a buffer that the header
    // points to.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: the pointer comes from the functions for control data, which check the length. The data of
        // SCM_TIMESTAMPNS is a `timespec` (socket(7)).
        unsafe {
            if ((*next).cmsg_level, (*next).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time = libc::CMSG_DATA(next).cast::<libc::timespec>().read_unaligned();
                return Some(Timestamp::from_parts(time.tv_sec, time.tv_nsec));
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    None
}

/// Datagrams of this socket have the time at which the kernel received them.
pub(crate) fn stamp(socket: &UdpSocket) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

fn set_number(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    number: libc::c_int,
) -> io::Result<()> {
    let bytes = size_of_val(&number) as libc::socklen_t;
    // SAFETY: the kernel reads the number.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&number).cast(), bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// From now on, the kernel divides what is sent with one call into datagrams of this length, the last one
/// shorter (UDP_SEGMENT, since Linux 4.18); 0: no more.
pub(crate) fn divide(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    set_number(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Datagrams that the kernel dropped at this socket since its creation, modulo 2³², because its buffer was
/// full.
pub(crate) fn dropped(socket: &UdpSocket) -> io::Result<u32> {
    /// The place of the number among those of SO_MEMINFO, `SK_MEMINFO_DROPS` (linux/sock_diag.h, since Linux
    /// 4.12).
    const DROPS: usize = 8;
    let mut numbers = [0u32; DROPS + 1];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes of the numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(numbers[DROPS]) }
}
