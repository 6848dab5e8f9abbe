//! `weir check`, and `--stack` with a file: what is said of `.weir` texts.

use crate::{answer, count, example, scratch, text, weir};
use std::path::Path;

#[test]
fn the_protocols_that_are_shipped_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
    for entry in std::fs::read_dir(folder).expect("the protocols") {
        let path = entry.expect("an entry").path();
        answer(&["check", path.to_str().unwrap()], 0);
    }
}

#[test]
fn a_protocol_of_ones_own_is_a_file() {
    let path = scratch("mine.weir");
    let source = "//! A made-up protocol\n\
        protocol hello { header { kind: u8 \"kind of message\"  size: u8 \"bytes of text\"  text: bytes[size] \"text\" } payload = rest }\n\
        stack mine extends internet { udp -> hello when dst_port == 53 or src_port == 53 }\n";
    std::fs::write(&path, source).expect("a temporary file");
    let file = example();
    let stack = path.to_str().unwrap();
    let out =
        answer(&["packets", "-r", file.to_str().unwrap(), "--count", "--stack", stack, "hello.kind >= 0"], 0);
    assert_eq!(out.trim().parse(), Ok(count("udp.port == 53")));
    assert!(answer(&["fields", "hello", "--stack", stack], 0).contains("kind of message"));
}

#[test]
fn a_wrong_protocol_shows_every_mistake_at_once() {
    let path = scratch("wrong.weir");
    std::fs::write(&path, "protocol p { header { a: u4 b: u12 c: bytes[lenght] } payload = rest[.. q] }\n")
        .expect("a file");
    let output = weir(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("lenght") && message.contains("`q`"), "{message}");
}

#[test]
fn a_check_is_of_the_file_that_was_named() {
    let folder = scratch("shipped");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("udp.weir");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols/udp.weir");
    let text_of = std::fs::read_to_string(shipped).expect("a protocol that is shipped");
    let check = |text_of: &str| {
        std::fs::write(&path, text_of).expect("a temporary file");
        let output = weir(&["check", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(check(&text_of), (Some(0), String::new()));
    // A field that others use is gone, and something is wrong besides: the latter is said.
    let wrong = text_of.replace("dst_port", "to_port");
    let (status, said) = check(&format!("{wrong}\nprotocol p {{ header {{ a: uint16 }} payload = rest }}"));
    assert_eq!(status, Some(2));
    assert!(said.contains("uint16"), "{said}");
    assert!(said.lines().filter(|l| l.contains("--> ")).all(|l| l.contains("udp.weir")), "{said}");
    // What it breaks elsewhere is said where it is right itself.
    let (status, said) = check(&text_of.replace("protocol udp", "protocol udq"));
    assert_eq!(status, Some(2));
    assert!(said.contains("internet.weir"), "{said}");
}

#[test]
fn a_missing_file_does_not_hide_the_others() {
    let (good, wrong) = (scratch("check-good.weir"), scratch("check-wrong.weir"));
    std::fs::write(&good, "//! Good\nprotocol p { header { a: u8 \"a\" } payload = rest }\n")
        .expect("a file");
    std::fs::write(&wrong, "protocol p { header { a: u9x } }\n").expect("a file");
    let [good, wrong] = [&good, &wrong].map(|path| path.to_str().unwrap());
    let output = weir(&["check", "no-such-file.weir", wrong, good]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("no-such-file.weir") && said.contains("u9x"), "{said}");
    assert_eq!(text(&output.stdout), format!("{good}: no mistakes\n"));
}
