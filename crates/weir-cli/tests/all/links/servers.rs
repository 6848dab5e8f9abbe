//! Real servers and clients. Weir and tcpdump capture their packets at the same time: Weir's rows of the link
//! are those of tcpdump's capture.
//!
//! The client is in the namespace of the test, with the interface `in0`; the servers are in the namespace
//! `far`, with `out0`. AF_PACKET and tcpdump see the packets of `in0`. AF_XDP takes copies: the kernel sends
//! a copy of each packet of `in0` from `out1` to `in1`.
//!
//! In the tagged network the client has `out2` and the server `out3`; the test adds the tags, and sends the
//! frames from `in2` on `in0`, from `in3` on `out0`, and back.
//!
//! Servers and clients share one processor, so that all captures see the packets in the same order.

use crate::links::{
    Capturing, counter, discarded, empty, inside, lost, make_pair, questions, scratch, sh, sorted_rows, text,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir::link::{LinkOptions, Links, Method, Sender};
use weir::packet::{Burst, Poll, Source};

const LOGS: [&str; 4] = ["flows", "tls", "http", "dns"];
pub const SERVER: &str = "10.7.0.2";

/// Whether these programs (with their packages) are installed; else a message names the missing ones.
pub fn has(test: &str, programs: &[(&str, &str)]) -> bool {
    let is_missing = |(program, _): &&(&str, &str)| {
        !["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
    };
    let missing: Vec<String> = programs
        .iter()
        .chain(&[("tcpdump", "tcpdump"), ("tc", "iproute2"), ("ethtool", "ethtool"), ("sysctl", "procps")])
        .filter(is_missing)
        .map(|(program, package)| format!("{program} (package {package})"))
        .collect();
    if !missing.is_empty() {
        eprintln!("skipped: {test} needs {}", missing.join(", "));
    }
    missing.is_empty()
}

/// The interfaces, and what runs on them.
pub struct Network {
    pub folder: PathBuf,
    servers: Vec<Child>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How client and server are connected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// By `in0` and `out0`.
    Plain,
    /// In addition, the kernel passes segments of up to 64 KiB, without checksums.
    Offloads,
    /// By `out2` and `out3`; frames between `in0` and `out0` have a tag of 802.1Q.
    Tagged,
}

/// The identifier of the tagged network.
const VLAN: u16 = 7;

impl Network {
    pub fn new(name: &str, link: Link) -> Self {
        let folder = scratch(name);
        empty(&folder);
        // Names of namespaces are files, which only this test shall see.
        fs::create_dir_all("/run/netns").expect("root may");
        sh("mount -t tmpfs none /run/netns");
        sh("ip netns add far");
        for name in ["all", "default"] {
            sh(&format!("ip netns exec far sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1"));
        }
        (0..4).for_each(make_pair);
        for interface in ["in0", "out0", "out2", "out3"].iter().filter(|_| link != Link::Offloads) {
            sh(&format!("ethtool -K {interface} tso off gso off gro off tx off"));
        }
        // AF_XDP sees no tags outside of frames.
        sh("ethtool -K out1 txvlan off");
        let (near, far) = if link == Link::Tagged { ("out2", "out3") } else { ("in0", "out0") };
        sh(&format!("ip link set {near} mtu 1500"));
        sh(&format!("ip addr add 10.7.0.1/24 dev {near}"));
        sh(&format!("ip link set {far} mtu 1500 netns far"));
        sh(&format!("ip -n far addr add {SERVER}/24 dev {far}"));
        sh(&format!("ip -n far link set {far} up"));
        if link == Link::Tagged {
            tag("in2", "in0");
            tag("in3", "out0");
        }
        sh("tc qdisc add dev in0 clsact");
        for hook in ["ingress", "egress"] {
            let all = "protocol all u32 match u32 0 0";
            sh(&format!("tc filter add dev in0 {hook} {all} action mirred egress mirror dev out1"));
        }
        Self { folder, servers: vec![] }
    }

    /// A path in the network's folder.
    pub fn at(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("text").to_string()
    }

    /// Starts a server, and waits until it listens on a port of TCP. It ends with the test.
    fn serve(&mut self, line: &str, port: u16) {
        let line = format!("--pdeathsig KILL taskset -c 0 ip netns exec far {line}");
        let log = fs::File::create(self.folder.join(format!("{port}.log"))).expect("a temporary file");
        let errors = log.try_clone().expect("it is open");
        let mut command = Command::new("setpriv");
        command.args(line.split(' ')).stdin(Stdio::null()).stdout(log).stderr(errors);
        self.servers.push(command.spawn().expect("setpriv is there"));
        let began = Instant::now();
        let is_ready = || {
            // A connection would count as a client.
            let mut sockets = Command::new("ip");
            let sockets = sockets.args(["netns", "exec", "far", "ss", "-Hltn"]).output().expect("it runs");
            text(&sockets.stdout).contains(&format!(":{port} "))
        };
        while !is_ready() {
            let log = fs::read_to_string(self.folder.join(format!("{port}.log"))).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(10), "{line}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Captures what `traffic` sends. Returns the rows of tcpdump's capture in the order of [`LOGS`], after
    /// it has compared the rows of the link with them for each method.
    fn compare(&self, methods: &[&str], traffic: impl FnOnce()) -> [Vec<String>; 4] {
        let file = self.at("tcpdump.pcap");
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args([
            "-i",
            "in0",
            "-n",
            "-s",
            "0",
            "-B",
            "65536",
            "--immediate-mode",
            "-Z",
            "root",
            "-w",
            &file,
        ]);
        let tcpdump = Capturing::run(&mut tcpdump, "listening on");
        let captures = methods.iter().map(|method| {
            let folder = self.folder.join(method);
            empty(&folder);
            let asked = questions(&folder, &LOGS, false);
            let options: &[&str] = match *method {
                "af_xdp" => &["-i", "in1", "--method", "af_xdp", "--mirror"],
                _ => &["-i", "in0"],
            };
            // A debug build on a busy machine is slower than the servers.
            let run = ["run", asked.to_str().expect("text"), "--stats", "--buffer", "256M"];
            let run = [&run[..], options].concat();
            (*method, folder, Capturing::start(&run))
        });
        let captures: Vec<_> = captures.collect();
        traffic();
        // The last acknowledgements, and the blocks of the rings that are not full.
        std::thread::sleep(Duration::from_millis(300));
        let said = text(&tcpdump.end().stderr);
        assert!(said.contains("\n0 packets dropped by kernel"), "tcpdump lost packets: {said}");
        let folder = self.folder.join("file");
        empty(&folder);
        let asked = questions(&folder, &LOGS, false);
        let output = weir(&["run", asked.to_str().expect("text"), "-r", &file]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let of_file = LOGS.map(|log| rows(&folder, log));
        for (method, folder, capturing) in captures {
            let output = capturing.end();
            assert_eq!(lost(&output), 0, "{method}: {}", text(&output.stderr));
            let received = counter(&output, "packets") + discarded(&output);
            assert_eq!(counter(&output, "source_received"), received, "{method}: {}", text(&output.stderr));
            for (log, expected) in LOGS.iter().zip(&of_file) {
                same(&format!("{log}, {method}"), &rows(&folder, log), expected);
            }
        }
        of_file.map(|rows| rows.into_iter().map(|row| row.text).collect())
    }
}

/// Connects an interface with a tagged network on another one, until the test ends: not every kernel can.
fn tag(plain: &str, trunk: &str) {
    let [tpid, tci] = [0x8100, VLAN].map(u16::to_be_bytes);
    let tag = [tpid, tci].concat();
    let tagged = move |frame: &[u8]| [&frame[..ADDRESSES_BYTES], &tag, &frame[ADDRESSES_BYTES..]].concat();
    relay((plain, Method::Xdp), trunk, tagged);
    let untagged = move |frame: &[u8]| [&frame[..ADDRESSES_BYTES], &frame[ADDRESSES_BYTES + 4..]].concat();
    relay((trunk, Method::Packet), plain, untagged);
}

/// Bytes of the two addresses at the start of an Ethernet frame.
const ADDRESSES_BYTES: usize = 12;

/// Sends the frames that one interface receives on another one, changed.
fn relay(from: (&str, Method), to: &str, change: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
    let options = LinkOptions { method: from.1, buffer_bytes: 4 << 20, ..LinkOptions::default() };
    let mut source = Links::open(&[from.0.to_string()], &options, 1).expect("the interface is up");
    let sender = Sender::open(to).expect("the interface is up");
    std::thread::spawn(move || {
        let mut burst = Burst::default();
        while let Ok(poll) = source.poll(&mut burst) {
            let count = if poll == Poll::Packets { burst.packets.len() } else { 0 };
            for index in 0..count {
                let is_received = burst.extras.get(index).direction.is_none();
                if is_received {
                    sender.send(&change(burst.data(index))).expect("the interface is up");
                }
            }
        }
    });
}

pub fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("it runs")
}

/// The command of a client, on the processor of the servers.
pub fn client_command(line: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).args(line.split(' '));
    command
}

/// Runs a client, which must succeed. Returns what it printed.
fn client(line: &str) -> String {
    let output = client_command(line).output().expect("it runs");
    assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A row, and the times in it apart: each capture has its own.
#[derive(Debug, PartialEq, PartialOrd)]
pub struct Row {
    text: String,
    times: Vec<f64>,
}

/// The rows of a log, sorted by everything but their times.
fn rows(folder: &Path, log: &str) -> Vec<Row> {
    let row = |row: String| {
        let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&row).expect("JSON");
        let mut times = vec![];
        row.retain(|name, value| {
            let is_time = TIMES.contains(&name.as_str());
            if is_time {
                times.extend(value.as_f64());
            }
            !is_time
        });
        // The kernel does not know the segments that are on their way to Weir when it takes a connection
        // over, so it may take a segment that repeats one of them for the next one.
        if let Some(history) = row.get_mut("history") {
            *history = history.as_str().expect("a text").replace(['T', 't'], "").into();
        }
        Row { text: serde_json::to_string(&row).expect("it is text"), times }
    };
    let rows = sorted_rows(&folder.join(format!("{log}.json")), false);
    let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
    rows.sort_by(|one, other| one.partial_cmp(other).expect("times are numbers"));
    rows
}

/// Columns that are times or durations, seconds.
const TIMES: [&str; 3] = ["ts", "duration", "rtt"];
/// The most by which the times of two captures of a packet differ, seconds.
const DIFFERENCE_S: f64 = 0.1;

pub fn same(what: &str, got: &[Row], expected: &[Row]) {
    let only = |these: &[Row], those: &[Row]| -> Vec<String> {
        let has = |row: &Row| those.iter().any(|other| other.text == row.text);
        these.iter().filter(|row| !has(row)).take(3).map(|row| row.text.clone()).collect()
    };
    let texts = |rows: &[Row]| rows.iter().map(|row| row.text.clone()).collect::<Vec<_>>();
    let (more, fewer) = (only(got, expected), only(expected, got));
    assert!(
        texts(got) == texts(expected),
        "{what}: {} rows of the link, {} of the file; only of the link\n{more:#?}\nonly of the file\n{fewer:#?}",
        got.len(),
        expected.len()
    );
    for (got, expected) in got.iter().zip(expected) {
        let mut pairs = got.times.iter().zip(&expected.times);
        let are_near = pairs.all(|(one, other)| (one - other).abs() < DIFFERENCE_S);
        assert!(got.times.len() == expected.times.len() && are_near, "{what}: {got:?}, {expected:?}");
    }
}

const BOTH: [&str; 2] = ["af_packet", "af_xdp"];

/// A server for HTTP (80), HTTP/2 without TLS (81), and HTTP/2 and HTTP/1.1 with TLS (443), with a file of
/// 100 KB.
pub fn nginx(network: &mut Network) {
    let at = |name: &str| network.at(name);
    fs::create_dir_all(at("www")).expect("a temporary folder");
    fs::write(at("www/file"), vec![b'x'; 100_000]).expect("a temporary file");
    let key = format!(
        "openssl req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=www.example.com -keyout {} \
         -out {}",
        at("key.pem"),
        at("certificate.pem")
    );
    sh(&key);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};", at(kind)))
        .concat();
    let configuration = format!(
        "user root; daemon off; master_process off; pid {pid}; error_log stderr;
         events {{ worker_connections 2000; }}
         http {{ log_format tls $ssl_protocol; access_log {log} tls; {temporary}
            server {{ listen 80 backlog=1000; listen 81 http2; listen 443 ssl http2; server_name www.example.com; root {www};
                location /large {{ limit_rate 20m; }}
                ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; }} }}",
        pid = at("pid"),
        log = at("access.log"),
        www = at("www"),
        certificate = at("certificate.pem"),
        key = at("key.pem"),
    );
    fs::write(at("nginx.conf"), configuration).expect("a temporary file");
    let line = format!("nginx -e stderr -c {}", at("nginx.conf"));
    network.serve(&line, 443);
}

#[test]
fn rows_of_web_servers_are_those_of_tcpdump() {
    let test = "servers::rows_of_web_servers_are_those_of_tcpdump";
    let programs =
        [("nginx", "nginx-light"), ("curl", "curl"), ("openssl", "openssl"), ("ab", "apache2-utils")];
    if !has(test, &programs) || !inside(test) {
        return;
    }
    let mut network = Network::new("web", Link::Plain);
    nginx(&mut network);
    let curl = format!("curl -sS -k -o /dev/null --resolve www.example.com:443:{SERVER}");
    let [flows, tls, http, _] = network.compare(&BOTH, || {
        client(&format!("{curl} http://{SERVER}/file"));
        client(&format!("{curl} http://{SERVER}/missing http://{SERVER}/file"));
        client(&format!("{curl} --http2-prior-knowledge http://{SERVER}:81/file"));
        for version in ["--tlsv1.3 --http2", "--tls-max 1.2 --http1.1"] {
            client(&format!("{curl} {version} https://www.example.com/file"));
        }
        client(&format!("ab -q -n 300 -c 20 http://{SERVER}/file"));
        client(&format!("ab -q -k -n 200 -c 10 http://{SERVER}/missing"));
        client(&format!("ab -q -n 50 -c 5 https://{SERVER}/file"));
    });
    let log = fs::read_to_string(network.at("access.log")).expect("the log of the server");
    let requests = log.lines().filter(|line| *line == "-").count();
    // Requests within TLS are not visible. `ab` leaves some connections without a request.
    assert_eq!(http.len(), requests, "{log}");
    let established = |row: &&String| row.contains("\"established\":true");
    assert!(tls.iter().filter(established).count() >= log.lines().count() - requests, "{tls:#?}");
    assert!(flows.len() > 350, "{}", flows.len());
    assert_eq!(tls.iter().filter(|row| row.contains("www.example.com")).count(), 2, "{tls:#?}");
}

/// A row of a connection without the numbers of segments that came twice or late, and with each letter of the
/// history once: these may differ at the moment at which the connection changes hands.
fn without_repeats(row: Row) -> Row {
    let mut columns: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&row.text).expect("JSON");
    columns.retain(|name, _| !name.ends_with("_retrans") && !name.ends_with("_out_of_order"));
    if let Some(history) = columns.get_mut("history") {
        let mut letters: Vec<char> = history.as_str().expect("a text").chars().collect();
        letters.sort_unstable();
        letters.dedup();
        *history = letters.into_iter().collect::<String>().into();
    }
    Row { text: serde_json::to_string(&columns).expect("it is text"), ..row }
}

/// The rows of the connections in a folder, without repeats.
pub fn counted_rows(folder: &Path) -> Vec<Row> {
    rows(folder, "flows").into_iter().map(without_repeats).collect()
}

/// Records the headers of all packets. Returns the recorder and its file.
pub fn record_with_tcpdump(network: &Network) -> (Capturing, String) {
    let file = network.at("tcpdump.pcap");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args("-i in0 -n -s 100 -B 65536 --immediate-mode -Z root -w".split(' ')).arg(&file);
    (Capturing::run(&mut tcpdump, "listening on"), file)
}

/// Once a download goes on, the kernel counts its packets; the record is that of all packets.
#[test]
fn downloads_are_counted_by_the_kernel() {
    let test = "servers::downloads_are_counted_by_the_kernel";
    let programs = [("nginx", "nginx-light"), ("curl", "curl"), ("openssl", "openssl")];
    if !has(test, &programs) || !inside(test) {
        return;
    }
    let mut network = Network::new("counted", Link::Plain);
    nginx(&mut network);
    fs::write(network.at("www/large"), vec![b'x'; 30_000_000]).expect("a temporary file");
    let (tcpdump, file) = record_with_tcpdump(&network);
    let captures = ["tls", "flows"].map(|ask| {
        let folder = network.folder.join(ask);
        empty(&folder);
        let asked = questions(&folder, &[ask], false);
        let run = ["run", asked.to_str().expect("text"), "--stats", "-i", "in0"];
        (ask, folder, Capturing::start_until(&run, "the kernel discards packets"))
    });
    client(&format!("curl -sS -k -o /dev/null https://{SERVER}/large"));
    // The last acknowledgements, and the blocks of the rings that are not full.
    std::thread::sleep(Duration::from_millis(300));
    tcpdump.end();
    let folder = network.folder.join("file");
    empty(&folder);
    let asked = questions(&folder, &["flows"], false);
    let output = weir(&["run", asked.to_str().expect("text"), "-r", &file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (ask, of_link, capturing) in captures {
        let output = capturing.end();
        let said = text(&output.stderr);
        let (packets, counted) = (counter(&output, "packets"), counter(&output, "source_counted"));
        println!("{ask}: {packets} packets, {counted} counted");
        assert_eq!(
            counter(&output, "source_received"),
            packets + discarded(&output) + lost(&output),
            "{said}"
        );
        assert_eq!(lost(&output), 0, "{said}");
        assert!(counter(&output, "source_counted_bytes") > 15_000_000, "{said}");
        // Segments that come twice or late open the entry.
        let times = if ask == "tls" { 10 } else { 2 };
        assert!(counted > times * packets, "{said}");
        match ask {
            "flows" => {
                let [got, expected] = [&of_link, &folder].map(|folder| counted_rows(folder));
                same("flows", &got, &expected);
            }
            _ => assert_eq!(rows(&of_link, "tls").len(), 1),
        }
    }
}

#[test]
fn rows_of_a_name_server_are_those_of_tcpdump() {
    let test = "servers::rows_of_a_name_server_are_those_of_tcpdump";
    if !has(test, &[("dnsmasq", "dnsmasq-base"), ("dig", "bind9-dnsutils")]) || !inside(test) {
        return;
    }
    let mut network = Network::new("dns", Link::Plain);
    let records =
        "--host-record=www.example.com,198.51.100.10,2001:db8::10 --cname=web.example.com,www.example.com";
    let txt = format!("--txt-record=long.example.com,{0},{0},{0},{0},{0},{0},{0}", "wordsofwater".repeat(18));
    let zone = "--conf-file=/dev/null --no-resolv --no-hosts --local=/example.com/ --mx-host=example.com,www.example.com";
    let options =
        "--keep-in-foreground --bind-interfaces --user=root --group=root --pid-file= --log-facility=-";
    network.serve(&format!("dnsmasq {options} --listen-address={SERVER} {zone} {records} {txt}"), 53);
    let batch = network.at("batch");
    let names: String = (0..200).map(|number| format!("host{number}.example.com A\n")).collect();
    fs::write(&batch, names).expect("a temporary file");
    let dig = format!("dig @{SERVER} +tries=1");
    let [flows, _, _, dns] = network.compare(&BOTH, || {
        for question in ["www.example.com A", "www.example.com AAAA", "web.example.com", "example.com MX"] {
            client(&format!("{dig} {question}"));
        }
        // An answer that does not fit is repeated over TCP.
        client(&format!("{dig} +bufsize=512 long.example.com TXT"));
        client(&format!("{dig} +tcp www.example.com"));
        client(&format!("{dig} other.example.org"));
        client(&format!("{dig} -f {batch}"));
    });
    assert_eq!(dns.len(), 4 + 2 + 1 + 1 + 200, "{dns:#?}");
    assert!(flows.len() >= 9, "{flows:#?}");
    for part in ["NXDOMAIN", "REFUSED", "198.51.100.10", "wordsofwater"] {
        assert!(dns.iter().any(|row| row.contains(part)), "{part}: {dns:#?}");
    }
}

/// A server for one client: between two clients it does not listen.
fn iperf(network: &mut Network, port: u16) {
    network.serve(&format!("iperf3 -s -1 -p {port}"), port);
}

/// The connection of `iperf3` that carries the data: the flow with the most bytes of its client.
fn sent_bytes(flows: &[String]) -> u64 {
    let bytes = |row: &String| serde_json::from_str::<serde_json::Value>(row).ok()?["orig_bytes"].as_u64();
    flows.iter().filter_map(bytes).max().unwrap_or_default()
}

#[test]
fn rows_of_bulk_transfers_are_those_of_tcpdump() {
    let test = "servers::rows_of_bulk_transfers_are_those_of_tcpdump";
    if !has(test, &[("iperf3", "iperf3")]) || !inside(test) {
        return;
    }
    // AF_XDP receives no packets of more than a frame.
    for (link, methods) in [(Link::Plain, &BOTH[..]), (Link::Offloads, &BOTH[..1])] {
        let mut network = Network::new("bulk", link);
        (5201..5204).for_each(|port| iperf(&mut network, port));
        let [flows, ..] = network.compare(methods, || {
            client(&format!("iperf3 -c {SERVER} -p 5201 -n 8M -b 100M"));
            client(&format!("iperf3 -c {SERVER} -p 5202 -n 4M -b 100M -R -P 3"));
            client(&format!("iperf3 -c {SERVER} -p 5203 -n 2M -b 50M -u"));
        });
        // Three connections for control, and five for data. Packets that come late are answered with ICMP.
        assert!(flows.len() >= 8, "{flows:#?}");
        assert!(sent_bytes(&flows) >= 8 << 20, "{flows:#?}");
        drop(network);
        sh("ip netns del far");
        (1..4).for_each(|number| sh(&format!("ip link del in{number}")));
        sh("umount /run/netns");
    }
}

#[test]
fn rows_of_a_tagged_network_are_those_of_tcpdump() {
    let test = "servers::rows_of_a_tagged_network_are_those_of_tcpdump";
    if !has(test, &[("iperf3", "iperf3")]) || !inside(test) {
        return;
    }
    let mut network = Network::new("tagged", Link::Tagged);
    (5201..5203).for_each(|port| iperf(&mut network, port));
    let [flows, ..] = network.compare(&BOTH, || {
        client(&format!("iperf3 -c {SERVER} -p 5201 -n 1M"));
        client(&format!("iperf3 -c {SERVER} -p 5202 -n 1M -b 20M -u -l 1200"));
    });
    assert!(flows.len() >= 4, "{flows:#?}");
    assert!(sent_bytes(&flows) >= 1 << 20, "{flows:#?}");
    let untagged = ["packets", "-r", &network.at("tcpdump.pcap"), "--count", "not vlan.id == 7"];
    assert_eq!(text(&weir(&untagged).stdout).trim(), "0");
}
