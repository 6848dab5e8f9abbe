//! `cargo xtask capture tunnels`: records `examples/tunnels.pcap`: tunnels and SCTP by programs in user
//! space, because not every kernel has the modules.
//!
//! Client and server each have an Open vSwitch. Its bridge `phy` has the link between the two; each tunnel
//! has a further bridge with an address. For each tunnel in turn, the scene connects the switches, requests a
//! page, and disconnects them. The expectation consists of the switches' counters, ping's output, and the web
//! server's log. SCTP is usrsctp's. L2TP and PPTP only set up calls, because their contents, PPP, need the
//! kernel.

use crate::capture::logs::{Facts, Log, Row, cut, read};
use crate::capture::recording::Recording;
use crate::capture::scenes::Scene;
use crate::lab::servers::await_port;
use crate::lab::{self, SCRATCH, spawn};
use crate::shell::{Result, need, output, sh, write};

const TOOLS: &[(&str, &str)] = &[
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-common"),
    ("python3", "python3"),
    ("xl2tpd", "xl2tpd ppp libusrsctp-examples"),
];

const RECORDING: Recording =
    Recording { name: "tunnels", bytes_max: 500_000, source: "xtask/src/capture/tunnels/mod.rs" };

/// Shell functions of all scenes. `tunnel NUMBER NAME TYPE OPTION…` runs one; its addresses are
/// 10.90.NUMBER.0/24.
const PRELUDE: &str = "
cd /run/lab
switch() { ns=$1; shift; ovs-vsctl --db=unix:/run/lab/ovs-$ns/db.sock \"$@\"; }
join() {
    ns=$1 last=$2 other=$3 n=$4 name=$5 type=$6; shift 6
    switch $ns add-br br$name -- set bridge br$name datapath_type=netdev other-config:hwaddr=02:00:00:00:0$n:0$last \
        -- add-port br$name $name -- set interface $name type=$type options:remote_ip=$other \"$@\" -- set interface br$name mtu_request=1400
    ip netns exec $ns sysctl -qw net.ipv6.conf.br$name.disable_ipv6=1
    ip -n $ns addr add 10.90.$n.$last/24 dev br$name; ip -n $ns link set br$name up
    # Tunnels of layer 3 carry no ARP, and what comes out of them has no addresses of Ethernet.
    ip -n $ns neigh add 10.90.$n.$((3 - last)) lladdr 02:00:00:00:0$n:0$((3 - last)) dev br$name nud permanent
    ovs-ofctl add-flow unix:/run/lab/ovs-$ns/br$name.mgmt in_port=$name,actions=mod_dl_dst:02:00:00:00:0$n:0$last,local
    ovs-ofctl add-flow unix:/run/lab/ovs-$ns/br$name.mgmt in_port=local,actions=$name
}
tunnel() {
    n=$1 name=$2; shift
    case $2 in *6) a=2001:db8:1::10 b=2001:db8:2::10 ;; *) a=192.0.2.10 b=198.51.100.10 ;; esac
    type=${2%6}; shift 2
    join client 1 $b $n $name $type \"$@\"; join server 2 $a $n $name $type \"$@\"
    sleep 1
    echo \"tunnel $name\" >> ping.out; ping -q -c 3 -i 0.2 -W 1 10.90.$n.2 >> ping.out || true
    curl -sS -m 5 -o /dev/null http://10.90.$n.2:8000/numbers.txt?$name || true
    sleep 0.5
    for ns in client server; do
        ovs-appctl -t /run/lab/ovs-$ns/switch.ctl revalidator/purge # counts are taken from flows only now
        ovs-ofctl dump-ports unix:/run/lab/ovs-$ns/br$name.mgmt $name | tr -d '\\n' | sed \"s/^/$name $ns /\" >> switch.out; echo >> switch.out
        switch $ns del-br br$name
    done
}
";

pub const SCENES: &[Scene] = &[
    Scene { name: "geneve", shows: "Geneve, over IPv4 and over IPv6", script: "tunnel 1 gnv geneve options:key=42; tunnel 2 gnv6 geneve6 options:key=43" },
    Scene { name: "vxlan", shows: "VXLAN, over IPv4 and over IPv6", script: "tunnel 3 vxl vxlan options:key=44; tunnel 4 vxl6 vxlan6 options:key=45" },
    Scene { name: "gre", shows: "GRE with a key, over IPv4 and over IPv6; with a sequence number; with IP in it", script: "
        tunnel 5 gre gre options:key=46; tunnel 6 gre6 gre6 options:key=47; tunnel 7 seq gre options:seq=true options:key=48
        tunnel 8 gip gre options:packet_type=legacy_l3" },
    Scene { name: "erspan", shows: "ERSPAN types II and III", script: "
        tunnel 9 es2 erspan options:key=49 options:erspan_ver=1 options:erspan_idx=3
        tunnel 10 es3 erspan options:key=50 options:erspan_ver=2 options:erspan_dir=1 options:erspan_hwid=4" },
    Scene {
        name: "sctp",
        shows: "SCTP (usrsctp), over IPv4 and over IPv6: three associations, one message and many",
        script: "
        send() { /usr/lib/usrsctp/client \"$@\" >> sctp.out 2>&1; sleep 0.3; }
        printf 'one\\ntwo\\nthree\\n' | send 198.51.100.10 9; head -c 1000 /dev/zero | tr '\\0' w | send 198.51.100.10 9 5001
        printf 'four\\n' | send 2001:db8:2::10 9",
    },
    Scene {
        name: "l2tp",
        shows: "L2TP (xl2tpd): a tunnel and a call in it, which ends as soon as PPP is wanted of a kernel that has none",
        script: "
        echo 'c lab' > lac.control; sleep 2",
    },
    Scene {
        name: "pptp",
        shows: "PPTP (pptp, pptpd): its control connection, up to where PPP is wanted",
        script: "sleep 3 | sh with-log.sh pptp-client timeout 5 pptp 198.51.100.10 --nolaunchpppd --debug > pptp.out 2>&1 || true",
    },
    Scene { name: "gtp", shows: "GTP-U, one way: the other switch does not take it", script: "tunnel 11 gtp gtpu options:key=51 options:packet_type=legacy_l3" },
];

/// The switch of a namespace, with the link on its bridge `phy`.
const SWITCH: &str = "
d=/run/lab/ovs-$ns; mkdir -p $d
export OVS_RUNDIR=$d OVS_DBDIR=$d OVS_LOGDIR=$d OVS_SYSCONFDIR=$d
ovsdb-tool create $d/conf.db /usr/share/openvswitch/vswitch.ovsschema
ip netns exec $ns ovsdb-server $d/conf.db --remote=punix:$d/db.sock --unixctl=$d/db.ctl --pidfile=$d/db.pid --detach --no-chdir \
    --log-file=$d/db-$ns.log -vconsole:off
ip netns exec $ns ovs-vswitchd unix:$d/db.sock --unixctl=$d/switch.ctl --pidfile=$d/switch.pid --detach --no-chdir \
    --log-file=$d/switch-$ns.log --disable-system -vconsole:off
ovs-vsctl --db=unix:$d/db.sock add-br phy -- set bridge phy datapath_type=netdev -- add-port phy net0
ip -n $ns addr flush dev net0; ip -n $ns addr add $v4/24 dev phy; ip -n $ns addr add $v6/64 dev phy nodad; ip -n $ns link set phy up
ip -n $ns route replace default via ${v4%.*}.1; ip -n $ns -6 route replace default via ${v6%::*}::1
";

pub fn run(args: &[String]) -> Result {
    need(TOOLS)?;
    if !lab::enter("capture", args)? {
        return Ok(());
    }
    lab::build(1)?;
    let recorded = record();
    RECORDING.keep_logs()?;
    let facts = gather(recorded?)?;
    let intro = |frames, bytes| {
        format!(
            "{frames} frames, {bytes} bytes, Ethernet, recorded by `cargo xtask capture tunnels` as root: two Open vSwitch of \
             Debian 12\n(in user space), a tunnel of each kind between them, pings and a page through each; SCTP, and the \
             control messages of\nL2TP and PPTP; on the client's side of a router. Nothing in it is anybody's: addresses are those reserved for documentation or private."
        )
    };
    RECORDING.publish(intro, &SCENES.iter().collect::<Vec<_>>(), &facts)
}

/// Runs all scenes; returns the number of frames.
fn record() -> Result<u64> {
    for (ns, v4, v6) in
        [("client", "192.0.2.10", "2001:db8:1::10"), ("server", "198.51.100.10", "2001:db8:2::10")]
    {
        sh(&format!("ns={ns} v4={v4} v6={v6}\n{SWITCH}"))?;
    }
    let numbers: String = (1..=300).map(|n| format!("{n} drops make a stream\n")).collect();
    write(format!("{SCRATCH}/www/numbers.txt"), numbers)?;
    let pages = format!("python3 -u -m http.server -d {SCRATCH}/www 8000");
    let _pages = spawn("server", &format!("sh -c 'exec {pages} > {SCRATCH}/pages.log 2>&1'"))?;
    await_port("0.0.0.0:8000")?;
    let _sctp = spawn(
        "server",
        &format!("sh -c 'exec /usr/lib/usrsctp/discard_server > {SCRATCH}/discard.log 2>&1'"),
    )?;
    write(format!("{SCRATCH}/lac.conf"), format!("{L2TP}{LAC}"))?;
    write(format!("{SCRATCH}/lns.conf"), format!("{L2TP}{LNS}"))?;
    let daemon = |name: &str| {
        format!(
            "sh -c 'cd {SCRATCH}; exec xl2tpd -D -c {name}.conf -C {name}.control -p {name}.pid > xl2tpd-{name}.log 2>&1'"
        )
    };
    write(format!("{SCRATCH}/pptpd.conf"), PPTPD)?;
    write(format!("{SCRATCH}/pptpd.options"), "lock\n")?;
    write(format!("{SCRATCH}/with-log.sh"), WITH_LOG)?;
    sh("mkdir -p /run/pptp")?;
    let pptpd = "sh with-log.sh pptp-server pptpd --fg -d -c pptpd.conf > pptpd.out 2>&1";
    let _pptpd = spawn("server", &format!("sh -c 'cd {SCRATCH}; exec {pptpd}'"))?;
    let _lns = spawn("server", &daemon("lns"))?;
    let _lac = spawn("client", &daemon("lac"))?;
    await_port("198.51.100.10:1701")?;
    await_port("198.51.100.10:1723")?;
    // Runs tunnels before the recording: until the switches have found each other, they would lose packets
    // after the recorder has seen them.
    let first = format!("{PRELUDE}\ntunnel 12 first geneve; tunnel 13 firs6 geneve6; rm ping.out switch.out");
    output(&mut lab::inside("client", &first))?;
    RECORDING.play(PRELUDE, SCENES.iter())
}

const L2TP: &str = "[global]
debug avp = yes
debug tunnel = yes
debug state = yes
";

const LAC: &str = "[lac lab]
lns = 198.51.100.10
hostname = gauge
";

const LNS: &str = "listen-addr = 198.51.100.10
[lns default]
ip range = 10.91.0.2-10.91.0.9
local ip = 10.91.0.1
hostname = weir
";

const PPTPD: &str = "option /run/lab/pptpd.options
listen 198.51.100.10
localip 10.92.0.1
remoteip 10.92.0.2-9
debug
";

/// Runs a program that logs only to `/dev/log`: `with-log.sh NAME COMMAND…` gives it a private one,
/// `NAME.log`.
const WITH_LOG: &str = r#"
name=$1; shift
if [ "${MOUNTED:-}" != yes ]; then exec env MOUNTED=yes unshare --mount sh $0 $name "$@"; fi
mkdir -p $name/dev $name/work
mount -t overlay dev -o lowerdir=/dev,upperdir=$name/dev,workdir=$name/work /dev
mkdir -p /dev/pts; mount -t devpts pts /dev/pts -o ptmxmode=666
python3 -c "
import socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind('/dev/log')
while True:
    print(log.recv(4096).decode('utf8', 'replace'), flush=True)" > $name.log 2>&1 &
sleep 0.5
exec "$@"
"#;

fn gather(frames: u64) -> Result<Facts> {
    let log = |name, counts, rows| Log { name, counts, rows };
    Facts::of(
        frames,
        vec![
            log("tunnels", "ends of tunnels (Open vSwitch)", counted()?),
            log("pings", "series of pings (ping)", pings()?),
            log("pages", "pages (http.server)", pages()?),
            log("sctp", "messages received (usrsctp)", messages()?),
            log("sctp_packets", "associations (usrsctp)", packets()?),
            log("pptp", "control messages (pptpd, pptp)", pptp()?),
            log("l2tp", "messages received (xl2tpd)", controls()?),
        ],
    )
}

/// `gnv client OFPST_PORT reply …: rx pkts=7, bytes=574, drop=?, …`; Open vSwitch 3.1 counts sent packets
/// twice.
fn counted() -> Result<Vec<Row>> {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or("").to_string();
        vec![("tunnel", word()), ("end", word()), ("received", cut(line, "rx pkts=", ","))]
    };
    Ok(read("switch.out")?.lines().map(row).collect())
}

/// `tunnel gnv`, then `3 packets transmitted, 3 received, 0% packet loss, time 400ms`
fn pings() -> Result<Vec<Row>> {
    let row = |part: &str| {
        let line = part.lines().find(|line| line.contains(" packets transmitted")).unwrap_or("");
        vec![
            ("tunnel", cut(part, "", "\n")),
            ("sent", cut(line, "", " packets")),
            ("received", cut(line, "transmitted, ", " received")),
        ]
    };
    Ok(read("ping.out")?.split("tunnel ").skip(1).map(row).collect())
}

/// `10.90.1.1 - - [22/Nov/2026 10:00:00] "GET /numbers.txt?gnv HTTP/1.1" 200 -`
fn pages() -> Result<Vec<Row>> {
    let log = read("pages.log")?;
    let row = |line: &str| {
        vec![
            ("client", cut(line, "", " ")),
            ("tunnel", cut(line, "numbers.txt?", " ")),
            ("uri", cut(line, "GET ", " ")),
            ("status", cut(line, "HTTP/1.1\" ", " ")),
        ]
    };
    let asked = log.lines().filter(|line| line.contains("\"GET ") && !line.contains("?firs"));
    Ok(asked.map(row).collect())
}

/// `Msg of length 4 received from 192.0.2.10:41000 on stream 0 with SSN 0 and TSN 1234, PPID 0, context 0.`
fn messages() -> Result<Vec<Row>> {
    let log = read("discard.log")?;
    let row = |line: &str| {
        vec![
            ("bytes", cut(line, "Msg of length ", " ")),
            ("from", cut(line, " received from ", " ")),
            ("stream", cut(line, " on stream ", " ")),
            ("number", cut(line, " TSN ", ",")),
        ]
    };
    Ok(log.lines().filter(|line| line.contains("Msg of length ")).map(row).collect())
}

/// `Number of packets (sent/received): (6/5).`
fn packets() -> Result<Vec<Row>> {
    let log = read("sctp.out")?;
    let row = |line: &str| {
        vec![
            ("sent", cut(line, "): (", "/")),
            ("received", cut(line, "): (", ")").split('/').nth(1).unwrap_or("").to_string()),
        ]
    };
    Ok(log.lines().filter(|line| line.contains("Number of packets")).map(row).collect())
}

/// `control_finish: message type is Incoming-Call-Request(10).  Tunnel is 54315, call is 0.`: the sender's
/// tunnel number.
fn controls() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for (end, log) in [("server", read("xl2tpd-lns.log")?), ("client", read("xl2tpd-lac.log")?)] {
        for line in log.lines().filter(|line| line.contains("message type is ") && !line.contains("(null)")) {
            rows.push(vec![
                ("end", end.to_string()),
                ("type", cut(line, "(", ")")),
                ("tunnel", cut(line, "Tunnel is ", ",")),
            ]);
        }
    }
    Ok(rows)
}

/// The server: `Received PPTP Control Message (type: 7)`, `Made a OUT CALL RPLY packet`. The server does not
/// log the client's last message: `Sent control packet type is 12 'Call-Clear-Request'`.
fn pptp() -> Result<Vec<Row>> {
    let mut rows = vec![];
    let mut put = |from: &str, kind: &str| {
        rows.push(vec![("from", from.to_string()), ("type", kind.to_string())]);
    };
    for line in read("pptp-server.log")?.lines() {
        match line {
            _ if line.contains("Received PPTP Control Message") => put("client", &cut(line, "(type: ", ")")),
            _ if line.contains("Made a START CTRL CONN RPLY") => put("server", "2"),
            _ if line.contains("Made a OUT CALL RPLY") => put("server", "8"),
            _ => {}
        }
    }
    let cleared = read("pptp-client.log")?.matches("packet type is 12 ").count();
    (0..cleared).for_each(|_| put("client", "12"));
    Ok(rows)
}
