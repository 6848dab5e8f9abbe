//! Whose the other end of a TCP connection is, if that end is a socket of this machine.
//!
//! The kernel is asked for the socket by its addresses (`sock_diag(7)`, one message each way). A kernel
//! without that interface lists all sockets in `/proc/net/tcp`.

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// `SOCK_DIAG_BY_FAMILY`, `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`, `linux/netlink.h`.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`, there.
const ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`, and of `struct inet_diag_req_v2` behind it.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// `struct inet_diag_msg` behind the header: where the state, the user and the inode are.
const STATE_AT: usize = HEADER_BYTES + 1;
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;
/// `TCP_LISTEN`: not an end of a connection.
const LISTENS: u8 = 10;
/// IPPROTO_TCP.
const TCP: u8 = 6;

/// The user whose socket is at `far`, connected to `near`. `None`: no process of this network namespace has
/// such a socket.
///
/// # Errors
/// The kernel does not say.
pub fn user_of(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    let (far, near) = (plain(far), plain(near));
    ask(far, near).or_else(|_| list(far, near))
}

/// The address of IPv4 that an address of IPv6 stands for: a socket for both has such ones.
fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // With the interface of an address that is only known there.
        IpAddr::V6(_) => address,
    }
}

fn ask(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    let socket =
        net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    net::sendto(&socket, &request(far, near), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    // The kernel has answered when the call returns.
    let (_, length) = net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    read(&answer[..length.min(answer.len())])
}

fn request(far: SocketAddr, near: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&(REQUEST_BYTES as u32).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&REQUEST.to_ne_bytes());
    // Number and port of the sender.
    put(&[0; 8]);
    let family = if far.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // No extensions; a byte of padding.
    put(&[family.as_raw() as u8, TCP, 0, 0]);
    put(&u32::MAX.to_ne_bytes());
    put(&far.port().to_be_bytes());
    put(&near.port().to_be_bytes());
    put(&sixteen(far.ip()));
    put(&sixteen(near.ip()));
    // The interface, or any (0); any socket (INET_DIAG_NOCOOKIE).
    let interface = if let SocketAddr::V6(far) = far { far.scope_id() } else { 0 };
    put(&interface.to_ne_bytes());
    put(&[0xff; 8]);
    bytes
}

/// An address in the four words of the interface.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(four) => {
            let mut words = [0; 16];
            words[..4].copy_from_slice(&four.octets());
            words
        }
        IpAddr::V6(six) => six.octets(),
    }
}

fn read(answer: &[u8]) -> io::Result<Option<u32>> {
    let word = |at: usize| -> io::Result<u32> {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    let kind = word(4)?.to_ne_bytes();
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        ERROR => {
            let error = io::Error::from_raw_os_error(word(HEADER_BYTES)?.cast_signed().wrapping_neg());
            match error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) {
                true => Ok(None),
                false => Err(error),
            }
        }
        // A socket that its process has closed has no inode, and says 0 for its user.
        BY_FAMILY if answer.get(STATE_AT) == Some(&LISTENS) || word(INODE_AT)? == 0 => Ok(None),
        BY_FAMILY => word(UID_AT).map(Some),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Looks the socket up in the lists of `/proc`. A socket for both versions of IP is in the list of IPv6.
fn list(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    let mut found = None;
    for name in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/self/net/{name}")) {
            Ok(text) => {
                found = found.or_else(|| text.lines().skip(1).find_map(|line| entry(line, far, near)))
            }
            Err(error) if name == "tcp" => return Err(error),
            // The system has no IPv6.
            Err(_) => {}
        }
    }
    Ok(found)
}

/// The user of a line, if the line is about this connection.
fn entry(line: &str, far: SocketAddr, near: SocketAddr) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_same = |text: &str, address: SocketAddr| {
        listed(text)
            .map(plain)
            .is_some_and(|listed| (listed.ip(), listed.port()) == (address.ip(), address.port()))
    };
    let (state, user, inode) = (words.get(3)?, words.get(7)?, words.get(9)?);
    let is_ours = is_same(words.get(1)?, far) && is_same(words.get(2)?, near);
    (is_ours && *state != "0A" && *inode != "0").then(|| user.parse().ok())?
}

/// An address as `/proc/net/tcp` has it: words of the machine's byte order in hexadecimal digits, and a port.
fn listed(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let address: IpAddr = match words.len() {
        8 => word(0)?.into(),
        32 => {
            let all = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            <[u8; 16]>::try_from(all).ok()?.into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_an_end_is_known_while_a_process_has_it() {
        let own = rustix::process::geteuid().as_raw();
        for (at, to) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")] {
            let Ok(listener) = TcpListener::bind(at) else {
                eprintln!("skipped: the system has no IPv6");
                continue;
            };
            let port = listener.local_addr().expect("a port").port();
            let client = TcpStream::connect((to, port)).expect("it listens");
            let (server, far) = listener.accept().expect("a connection");
            let near = server.local_addr().expect("an address");
            for way in [ask, list] {
                let found = way(plain(far), plain(near)).expect("the kernel says");
                assert_eq!(found, Some(own), "{at}");
                // The listener is no end of a connection.
                assert_eq!(way(plain(near), SocketAddr::new(to.parse().unwrap(), 1)).expect("says"), None);
            }
            drop(client);
            assert_eq!(user_of(far, near).expect("the kernel says"), None, "it is closed");
        }
    }
}
