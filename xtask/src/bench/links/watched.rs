//! The lab's router as a place to watch: the interface towards the client, and a mirror of it.

use crate::lab::inside;
use crate::shell::{Result, output, said};

/// The interfaces, and the method of capture on each: AF_XDP would take the router's own packets.
pub const METHODS: [(&str, &str); 2] = [("net0", "af_packet"), ("copy1", "af_xdp --mirror")];

/// Sends copies of all packets of the router's `net0` to its `copy1`.
pub fn mirror() -> Result {
    let all = "protocol all u32 match u32 0 0 action mirred egress mirror dev copy0";
    let script = format!(
        "sysctl -qw net.ipv6.conf.default.disable_ipv6=1
         ip link add copy0 type veth peer name copy1
         ip link set copy0 up
         ip link set copy1 up
         tc qdisc add dev net0 clsact
         tc filter add dev net0 ingress {all}
         tc filter add dev net0 egress {all}"
    );
    output(&mut inside("router", &script)).map(drop)
}

/// Leaves only packets of IPv4 on `net0`, from clients and servers: no reports of multicast groups and no
/// resolution of addresses, which the interface counts, and which have no record, or are captured while
/// nothing is counted.
pub fn silence() -> Result {
    // The lab's addresses: `lab::WIRING`.
    for (namespace, address, link) in
        [("client", "192.0.2.1", "02:00:00:00:00:01"), ("router", "192.0.2.10", "02:00:00:00:00:0c")]
    {
        let script = format!(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1
             ip neigh replace {address} lladdr {link} dev net0 nud permanent"
        );
        output(&mut inside(namespace, &script))?;
    }
    Ok(())
}

/// Packets and bytes of an interface of the router so far, in both directions.
pub fn interface(name: &str) -> Result<[u64; 2]> {
    let script = format!("cd /sys/class/net/{name}/statistics; cat rx_packets tx_packets rx_bytes tx_bytes");
    let text = output(&mut inside("router", &script))?;
    let counts: Result<Vec<u64>> = text.lines().map(|line| line.parse().map_err(said(&script))).collect();
    match counts?[..] {
        [packets_in, packets_out, bytes_in, bytes_out] => {
            Ok([packets_in + packets_out, bytes_in + bytes_out])
        }
        _ => Err(format!("{script}: {text}")),
    }
}
