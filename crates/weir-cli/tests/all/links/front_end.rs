//! A front end on one host, instances on another: two network namespaces, with a path of the usual MTU
//! between them.

use crate::links::{
    Capturing, FIRST_LIGHT, counter, datagrams, frames_of, inside, make_pair, scratch, send, sh, text,
};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Another host: a network namespace that ends with the value.
struct Host(Child);

impl Host {
    /// A host with the address 10.9.0.2, reached by way of `uplink` with 10.9.0.1.
    fn start() -> Self {
        let mut command = Command::new("unshare");
        let sleeping =
            command.args(["--net", "sleep", "1000"]).stdin(Stdio::null()).spawn().expect("unshare runs");
        let host = Self(sleeping);
        let (process, own) = (host.0.id(), fs::read_link("/proc/self/ns/net").expect("a namespace"));
        let is_inside = || fs::read_link(format!("/proc/{process}/ns/net")).is_ok_and(|other| other != own);
        while !is_inside() {
            std::thread::sleep(Duration::from_millis(5));
        }
        sh("ip link add uplink mtu 1500 type veth peer name downlink mtu 1500");
        sh(&format!("ip link set downlink netns {process}"));
        sh("ip addr add 10.9.0.1/24 dev uplink");
        sh("ip link set uplink up");
        for line in ["ip addr add 10.9.0.2/24 dev downlink", "ip link set downlink up", "ip link set lo up"] {
            sh(&format!("nsenter --net=/proc/{process}/ns/net {line}"));
        }
        host
    }

    /// An instance on this host that writes to a file.
    fn instance(&self, port: u16, file: &Path) -> Capturing {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(env!("CARGO_BIN_EXE_weir"));
        let name = format!("udp://0.0.0.0:{port}");
        command.args(["packets", "-r", &name, "-w", file.to_str().expect("text"), "--stats"]);
        Capturing::run(&mut command, "waiting for")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// IP packets that were sent in fragments so far.
fn fragmented() -> u64 {
    let all = fs::read_to_string("/proc/net/snmp").expect("statistics");
    let mut lines = all.lines().filter(|line| line.starts_with("Ip:")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { panic!("{all}") };
    let found = names.zip(values).find(|(name, _)| *name == "FragCreates");
    found.and_then(|(_, value)| value.parse().ok()).expect("a number")
}

#[test]
fn packets_reach_instances_on_another_host() {
    if !inside("front_end::packets_reach_instances_on_another_host") {
        return;
    }
    make_pair(0);
    let host = Host::start();
    let files = [scratch("front-1.pcapng"), scratch("front-2.pcapng"), scratch("front-3.pcapng")];
    let instances: Vec<Capturing> =
        (9001..).zip(&files).map(|(port, file)| host.instance(port, file)).collect();
    let (questions, socket) = (scratch("front.toml"), scratch("front.sock"));
    let asked = "[[question]]\nname = \"front\"\nask = \"packets\"\nbalance = \"hosts\"\n\
                 output = \"udp://10.9.0.2:9001-9002\"\n";
    fs::write(&questions, asked).expect("a temporary file");
    let [questions, socket] = [&questions, &socket].map(|path| path.to_str().expect("text"));
    // Sockets are opened after the rights were given up.
    let front = Capturing::start(&["run", questions, "-i", "in0", "--control", socket, "--stats"]);
    let mut sent = frames_of(Path::new(FIRST_LIGHT));
    sent.retain(|frame| frame.len() <= 1514);
    assert!(sent.iter().any(|frame| frame.len() > 1472), "some are longer than a datagram on this path");
    let half = sent.len() / 2;
    assert_eq!(send("out0", &sent[..half]), half);
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_weir"));
    ctl.args(["ctl", socket, "change", "front", "-o", "udp://10.9.0.2:9001-9003"]);
    assert!(ctl.status().expect("it runs").success());
    assert_eq!(send("out0", &sent[half..]), sent.len() - half);
    std::thread::sleep(Duration::from_secs(2));
    let output = front.end();
    assert_eq!(counter(&output, "source_ring_full"), 0);
    assert_eq!(fragmented(), 0, "datagrams fit the path");
    std::thread::sleep(Duration::from_secs(1));
    let mut received = vec![];
    for (instance, file) in instances.into_iter().zip(&files) {
        let output = instance.end();
        assert_eq!(counter(&output, "source_missing"), 0, "{}", text(&output.stderr));
        let frames = frames_of(file);
        assert!(frames.len() > 50, "{} has {} packets", file.display(), frames.len());
        received.extend(frames);
    }
    received.sort();
    sent.sort();
    assert!(received == sent, "{} of {} packets", received.len(), sent.len());
}

/// Steady traffic, too little to fill datagrams or batches: each packet is at the instance within a moment.
#[test]
fn packets_of_steady_traffic_do_not_wait() {
    if !inside("front_end::packets_of_steady_traffic_do_not_wait") {
        return;
    }
    make_pair(0);
    let instance = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    instance.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
    let to = format!("udp://{}", instance.local_addr().expect("it is bound"));
    let front = Capturing::start(&["packets", "-i", "in0", "-w", &to]);
    let sending = std::thread::spawn(|| {
        let frames = datagrams(500, None);
        frames.iter().for_each(|frame| {
            assert_eq!(send("out0", std::slice::from_ref(frame)), 1);
            std::thread::sleep(Duration::from_millis(2));
        });
    });
    let (mut waits, mut bytes) = (vec![], vec![0; 1 << 16]);
    while let Ok(length) = instance.recv(&mut bytes) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        // The time of the first packet is behind the header.
        let time = u64::from_be_bytes(bytes[40..48].try_into().expect("eight bytes"));
        assert!(length > 58, "a header and a packet");
        waits.push(since_1970.saturating_sub(Duration::from_nanos(time)));
    }
    sending.join().expect("it sends");
    front.end();
    waits.sort();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    assert!(waits.len() > 20, "{} datagrams", waits.len());
    // The ring passes packets after 8 ms, and a busy machine delays all of it.
    assert!(median < Duration::from_millis(60), "{median:?}, at most {longest:?}");
    eprintln!("{median:?} from the capture to the instance, at most {longest:?} rows");
}
