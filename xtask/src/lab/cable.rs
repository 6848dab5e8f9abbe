//! Network links in user space, for features that a kernel may lack: 802.1Q interfaces, and a link that loses
//! frames.
//!
//! Both are TAP interfaces with a thread behind them. Kernel modules (8021q, netem) would do, but not every
//! kernel has them. This way losses are also the same in every recording: they are counted, not random.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::shell::{Result, said};

/// Buffer size: one frame with a tag, and reserve.
const FRAME_BYTES_MAX: usize = 2048;
const VLAN_TAG_BYTES: usize = 4;
/// Both Ethernet addresses; the tag follows them.
const ADDRESSES_BYTES: usize = 12;
const TPID_8021Q: u16 = 0x8100;

/// On the lossy link only frames larger than this are lost or reordered: handshakes and ARP pass.
const ROUGH_BYTES_MIN: usize = 600;
const ROUGH_LOSE_EVERY: u64 = 41;
const ROUGH_SWAP_EVERY: u64 = 29;

/// Runs `work` on a thread inside a network namespace of the lab.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = File::open(format!("/run/netns/{namespace}")).map_err(said(namespace))?;
    std::thread::scope(|scope| {
        let inner = scope.spawn(|| {
            // SAFETY: the descriptor is open; the call affects only this thread.
            if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                return Err(format!("setns {namespace}: {}", io::Error::last_os_error()));
            }
            work()
        });
        inner.join().map_err(|_| format!("a thread in {namespace} panicked"))?
    })
}

/// Gives `namespace` the interface `name`, whose frames go out of `trunk` with an 802.1Q tag.
pub fn vlan(namespace: &str, trunk: &str, name: &str, tag: u16) -> Result {
    let (mut tap, trunk) = within(namespace, || Ok((tap(name)?, raw_socket(trunk)?)))?;
    let (mut tap_in, out) = (tap.try_clone().map_err(said(name))?, trunk.try_clone().map_err(said(name))?);
    std::thread::spawn(move || {
        let mut frame = [0u8; FRAME_BYTES_MAX];
        while let Ok(bytes) = tap_in.read(&mut frame[..FRAME_BYTES_MAX - VLAN_TAG_BYTES]) {
            frame.copy_within(ADDRESSES_BYTES..bytes, ADDRESSES_BYTES + VLAN_TAG_BYTES);
            frame[12..14].copy_from_slice(&TPID_8021Q.to_be_bytes());
            frame[14..16].copy_from_slice(&tag.to_be_bytes());
            // SAFETY: the pointer and length lie within `frame`. A frame that the kernel rejects counts as
            // lost.
            unsafe { libc::send(out.as_raw_fd(), frame.as_ptr().cast(), bytes + VLAN_TAG_BYTES, 0) };
        }
    });
    std::thread::spawn(move || {
        let mut frame = [0u8; FRAME_BYTES_MAX];
        while let Ok((bytes, found)) = receive(&trunk, &mut frame) {
            if found == Some(tag) {
                let _ = tap.write(&frame[..bytes]); // an interface that is down loses frames, as a real link does
            }
        }
    });
    Ok(())
}

/// Connects two namespaces by a link that loses some large frames and reorders some.
pub fn rough(left: &str, right: &str, name: &str) -> Result {
    let left = within(left, || tap(name))?;
    let right = within(right, || tap(name))?;
    let ends = (left.try_clone().map_err(said(name))?, right.try_clone().map_err(said(name))?);
    std::thread::spawn(move || carry_badly(left, right));
    std::thread::spawn(move || carry_badly(ends.1, ends.0));
    Ok(())
}

fn carry_badly(mut from: File, mut to: File) {
    let mut frame = [0u8; FRAME_BYTES_MAX];
    let mut held: Vec<u8> = Vec::new();
    let mut large = 0u64;
    while let Ok(bytes) = from.read(&mut frame) {
        if bytes >= ROUGH_BYTES_MIN {
            large += 1;
            if large.is_multiple_of(ROUGH_LOSE_EVERY) {
                continue;
            }
            if large.is_multiple_of(ROUGH_SWAP_EVERY) && held.is_empty() {
                held = frame[..bytes].to_vec();
                continue;
            }
        }
        let _ = to.write(&frame[..bytes]); // as above: an interface that is down loses frames
        if !held.is_empty() {
            let _ = to.write(&held);
            held.clear();
        }
    }
}

/// A TAP interface in the calling thread's namespace (Documentation/networking/tuntap.rst).
fn tap(name: &str) -> Result<File> {
    let file = File::options().read(true).write(true).open("/dev/net/tun").map_err(said("/dev/net/tun"))?;
    // SAFETY: ifreq is plain data, valid when zero.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives across the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } != 0 {
        return Err(format!("tap {name}: {}", io::Error::last_os_error()));
    }
    Ok(file)
}

/// A packet socket on `interface` that receives arriving frames with their tags (packet(7)).
fn raw_socket(interface: &str) -> Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol)) };
    if socket < 0 {
        return Err(format!("packet socket: {}", io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new, and owned by nothing else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let name = std::ffi::CString::new(interface).map_err(said(interface))?;
    // SAFETY: sockaddr_ll is plain data, valid when zero; the name ends in a zero byte.
    let address = unsafe {
        libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol,
            sll_ifindex: libc::if_nametoindex(name.as_ptr()).cast_signed(),
            ..zeroed()
        }
    };
    let on = 1i32;
    let (fd, on, int) = (socket.as_raw_fd(), (&raw const on).cast(), size_of::<i32>() as u32);
    // SAFETY: option values and the address outlive the calls, and their sizes are passed.
    let failed = unsafe {
        libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, on, int) != 0
            || libc::setsockopt(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, on, int) != 0
            || libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) != 0
    };
    if failed {
        return Err(format!("packet socket on {interface}: {}", io::Error::last_os_error()));
    }
    Ok(socket)
}

/// From linux/if_packet.h; the libc crate has no name for it.
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// One frame without its tag, and the VLAN of the removed tag.
fn receive(socket: &OwnedFd, frame: &mut [u8]) -> io::Result<(usize, Option<u16>)> {
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: msghdr is plain data; its pointers refer to buffers that live across the call, with their
    // sizes; the macros for this purpose walk the kernel's control messages, which hold a tpacket_auxdata if
    // level and type say so.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        let bytes = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
        if bytes < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut tag = None;
        let mut note = libc::CMSG_FIRSTHDR(&raw const message);
        while !note.is_null() {
            if (*note).cmsg_level == libc::SOL_PACKET && (*note).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(note).cast::<libc::tpacket_auxdata>().read_unaligned();
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    tag = Some(aux.tp_vlan_tci & 0x0fff);
                }
            }
            note = libc::CMSG_NXTHDR(&raw const message, note);
        }
        Ok((bytes.cast_unsigned(), tag))
    }
}
