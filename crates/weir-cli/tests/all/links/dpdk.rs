//! Devices of DPDK: captures of libpcap, interfaces of the kernel, and devices that make packets. The tests
//! need the plug-in, which `cargo xtask dpdk` builds; without it they are skipped, with a message.

use crate::links::{
    Capturing, FIRST_LIGHT, LOGS, assert_exact, captures, counter, datagrams, frames_of, inside, lost,
    make_pair, questions, scratch, send, sh, sorted_rows, text,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use weir::io::CaptureReader;
use weir::packet::{Burst, LinkType, Poll, Source};

/// The plug-in, if it is built.
fn plug_in(test: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("libweir_dpdk.so");
    if path.is_file() {
        return Some(path);
    }
    eprintln!(
        "skipped: {test} needs the plug-in for DPDK: apt-get install libdpdk-dev, then cargo xtask dpdk"
    );
    None
}

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("it runs")
}

/// Rewrites the Ethernet frames of a capture in the form that DPDK's device reads exactly: times in
/// microseconds, and whole frames. Returns their number.
fn rewrite(from: &Path, to: &Path) -> u64 {
    let word = |number: usize| u32::try_from(number).expect("a small number").to_le_bytes();
    // The magic number of microseconds, version 2.4, two unused words, the longest frame, Ethernet.
    let mut all: Vec<u8> = [word(0xa1b2_c3d4), [2, 0, 4, 0], [0; 4], [0; 4], word(1 << 18), word(1)].concat();
    let mut reader = CaptureReader::open(&[from]);
    let (mut burst, mut count) = (Burst::default(), 0);
    while let Ok(Poll::Packets) = reader.poll(&mut burst) {
        for (index, packet) in burst.packets.iter().enumerate() {
            let micros = usize::try_from(packet.time.0 / 1000).unwrap_or(0);
            let frame = burst.data(index);
            if packet.link != LinkType::ETHERNET || frame.is_empty() {
                continue;
            }
            let times = [word(micros / 1_000_000), word(micros % 1_000_000)];
            all.extend([times[0], times[1], word(frame.len()), word(frame.len())].concat());
            all.extend_from_slice(frame);
            count += 1;
        }
    }
    fs::write(to, all).expect("a temporary file");
    count
}

/// The questions of a run whose packets come from `input`, and their rows.
fn rows(folder: &Path, input: &[&str]) -> (Output, Vec<Vec<String>>) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a temporary folder");
    let asked = questions(folder, &LOGS, true);
    let output = weir(&[&["run", asked.to_str().expect("text"), "--stats"], input].concat());
    assert!(output.status.success(), "{input:?}: {}", text(&output.stderr));
    let of = |name: &&str| sorted_rows(&folder.join(format!("{name}.json")), true);
    (output, LOGS.iter().map(of).collect())
}

/// A device that reads a capture gives the rows and the frames of the capture, and ends with it.
#[test]
fn rows_of_a_device_are_those_of_its_file() {
    let test = "dpdk::rows_of_a_device_are_those_of_its_file";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    let (mut replayed, mut total) = (0, 0);
    let capture = scratch("device.pcap");
    let path = capture.to_str().expect("text");
    let device = format!("dpdk:net_pcap0,rx_pcap={path}");
    for from in captures() {
        let frames = rewrite(&from, &capture);
        if frames == 0 || frames > 20_000 {
            continue;
        }
        let (file, live) = (scratch("of-file"), scratch("of-device"));
        let (_, expected) = rows(&file, &["-r", path]);
        for workers in ["1", "2"] {
            let (output, got) = rows(&live, &["-i", &device, "-j", workers]);
            assert_exact(&output, frames);
            assert_eq!(counter(&output, "packets"), frames, "nothing is lost");
            for (index, name) in LOGS.iter().enumerate() {
                let differs = got[index].iter().zip(&expected[index]).find(|(got, expected)| got != expected);
                assert!(
                    got[index] == expected[index],
                    "{}, {name}, {workers} workers: {} and {} rows; {differs:#?}",
                    from.display(),
                    got[index].len(),
                    expected[index].len()
                );
                total += got[index].len();
            }
            let seen = live.join("seen.pcapng");
            assert!(frames_of(&seen) == frames_of(&capture), "{}: frames differ", from.display());
        }
        replayed += 1;
    }
    eprintln!("{replayed} captures through DPDK, {total} rows");
    assert!(replayed >= 2 && total > 100);
}

/// Frames beyond a buffer of DPDK come in several segments, and are whole again.
#[test]
fn long_frames_are_whole() {
    let test = "dpdk::long_frames_are_whole";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    let (long, seen) = (scratch("long.pcap"), scratch("long-seen.pcapng"));
    let frames: Vec<Vec<u8>> = (0..300u16)
        .map(|number| {
            let mut frame = datagrams(1, None).remove(0);
            frame.extend((0..number.wrapping_mul(211)).map(|at| (at / 7) as u8));
            frame
        })
        .collect();
    let source = scratch("long-source.pcap");
    let mut all = fs::read(FIRST_LIGHT).expect("the project's capture")[..24].to_vec();
    for frame in &frames {
        let length = u32::try_from(frame.len()).expect("short").to_le_bytes();
        all.extend([[0, 0, 0, 1], [0; 4], length, length].concat());
        all.extend_from_slice(frame);
    }
    fs::write(&source, all).expect("a temporary file");
    assert_eq!(rewrite(&source, &long), 300);
    let device = format!("dpdk:net_pcap0,rx_pcap={}", long.display());
    let output = weir(&["packets", "-i", &device, "-w", seen.to_str().expect("text"), "--stats"]);
    assert_exact(&output, 300);
    assert!(frames_of(&seen) == frames, "{}", text(&output.stderr));
}

/// An interface of the kernel, through DPDK: tags, accounts, rights, and the end by a signal.
#[test]
fn an_interface_is_captured_until_a_signal() {
    let test = "dpdk::an_interface_is_captured_until_a_signal";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    make_pair(0);
    let frames = [datagrams(700, None), datagrams(300, Some(7))].concat();
    // The driver does not say what the kernel's ring loses: it must have room for everything.
    let device = "dpdk:net_af_packet0,iface=in0,framecnt=4096";
    let folder = std::env::temp_dir().join(format!("weir-dpdk-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    sh(&format!("chmod 777 {}", folder.display()));
    for workers in ["1", "2"] {
        let seen = folder.join("seen.pcapng");
        let run =
            ["packets", "-i", device, "-w", seen.to_str().expect("text"), "--stats", "-v", "-j", workers];
        let capturing = Capturing::start(&[&run[..], &["--user", "nobody"]].concat());
        let process = capturing.child.id();
        assert_eq!(send("out0", &frames), 1000);
        std::thread::sleep(Duration::from_millis(300));
        // The thread of DPDK has given up its rights, too.
        for (line, count) in [("Uid", 1), ("CapEff", 1), ("CapBnd", 1), ("Seccomp", 1), ("NoNewPrivs", 1)] {
            assert_eq!(crate::links::service::of_threads(process, line).len(), count, "{line}");
        }
        let nobody = text(&Command::new("id").args(["-u", "nobody"]).output().expect("id runs").stdout);
        assert_eq!(crate::links::service::of_threads(process, "Uid"), [nobody.trim()]);
        let output = capturing.end();
        assert_exact(&output, 1000);
        assert_eq!(counter(&output, "packets"), 1000, "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("driver net_af_packet"), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("sandbox: no"), "{}", text(&output.stderr));
        assert!(frames_of(&seen) == frames);
    }
    let _ = fs::remove_dir_all(&folder);
}

/// What the ring of the device had no room for is counted, to the packet.
#[test]
fn losses_of_a_device_are_counted_exactly() {
    let test = "dpdk::losses_of_a_device_are_counted_exactly";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    make_pair(0);
    for workers in ["1", "2"] {
        let device = "dpdk:net_pcap0,rx_iface=in0";
        let capturing = Capturing::start(&["packets", "-i", device, "--count", "--stats", "-j", workers]);
        capturing.pause();
        let sent = send("out0", &datagrams(60_000, None)) as u64;
        capturing.go_on();
        std::thread::sleep(Duration::from_millis(500));
        let output = capturing.end();
        assert_exact(&output, sent);
        assert!(lost(&output) > 10_000, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).trim(), counter(&output, "packets").to_string());
        assert!(text(&output.stderr).contains("were lost before"), "{}", text(&output.stderr));
    }
}

/// A device without end, with a queue for each worker: a signal ends the run, and so does `--limit`.
#[test]
fn each_worker_has_a_queue() {
    let test = "dpdk::each_worker_has_a_queue";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    let run = ["packets", "-i", "dpdk:net_null0", "-j", "2", "--count", "--stats", "-v"];
    let capturing = Capturing::start(&run);
    std::thread::sleep(Duration::from_millis(500));
    let output = capturing.end();
    let said = text(&output.stderr);
    assert!(said.contains("driver net_null, queues: 2"), "{said}");
    let count = counter(&output, "packets");
    assert!(count > 10_000, "{said}");
    assert_exact(&output, count);
    let output = weir(&["packets", "-i", "dpdk:net_null0", "-j", "2", "--limit", "1000"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 1000);
}

/// The devices here accept no rules: Weir says so, and filters by itself.
#[test]
fn a_device_without_rules_gives_all_packets() {
    let test = "dpdk::a_device_without_rules_gives_all_packets";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    let file = format!("net_pcap0,rx_pcap={FIRST_LIGHT}");
    let expected = text(&weir(&["packets", "--count", FIRST_LIGHT, "udp.port == 53"]).stdout);
    for (device, driver) in [(file.as_str(), "net_pcap"), ("net_tap0", "net_tap"), ("net_ring0", "net_ring")]
    {
        let device = format!("dpdk:{device}");
        let run = ["packets", "-i", &device, "--format", "json", "--stats", "-v", "udp.port == 53"];
        let capturing = Capturing::start_until(&run, "it accepts no rules");
        if driver != "net_pcap" {
            capturing.signal("INT");
        }
        let output = capturing.wait();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("the device does not filter packets: it accepts no rules"), "{said}");
        assert!(said.contains(&format!("driver {driver}")), "{said}");
        assert_eq!(counter(&output, "source_filtered"), 0);
        if driver == "net_pcap" {
            assert_eq!(text(&output.stdout).lines().count().to_string(), expected.trim());
            assert_exact(&output, counter(&output, "packets"));
        }
    }
    // All packets are needed.
    let output = weir(&["packets", "-i", &format!("dpdk:{file}"), "--count", "-v", "frame.len > 100"]);
    assert!(text(&output.stderr).contains("they may need every packet"), "{}", text(&output.stderr));
}

/// Several devices, and an interface of the kernel beside them.
#[test]
fn devices_and_interfaces_are_captured_together() {
    let test = "dpdk::devices_and_interfaces_are_captured_together";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    make_pair(0);
    make_pair(1);
    let file = scratch("together.pcapng");
    let (one, other) = ("dpdk:net_af_packet0,iface=in0", "dpdk:net_af_packet1,iface=in1");
    let run = ["packets", "-i", one, "-i", other, "-i", "in1", "--stats", "-j", "2"];
    let capturing = Capturing::start(&[&run[..], &["-w", file.to_str().expect("text")]].concat());
    send("out0", &datagrams(50, None));
    send("out1", &datagrams(30, None));
    std::thread::sleep(Duration::from_millis(300));
    let output = capturing.end();
    assert_exact(&output, 110);
    let written = fs::read(&file).expect("the capture was written");
    for name in ["dpdk:net_af_packet0", "dpdk:net_af_packet1", "in1"] {
        assert!(written.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name} is described");
    }
}

/// The plug-in may be missing, or old.
#[test]
fn a_missing_plug_in_has_a_remedy() {
    let with = |plug_in: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.args(["flows", "-i", "dpdk:net_null0"]).env("WEIR_DPDK", plug_in).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let missing = with(Path::new("/none.so"));
    assert!(missing.contains("/none.so") && missing.contains("cargo xtask dpdk"), "{missing}");
    let (code, library) = (scratch("old.c"), scratch("old.so"));
    fs::write(&code, "unsigned weir_dpdk_version(void) { return 99; }\n").expect("a temporary file");
    let mut cc = Command::new("cc");
    if !cc.args(["-shared", "-o"]).args([&library, &code]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a plug-in of another version needs cc (gcc)");
        return;
    }
    let old = with(&library);
    assert!(old.contains("version 99") && old.contains("build it anew"), "{old}");
    let listed = weir(&["interfaces"]);
    assert!(listed.status.success());
    assert!(text(&listed.stderr).contains("DPDK"), "{}", text(&listed.stderr));
}

#[test]
fn mistakes_about_devices_have_remedies() {
    let test = "dpdk::mistakes_about_devices_have_remedies";
    if plug_in(test).is_none() || !inside(test) {
        return;
    }
    let said = |args: &[&str]| {
        let output = weir(&[&["flows"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    for (device, expected) in [
        ("dpdk:", "name a device, as in dpdk:0000:01:00.0"),
        ("dpdk:net_nothing0", "failed to parse device \"net_nothing0\""),
        ("dpdk:net_pcap0,rx_pcap=/none.pcap", "/none.pcap: No such file"),
        ("dpdk:net_pcap0,rx_nothing=1", "dpdk:net_pcap0: "),
        ("dpdk:net_af_packet0,iface=none", "No such device"),
        ("dpdk:0000:ff:1f.7", "Cannot find device"),
    ] {
        let said = said(&["-i", device]);
        assert!(said.contains(expected) && said.contains("dpdk:"), "{device}: {said}");
    }
    let twice = said(&["-i", "dpdk:net_null0", "-i", "dpdk:net_null0,size=100"]);
    assert!(twice.contains("named twice"), "{twice}");
    let unknown = said(&["-i", "dpdk:net_null0", "--dpdk-eal", "--nothing"]);
    assert!(unknown.contains("cannot be initialised") && unknown.contains("--no-pci --nothing"), "{unknown}");
    let help = said(&["-i", "dpdk:net_null0", "--dpdk-eal", "--help"]);
    assert!(help.contains("--help is not for captures"), "{help}");
    let of_link = said(&[FIRST_LIGHT, "--dpdk-eal", "-m 64"]);
    assert!(of_link.contains("--dpdk-eal is for captures on an interface"), "{of_link}");
    let mirror = said(&["-i", "dpdk:net_null0", "--mirror"]);
    assert!(mirror.contains("--mirror is for interfaces of the kernel"), "{mirror}");
}
