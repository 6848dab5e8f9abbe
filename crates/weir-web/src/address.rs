//! The addresses at which servers of this machine listen.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

/// The addresses that `HOST:PORT` names, or a port of the loopback address: `:PORT`, `PORT`.
///
/// # Errors
/// The text names none; the message proposes `port`.
pub fn addresses(address: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let own = address.strip_prefix(':').unwrap_or(address).parse::<u16>();
    let addresses: Vec<SocketAddr> = match own {
        Ok(own) => vec![(Ipv4Addr::LOCALHOST, own).into()],
        Err(_) => address.to_socket_addrs().map(Iterator::collect).unwrap_or_default(),
    };
    if addresses.is_empty() {
        return Err(format!(
            "give a port of this host, as in :{port}, or an address with a port, as in 0.0.0.0:{port} or [::1]:{port}"
        ));
    }
    Ok(addresses)
}

/// Binds the first of these addresses that this host has.
///
/// # Errors
/// None of them can be used: why, and what to do.
pub fn bind(addresses: &[SocketAddr]) -> Result<TcpListener, String> {
    TcpListener::bind(addresses).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            "another program uses this port: give another one, or :0 for a free one".to_string()
        }
        ErrorKind::AddrNotAvailable => {
            "this host has no such address: `ip addr` lists those that it has".to_string()
        }
        ErrorKind::PermissionDenied => "this user may not use this port: give one from 1024".to_string(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_remedies() {
        let said = |address: &str| match addresses(address, 9464).and_then(|addresses| bind(&addresses)) {
            Ok(_) => panic!("{address} is no address"),
            Err(why) => why,
        };
        let taken = bind(&addresses(":0", 9464).unwrap()).unwrap();
        let taken_address = taken.local_addr().unwrap().to_string();
        assert!(said(&taken_address).contains("another program uses this port"), "{}", said(&taken_address));
        for wrong in ["", "nonsense", "1.2.3.4", "70000", ":x"] {
            assert!(said(wrong).contains("as in :9464"), "{}", said(wrong));
        }
        assert!(said("203.0.113.7:9464").contains("no such address"), "{}", said("203.0.113.7:9464"));
    }
}
