//! `cargo xtask layers`: generates the small captures beside the protocols, `protocols/*.pcap`.
//!
//! `protocols/vxlan.pcap` is recorded from two kernels' VXLAN devices in namespaces (as root). The others are
//! frames written byte by byte according to the RFCs, because not every kernel has the modules.
//! `protocols/*.expect` describes their contents; `crates/weir/tests/all/layers.rs` checks it against Weir,
//! and `--check` against tshark.

mod check;
mod ethernet;
mod links;
mod media;
pub mod mobile;
mod overlays;
pub mod transport;
pub mod tunnels;

use crate::shell::{Result, output, root, said};
use crate::traces::frame::{Ends, Trace, ethernet, ipv4, udp};
use std::process::Command;

/// Microseconds between frames.
const STEP_US: u64 = 10_000;

/// Makes the frames of a capture.
type MakeFrames = fn() -> Vec<Vec<u8>>;

/// Names of captures of other link types, with their LINKTYPE_ numbers; those of rarer ones are in
/// [`media::LINKS`].
const LINKS: &[(&str, u32)] = &[
    ("hdlc", links::PPP_HDLC),
    ("chdlc", links::C_HDLC),
    ("wlan", links::IEEE802_11),
    ("radiotap", links::RADIOTAP),
    ("ppi", links::PPI),
    ("nflog", links::NFLOG),
];
const ETHERNET: u32 = 1;

/// Name of the capture, and its frames.
const CAPTURES: &[(&str, MakeFrames)] = &[
    ("hdlc", links::hdlc),
    ("chdlc", links::chdlc),
    ("wlan", links::wlan),
    ("radiotap", links::radiotap),
    ("ppi", links::ppi),
    ("nflog", links::nflog),
    ("lldp", links::lldp),
    ("llc", ethernet::llc),
    ("mpls", ethernet::mpls),
    ("pbb", ethernet::pbb),
    ("etag", ethernet::etag),
    ("vntag", ethernet::vntag),
    ("macsec", ethernet::macsec),
    ("etherip", ethernet::etherip),
    ("lisp", ethernet::lisp),
    ("capwap", ethernet::capwap),
    ("tzsp", ethernet::tzsp),
    ("udplite", ethernet::udplite),
    ("arcnet", media::arcnet),
    ("slip", media::slip),
    ("fddi", media::fddi),
    ("ppp_ether", media::ppp_ether),
    ("rfc1483", media::rfc1483),
    ("fr", media::fr),
    ("enc", media::enc),
    ("pflog", media::pflog),
    ("prism", media::prism),
    ("tzsp_link", media::tzsp_link),
    ("arcnet_linux", media::arcnet_linux),
    ("avs", media::avs),
    ("juniper_monitor", media::juniper_monitor),
    ("juniper", media::juniper),
    ("juniper_ppp", media::juniper_ppp),
    ("juniper_fr", media::juniper_fr),
    ("juniper_chdlc", media::juniper_chdlc),
    ("mfr", media::mfr),
    ("ipnet", media::ipnet),
    ("wpan", media::wpan),
    ("ipoib", media::ipoib),
    ("exported_pdu", media::exported_pdu),
    ("pktap", media::pktap),
    ("brcm", media::brcm),
    ("brcm_prepend", media::brcm_prepend),
    ("wpan_tap", media::wpan_tap),
    ("dsa", media::dsa),
    ("edsa", media::edsa),
    ("nsh", overlays::nsh),
    ("vxlan_gpe", overlays::vxlan_gpe),
    ("ayiya", overlays::ayiya),
    ("pim", overlays::pim),
    ("internet", tunnels::internet),
    ("raw", || vec![ping(), ping6()]),
    ("datacentre", || {
        vec![outer_udp(8472, &[&[8, 0, 0, 0, 0, 0, 42, 0][..], &ethernet(0x0800, &ping())].concat())]
    }),
    ("gre", tunnels::gre),
    ("erspan", tunnels::erspan),
    ("geneve", tunnels::geneve),
    ("pppoe", tunnels::pppoe),
    ("ppp", tunnels::ppp),
    ("l2tp", tunnels::l2tp),
    ("teredo", tunnels::teredo),
    ("gtp", mobile::gtp),
    ("pptp", tunnels::pptp),
    ("sctp", transport::sctp),
    ("quic", transport::quic),
];

/// Two kernels with one VXLAN device each, connected by a wire; pings and a refused connection.
const VXLAN: &str = "
mount -t tmpfs lab /run; mkdir /run/netns
for n in a b; do ip netns add $n; ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1; done
ip -n a link add e0 type veth peer name e0 netns b
for n in 'a 1 2' 'b 2 1'; do
    set -- $n
    ip -n $1 address add 192.0.2.$2/24 dev e0; ip -n $1 link set e0 up
    ip -n $1 link add v0 type vxlan id 42 dstport 4789 local 192.0.2.$2 remote 192.0.2.$3
    ip -n $1 address add 10.42.0.$2/24 dev v0; ip -n $1 link set v0 up
done
sleep 2
ip netns exec a tcpdump -q -Z root -i e0 -w /run/vxlan.pcap udp port 4789 & tap=$!
sleep 1
ip netns exec a ping -q -c 2 -i 0.2 10.42.0.2
ip netns exec a bash -c 'exec 3<>/dev/tcp/10.42.0.2/80' || true
sleep 2; kill $tap; wait $tap || true
cp /run/vxlan.pcap \"$OUT\"
";

pub fn run(args: &[String]) -> Result {
    if args.iter().any(|a| a == "--check") {
        return check::run();
    }
    let is_known = |a: &String| a == "vxlan" || CAPTURES.iter().any(|(name, _)| a == name);
    if let Some(wrong) = args.iter().find(|a| !is_known(a)) {
        let names: Vec<&str> = CAPTURES.iter().map(|(name, _)| *name).collect();
        return Err(format!("no capture `{wrong}`: there are {}, vxlan", names.join(", ")));
    }
    for (name, frames) in
        CAPTURES.iter().filter(|(name, _)| args.is_empty() || args.iter().any(|a| a == name))
    {
        let link = LINKS
            .iter()
            .chain(media::LINKS)
            .find(|(other, _)| other == name)
            .map_or(ETHERNET, |(_, link)| *link);
        let mut trace = Trace::create_for(&root().join(format!("protocols/{name}.pcap")), link, STEP_US)?;
        for frame in frames() {
            trace.put(&frame)?;
        }
        trace.finish()?;
    }
    if args.iter().any(|a| a == "vxlan") {
        let mut lab = Command::new("unshare");
        lab.args(["--net", "--mount", "--fork", "--kill-child", "sh", "-euc", VXLAN]);
        output(lab.env("OUT", root().join("protocols/vxlan.pcap"))).map_err(said("recording takes root"))?;
    }
    Ok(())
}

/// The outer endpoints of a tunnel, with addresses of RFC 5737.
const OUTER: Ends = Ends { src: 0xc000_0201, dst: 0xc000_0202, src_port: 50_000, dst_port: 0 };
/// The inner endpoints.
const INNER: Ends = Ends { src: 0x0a00_0001, dst: 0x0a00_0002, src_port: 40_000, dst_port: 53 };

/// A frame with an IPv4 datagram between the outer endpoints.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(OUTER, protocol, 1, 0, payload))
}

/// A frame with a UDP datagram to `port` of the outer endpoint.
fn outer_udp(port: u16, payload: &[u8]) -> Vec<u8> {
    outer(17, &udp(Ends { dst_port: port, ..OUTER }, payload))
}

/// An echo request in IPv4 between the inner endpoints.
fn ping() -> Vec<u8> {
    ipv4(INNER, 1, 2, 0, &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1])
}

/// An empty datagram to port 53 in IPv4 between the inner endpoints.
fn datagram() -> Vec<u8> {
    ipv4(INNER, 17, 3, 0, &udp(INNER, &[]))
}

/// IPv6 between 2001:db8::1 and ::2.
fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let length = (payload.len() as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, length[0], length[1], next_header, 64];
    [&head[..], &address(1), &address(2), payload].concat()
}

/// An echo request in IPv6.
fn ping6() -> Vec<u8> {
    ipv6(58, &[128, 0, 0x24, 0x46, 0, 1, 0, 1])
}

/// The concatenation of the parts.
fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
