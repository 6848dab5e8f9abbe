//! A run over files has few rights while it reads packets.

use super::{answer, example, scratch, text, weir, worker_of};
use crate::links::service::of_threads;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run that follows a file, and has read what is there.
struct Following(Child);

impl Following {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let (capture, rows) = (dir.join("x.pcap"), dir.join("rows.json"));
        fs::create_dir_all(dir).unwrap();
        // A link, as those to the newest file of a directory.
        let _ = (fs::remove_file(&rows), fs::remove_file(&capture));
        std::os::unix::fs::symlink(example(), &capture).unwrap();
        let questions = dir.join("questions.toml");
        fs::write(&questions, format!("[[question]]\nname = \"a\"\nask = \"packets\"\noutput = {rows:?}\n"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("run").arg(&questions).args(["-v", "--follow", "-r"]).arg(&capture).args(options);
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let following = Self(child);
        until("rows come", || fs::metadata(&rows).is_ok_and(|about| about.len() > 0));
        following
    }

    fn end(mut self) -> String {
        let mut said = String::new();
        self.0.kill().unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn runs_over_files_give_up_their_rights() {
    let dir = scratch("rights");
    let following = Following::start(&dir, &[]);
    let process = worker_of(following.0.id());
    assert_eq!(of_threads(process, "NoNewPrivs"), ["1"]);
    assert_eq!(of_threads(process, "Seccomp"), ["2"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let is_bounded = set != "CapBnd" || rustix::process::geteuid().is_root();
        assert!(!is_bounded || of_threads(process, set) == ["0000000000000000"], "{set}");
    }
    let users = of_threads(process, "Uid");
    assert!(!users.iter().any(|line| line.split_whitespace().any(|id| id == "0")), "{users:?}");
    let said = following.end();
    assert!(!said.contains("sandbox: no"), "{said}");
    let free = Following::start(&dir, &["--no-sandbox"]);
    assert_eq!(of_threads(free.0.id(), "Seccomp"), ["0"]);
    let said = free.end();
    assert!(said.contains("--no-sandbox: the parsers of packets keep all rights"), "{said}");
}

#[test]
fn files_of_later_questions_are_where_the_run_may_read() {
    let dir = scratch("rights-of-reading");
    let [inside, outside] = ["inside", "outside"].map(|name| dir.join(name).join("patterns"));
    for patterns in [&inside, &outside] {
        fs::create_dir_all(patterns.parent().unwrap()).unwrap();
        fs::write(patterns, "HTTP\n").unwrap();
    }
    let home = scratch("rights-of-reading-run");
    let socket = home.join("weir.sock");
    let socket = socket.to_str().unwrap();
    let readable = inside.parent().unwrap().to_str().unwrap();
    let _following = Following::start(&home, &["--control", socket, "--read-from", readable]);
    let found = home.join("found.json");
    let add = |patterns: &Path| {
        let patterns = format!("pattern_files={}", patterns.display());
        weir(&["ctl", socket, "add", "more", "match", "--set", &patterns, "-o", found.to_str().unwrap()])
    };
    let refused = add(&outside);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--read-from DIR"), "{said}");
    let added = add(&inside);
    assert!(added.status.success(), "{}", text(&added.stderr));
    answer(&["ctl", socket, "list"], 0);
}
