//! Records the packets of one connection to a file: the filter of the connection, and the name of the file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use weir::{Connection, Hosts};

/// Names that are tried for a file.
const NAMES_MAX: u32 = 1000;

/// The filter that the packets of a connection match, in both directions.
///
/// # Errors
/// The connection is none of IP.
pub fn filter(record: &Connection, bpf: bool) -> Result<String, String> {
    if record.hosts != Hosts::Addresses {
        return Err("only connections over IP can be recorded".to_string());
    }
    let has_ports = ["tcp", "udp", "sctp"].contains(&&*record.proto);
    let direction = |from: (IpAddr, u32), to: (IpAddr, u32)| {
        let ip = if from.0.is_ipv4() { "ip" } else { "ipv6" };
        let (proto, (source, source_port), (target, target_port)) = (&record.proto, from, to);
        match (bpf, has_ports) {
            (true, true) => format!(
                "({proto} and src host {source} and src port {source_port} and dst host {target} and dst port {target_port})"
            ),
            (true, false) => format!("(src host {source} and dst host {target})"),
            (false, true) => format!(
                "({ip}.src == {source} and {proto}.srcport == {source_port} and {ip}.dst == {target} and {proto}.dstport == {target_port})"
            ),
            (false, false) => format!("({ip}.src == {source} and {ip}.dst == {target})"),
        }
    };
    let (orig, resp) = ((record.orig_h, record.orig_p), (record.resp_h, record.resp_p));
    Ok(format!("{} or {}", direction(orig, resp), direction(resp, orig)))
}

/// A file in this folder that does not exist yet, named after the connection.
///
/// # Errors
/// There are many recordings of the connection already.
pub fn file(folder: &Path, uid: &str) -> Result<PathBuf, String> {
    let name = |number: u32| match number {
        1 => folder.join(format!("weir-{uid}.pcapng")),
        number => folder.join(format!("weir-{uid}-{number}.pcapng")),
    };
    let mut names = (1..=NAMES_MAX).map(name);
    names.find(|path| !path.exists()).ok_or_else(|| format!("there are {NAMES_MAX} recordings of {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::traffic::tests::record;

    #[test]
    fn the_filter_is_right_in_both_languages() {
        let compiler = weir::Compiler::default();
        let v6 = Connection {
            orig_h: "2001:db8::1".parse().unwrap(),
            resp_h: "2001:db8::2".parse().unwrap(),
            proto: "udp".into(),
            ..record(1, [1, 1], 1.0)
        };
        let icmp = Connection { proto: "icmp".into(), ..record(1, [1, 1], 1.0) };
        for record in [record(1, [1, 1], 1.0), v6, icmp] {
            for bpf in [false, true] {
                let text = filter(&record, bpf).expect("it has addresses");
                assert!(compiler.check_filter(&text, bpf).is_ok(), "{text}");
            }
        }
    }
}
