//! Names of hosts: of this one, and of others with their ports.

use std::path::Path;
use weir::io::tcp::Endpoint;

/// Host and port, which have the same form everywhere.
pub fn address(text: &str, default_port: Option<u16>) -> Option<(String, u16)> {
    let of = |text: &str| match Endpoint::of(Path::new(&format!("tcp://{text}"))) {
        Some(Ok(Endpoint::Connect { host, port })) => Some((host, port)),
        _ => None,
    };
    of(text).or_else(|| of(&format!("{text}:{}", default_port?)))
}

/// The address `HOST:PORT` of a text `HOST[:PORT]`; without a port, that of `default_port`. An IPv6 address
/// is in brackets.
pub fn authority(text: &str, default_port: u16) -> Option<String> {
    let (host, port) = address(text, Some(default_port))?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The name of this host.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_string()
}
