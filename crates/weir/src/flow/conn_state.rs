//! Zeek's names of what became of a connection, and of the ends of ICMP.

use weir_engine::flow::FlowView;

/// Zeek's responder "port" for ICMP: the type of the reply if there is one, else the code.
pub(crate) fn icmp_code(flow: &FlowView<'_>, code: u64) -> u32 {
    let request = flow.number("type", false).unwrap_or(0);
    let v6 = flow.endpoints().0.address.is_ipv6();
    let reply = match (v6, request) {
        (false, 8) => Some(0),
        (false, 0) => Some(8),
        (false, 13) => Some(14),
        (false, 14) => Some(13),
        (false, 15) => Some(16),
        (false, 16) => Some(15),
        (false, 17) => Some(18),
        (false, 18) => Some(17),
        (false, 10) => Some(9),
        (false, 9) => Some(10),
        (true, 128) => Some(129),
        (true, 129) => Some(128),
        (true, 130) => Some(131),
        (true, 131) => Some(130),
        (true, 133) => Some(134),
        (true, 134) => Some(133),
        (true, 135) => Some(136),
        (true, 136) => Some(135),
        (true, 139) => Some(140),
        (true, 140) => Some(139),
        (true, 144) => Some(145),
        (true, 145) => Some(144),
        _ => None,
    };
    reply.unwrap_or(code as u32)
}

/// States of a TCP endpoint, as `tcp.weir` numbers them.
mod endpoint {
    pub const INACTIVE: u64 = 0;
    pub const SYN_SENT: u64 = 1;
    pub const SYN_ACK_SENT: u64 = 2;
    pub const PARTIAL: u64 = 3;
    pub const ESTABLISHED: u64 = 4;
    pub const CLOSED: u64 = 5;
    pub const RESET: u64 = 6;
}

/// The values of `conn_state`.
pub(crate) const CONN_STATES: &[&str] =
    &["S0", "S1", "SF", "REJ", "S2", "S3", "RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR", "OTH"];

/// Zeek's `conn_state`.
pub(crate) fn conn_state(
    proto: &str,
    endpoints: [u64; 2],
    packets: [u64; 2],
    bytes: impl FnOnce() -> [u64; 2],
    history: &str,
) -> &'static str {
    use endpoint::{CLOSED, ESTABLISHED, INACTIVE, PARTIAL, RESET, SYN_ACK_SENT, SYN_SENT};
    if matches!(proto, "udp" | "udplite") {
        return match (packets[0] > 0, packets[1] > 0) {
            (true, true) => "SF",
            (true, false) => "S0",
            (false, true) => "SHR",
            (false, false) => "OTH",
        };
    }
    if proto != "tcp" {
        return "OTH";
    }
    let [orig, resp] = endpoints;
    let inactive = |e: u64| e == INACTIVE || e == PARTIAL;
    if resp == RESET {
        let refused = orig == RESET && bytes() == [0, 0];
        return match orig {
            SYN_SENT | SYN_ACK_SENT => "REJ",
            _ if refused => "REJ",
            o if inactive(o) => "RSTRH",
            _ => "RSTR",
        };
    }
    if orig == RESET {
        let until_reset = history.split_once('R').map_or("", |(before, _)| before);
        let only_syn = until_reset.starts_with('S') && !until_reset.contains(['H', 'A', 'F', 'G', 'I', 'Q']);
        return match inactive(resp) {
            true if only_syn => "RSTOS0",
            true => "OTH",
            false => "RSTO",
        };
    }
    match (orig, resp) {
        (CLOSED, CLOSED) => "SF",
        (CLOSED, r) => {
            if inactive(r) {
                "SH"
            } else {
                "S2"
            }
        }
        (o, CLOSED) => {
            if inactive(o) {
                "SHR"
            } else {
                "S3"
            }
        }
        (SYN_SENT, INACTIVE) => "S0",
        (ESTABLISHED, ESTABLISHED) => "S1",
        _ => "OTH",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn states_are_those_that_filters_are_told_of() {
        let numbers = || endpoint::INACTIVE..=endpoint::RESET;
        let mut met = BTreeSet::new();
        for (orig, resp) in numbers().flat_map(|orig| numbers().map(move |resp| (orig, resp))) {
            for history in ["SR", "ShAR", "DdR"] {
                met.insert(conn_state("tcp", [orig, resp], [1, 1], || [0, 0], history));
                met.insert(conn_state("tcp", [orig, resp], [1, 1], || [1, 1], history));
            }
        }
        for packets in [[1, 1], [1, 0], [0, 1], [0, 0]] {
            met.insert(conn_state("udp", [0, 0], packets, || [0, 0], ""));
        }
        met.insert(conn_state("icmp", [0, 0], [1, 1], || [0, 0], ""));
        assert_eq!(met, CONN_STATES.iter().copied().collect());
    }
}
