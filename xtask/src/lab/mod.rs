//! A small network of three network namespaces, created for one recording and removed with it.
//!
//! ```text
//!   client ──── net0 ═══ net0 router net1 ═══ net0 ──── server      veth, Ethernet, MTU 1500
//!   vlan42 ─ tag 42 on net0 ─ vlan42                                802.1Q, tagged by `cable`
//!                             rough0 ═ loses, swaps ═ rough0        a bad line, also `cable`
//! ```
//!
//! The chore runs itself again under `unshare`, in a PID, mount and network namespace of its own with an
//! empty `/run`. However it ends (an error, Ctrl-C, kill -9), the kernel removes every process, interface,
//! name and key, and nothing can reach the machine's own network. `cable.rs` has the user-space links,
//! `servers.rs` the servers, `tap.rs` the recorder.

pub mod cable;
pub mod servers;
pub mod tap;

use std::process::{Child, Command, Stdio};

use crate::shell::{Result, find, need, output, said, sh};

/// The server's first address; the lab uses the blocks of RFC 5737 and RFC 3849, RFC 1918 for the VLAN.
pub const SERVER_V4: &str = "198.51.100.10";

/// The lab's folder for keys, logs and configurations: an in-memory file system that only the lab sees.
pub const SCRATCH: &str = "/run/lab";

const TOOLS: &[(&str, &str)] = &[
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("sysctl", "procps"),
    ("ping", "iputils-ping"),
    ("tcpdump", "tcpdump"),
    ("nginx", "nginx-light"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("dnsmasq", "dnsmasq-base"),
    ("dig", "bind9-dnsutils"),
];

/// Options of setpriv and unshare: when this process ends, unshare ends, and with it everything inside.
const CELL: &str = "--pdeathsig KILL unshare --mount --pid --net --fork --kill-child --mount-proc --";

/// The same, for a chore that sees all processes of the machine, such as threads of the kernel. It starts its
/// own processes with `--pdeathsig KILL`, too.
pub const SHARED_PROCESSES: &str = "--pdeathsig KILL unshare --mount --net --";

/// Runs this chore again inside new namespaces, unless it is already inside.
///
/// Returns `true` in the inner run, which should do the work; the outer run gets `false` after the inner run
/// succeeded.
pub fn enter(chore: &str, args: &[String]) -> Result<bool> {
    enter_with(chore, args, TOOLS, CELL)
}

/// Whether this is the inner run.
pub fn is_inside() -> bool {
    std::env::var_os("XTASK_IN_LAB").is_some()
}

/// [`enter`], with other tools, and other options of setpriv.
pub fn enter_with(chore: &str, args: &[String], tools: &[(&str, &str)], cell: &str) -> Result<bool> {
    if is_inside() {
        return Ok(true);
    }
    need(tools)?;
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Err("missing: /dev/net/tun (modprobe tun)".into());
    }
    let own = std::env::current_exe().map_err(said("own path"))?;
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        let line = format!("sudo {} {chore} {}", own.display(), args.join(" "));
        return Err(format!("making network namespaces and recording on them takes root:\n  {line}"));
    }
    let status = Command::new("setpriv")
        .args(cell.split(' '))
        .arg(own)
        .arg(chore)
        .args(args)
        .env("XTASK_IN_LAB", "1")
        .status()
        .map_err(said("unshare"))?;
    if status.success() { Ok(false) } else { Err("the lab's run failed, see above".into()) }
}

/// Creates and connects the three namespaces. `addresses` is the number of consecutive addresses of the
/// server.
pub fn build(addresses: u8) -> Result {
    let resolver = std::fs::canonicalize("/etc/resolv.conf").ok();
    sh(&format!("mount -t tmpfs lab /run; mkdir -p {SCRATCH}/www /run/netns /run/sshd"))?;
    name_server(resolver)?;
    sh(WIRING)?;
    for last in 11..10 + addresses {
        sh(&format!(
            "ip -n server addr add 198.51.100.{last}/24 dev net0
             ip -n server addr add 2001:db8:2::{last}/64 dev net0"
        ))?;
    }
    cable::vlan("client", "net0", "vlan42", 42)?;
    cable::vlan("router", "net0", "vlan42", 42)?;
    cable::rough("router", "server", "rough0")?;
    sh(CABLING)?;
    Ok(())
}

/// Configures the C library's resolver to use the lab's dnsmasq, for this mount namespace only.
fn name_server(resolver: Option<std::path::PathBuf>) -> Result {
    let target = match resolver {
        Some(file) if file.exists() => file,
        Some(file) => {
            crate::shell::write(&file, "")?;
            file
        }
        None => return Err("/etc/resolv.conf is missing".into()),
    };
    sh(&format!(
        "echo 'nameserver {SERVER_V4}' > {SCRATCH}/resolv.conf
         mount --bind {SCRATCH}/resolv.conf {}",
        target.display()
    ))?;
    Ok(())
}

/// A command in a namespace, by `sh -euc`.
pub fn inside(namespace: &str, script: &str) -> Command {
    let mut command = Command::new(find("ip").unwrap_or_else(|| "ip".into()));
    command.args(["netns", "exec", namespace, "sh", "-euc", script]);
    command
}

/// Starts a server in the foreground; it ends with the lab.
pub fn spawn(namespace: &str, script: &str) -> Result<Child> {
    inside(namespace, &format!("exec {script}")).stdin(Stdio::null()).spawn().map_err(said(script))
}

// Fixed MAC addresses make the link-local addresses the same in every recording. Without duplicate address
// detection and router solicitation IPv6 sends nothing by itself. Offloads are off, so that the recording
// equals the wire: no frame above the MTU, and checksums filled in.
const WIRING: &str = "
for ns in client router server; do
    ip netns add $ns
    ip netns exec $ns sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
        net.ipv6.conf.default.router_solicitations=0 net.ipv4.conf.all.rp_filter=0 \
        net.ipv4.tcp_no_metrics_save=1
    ip -n $ns link set lo up
done
ip link add net0 address 02:00:00:00:00:0c netns client type veth \
    peer name net0 address 02:00:00:00:00:01 netns router
ip link add net1 address 02:00:00:00:00:02 netns router type veth \
    peer name net0 address 02:00:00:00:00:05 netns server
for end in client:net0 router:net0 router:net1 server:net0; do
    ip netns exec ${end%:*} ethtool -K ${end#*:} tso off gso off gro off tx off rx off sg off >/dev/null 2>&1
    ip -n ${end%:*} link set ${end#*:} up
done
ip -n client addr add 192.0.2.10/24 dev net0
ip -n client addr add 2001:db8:1::10/64 dev net0
ip -n router addr add 192.0.2.1/24 dev net0
ip -n router addr add 2001:db8:1::1/64 dev net0
ip -n router addr add 198.51.100.1/24 dev net1
ip -n router addr add 2001:db8:2::1/64 dev net1
ip -n server addr add 198.51.100.10/24 dev net0
ip -n server addr add 2001:db8:2::10/64 dev net0
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for family in '' -6; do
    case $family in -6) near=2001:db8:1::1 far=2001:db8:2::1 ;; *) near=192.0.2.1 far=198.51.100.1 ;; esac
    ip $family -n client route add default via $near
    ip $family -n server route add default via $far
done
ip -n router route add blackhole 198.51.100.99
ip -n router route add blackhole 2001:db8:2::99
";

// Traffic that arrives over the lossy link must leave over it, hence the rule on the server.
const CABLING: &str = "
ip -n client link set vlan42 address 02:00:00:00:42:0c up
ip -n router link set vlan42 address 02:00:00:00:42:01 up
ip -n client addr add 10.42.0.10/24 dev vlan42
ip -n client addr add 2001:db8:42::10/64 dev vlan42
ip -n router addr add 10.42.0.1/24 dev vlan42
ip -n router addr add 2001:db8:42::1/64 dev vlan42
ip -n router link set rough0 address 02:00:00:00:77:01 up
ip -n server link set rough0 address 02:00:00:00:77:05 up
ip -n router addr add 203.0.113.1/24 dev rough0
ip -n server addr add 203.0.113.10/24 dev rough0
ip -n server rule add from 203.0.113.10 table 77
ip -n server route add default via 203.0.113.1 table 77
";
