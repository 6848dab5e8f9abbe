//! A program on a pseudo-terminal, whose screen a test reads, and to which it types. `script` of util-linux
//! makes the terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lines and columns of the terminal.
const SIZE: (u16, u16) = (24, 80);

/// Time in which the screen must show what is expected.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program.
pub struct Screen {
    child: Child,
    parser: Arc<Mutex<(vt100::Parser, Vec<u8>)>>,
}

impl Screen {
    /// Starts `weir` with these words of a shell in a folder.
    pub fn start(words: &str, folder: &Path) -> Self {
        let (rows, columns) = SIZE;
        let weir = env!("CARGO_BIN_EXE_weir");
        let line = format!("stty rows {rows} cols {columns}; exec {weir} {words}");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(folder).env("TERM", "xterm-256color");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` of util-linux is installed");
        let mut written = child.stdout.take().expect("it is piped");
        let parser = Arc::new(Mutex::new((vt100::Parser::new(rows, columns, 0), vec![])));
        let screen = Arc::clone(&parser);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = written.read(&mut some) {
                let (parser, all) = &mut *screen.lock().expect("no thread panicked");
                parser.process(&some[..count]);
                all.extend_from_slice(&some[..count]);
            }
        });
        Self { child, parser }
    }

    /// What the screen shows.
    pub fn text(&self) -> String {
        self.parser.lock().expect("no thread panicked").0.screen().contents()
    }

    /// Everything that was written to the terminal.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.parser.lock().expect("no thread panicked").1).into_owned()
    }

    pub fn type_text(&mut self, text: &str) {
        let keys = self.child.stdin.as_mut().expect("it is piped");
        keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("the program runs");
    }

    /// Waits until the screen is as expected.
    pub fn wait_for(&self, what: &str, is_right: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_right(&self.text()) {
            assert!(began.elapsed() < PATIENCE, "{what}: the screen shows\n{}", self.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The number of the program's process.
    pub fn process(&self) -> String {
        let parent = self.child.id().to_string();
        let found = Command::new("pgrep").args(["-P", &parent]).output().expect("pgrep runs");
        String::from_utf8_lossy(&found.stdout).trim().to_string()
    }

    /// Takes the terminal away.
    pub fn hang_up(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal to the program.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                // The last bytes are still to be read.
                std::thread::sleep(Duration::from_millis(200));
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end; the screen shows\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.hang_up();
    }
}
