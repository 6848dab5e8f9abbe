//! Downloads that the kernel counts, while the questions change.

use crate::links::servers::{
    Link, Network, SERVER, client_command, counted_rows, has, nginx, record_with_tcpdump, same, weir,
};
use crate::links::{Capturing, counter, discarded, empty, inside, lost, questions, text};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Bytes of the file: the server sends 20 MB in a second.
const FILE_BYTES: usize = 120_000_000;
/// Until the kernel has the filters of the questions, and the connection.
const SETTLE: Duration = Duration::from_millis(600);

/// Questions that come and go: one that is about the same connection, and one that needs every packet.
const OTHERS: [(&str, &str); 2] = [("tls", "tls"), ("seen", "packets")];

/// Questions are added and removed through the control socket during a download: the record of the connection
/// is that of tcpdump's capture, with one worker and with two.
#[test]
fn questions_may_change_during_downloads() {
    let test = "downloads::questions_may_change_during_downloads";
    let programs = [("nginx", "nginx-light"), ("curl", "curl"), ("openssl", "openssl")];
    if !has(test, &programs) || !inside(test) {
        return;
    }
    let mut network = Network::new("changed", Link::Plain);
    nginx(&mut network);
    let file = fs::File::create(network.at("www/large")).expect("a temporary file");
    file.set_len(FILE_BYTES as u64).expect("a temporary file");
    let (tcpdump, packets) = record_with_tcpdump(&network);
    let captures = ["1", "2"].map(|workers| {
        let folder = network.folder.join(workers);
        empty(&folder);
        let asked = questions(&folder, &["flows"], false);
        let socket = folder.join("socket");
        let run = ["run", asked.to_str().expect("text"), "--stats", "-i", "in0", "-j", workers, "--control"];
        let run = [&run[..], &[socket.to_str().expect("text")]].concat();
        (workers, folder, Capturing::start_until(&run, "the kernel discards packets"))
    });
    let mut download = client_command(&format!("curl -sS -k -o /dev/null https://{SERVER}/large"));
    let mut download = download.spawn().expect("curl runs");
    std::thread::sleep(SETTLE);
    for (name, ask) in OTHERS {
        for (_, folder, _) in &captures {
            let output = folder.join(format!("{name}.json"));
            change(folder, &["add", name, ask, "-o", output.to_str().expect("text")]);
        }
        std::thread::sleep(SETTLE);
        captures.iter().for_each(|(_, folder, _)| change(folder, &["remove", name]));
        std::thread::sleep(SETTLE);
    }
    let has_ended = download.try_wait().expect("curl runs").is_some();
    assert!(!has_ended, "the questions changed during the download");
    assert!(download.wait().expect("curl runs").success());
    // The last acknowledgements, and the blocks of the rings that are not full.
    std::thread::sleep(Duration::from_millis(300));
    let said = text(&tcpdump.end().stderr);
    assert!(said.contains("\n0 packets dropped by kernel"), "tcpdump lost packets: {said}");
    let of_file = network.folder.join("file");
    empty(&of_file);
    let asked = questions(&of_file, &["flows"], false);
    let output = weir(&["run", asked.to_str().expect("text"), "-r", &packets]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = counted_rows(&of_file);
    for (workers, folder, capturing) in captures {
        let output = capturing.end();
        let said = text(&output.stderr);
        let (packets, counted) = (counter(&output, "packets"), counter(&output, "source_counted"));
        println!("{workers} workers: {packets} packets, {counted} counted");
        let received = packets + discarded(&output) + lost(&output);
        assert_eq!(counter(&output, "source_received"), received, "{said}");
        assert_eq!(lost(&output), 0, "{said}");
        // The kernel has counted part of the download. The share depends on how soon each program is
        // compiled; `downloads_are_counted_by_the_kernel` asks for most of a download, without changes.
        assert!(counter(&output, "source_counted_bytes") > FILE_BYTES as u64 / 100, "{said}");
        same(&format!("{workers} workers"), &counted_rows(&folder), &expected);
        let seen = fs::read_to_string(folder.join("seen.json")).expect("the question ran").lines().count();
        assert!(seen > 1000, "{seen} packets while every packet was needed");
    }
}

/// Changes the questions of the run whose socket is in this folder.
fn change(folder: &Path, args: &[&str]) {
    let socket = folder.join("socket");
    let output = weir(&[&["ctl", socket.to_str().expect("text")], args].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
}
