//! Filters that run in the kernel, and frames that the kernel sends.

use crate::links::{
    Capturing, FIRST_LIGHT, assert_exact, counter, datagrams, frames_of, inside, make_pair, scratch, send,
    sh, text,
};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weir::link::live_frames::LiveFrames;
use weir_testing::frames;

/// The message that the filter is in place.
const FILTERED: &str = "the kernel discards";
const FILTER: &str = "tcp.port == 443";

/// Counts the packets of the example that match.
fn expected(filter: &str) -> String {
    let args = ["packets", "-r", FIRST_LIGHT, "--count", filter];
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("it runs");
    text(&output.stdout).trim().to_string()
}

#[test]
fn packets_that_no_question_needs_stay_in_the_kernel() {
    if !inside("kernel::packets_that_no_question_needs_stay_in_the_kernel") {
        return;
    }
    make_pair(0);
    let frames = frames_of(Path::new(FIRST_LIGHT));
    // Whether the machine itself receives the packets that match, and those that do not.
    let cases: [(&[&str], bool, bool); 5] = [
        (&[], true, true),
        (&["-j", "2"], true, true),
        (&["--mirror"], true, false),
        (&["--method", "af_xdp"], false, true),
        (&["--method", "af_xdp", "--mirror"], false, false),
    ];
    for (options, sees_matches, sees_others) in cases {
        let machine = Capturing::start(&["packets", "-i", "in0", "--count", FILTER]);
        let others = Capturing::start(&["packets", "-i", "in0", "--count", &format!("not {FILTER}")]);
        let run = [&["packets", "-i", "in0", "--count", "--stats", "-v", FILTER][..], options].concat();
        let capturing = Capturing::start_until(&run, FILTERED);
        let sent = send("out0", &frames) as u64;
        let output = capturing.end();
        assert_exact(&output, sent);
        assert_eq!(text(&output.stdout).trim(), expected(FILTER), "{options:?}");
        let filtered = counter(&output, "source_filtered");
        assert!(filtered * 2 > sent, "{options:?}: {}", text(&output.stderr));
        assert!(counter(&output, "source_filtered_bytes") > 60 * filtered, "{}", text(&output.stderr));
        let received = |one: Capturing| {
            one.signal("INT");
            text(&one.wait().stdout).trim().parse::<u64>().expect("a number")
        };
        let (matches, rest) = (received(machine), received(others));
        assert_eq!(matches > 0, sees_matches, "{options:?}: {matches}");
        // Some packets pass the filter in the kernel because the kernel does not know.
        assert_eq!(rest >= filtered, sees_others, "{options:?}: {rest}");
    }
}

/// The tag is not in the frame that the kernel filters.
#[test]
fn filters_see_tags_that_the_kernel_has_removed() {
    if !inside("kernel::filters_see_tags_that_the_kernel_has_removed") {
        return;
    }
    make_pair(0);
    let frames = [datagrams(40, Some(7)), datagrams(30, Some(8)), datagrams(20, None)].concat();
    for (filter, count) in [("vlan.id == 7 and tcp.port == 80", "40"), ("not vlan and tcp", "20")] {
        let run = ["packets", "-i", "in0", "--count", "--stats", "-v", filter];
        let capturing = Capturing::start_until(&run, FILTERED);
        send("out0", &frames);
        let output = capturing.end();
        assert_exact(&output, 90);
        assert_eq!(text(&output.stdout).trim(), count, "{filter}: {}", text(&output.stderr));
        assert!(counter(&output, "source_filtered") >= 50, "{}", text(&output.stderr));
    }
}

/// While questions change, no packet of the others is lost, and no connection is forgotten.
#[test]
fn filters_change_with_the_questions() {
    if !inside("kernel::filters_change_with_the_questions") {
        return;
    }
    make_pair(0);
    let (file, control) = (scratch("changing.toml"), scratch("changing.sock"));
    let [flows, others] = ["changing-flows.json", "changing-others.json"].map(scratch);
    let question = format!(
        "[[question]]\nname = \"flows\"\nask = \"flows\"\nfilter = \"tcp.port == 80 and ip.addr == 10.1.0.1\"\noutput = {flows:?}\n"
    );
    std::fs::write(&file, question).expect("a temporary file");
    let control = control.to_str().expect("a name");
    for method in ["af_packet", "af_xdp"] {
        let method = ["--method", method, "-v", "--stats"];
        let run = [&["run", file.to_str().unwrap(), "-i", "in0", "--control", control][..], &method].concat();
        let capturing = Capturing::start_until(&run, FILTERED);
        let ctl = |args: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["ctl", control]).args(args).output();
            let output = output.expect("it runs");
            assert!(output.status.success(), "{}", text(&output.stderr));
        };
        let of_flow = datagrams(1, None);
        let udp = frames::udp((5000, 53), b"?");
        let udp =
            frames::ethernet(0x0800, &frames::ipv4(([10, 9, 0, 1], [10, 9, 0, 2]), 17, 1, 0, &[], &udp));
        let mut sent = 0;
        for round in 0..3 {
            sent += send("out0", &of_flow);
            if round == 1 {
                ctl(&["add", "others", "packets", "udp", "-o", others.to_str().expect("a name")]);
                sent += send("out0", std::slice::from_ref(&udp));
            }
            if round == 2 {
                ctl(&["remove", "others"]);
            }
            sent += send("out0", &of_flow);
            std::thread::sleep(Duration::from_millis(400));
            sent += send("out0", &of_flow);
        }
        let output = capturing.end();
        assert_exact(&output, sent as u64);
        let rows = std::fs::read_to_string(&flows).expect("rows");
        let row: serde_json::Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
        assert_eq!(rows.lines().count(), 1, "{rows}");
        assert_eq!(row["orig_pkts"], 9, "{rows}");
        assert_eq!(std::fs::read_to_string(&others).expect("rows").lines().count(), 1);
        sh(&format!("rm -f {} {}", flows.display(), others.display()));
    }
}

/// The frames that the kernel sends are those of the list, in order and with their lengths, and their number
/// is exact.
#[test]
fn live_frames_are_those_of_the_list() {
    if !inside("kernel::live_frames_are_those_of_the_list") {
        return;
    }
    make_pair(0);
    // Frames that a program of XDP redirects to an interface need NAPI on the other side.
    sh("ethtool -K in0 gro on");
    let mut frames = datagrams(40, None);
    (0..).zip(&mut frames).for_each(|(number, frame)| frame.resize(60 + 37 * number, 0));
    let file = scratch("live.pcap");
    let capturing = Capturing::start(&["packets", "-i", "in0", "-w", file.to_str().expect("text")]);
    let sender = LiveFrames::new("out0", &frames).expect("the interface is up");
    let mut sent = 0;
    for rate in [10_000.0, 50_000.0] {
        sent += sender.send(Some(rate), Duration::from_millis(100)).expect("root may").0;
    }
    std::thread::sleep(Duration::from_millis(300));
    capturing.end();
    let got = frames_of(&file);
    assert_eq!(got.len() as u64, sent);
    assert!(sent > 2000, "{sent}");
    let wrong = got.iter().zip(frames.iter().cycle()).position(|(got, expected)| got != expected);
    assert_eq!(wrong, None);
    let too_long = LiveFrames::new("out0", &[vec![0; 1515]]).expect_err("frames are shorter");
    assert!(too_long.to_string().contains("1515 bytes: frames have 14 to 1514"), "{too_long}");
}
