//! Captures over connections: their names on the command line, and the sockets behind the names. The bytes of
//! a connection are those of a capture file; there is no protocol around them. The clients that receive a
//! capture: `sink/clients.rs`.
//!
//! - `listener.rs`: waits for connections
//! - `sender.rs`: a connection that is read

mod listener;
mod sender;

pub use listener::Listener;
pub use sender::explain_unbound;
pub(crate) use sender::{Sender, Unreadable};

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use weir_ring::recorders;
use weir_udp::Name;

/// Time for a connection to one address to be established.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Time of silence after which the system asks the other end whether it is still there, time between two such
/// questions, and number of unanswered ones. A host that vanished is noticed after 60 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;

/// The prefixes of the two forms.
const CONNECT: &str = "tcp://";
const LISTEN: &str = "tcp-listen:";

/// An end of a connection, or of datagrams, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `tcp://HOST:PORT`: connects to a host, by name or address.
    Connect {
        /// The name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// `tcp-listen:PORT` or `tcp-listen:ADDRESS:PORT`: waits for connections.
    Listen {
        /// The local address; `None` for the loopback addresses 127.0.0.1 and ::1.
        address: Option<IpAddr>,
        /// The port; 0 for one that the system selects.
        port: u16,
    },
    /// `ring:NAME`: the ring of a [recorder](weir_ring::recorders) on this host; its name.
    Recorder(String),
    /// `udp://HOST:PORT[,HOST:PORT…]` and `tzsp://HOST:PORT`: [packets over UDP](weir_udp).
    Datagrams(Name),
}

impl Endpoint {
    /// Whether the name has the form of an endpoint, which may have mistakes.
    pub fn is_named(name: &Path) -> bool {
        let name = name.to_string_lossy();
        let is_connection = name.starts_with(CONNECT) || name.starts_with(LISTEN);
        is_connection || name.starts_with(recorders::PREFIX) || Name::is_named(&name)
    }

    /// Whether the name has the form of a recorder.
    pub fn is_recorder(name: &Path) -> bool {
        name.to_string_lossy().starts_with(recorders::PREFIX)
    }

    /// The endpoint of this name; `None` if it is the name of a file.
    ///
    /// # Errors
    /// What is wrong with the name, and the right form.
    pub fn of(name: &Path) -> Option<Result<Self, String>> {
        if !Self::is_named(name) {
            return None;
        }
        let text = name.to_string_lossy();
        if let Some(datagrams) = Name::of(&text) {
            return Some(datagrams.map(Self::Datagrams));
        }
        if let Some(name) = recorders::name_of(&text) {
            return Some(name.map(|name| Self::Recorder(name.to_string())));
        }
        Some(match text.strip_prefix(CONNECT) {
            Some(rest) => connect(rest).ok_or_else(|| {
                "write tcp://HOST:PORT, with an IPv6 address in brackets: tcp://[::1]:9000".to_string()
            }),
            None => listen(text.strip_prefix(LISTEN).unwrap_or_default()).ok_or_else(|| {
                "write tcp-listen:PORT for the loopback addresses, or tcp-listen:ADDRESS:PORT with an address of this host \
                 (0.0.0.0: all of IPv4; [::]: all)"
                    .to_string()
            }),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { host, port } if host.contains(':') => write!(f, "{CONNECT}[{host}]:{port}"),
            Self::Connect { host, port } => write!(f, "{CONNECT}{host}:{port}"),
            Self::Listen { address: None, port } => write!(f, "{LISTEN}{port}"),
            Self::Listen { address: Some(address), port } => {
                write!(f, "{LISTEN}{}", SocketAddr::new(*address, *port))
            }
            Self::Recorder(name) => write!(f, "{}{name}", recorders::PREFIX),
            Self::Datagrams(name) => name.fmt(f),
        }
    }
}

/// `HOST:PORT`.
fn connect(text: &str) -> Option<Endpoint> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host =
        |host: &str| !host.is_empty() && !host.contains(|c: char| ":/[]".contains(c) || c.is_whitespace());
    let host = match bracketed {
        Some(address) if address.contains(':') => address,
        None if is_host(host) => host,
        _ => return None,
    };
    let port = port.parse().ok().filter(|&port| port != 0)?;
    Some(Endpoint::Connect { host: host.to_string(), port })
}

/// `PORT` or `ADDRESS:PORT`.
fn listen(text: &str) -> Option<Endpoint> {
    if let Ok(port) = text.parse() {
        return Some(Endpoint::Listen { address: None, port });
    }
    let address: SocketAddr = text.parse().ok()?;
    Some(Endpoint::Listen { address: Some(address.ip()), port: address.port() })
}

/// The addresses of a host, which is a name or an address. Blocks for the time that the system needs to look
/// up the name.
///
/// # Errors
/// What went wrong, with a remedy.
pub fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses = (host, port).to_socket_addrs().map_err(|e| {
        explained(
            ErrorKind::NotFound,
            format!("unknown host `{host}`: check the name, or give an address ({e})"),
        )
    })?;
    Ok(addresses.collect())
}

fn explained(kind: ErrorKind, message: String) -> io::Error {
    io::Error::new(kind, Unreadable(message))
}

/// Connects to the first address of the host that accepts the connection. Blocks for up to 10 s for each
/// address, and for the time that the system needs to look up the name.
///
/// # Errors
/// What went wrong, with a remedy.
pub fn connect_to(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in addresses_of(host, port)? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => {
                watch(&stream);
                return Ok(stream);
            }
            Err(error) => last = Some((address, error)),
        }
    }
    let Some((address, error)) = last else {
        return Err(explained(ErrorKind::NotFound, format!("the host `{host}` has no address")));
    };
    let message = match error.kind() {
        ErrorKind::ConnectionRefused => format!(
            "{address} refused the connection: nothing listens on that port; start the other end first, or check the port"
        ),
        ErrorKind::TimedOut => format!(
            "{address} did not answer within {} s: check the address, and firewalls on the way",
            CONNECT_MAX.as_secs()
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            format!("{address} cannot be reached: check the address and the route to it ({error})")
        }
        _ => format!("no connection to {address}: {error}"),
    };
    Err(explained(error.kind(), message))
}

/// Lets the system notice that the other end has vanished. A system that cannot do this does not prevent the
/// connection.
fn watch(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<Result<Endpoint, String>> {
        Endpoint::of(Path::new(name))
    }

    #[test]
    fn names_of_endpoints_are_read_and_printed() {
        let connect = |host: &str, port| Endpoint::Connect { host: host.to_string(), port };
        let listen = |address: &str, port| Endpoint::Listen { address: address.parse().ok(), port };
        for (name, endpoint) in [
            ("tcp://127.0.0.1:9000", connect("127.0.0.1", 9000)),
            ("tcp://sensor-1.example:9000", connect("sensor-1.example", 9000)),
            ("tcp://[::1]:9000", connect("::1", 9000)),
            ("tcp://[fe80::1%eth0]:9000", connect("fe80::1%eth0", 9000)),
            ("tcp-listen:9000", listen("", 9000)),
            ("tcp-listen:0", listen("", 0)),
            ("tcp-listen:0.0.0.0:9000", listen("0.0.0.0", 9000)),
            ("tcp-listen:[::]:9000", listen("::", 9000)),
        ] {
            assert_eq!(of(name), Some(Ok(endpoint.clone())), "{name}");
            assert_eq!(endpoint.to_string(), name);
        }
    }

    #[test]
    fn wrong_names_get_the_right_form_and_files_stay_files() {
        for wrong in [
            "tcp://",
            "tcp://host",
            "tcp://:9000",
            "tcp://::1:9000",
            "tcp://host:0",
            "tcp://host:65536",
            "tcp://a b:1",
        ] {
            let message = of(wrong).expect("it is an endpoint").expect_err("it is wrong");
            assert!(message.contains("tcp://HOST:PORT"), "{message}");
        }
        for wrong in ["tcp-listen:", "tcp-listen:host", "tcp-listen:::1:9000", "tcp-listen://9000"] {
            let message = of(wrong).expect("it is an endpoint").expect_err("it is wrong");
            assert!(message.contains("tcp-listen:PORT"), "{message}");
        }
        for file in ["tcp", "tcp:/x", "./tcp-listen:9000", "tcp-listen.pcap", "-"] {
            assert_eq!(of(file), None, "{file}");
        }
    }
}
