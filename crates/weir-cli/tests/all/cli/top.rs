//! `weir top` on a pseudo-terminal.

use crate::cli::screen::Screen;
use crate::cli::weir;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_testing::frames;

/// Leaves the screen of the program.
const LEAVE: &str = "\x1b[?1049l";

/// An empty directory.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a temporary folder");
    path
}

fn capture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.canonicalize().expect("an example").to_string_lossy().into_owned()
}

#[test]
fn the_screen_of_a_file_stays_until_q() {
    let folder = directory("top-file");
    let mut screen = Screen::start(&format!("top {}", capture("sessions.pcap")), &folder);
    screen.wait_for("the end of the file", |text| text.contains("END") && text.contains("ssl"));
    screen.type_text("2");
    screen.wait_for("hosts", |text| text.contains("conns") && text.contains(" host"));
    screen.type_text("3");
    screen.wait_for("names", |text| text.contains("sessions") && text.contains("tls"));
    screen.type_text("\t");
    screen.wait_for("protocols", |text| text.contains("unknown tcp"));
    screen.type_text("?");
    screen.wait_for("help", |text| text.contains("record the selected connection"));
    screen.type_text(" /tcp.prt\r");
    screen.wait_for("a mistake", |text| text.contains("^^^^^^^") && text.contains("help: "));
    screen.type_text("\x15http.host contains \"chunked\" or tcp.port == 22\r1");
    screen.wait_for("the file, read again", |text| {
        text.contains("END") && text.contains("ssh") && !text.contains(" ftp")
    });
    assert!(!screen.written().contains(LEAVE));
    screen.type_text("\x03");
    assert_eq!(screen.wait().code(), Some(0), "{}", screen.text());
    assert!(screen.written().contains(LEAVE));
}

/// Some mistakes are found only when the questions are compiled. The screen shows them, and stays as it is.
#[test]
fn a_filter_that_cannot_be_compiled_does_not_end_the_screen() {
    let folder = directory("top-large");
    let mut screen = Screen::start(&format!("top {}", capture("sessions.pcap")), &folder);
    screen.wait_for("the end of the file", |text| text.contains("END") && text.contains("ssl"));
    let either = |field: &str| (0..16).map(|n| format!("{field} > {n}")).collect::<Vec<_>>().join(" or ");
    // 4096 alternatives.
    let [ports, times, lengths] = ["tcp.srcport", "ip.ttl", "ip.len"].map(either);
    screen.type_text(&format!("/({ports}) and ({times}) and ({lengths})\r"));
    screen.wait_for("the mistake, and the traffic so far", |text| {
        text.contains("more than 4096 predicates") && text.contains("END") && text.contains("ssl")
    });
    screen.type_text("\x15tcp.port == 22\r");
    screen.wait_for("the file, read again", |text| {
        text.contains("END") && text.contains("ssh") && !text.contains("ssl")
    });
    screen.type_text("q");
    assert_eq!(screen.wait().code(), Some(0), "{}", screen.text());
}

#[test]
fn a_signal_restores_the_terminal() {
    let folder = directory("top-signal");
    let mut screen = Screen::start(&format!("top {}", capture("first-light.pcap")), &folder);
    screen.wait_for("the end of the file", |text| text.contains("END"));
    screen.signal("TERM");
    screen.wait();
    assert!(screen.written().contains(LEAVE));
}

#[test]
fn the_program_ends_if_its_terminal_is_gone() {
    let folder = directory("top-gone");
    let mut screen = Screen::start(&format!("top {}", capture("first-light.pcap")), &folder);
    screen.wait_for("the end of the file", |text| text.contains("END"));
    let process = PathBuf::from("/proc").join(screen.process());
    assert!(process.join("stat").exists());
    screen.hang_up();
    let began = Instant::now();
    // A process that nobody waits for is still listed.
    let runs = || std::fs::read_to_string(process.join("stat")).is_ok_and(|text| !text.contains(") Z "));
    while runs() {
        assert!(began.elapsed() < Duration::from_secs(20), "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_a_terminal_other_commands_are_named() {
    let output = weir(&["top", &capture("first-light.pcap")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("`weir stats`") && said.contains("--monitor"),
        "{said}"
    );
}

/// Names come from the network: they do nothing to the terminal, and are shown.
#[test]
fn hostile_names_are_shown_and_not_obeyed() {
    let folder = directory("top-hostile");
    let hosts = ["a\x1b[2Jb", "a\x07b", "a\u{202e}gnp.exe", "a\u{9b}2Jb", "a\r\tb", "<b>"];
    let request = |(port, host): (u16, &&str)| {
        let request = format!("GET / HTTP/1.1\r\nHost: x.{host}\r\n\r\n");
        let segment = frames::tcp((port, 80), 1, 1, frames::ACK, &[], request.as_bytes());
        frames::ethernet(0x0800, &frames::ipv4(([10, 0, 0, 1], [10, 0, 0, 2]), 6, 0, 0, &[], &segment))
    };
    let frames: Vec<Vec<u8>> = (4000..).zip(&hosts).map(request).collect();
    std::fs::write(folder.join("hostile.pcap"), frames::pcap(&frames)).expect("room");
    let mut screen = Screen::start("top hostile.pcap", &folder);
    screen.wait_for("the end of the file", |text| text.contains("END"));
    screen.type_text("3");
    screen.wait_for("names", |text| text.matches(" x.a").count() >= 4 && text.contains("x.<b>"));
    screen.type_text("q");
    assert_eq!(screen.wait().code(), Some(0), "{}", screen.text());
    let written = screen.written();
    for bad in ["\x1b[2Jb", "\x07", "\u{202e}", "\u{9b}"] {
        assert!(!written.contains(bad), "{bad:?}");
    }
}
