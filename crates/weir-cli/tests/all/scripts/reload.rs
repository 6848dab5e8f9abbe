//! SIGHUP reads a script again, and its flows stay.

use crate::scripts::traffic::{Datagram, capture};
use crate::scripts::{folder, script};
use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of the header of a capture, and of a record with a datagram of one byte.
const HEADER: usize = 24;
const RECORD: usize = 16 + 14 + 20 + 8 + 1;

fn until_said(said: &std::path::Path, words: &str) {
    let begin = Instant::now();
    while !fs::read_to_string(said).expect("messages").contains(words) {
        let text = fs::read_to_string(said).expect("messages");
        assert!(begin.elapsed() < Duration::from_secs(60), "`{words}` in {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn hang_up(process: &Child) {
    let status = Command::new("kill").args(["-s", "HUP", &process.id().to_string()]).status();
    assert!(status.expect("kill(1)").success());
}

#[test]
fn a_changed_script_goes_on_with_the_flows_of_the_previous_one() {
    for mode in crate::scripts::MODES {
        let folder = folder();
        let text = |word: &str, state: &str| {
            format!(
                "return {{ key = 'flow', stateType = '{state}', handlePacket = function(key, state)
                    state.packets = state.packets + 1
                    print('{word}', tonumber(state.packets))
                end }}"
            )
        };
        let (state, other) = ("struct { uint64_t packets; }", "struct { uint32_t packets; }");
        let file = script(folder.path(), &text("one", state));
        let one = || Datagram { from: (1, 1000), to: (2, 53), ttl: 64, payload: b"x" };
        let bytes = fs::read(capture(folder.path(), &[one(), one(), one()])).expect("the capture");
        assert_eq!(bytes.len(), HEADER + 3 * RECORD);
        let said = folder.path().join("said");
        let mut process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([&["script", &file, "-r", "-"], mode].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&said).expect("a file for tests"))
            .spawn()
            .expect("the binary was built for this test");
        let mut input = process.stdin.take().expect("a pipe");
        let mut write = |from: usize, to: usize| {
            input.write_all(&bytes[from..to]).and_then(|()| input.flush()).expect("weir reads")
        };
        write(0, HEADER + RECORD);
        until_said(&said, "one\t1");
        // Another state: the previous script goes on.
        script(folder.path(), &text("wrong", other));
        hang_up(&process);
        until_said(&said, "`stateType` has changed");
        script(folder.path(), &text("two", state));
        hang_up(&process);
        until_said(&said, "reloaded");
        write(HEADER + RECORD, HEADER + 2 * RECORD);
        until_said(&said, "two\t2");
        script(folder.path(), "return {");
        hang_up(&process);
        until_said(&said, "module.lua:1:");
        write(HEADER + 2 * RECORD, HEADER + 3 * RECORD);
        until_said(&said, "two\t3");
        drop(input);
        assert!(
            process.wait().expect("it ends").success(),
            "{}",
            fs::read_to_string(&said).expect("messages")
        );
    }
}
