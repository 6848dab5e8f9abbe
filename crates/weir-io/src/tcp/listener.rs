//! Waits for TCP connections, on one address or on the loopback addresses.

use super::watch;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;
use weir_guard::peers;

/// Time between two looks for a connection.
const PATIENCE: Duration = Duration::from_millis(50);

/// Number of ports that the system may select until one is free for IPv4 and for IPv6.
const ATTEMPTS_MAX: usize = 16;

/// A listening socket; on loopback two, for IPv4 and IPv6. Connections wait from its creation on.
#[derive(Debug)]
pub struct Listener {
    sockets: Vec<TcpListener>,
}

impl Listener {
    /// Listens on this port of `address`, or of the loopback addresses 127.0.0.1 and ::1. The system selects
    /// port 0.
    ///
    /// # Errors
    /// The address is in use, not of this host, or not permitted.
    pub fn bind(address: Option<IpAddr>, port: u16) -> io::Result<Self> {
        let sockets = match address {
            Some(address) => vec![TcpListener::bind((address, port))?],
            None => bind_loopback(port)?,
        };
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        Ok(Self { sockets })
    }

    /// The local addresses and ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// The next connection, and the address of its other end; `None` once `is_over`. Blocks. Errors concern
    /// single connections, or pass (too many files are open), so that others are waited for.
    pub fn accept(&self, is_over: impl Fn() -> bool) -> Option<(TcpStream, SocketAddr)> {
        self.accept_from(|_| true, is_over)
    }

    /// As [`accept`](Self::accept), for a port that gives packets away: connections of users of this machine
    /// who [may not connect](weir_guard::peers) are closed.
    ///
    /// A port that only receives does not ask. Whoever sends has often closed its socket before the
    /// connection is accepted, and then the kernel no longer knows whose the socket was.
    pub fn accept_admitted(&self, is_over: impl Fn() -> bool) -> Option<(TcpStream, SocketAddr)> {
        self.accept_from(|stream| peers::admit(stream).is_ok(), is_over)
    }

    fn accept_from(
        &self,
        admits: impl Fn(&TcpStream) -> bool,
        is_over: impl Fn() -> bool,
    ) -> Option<(TcpStream, SocketAddr)> {
        while !is_over() {
            let accepted = self.sockets.iter().filter_map(|socket| socket.accept().ok());
            for (stream, peer) in accepted.filter(|(stream, _)| admits(stream)) {
                if stream.set_nonblocking(false).is_ok() {
                    watch(&stream);
                    return Some((stream, peer));
                }
            }
            sleep(PATIENCE);
        }
        None
    }
}

/// Sockets for both loopback addresses, or one if the system has no IPv6.
fn bind_loopback(port: u16) -> io::Result<Vec<TcpListener>> {
    let mut attempts = 0..ATTEMPTS_MAX;
    loop {
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        match TcpListener::bind((Ipv6Addr::LOCALHOST, four.local_addr()?.port())) {
            Ok(six) => return Ok(vec![four, six]),
            Err(error) if error.kind() == ErrorKind::AddrInUse && port == 0 && attempts.next().is_some() => {}
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
            Err(_) => return Ok(vec![four]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_addresses_share_a_port_and_nothing_else_listens() {
        let listener = Listener::bind(None, 0).expect("loopback");
        let addresses = listener.addresses();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
        assert!(addresses.iter().all(|address| address.port() == addresses[0].port()), "{addresses:?}");
        for address in &addresses {
            let _client = TcpStream::connect(address).expect("somebody listens");
            let (_, peer) = listener.accept(|| false).expect("a connection waits");
            assert_eq!(peer.ip(), address.ip());
        }
        assert!(listener.accept(|| true).is_none());
        let taken = Listener::bind(None, addresses[0].port()).expect_err("the port is taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}
