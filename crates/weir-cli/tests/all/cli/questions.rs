//! Several questions at once: `run`, `zeek`, `ctl`.

use crate::cli::worker_of;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");

/// Standard output, standard error and exit status of the command.
fn weir(args: &[&str]) -> (String, String, i32) {
    let output = crate::cli::weir(args);
    (crate::cli::text(&output.stdout), crate::cli::text(&output.stderr), output.status.code().unwrap_or(-1))
}

/// An empty directory for this test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for tests");
    path
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).lines().count()
}

#[test]
fn a_file_of_questions_answers_as_each_would_alone() {
    let dir = directory("questions");
    let file = dir.join("questions.toml");
    let (com, big) = (dir.join("com.json"), dir.join("udp.pcap"));
    let text = format!(
        "[[question]]\nname = \"com\"\nask = \"tls\"\nfilter = 'tls.sni matches \"[.]com$\"'\noutput = {com:?}\n\
         [[question]]\nname = \"udp\"\nask = \"packets\"\nfilter = \"udp\"\noutput = {big:?}\n\
         [[question]]\nname = \"flows\"\nask = \"flows\"\nformat = \"csv\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let (out, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((err.as_str(), status), ("", 0));
    let alone = weir(&["flows", "-r", FIRST_LIGHT, "--format", "csv"]);
    assert_eq!(out, alone.0);
    let alone = weir(&["tls", "-r", FIRST_LIGHT, "tls.sni matches \"[.]com$\""]);
    assert_eq!(std::fs::read_to_string(&com).unwrap(), alone.0);
    let counted = weir(&["packets", "-r", big.to_str().unwrap(), "--count"]).0;
    assert_eq!(counted, weir(&["packets", "-r", FIRST_LIGHT, "--count", "udp"]).0);
}

/// The long options in the help of a command.
fn long_options(command: &str) -> Vec<String> {
    let help = weir(&[command, "--help"]).0;
    let options = help.lines().filter_map(|line| {
        let (_, name) = line.split_once("--").filter(|(before, _)| before.trim().len() <= 3)?;
        Some(name.split([' ', '.']).next()?.to_string())
    });
    options.filter(|name| name != "help").collect()
}

#[test]
fn every_option_of_a_command_is_one_of_its_question_or_of_the_run() {
    let dir = directory("question-options");
    let of_run = long_options("run");
    for command in ["flows", "packets", "streams", "match", "events", "stats", "sessions", "tls", "files"] {
        let options = long_options(command);
        assert!(options.len() > of_run.len(), "{command}: {options:?}");
        for option in options.iter().filter(|option| !of_run.contains(option)) {
            let key = match (command, option.as_str()) {
                ("match", "regexp") => "patterns",
                ("match", "file") => "pattern_files",
                ("match", "streams-with-matches" | "without-match") => "streams",
                ("packets", "write") => "output",
                ("streams", "output") => "files",
                ("events", "event") => "events",
                (_, option) => &option.replace('-', "_"),
            };
            // No option has a table as its value: the key is known if the message is about the value.
            let file = dir.join("questions.toml");
            let text = format!("[[question]]\nname = \"a\"\nask = {command:?}\n[question.{key}]\nx = 1\n");
            std::fs::write(&file, text).unwrap();
            let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
            assert!(status == 2 && !err.contains("there is no option"), "{command} --{option}: {err}");
        }
    }
}

#[test]
fn a_question_may_be_counted_and_have_patterns_in_files() {
    let dir = directory("question-counts");
    let (file, patterns) = (dir.join("questions.toml"), dir.join("patterns"));
    let (counted, lines, table) = (dir.join("count"), dir.join("lines"), dir.join("table.csv"));
    std::fs::write(&patterns, "HTTP\n\nexample\n").unwrap();
    let search = format!("ask = \"match\"\npattern_files = [{patterns:?}]\n");
    let text = format!(
        "[[question]]\nname = \"a\"\n{search}count = true\noutput = {counted:?}\n\
         [[question]]\nname = \"b\"\n{search}format = \"grep\"\ncolor = true\noutput = {lines:?}\n\
         [[question]]\nname = \"c\"\n{search}format = \"csv\"\ncsv_safe = true\noutput = {table:?}\n"
    );
    std::fs::write(&file, &text).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((err.as_str(), status), ("", 0));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let args = ["match", "-r", FIRST_LIGHT, "-f", patterns.to_str().unwrap()];
    let alone = |more: &[&str]| weir(&[&args[..], more].concat()).0;
    assert_eq!(read(&counted), alone(&["-c"]));
    assert_eq!(read(&lines), alone(&["--color", "always"]));
    assert_eq!(read(&table), alone(&["--format", "csv", "--csv-safe"]));
    assert_eq!(alone(&["-c", "--color", "always"]), read(&counted), "a number has no colours");
    std::fs::write(&file, text.replace(&format!("output = {counted:?}\n"), "")).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert!(status == 2 && err.contains("question `a`: `count` needs an `output`"), "{err}");
}

/// Every long option of `weir run`, with a value that is not the default.
fn options_of_run() -> Vec<(String, &'static str)> {
    let value = |name: &str| match name {
        "read" => FIRST_LIGHT,
        "stack" => "quic",
        "engine" => "interpreter",
        "without" => "fold",
        "workers" => "3",
        "cpus" => "0",
        "sample" => "1/2",
        "idle-timeout" => "0.1",
        "policy" => "bsd",
        "mode" => "strict",
        "flows-max" => "20",
        "memory" => "4k",
        "overload-cutoff" => "1k",
        "output-wait" => "3",
        "ignore-context" => "vlan.id",
        "add-context" => "gtp.teid",
        "decode-as" => "tcp.port == 8443: tls",
        "bpf" | "dedup" | "stats" | "monitor" | "group-read" | "no-sandbox" => "",
        "read-from" | "write-to" => "/tmp",
        "metrics" => ":0",
        "allow-user" => "65534",
        "control" => "",
        other => panic!("a value for --{other} of `weir run`"),
    };
    // Messages belong to the terminal, a run that follows a file does not end, and the test has no interface.
    let of_links =
        ["interface", "method", "buffer", "no-promiscuous", "mirror", "hardware-time", "dpdk-eal", "user"];
    // Tested where they are: a collector needs a feature, and times need a recorder.
    let of_others = ["otlp", "otlp-interval", "from", "to"];
    let is_left_out = |name: &str| {
        ["quiet", "verbose", "follow"].contains(&name)
            || of_links.contains(&name)
            || of_others.contains(&name)
    };
    let of_run = long_options("run").into_iter().filter(|name| !is_left_out(name));
    of_run.map(|name| (name.clone(), value(&name))).collect()
}

#[test]
fn every_option_of_the_command_line_may_be_in_a_file_of_questions() {
    let dir = directory("file-options");
    let options = options_of_run();
    assert!(options.len() > 12, "{options:?}");
    let (file, socket) = (dir.join("questions.toml"), dir.join("weir.sock"));
    let questions = "[[question]]\nname = \"a\"\nask = \"flows\"\nfilter = \"tcp\"\n\
                     [[question]]\nname = \"b\"\nask = \"streams\"\nfilter = \"udp\"\nchunk = \"1k\"\n\
                     priority = \"dns:9\"\n";
    // The numbers of --stats are times.
    let untimed =
        |text: &str| text.chars().filter(|c| !c.is_ascii_digit() && !"µm.".contains(*c)).collect::<String>();
    let mut differs = 0;
    std::fs::write(&file, questions).unwrap();
    let plain = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    for (name, value) in &options {
        let value = if name == "control" { socket.to_str().unwrap() } else { value };
        let key = name.replace('-', "_");
        let (stated, option) = match value {
            "" => (format!("{key} = true\n"), format!("--{name}")),
            value => (format!("{key} = {value:?}\n"), format!("--{name}={value}")),
        };
        let mut line = vec!["run", file.to_str().unwrap()];
        if name != "read" {
            line.extend(["-r", FIRST_LIGHT]);
        }
        std::fs::write(&file, format!("{stated}{questions}")).unwrap();
        let in_file = weir(&line);
        std::fs::write(&file, questions).unwrap();
        let on_line = weir(&[&line[..], &[&option]].concat());
        assert_eq!(in_file.2, 0, "{stated}: {}", in_file.1);
        assert!(in_file.0 == on_line.0, "{stated}");
        // The port of --metrics is another one each time.
        let is_same =
            in_file.1 == on_line.1 || name == "metrics" && untimed(&in_file.1) == untimed(&on_line.1);
        assert!(name == "stats" || is_same, "{stated}: {}", in_file.1);
        differs += usize::from(untimed(&plain.1) != untimed(&in_file.1) || plain.0 != in_file.0);
    }
    // These options change the answers or the messages. (Others, such as the number of workers, must not.)
    assert!(differs >= 4, "{differs}");
}

/// Options that a file of questions cannot state, each with the reason.
const NOT_IN_FILES: &[(&str, &str)] =
    &[("quiet", "messages about the file itself come before its options are known"), ("verbose", "likewise")];

#[test]
fn a_file_of_questions_has_every_option_of_the_run_or_a_reason_why_not() {
    let file = directory("file-keys").join("questions.toml");
    for option in long_options("run") {
        let key = option.replace('-', "_");
        // No option has a table as its value: the key is known if the message is about the value.
        std::fs::write(&file, format!("[{key}]\nx = 1\n")).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap()]);
        let is_known = !err.contains("there is no option");
        assert!(status == 2 && err.contains(&format!("`{key}`")), "{err}");
        assert_eq!(is_known, !NOT_IN_FILES.iter().any(|(name, _)| *name == option), "--{option}: {err}");
    }
}

#[test]
fn the_command_line_has_precedence_over_a_file_of_questions() {
    let dir = directory("file-precedence");
    let file = dir.join("questions.toml");
    let count = |text: &str, more: &[&str]| {
        let questions = "[[question]]\nname = \"a\"\nask = \"flows\"\n";
        std::fs::write(&file, format!("{text}{questions}")).unwrap();
        let (out, err, status) = weir(&[&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT], more].concat());
        assert_eq!(status, 0, "{err}");
        out.lines().count()
    };
    let [short, long] = ["0.1", "60"].map(|time| count("", &["--idle-timeout", time]));
    assert!(short > long, "or the test shows nothing");
    assert_eq!(count("idle_timeout = \"100ms\"\n", &[]), short);
    assert_eq!(count("idle_timeout = 0.1\n", &["--idle-timeout", "60"]), long);
    for (text, said) in [
        ("idle_timeout = \"soon\"\n", "questions.toml: line 1: `idle_timeout`: give a time, for example 300"),
        ("\nmode = \"slow\"\n", "line 2: `mode`: give one of strict, fast"),
        (
            "idle_timeot = 5\n",
            "line 1: `idle_timeot`: there is no option `idle_timeot`: is `idle_timeout` meant?",
        ),
        ("xyzzy = 5\n", "line 1: `xyzzy`: there is no option `xyzzy`: there are control, stats, read,"),
        ("idle_timeout = inf\n", "line 1: `idle_timeout`: inf is no finite number"),
        ("bpf = 1\n", "line 1: `bpf`: give true or false"),
        ("workers = [1, 2]\n", "line 1: `workers`: give one value"),
    ] {
        std::fs::write(&file, format!("{text}[[question]]\nname = \"a\"\nasks = \"flows\"\n")).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
        assert!(status == 2 && err.contains(said), "{text}: {err}");
        assert!(err.contains("no option `asks`: is `ask` meant?"), "all mistakes are reported: {err}");
    }
}

#[test]
fn what_is_wrong_with_a_file_of_questions_is_said() {
    let dir = directory("wrong-questions");
    for (text, said) in [
        ("[[question]]\nname = \"a\"\nask = \"tlss\"\n", "question `a`: `tlss` is not a type of question"),
        ("[[question]]\nname = \"a\"\nask = \"tls\"\nfilter = \"tls.sny\"\n", "did you mean `tls.sni`?"),
        ("[[question]]\nname = \"a\"\nasks = \"tls\"\n", "no option `asks`: is `ask` meant?"),
        ("[[question]]\nask = \"tls\"\n", "question of line 1: `name` is missing"),
        (
            "[[question]]\nname = \"a\"\nask = \"flows\"\ncontext = 24\n",
            "`context` does not apply to `flows`",
        ),
        ("", "no question"),
        (
            "[[question]]\nname = \"a\"\nask = \"tls\"\n[[question]]\nname = \"a\"\nask = \"flows\"\n",
            "two questions are called `a`",
        ),
        (
            "[[question]]\nname = \"a\"\nask = \"tls\"\noutput = \"same.json\"\n\
             [[question]]\nname = \"b\"\nask = \"flows\"\noutput = \"same.json\"\n",
            "is the output of `a`",
        ),
        (
            "[[question]]\nname = \"a\"\nask = \"tls\"\nformat = \"csv\"\n[[question]]\nname = \"b\"\nask = \"flows\"\n",
            "`a` also writes to standard output",
        ),
    ] {
        let file = dir.join("questions.toml");
        let text = text.replace("same.json", dir.join("same.json").to_str().unwrap());
        std::fs::write(&file, &text).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
        assert!(err.contains(said) && status == 2, "{text}: {err}");
    }
}

#[test]
fn all_that_is_wrong_with_a_file_of_questions_is_said_at_once_and_nothing_is_written() {
    let dir = directory("all-wrong-questions");
    let file = dir.join("questions.toml");
    let path = |name: &str| format!("{:?}", dir.join(name));
    let text = format!(
        "[[question]]\nname = \"a\"\nask = \"tls\"\nfilter = \"tls.sny\"\noutput = {}\n\
         [[question]]\nname = \"b\"\nasks = \"tls\"\n\
         [[question]]\nname = \"c\"\nask = \"tlss\"\nfilter = \"tcp.prot == 1\"\noutput = {}\n\
         [[question]]\nname = \"c\"\nask = \"sessions\"\nformat = \"zeek\"\noutput = {}\n\
         [[question]]\nname = \"right\"\nask = \"flows\"\noutput = {}\n",
        path("a.json"),
        path("c.json"),
        path("c.log"),
        path("right.json")
    );
    std::fs::write(&file, text).unwrap();
    let (out, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((out.as_str(), status), ("", 2));
    for said in [
        "the question of line 6: there is no option `asks`: is `ask` meant?",
        "did you mean `tls.sni`?",
        "question `c`: `tlss` is not a type of question",
        "did you mean `tcp.port`?",
        "two questions are called `c`",
        "question `c`: a Zeek log has rows of one kind",
    ] {
        assert!(err.contains(said), "{said}: {err}");
    }
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["questions.toml"]);
}

#[test]
fn zeeks_logs_are_those_of_what_happened() {
    let dir = directory("zeek");
    let (_, err, status) = weir(&["zeek", "-r", FIRST_LIGHT, "-d", dir.to_str().unwrap()]);
    assert_eq!((err.as_str(), status), ("", 0));
    // Each log has seven lines of header.
    for (log, command) in [("conn", "flows"), ("ssl", "tls"), ("dns", "dns")] {
        let rows: usize = weir(&[command, "-r", FIRST_LIGHT, "--count"]).0.trim().parse().unwrap();
        assert_eq!(lines(&dir.join(format!("{log}.log"))), rows + 7, "{log}");
    }
    assert!(!dir.join("quic.log").exists(), "no QUIC in the capture");
    let conn = std::fs::read_to_string(dir.join("conn.log")).unwrap();
    let mut header = conn.lines().filter(|line| line.starts_with("#fields") || line.starts_with("#types"));
    let (fields, types) = (header.next().unwrap(), header.next().unwrap());
    assert_eq!(fields.split('\t').count(), types.split('\t').count());
    assert!(fields.starts_with("#fields\tts\tuid\tid.orig_h\tid.orig_p"), "{fields}");
    assert!(types.starts_with("#types\ttime\tstring\taddr\tport"), "{types}");
}

/// The set values of a column in a Zeek log. Lists are split into their elements.
fn column(path: &Path, name: &str) -> Vec<String> {
    let log = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let fields = log.lines().find(|line| line.starts_with("#fields")).expect("a log names its fields");
    let place = fields.split('\t').skip(1).position(|field| field == name).expect("the column is there");
    let rows = log.lines().filter(|line| !line.starts_with('#'));
    let values = rows.flat_map(|row| row.split('\t').nth(place).expect("rows are whole").split(','));
    values.filter(|value| !matches!(*value, "-" | "(empty)")).map(str::to_string).collect()
}

#[test]
fn files_and_certificates_are_named_where_they_were_sent() {
    let dir = directory("zeek-files");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");
    let (_, err, status) = weir(&["zeek", "-r", capture, "-d", dir.to_str().unwrap()]);
    assert_eq!((err.as_str(), status), ("", 0));
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    let (http, files) = (dir.join("http.log"), dir.join("files.log"));
    let mails = column(&dir.join("smtp.log"), "fuids");
    assert!(!mails.is_empty());
    let of_http = [column(&http, "orig_fuids"), column(&http, "resp_fuids")].concat();
    let named = sorted([of_http, mails.clone()].concat());
    assert!(
        named.len() > 3 && named.iter().all(|fuid| fuid.len() == 18 && fuid.starts_with('F')),
        "{named:?}"
    );
    assert_eq!(named, sorted(column(&files, "fuid")));
    // The contents of the mails are text.
    let of_mails = vec!["text/plain".to_string(); mails.len()];
    let types = [column(&http, "orig_mime_types"), column(&http, "resp_mime_types"), of_mails].concat();
    let types = sorted(types);
    assert_eq!(types, sorted(column(&files, "mime_type")));
    // Each certificate has one row, however often it was sent.
    let ssl = dir.join("ssl.log");
    let shown = [column(&ssl, "cert_chain_fps"), column(&ssl, "client_cert_chain_fps")].concat();
    let prints = sorted(column(&dir.join("x509.log"), "fingerprint"));
    let distinct: std::collections::BTreeSet<String> = shown.iter().cloned().collect();
    assert!(shown.len() > distinct.len(), "some server is asked twice: {shown:?}");
    assert_eq!(prints, distinct.into_iter().collect::<Vec<_>>());
    for (command, rows) in [("files", named.len()), ("x509", prints.len())] {
        let count = weir(&[command, "-r", capture, "--count"]).0;
        assert_eq!(count.trim().parse(), Ok(rows), "weir {command} --count");
        assert_eq!(weir(&[command, "-r", capture]).0.lines().count(), rows, "weir {command}");
    }
    let large = weir(&["files", "-r", capture, "http.response.code == 200", "--count"]).0;
    assert!(large.trim().parse::<usize>().is_ok_and(|count| count > 0 && count < named.len()), "{large}");
}

#[test]
fn questions_come_and_go_while_it_runs() {
    let dir = directory("ctl");
    let (socket, names) = (dir.join("weir.sock"), dir.join("names.json"));
    let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "-r", "-", "--control"])
        .arg(&socket)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let bytes = std::fs::read(FIRST_LIGHT).unwrap();
    let mut input = running.stdin.take().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    let feeder = std::thread::spawn(move || {
        // Sends the file header once and the packets again and again, until the control socket has accepted
        // the questions.
        let (header, packets) = bytes.split_at(24);
        input.write_all(header).expect("it reads");
        while !is_done.load(Ordering::SeqCst) {
            for piece in packets.chunks(packets.len() / 100) {
                if input.write_all(piece).and_then(|()| input.flush()).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let socket = socket.to_str().unwrap();
    let began = Instant::now();
    while !Path::new(socket).exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, err, status) =
        weir(&["ctl", socket, "add", "names", "tls", "tls", "-o", names.to_str().unwrap()]);
    assert!(status == 0 && err.contains("done in"), "{err}");
    let (out, _, _) = weir(&["ctl", socket, "list"]);
    assert!(out.contains("\"name\":\"names\",\"ask\":\"tls\""), "{out}");
    let (_, err, status) = weir(&["ctl", socket, "add", "other", "tls", "tls.sny"]);
    assert!(status == 2 && err.contains("did you mean `tls.sni`?"), "{err}");
    let (_, err, status) = weir(&["ctl", socket, "remove", "nobody"]);
    assert!(status == 2 && err.contains("there is no question called `nobody`"), "{err}");
    let (_, err, status) = weir(&["ctl", socket, "remove", "names"]);
    assert!(status == 0, "{err}");
    assert!(names.exists());
    done.store(true, Ordering::SeqCst);
    feeder.join().unwrap();
    assert!(running.wait().unwrap().success());
    assert!(!Path::new(socket).exists(), "the socket goes with the run");
}

#[test]
fn questions_come_and_go_while_no_packets_do() {
    let dir = directory("ctl-idle");
    let bytes = std::fs::read(FIRST_LIGHT).unwrap();
    for workers in ["1", "2"] {
        let (socket, names) = (dir.join(format!("{workers}.sock")), dir.join(format!("{workers}.json")));
        let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["run", "-r", "-", "-j", workers, "--control"])
            .arg(&socket)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut input = running.stdin.take().unwrap();
        let began = Instant::now();
        while !socket.exists() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ctl = |args: &[&str]| {
            let (out, err, status) = weir(&[&["ctl", socket.to_str().unwrap()], args].concat());
            assert_eq!(status, 0, "{args:?}: {err}");
            out
        };
        // Nothing has been sent yet, not even the header of the capture.
        let began = Instant::now();
        assert_eq!(ctl(&["list"]), "");
        ctl(&["add", "names", "tls", "tls", "-o", names.to_str().unwrap()]);
        ctl(&["add", "other", "dns", "dns"]);
        ctl(&["remove", "other"]);
        let out = ctl(&["list"]);
        assert!(out.contains("\"name\":\"names\"") && !out.contains("other"), "{out}");
        assert!(began.elapsed() < Duration::from_secs(15), "as long as packets might take");
        // Questions that were added before the first packet see all packets.
        input.write_all(&bytes).expect("it reads");
        drop(input);
        assert!(running.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(&names).unwrap(), weir(&["tls", "-r", FIRST_LIGHT]).0);
    }
}

#[test]
fn every_option_of_a_question_can_be_set_at_the_control_socket() {
    let dir = directory("ctl-set");
    let (socket, digests, found) = (dir.join("weir.sock"), dir.join("digests.json"), dir.join("found.csv"));
    let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "-r", "-", "--control"])
        .arg(&socket)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut input = running.stdin.take().unwrap();
    let began = Instant::now();
    while !socket.exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ctl = |args: &[&str]| weir(&[&["ctl", socket.to_str().unwrap(), "add"], args].concat());
    for (args, said) in [
        (&["a", "streams", "--set", "digets=sha256"][..], "no option `digets`: is `digest` meant?"),
        (&["a", "streams", "--set", "flush=soon"], "`flush`: give a time"),
        (&["a", "streams", "--set", "digest"], "give KEY=VALUE"),
        (&["a", "streams", "--set", "digest=md5"], "`digest`: give one of sha256"),
        (&["a", "streams", "--set", "ask=tls"], "`ask`: give one value"),
        (&["a", "tls", "--set", "digest=sha256"], "`digest` does not apply to `tls`"),
        (&["a", "match"], "give `patterns`"),
    ] {
        let (_, err, status) = ctl(args);
        assert!(status == 2 && err.contains(said), "{args:?}: {err}");
    }
    let path = format!("output={}", digests.display());
    let options = ["cutoff=dns:40", "cutoff=1000", "chunk=512", "digest=sha256", &path];
    let sets: Vec<&str> = options.iter().flat_map(|option| ["--set", option]).collect();
    let (_, err, status) = ctl(&[&["digests", "streams"], &sets[..]].concat());
    assert_eq!(status, 0, "{err}");
    let more = ["-e", "HTTP", "--set", "patterns=example", "--set", "max_count=2", "--set", "context=3"];
    let out = ["-o", found.to_str().unwrap(), "--format", "csv"];
    let (_, err, status) = ctl(&[&["found", "match", "tcp"], &more[..], &out[..]].concat());
    assert_eq!(status, 0, "{err}");
    input.write_all(&std::fs::read(FIRST_LIGHT).unwrap()).expect("it reads");
    drop(input);
    assert!(running.wait().unwrap().success());
    let alone = weir(&[
        "streams",
        "-r",
        FIRST_LIGHT,
        "--digest",
        "sha256",
        "--cutoff",
        "dns:40",
        "--cutoff",
        "1000",
        "--chunk",
        "512",
    ]);
    let answers = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert!(answers(&digests) == alone.0 && alone.0.contains("\"sha256\""), "{}", alone.0);
    let alone = weir(&[
        "match",
        "-r",
        FIRST_LIGHT,
        "tcp",
        "-e",
        "HTTP",
        "-e",
        "example",
        "-m",
        "2",
        "-C",
        "3",
        "--format",
        "csv",
    ]);
    assert!(answers(&found) == alone.0 && alone.0.lines().count() > 5, "{}", alone.0);
}

#[test]
fn an_interrupted_run_leaves_whole_files() {
    let dir = directory("interrupted");
    let (rows, packets) = (dir.join("dns.json"), dir.join("all.pcap"));
    let file = dir.join("questions.toml");
    let text = format!(
        "[[question]]\nname = \"dns\"\nask = \"dns\"\noutput = {rows:?}\n\
         [[question]]\nname = \"all\"\nask = \"packets\"\noutput = {packets:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", file.to_str().unwrap(), "-r", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let bytes = std::fs::read(FIRST_LIGHT).unwrap();
    let mut input = running.stdin.take().unwrap();
    let half = bytes.len() / 2;
    input.write_all(&bytes[..half]).unwrap();
    let began = Instant::now();
    // Rows of live input are written immediately.
    while std::fs::metadata(&rows).map_or(0, |about| about.len()) == 0
        && began.elapsed() < Duration::from_secs(20)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(lines(&rows) > 5);
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(killed.success());
    // The run ends although no packets arrive and the pipe is still open.
    assert!(running.wait().unwrap().success());
    drop(input);
    let counted = weir(&["packets", "-r", packets.to_str().unwrap(), "--count"]);
    assert_eq!((counted.1.as_str(), counted.2), ("", 0), "the capture is whole");
}

/// Every kind of question writes its rows before the end of the pipe.
#[test]
fn rows_of_live_input_come_before_its_end() {
    let bytes = std::fs::read(FIRST_LIGHT).unwrap();
    let asked: [&[&str]; 9] = [
        &["packets"],
        &["packets", "-j", "2"],
        &["flows"],
        &["flows", "--format", "arrow"],
        &["sessions", "--format", "table"],
        &["dns", "--format", "csv"],
        &["tls", "--format", "zeek", "-j", "2"],
        &["streams", "tcp"],
        &["match", "-e", "HTTP", "--color", "always"],
    ];
    for args in asked {
        let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(args)
            .args(["-r", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut input = running.stdin.take().unwrap();
        let mut rows = running.stdout.take().unwrap();
        let (sender, first) = std::sync::mpsc::channel();
        let reading = std::thread::spawn(move || {
            // The client's address occurs in rows only, not in a header or a schema.
            let (client, mut came) = (b"192.0.2.10", [0; 4096]);
            let mut all = vec![];
            while !all.windows(client.len()).any(|bytes| bytes == client) {
                match rows.read(&mut came).expect("it writes") {
                    0 => return,
                    n => all.extend_from_slice(&came[..n]),
                }
            }
            let _ = sender.send(());
            std::io::copy(&mut rows, &mut std::io::sink()).expect("it writes on");
        });
        input.write_all(&bytes).expect("it reads");
        let row = first.recv_timeout(Duration::from_secs(60));
        assert!(row.is_ok(), "{args:?}: {row:?}");
        drop(input);
        assert!(running.wait().unwrap().success());
        reading.join().unwrap();
    }
}

/// If a signal ends the run before the end of the files, the exit status shows the signal.
#[test]
fn a_signal_that_ends_the_reading_of_files_is_in_the_exit_status() {
    use std::os::unix::process::ExitStatusExt;
    let many = vec![FIRST_LIGHT; 400];
    let running = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["packets", "--count", "tcp"])
        .args(many.iter().flat_map(|file| ["-r", file]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    // Waits until the command has installed its signal handler; then the first signal ends the reading.
    let file = |name| format!("/proc/{}/{name}", worker_of(running.id()));
    let caught = || {
        let status = std::fs::read_to_string(file("status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
    };
    while caught() >> (15 - 1) & 1 == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Compiling may take longer than a run has after the signal, so the signal comes while packets are read.
    let read_bytes = || {
        let io = std::fs::read_to_string(file("io")).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap_or(u64::MAX)
    };
    while read_bytes() < 4 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), ended.status.signal()), (Some(128 + 15), None), "{said}");
    assert!(said.contains("SIGTERM after "), "{said}");
    // The packets read so far are counted.
    assert!(String::from_utf8(ended.stdout).unwrap().trim().parse::<u64>().is_ok());
}

#[test]
fn rows_of_several_questions_say_whose_they_are() {
    let file = directory("named").join("questions.toml");
    let text = "[[question]]\nname = \"names\"\nask = \"tls\"\n\
                [[question]]\nname = \"all\"\nask = \"flows\"\nfilter = \"tcp.port == 443\"\n";
    std::fs::write(&file, text).unwrap();
    let (out, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((err.as_str(), status), ("", 0));
    let (of_names, of_all): (Vec<&str>, Vec<&str>) =
        out.lines().partition(|row| row.starts_with("{\"question\":\"names\","));
    assert!(of_all.iter().all(|row| row.starts_with("{\"question\":\"all\",")), "{out}");
    assert_eq!(of_names.len(), weir(&["tls", "-r", FIRST_LIGHT]).0.lines().count());
    assert_eq!(of_all.len(), weir(&["flows", "-r", FIRST_LIGHT, "tcp.port == 443"]).0.lines().count());
}

#[test]
fn a_filter_in_the_syntax_of_pcap_filter_is_every_log_s() {
    let dir = directory("bpf");
    let logs = |args: &[&str]| {
        let all = [&["zeek", "-r", FIRST_LIGHT, "-d", dir.to_str().unwrap()], args].concat();
        let (_, err, status) = weir(&all);
        assert_eq!((err.as_str(), status), ("", 0), "{args:?}");
        let read = |log| std::fs::read_to_string(dir.join(log)).expect("there is one");
        ["conn.log", "ssl.log"].map(|log| read(log).lines().filter(|line| !line.starts_with('#')).count())
    };
    let of_bpf = logs(&["--bpf", "tcp port 443"]);
    assert_eq!(of_bpf, logs(&["frame satisfies \"tcp port 443\""]));
    // Behind a tag, too.
    assert!(of_bpf[0] < logs(&["tcp.port == 443"])[0], "{of_bpf:?}");
    assert!(of_bpf[1] > 0 && of_bpf[0] < logs(&[])[0], "{of_bpf:?}");
    // The mistake is reported once, not for each log.
    let (_, err, status) = weir(&["zeek", "-r", FIRST_LIGHT, "-d", dir.to_str().unwrap(), "nonsense"]);
    assert_eq!((err.matches("there is no field").count(), status), (1, 2), "{err}");
}

#[test]
fn options_of_a_file_are_those_of_the_command_line() {
    let dir = directory("options");
    let file = dir.join("questions.toml");
    let cases: &[(&str, &str, &[&str])] = &[
        ("streams", "digest = \"sha256\"", &["--digest", "sha256"]),
        (
            "streams",
            "cutoff = [\"tcp.port == 443:1k\", \"10k\"]\npriority = \"dns:9\"",
            &["--cutoff", "tcp.port == 443:1k", "--cutoff", "10k", "--priority", "dns:9"],
        ),
        (
            "match",
            "patterns = [\"[Ss]erver\"]\ncontext = 4\nmax_count = 1\nchunk = \"4k\"\noverlap = \"100\"\nflush = 1.5",
            &["-e", "[Ss]erver", "-C", "4", "-m", "1", "--chunk", "4k", "--overlap", "100", "--flush", "1.5"],
        ),
        ("match", "patterns = [\"Server\"]\nstreams = \"with\"", &["-e", "Server", "-l"]),
        ("match", "patterns = [\"Server\"]\nstreams = \"without\"", &["-e", "Server", "-L"]),
        ("events", "events = [\"tcp\"]", &["-e", "tcp"]),
        ("stats", "", &[]),
    ];
    for (ask, options, args) in cases {
        let output = dir.join(format!("{ask}.json"));
        let text = format!("[[question]]\nname = \"one\"\nask = \"{ask}\"\noutput = {output:?}\n{options}\n");
        std::fs::write(&file, &text).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
        assert_eq!((err.as_str(), status), ("", 0), "{text}");
        let alone = weir(&[&[ask, "-r", FIRST_LIGHT, "--format", "json"], *args].concat()).0;
        assert!(!alone.is_empty(), "{text}");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), alone, "{text}");
    }
    for (ask, options, said) in [
        ("streams", "overlap = \"1k\"", "`overlap` needs `chunk`"),
        ("match", "patterns = [\"a\"]\nmax_count = 0", "`max_count`: give a whole number from 1"),
        ("flows", "digest = \"sha256\"", "`digest` does not apply to `flows`"),
        ("streams", "digest = \"md5\"", "`digest`: give one of sha256"),
        ("records", "first = 3\npackets = 4", "give one of them"),
    ] {
        std::fs::write(&file, format!("[[question]]\nname = \"one\"\nask = \"{ask}\"\n{options}\n")).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
        assert!(err.contains(said) && status == 2, "{options}: {err}");
    }
}

#[test]
fn two_questions_do_not_write_files_of_streams_to_one_directory() {
    let dir = directory("one-directory");
    let (file, bytes) = (dir.join("questions.toml"), dir.join("bytes"));
    std::fs::create_dir_all(&bytes).unwrap();
    let question = |name: &str, path: &Path| {
        format!("[[question]]\nname = \"{name}\"\nask = \"streams\"\nfiles = {path:?}\n")
    };
    std::fs::write(&file, question("a", &bytes) + &question("b", &bytes.join("."))).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert!(err.contains("is the output of `a`") && status == 2, "{err}");
    assert_eq!(std::fs::read_dir(&bytes).unwrap().count(), 0);
}

#[test]
fn streams_and_matches_are_questions_beside_others() {
    let dir = directory("stream-questions");
    let file = dir.join("questions.toml");
    let [streams, matches] = ["streams.json", "matches.csv"].map(|name| dir.join(name));
    let text = format!(
        "[[question]]\nname = \"streams\"\nask = \"streams\"\nfilter = \"tcp\"\noutput = {streams:?}\ncutoff = \"1k\"\n\
         [[question]]\nname = \"agents\"\nask = \"match\"\npatterns = ['user-agent: [a-z]+']\nignore_case = true\nmatcher = \"rust\"\n\
         format = \"csv\"\noutput = {matches:?}\n\
         [[question]]\nname = \"flows\"\nask = \"flows\"\nformat = \"csv\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let (out, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((err.as_str(), status), ("", 0));
    assert_eq!(out, weir(&["flows", "-r", FIRST_LIGHT, "--format", "csv"]).0);
    let alone = weir(&["streams", "-r", FIRST_LIGHT, "tcp", "--cutoff", "1k"]);
    assert_eq!(std::fs::read_to_string(&streams).unwrap(), alone.0);
    let looked = ["match", "-i", "-e", "user-agent: [a-z]+", "--format", "csv", "-r", FIRST_LIGHT];
    let alone = weir(&looked).0;
    assert!(alone.lines().count() > 2, "{alone}");
    assert_eq!(std::fs::read_to_string(&matches).unwrap(), alone);
    // `match` with its own output file.
    let own = dir.join("own.csv");
    let (out, _, status) = weir(&[&looked[..], &["-o", own.to_str().unwrap()]].concat());
    assert_eq!((out.as_str(), status, std::fs::read_to_string(&own).unwrap()), ("", 0, alone));
    for (text, said) in [
        ("ask = \"match\"\n", "there is no pattern"),
        ("ask = \"match\"\npatterns = ['(']\n", "unclosed group"),
        (
            "ask = \"match\"\npatterns = ['a']\nmatcher = \"rost\"\n",
            "`matcher`: give one of auto, rust, vectorscan",
        ),
        ("ask = \"flows\"\nmatcher = \"rust\"\n", "`matcher` does not apply to `flows`"),
        ("ask = \"flows\"\npatterns = ['a']\n", "`patterns` does not apply to `flows`"),
        ("ask = \"events\"\nfilter = 'tls'\n", "are delivered before this field is known"),
    ] {
        std::fs::write(&file, format!("[[question]]\nname = \"a\"\n{text}")).unwrap();
        let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
        assert!(status == 2 && err.contains(said), "{text}: {err}");
    }
}

#[test]
fn rows_of_files_and_certificates_are_chosen_by_their_columns() {
    let dir = directory("part-filters");
    let rows = |what: &str, filter: &str| {
        let (out, err, status) = weir(&[what, "-r", SESSIONS, "--format", "json", filter]);
        assert_eq!((err.as_str(), status), ("", 0), "{filter}");
        let rows: Vec<serde_json::Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let counted = weir(&[what, "-r", SESSIONS, "--count", filter]).0;
        assert_eq!(counted.trim(), rows.len().to_string(), "{filter}");
        rows
    };
    let all = rows("files", "");
    let html = |row: &serde_json::Value| row["mime_type"] == "text/html";
    let some = all.iter().filter(|row| html(row)).count();
    assert!(0 < some && some < all.len());
    assert_eq!(rows("files", "files.mime_type == \"text/html\"").len(), some);
    assert_eq!(rows("files", "not files.mime_type == \"text/html\"").len(), all.len() - some);
    let both =
        rows("files", "http.response.code == 200 and (files.mime_type == \"text/html\" or files.is_orig)");
    assert!(!both.is_empty() && both.iter().all(|row| html(row) || row["is_orig"] == true));
    // Filters accept the names of fields and of columns.
    let by_field = rows("x509", "x509.subject contains \"www\"");
    assert!(!by_field.is_empty());
    assert_eq!(rows("x509", "x509.certificate.subject contains \"www\""), by_field);
    // A file of questions accepts both as well.
    let file = dir.join("questions.toml");
    let text = "[[question]]\nname = \"a\"\nask = \"files\"\nformat = \"csv\"\nfilter = 'files.mime_type == \"text/html\"'\n";
    std::fs::write(&file, text).unwrap();
    let (out, err, _) = weir(&["run", file.to_str().unwrap(), "-r", SESSIONS]);
    assert_eq!((out.lines().count(), err.as_str()), (some + 1, ""));
    for (filter, said) in [
        ("files.mime_type == \"a\" or http.host == \"b\"", "other fields are alternatives here"),
        ("files.mimetype == \"a\"", "did you mean `files.mime_type`?"),
    ] {
        let (_, err, status) = weir(&["files", "-r", SESSIONS, filter]);
        assert!(status == 2 && err.contains(said), "{err}");
    }
}

/// If a segment contains several messages, the filter is applied to each row, by `events` and by `run`.
#[test]
fn events_are_chosen_by_their_own_columns() {
    let dir = directory("event-rows");
    let (stack, file, out) = (dir.join("records.weir"), dir.join("questions.toml"), dir.join("alerts.json"));
    std::fs::write(
        &stack,
        "//! TLS record\nprotocol record {\n header { type: u8 where <= 24  version: u16 where <= 0x0304  length: u16 where <= 16640 }\n\
         payload = rest[.. length]\n event seen on packet { type, length } }\n\
         //! TLS's records\nstack records extends internet { tcp -> messages record when port == 443 }\n",
    )
    .unwrap();
    let stack = stack.to_str().unwrap();
    let events = |filter: &str| {
        let (out, err, status) =
            weir(&["events", "-r", FIRST_LIGHT, "--stack", stack, "-e", "record.seen", filter]);
        (out, err, status)
    };
    let all = events("").0;
    let is_short = |row: &&str| {
        let row: serde_json::Value = serde_json::from_str(row).expect("a row");
        row["type"] == 22 && row["length"].as_u64().is_some_and(|length| length < 100)
    };
    let expected: Vec<&str> = all.lines().filter(is_short).collect();
    assert!(!expected.is_empty() && expected.len() < all.lines().count());
    let filter = "seen.type == 22 and seen.length < 100";
    let (found, err, status) = events(filter);
    assert_eq!((found.lines().collect::<Vec<_>>(), status), (expected.clone(), 0), "{err}");
    let without = events(&format!("not ({filter})")).0;
    assert_eq!(without.lines().count() + expected.len(), all.lines().count());
    // A filter on fields of the packet also holds if another message of the packet fulfils it.
    assert!(events("record.type == 22 and record.length < 100").0.lines().count() > expected.len());
    let text = format!(
        "stack = {stack:?}\n[[question]]\nname = \"a\"\nask = \"events\"\nevents = [\"record.seen\"]\nfilter = {filter:?}\noutput = {out:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), found);
    // A filter that no row can fulfil causes a warning.
    let (rows, err, _) = events("tcp.aborted.seq > 0");
    assert!(rows.is_empty() && err.contains("no row of `tcp.aborted` is asked for"), "{err}");
    let both = "record.seen.type == 22 and tcp.aborted.seq > 0";
    let (rows, err, _) = weir(&["events", "-r", FIRST_LIGHT, "--stack", stack, both]);
    assert!(rows.is_empty() && err.contains("no row is of `record.seen` and of `tcp.aborted`"), "{err}");
}

#[test]
fn outputs_are_touched_once_there_is_a_program() {
    let dir = directory("too-many-questions");
    let (file, kept, empty) = (dir.join("questions.toml"), dir.join("kept.json"), dir.join("empty.pcapng"));
    let others = |count: usize| {
        (0..count).map(|n| {
            format!(
                "[[question]]\nname = \"q{n}\"\nask = \"packets\"\nfilter = \"arp\"\noutput = \"/dev/null\"\nformat = \"json\"\n"
            )
        })
    };
    let own = format!(
        "[[question]]\nname = \"own\"\nask = \"flows\"\nfilter = \"tcp.port == 1\"\noutput = {kept:?}\n\
         [[question]]\nname = \"frames\"\nask = \"packets\"\nfilter = \"tcp.port == 1\"\noutput = {empty:?}\n"
    );
    std::fs::write(&kept, "of another run").unwrap();
    std::fs::write(&file, own.clone() + &others(1_023).collect::<String>()).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert!(status == 2 && err.contains("W0192"), "{err}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "of another run");
    assert!(!empty.exists());
    // If there is a program, it writes its output, which is empty here.
    std::fs::write(&file, own + &others(2).collect::<String>()).unwrap();
    let (_, err, status) = weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT]);
    assert_eq!((err.as_str(), status), ("", 0));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "");
    assert_eq!(weir(&["packets", "-r", empty.to_str().unwrap(), "--count"]).0, "0\n");
}

#[test]
fn every_output_that_fails_is_named_with_its_question() {
    let dir = directory("failing");
    let file = dir.join("questions.toml");
    let full = ["a.json", "b.pcap"].map(|name| dir.join(name));
    for path in &full {
        let _ = std::fs::remove_file(path);
        let made = std::process::Command::new("mknod").arg(path).args(["c", "1", "7"]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return eprintln!("skipped: only root makes devices as /dev/full");
        }
    }
    let text = format!(
        "[[question]]\nname = \"rows\"\nask = \"flows\"\noutput = {:?}\n\
         [[question]]\nname = \"frames\"\nask = \"packets\"\noutput = {:?}\n",
        full[0], full[1]
    );
    std::fs::write(&file, text).expect("a file of questions");
    let (_, said, status) = weir(&["run", file.to_str().expect("a name"), "-r", FIRST_LIGHT]);
    assert_eq!(status, 2, "{said}");
    for (question, path) in ["rows", "frames"].iter().zip(&full) {
        assert!(
            said.contains(&format!("question `{question}`: {}: No space left", path.display())),
            "{said}"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_told_before_the_run() {
    let file = directory("unmakeable").join("questions.toml");
    let text = "[[question]]\nname = \"rows\"\nask = \"flows\"\nformat = \"parquet\"\noutput = \"/proc/weir/rows/\"\n";
    std::fs::write(&file, text).expect("a file of questions");
    let (_, said, status) = weir(&["run", file.to_str().expect("a name"), "-r", FIRST_LIGHT, "--stats"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("/proc/weir/rows/: ") && !said.contains("packets"), "{said}");
}
