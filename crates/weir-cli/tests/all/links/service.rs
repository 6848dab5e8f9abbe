//! Live runs as services: rights that are given up, reloads, files by time.

use crate::links::{
    Capturing, FIRST_LIGHT, assert_exact, counter, datagrams, frames_of, inside, make_pair, send, sh, text,
};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A folder that every user may write to.
fn open_folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a temporary folder");
    sh(&format!("chmod 777 {}", path.display()));
    path
}

fn weir(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("it runs");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// Waits until the condition holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The values of a line of `status` of each thread.
pub(crate) fn of_threads(process: u32, line: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process runs").flatten();
    let values = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let value = status.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(':').map(str::trim));
        Some(value?.split_whitespace().next().unwrap_or_default().to_string())
    });
    let mut values: Vec<String> = values.collect();
    values.sort();
    values.dedup();
    values
}

/// Numbers of capabilities (linux/capability.h).
const DAC_OVERRIDE: u32 = 1;
const FOWNER: u32 = 3;
const KILL: u32 = 5;
const NET_ADMIN: u32 = 12;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// A set of capabilities, as the kernel writes it.
fn rights(capabilities: &[u32]) -> String {
    format!("{:016x}", capabilities.iter().fold(0u64, |set, one| set | 1 << one))
}

fn lines(path: &Path) -> u64 {
    fs::read_to_string(path).unwrap_or_default().lines().count() as u64
}

#[test]
fn a_run_without_rights_delivers_everything() {
    if !inside("service::a_run_without_rights_delivers_everything") {
        return;
    }
    make_pair(0);
    let nobody = text(&Command::new("id").args(["-u", "nobody"]).output().expect("id runs").stdout);
    for (method, workers) in [("af_packet", "2"), ("af_xdp", "1")] {
        let folder = open_folder("rights");
        let at = |name: &str| folder.join(name).to_str().expect("text").to_string();
        let mut asked = String::new();
        for (name, ask, output) in [
            ("flows", "flows", at("flows.parquet")),
            ("packets", "packets", at("packets.json")),
            ("seen", "packets", at("seen.pcapng")),
            ("clients", "packets", "tcp-listen:9917".to_string()),
        ] {
            asked += &format!("[[question]]\nname = \"{name}\"\nask = \"{ask}\"\noutput = {output:?}\n");
        }
        fs::write(at("q.toml"), asked).expect("a temporary file");
        let (questions, socket) = (at("q.toml"), at("socket"));
        let run = ["run", &questions, "-i", "in0", "--method", method, "-j", workers];
        let options = ["--control", &socket, "--user", "nobody", "--stats", "-v", "--monitor"];
        let capturing = Capturing::start(&[&run[..], &options].concat());
        let (keeper, worker) = (capturing.child.id(), capturing.worker());
        let first = send("out0", &datagrams(500, None)) as u64;
        until("the first packets are written", || lines(Path::new(&at("packets.json"))) == first);
        let mut client = TcpStream::connect("127.0.0.1:9917").expect("clients are served");
        client.set_read_timeout(Some(Duration::from_secs(30))).expect("it is open");
        client.read_exact(&mut [0; 28]).expect("the header of the capture");
        // Code is compiled again after many packets, and questions change.
        let (is_added, said) = weir(&["ctl", &socket, "add", "more", "packets", "-o", &at("more.json")]);
        assert!(is_added, "{said}");
        let (is_added, said) =
            weir(&["ctl", &socket, "add", "other", "packets", "-o", "/run/weir-other.json"]);
        assert!(!is_added && said.contains("--write-to DIR"), "{said}");
        let mut more = 0;
        for _ in 0..10 {
            more += send("out0", &datagrams(1_000, None)) as u64;
            until("all packets are written", || lines(Path::new(&at("more.json"))) == more);
        }
        for process in [keeper, worker] {
            assert_eq!(of_threads(process, "NoNewPrivs"), ["1"]);
            assert_eq!(of_threads(process, "Seccomp"), ["2"]);
            for set in ["CapInh", "CapBnd", "CapAmb"] {
                assert_eq!(of_threads(process, set), [rights(&[])], "{set}");
            }
        }
        let loads = if method == "af_xdp" { &[BPF, PERFMON, NET_ADMIN][..] } else { &[BPF, PERFMON] };
        for set in ["CapEff", "CapPrm"] {
            assert_eq!(of_threads(worker, set), [rights(&[])], "{set}");
            // A thread of the keeper loads programs, another one sends signals to the worker.
            assert_eq!(of_threads(keeper, set), [rights(&[KILL]), rights(loads)], "{set}");
        }
        assert_eq!(of_threads(worker, "Uid"), [nobody.trim()]);
        assert_eq!(of_threads(worker, "Groups").len(), 1);
        assert_eq!(of_threads(keeper, "Uid"), ["0"]);
        drop(client);
        let output = capturing.end();
        assert_exact(&output, first + more);
        assert!(!text(&output.stderr).contains("sandbox:"), "{}", text(&output.stderr));
        assert_eq!(lines(Path::new(&at("packets.json"))), first + more);
        assert_eq!(
            weir(&["packets", "-r", &at("seen.pcapng"), "--count"]).1.trim(),
            (first + more).to_string()
        );
        assert!(fs::metadata(at("flows.parquet")).is_ok_and(|about| about.len() > 1000));
        assert!(!Path::new(&socket).exists(), "the socket is removed");
        let _ = fs::remove_dir_all(&folder);
    }
}

fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A process that has ended and that nobody waited for is a zombie.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Whichever part of a capture dies, the other one ends, too, and no program stays attached.
#[test]
fn no_part_of_a_capture_outlives_the_other() {
    if !inside("service::no_part_of_a_capture_outlives_the_other") {
        return;
    }
    make_pair(0);
    let has_program = || {
        let link = Command::new("ip").args(["link", "show", "in0"]).output().expect("ip runs");
        text(&link.stdout).contains("xdp")
    };
    for method in ["af_packet", "af_xdp"] {
        let start = || {
            let run = ["flows", "-i", "in0", "--method", method, "--user", "nobody", "--format", "json"];
            let capturing = Capturing::start(&run);
            let worker = capturing.worker();
            assert_ne!(worker, capturing.child.id());
            assert_eq!(has_program(), method == "af_xdp");
            (worker, capturing)
        };
        for (signal, number) in [("ABRT", 6), ("KILL", 9)] {
            let (worker, capturing) = start();
            let keeper = capturing.child.id();
            sh(&format!("kill -{signal} {worker}"));
            let output = capturing.wait();
            assert_eq!(output.status.code(), Some(128 + number));
            let said = text(&output.stderr);
            assert!(said.contains(&format!("signal {number} ended the worker")), "{said}");
            assert!(!runs(keeper) && !runs(worker) && !has_program());
        }
        let (worker, capturing) = start();
        capturing.signal("KILL");
        capturing.wait();
        until("the worker ends with its keeper", || !runs(worker));
        assert!(!has_program());
        // A signal for both is no second one.
        let (worker, capturing) = start();
        sh(&format!("kill -TERM {worker} {}", capturing.child.id()));
        let output = capturing.wait();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(!has_program());
    }
    // A supervisor may have left the ends of children ignored. A signal that the kernel sends is passed on,
    // too: to a process that leads a session, when its terminal is closed.
    let weir = env!("CARGO_BIN_EXE_weir");
    let started = format!("trap '' CHLD; exec {weir} flows -i in0");
    let capturing = Capturing::run(Command::new("sh").args(["-c", &started]), "capturing on");
    capturing.signal("HUP");
    assert_eq!(capturing.wait().status.code(), Some(0));
    // Nobody reads the memory of a keeper, as the same user either.
    let setpriv = [
        "--reuid",
        "nobody",
        "--inh-caps",
        "+bpf,+perfmon,+net_raw",
        "--ambient-caps",
        "+bpf,+perfmon,+net_raw",
    ];
    let capturing = Capturing::run(
        Command::new("setpriv").args(setpriv).arg(weir).args(["flows", "-i", "in0"]),
        "capturing on",
    );
    let keeper = capturing.child.id();
    assert_ne!(capturing.worker(), keeper);
    let of_keeper = format!("/proc/{keeper}/mem");
    let read = Command::new("setpriv").args(["--reuid", "nobody", "head", "-c", "1", &of_keeper]).output();
    assert!(text(&read.expect("setpriv runs").stderr).contains("Permission denied"));
    let output = capturing.end();
    assert!(output.status.success());
}

#[test]
fn rights_are_those_that_the_options_say() {
    if !inside("service::rights_are_those_that_the_options_say") {
        return;
    }
    make_pair(0);
    let folder = open_folder("options");
    let output = folder.join("out.json");
    // The folder belongs to another user, who alone may enter it: root still writes there.
    sh(&format!("chown daemon {}", folder.display()));
    sh(&format!("chmod 700 {}", folder.display()));
    let number = |name: &str| text(&Command::new("id").args(["-u", name]).output().expect("id runs").stdout);
    for (options, seccomp, has_all) in [(&[][..], "2", false), (&["--no-sandbox"][..], "0", true)] {
        let run = ["packets", "-i", "in0", "-o", output.to_str().expect("text"), "--stats"];
        let capturing = Capturing::start(&[&run[..], options].concat());
        let sent = send("out0", &datagrams(100, None)) as u64;
        until("all packets are written", || lines(&output) == sent);
        let (keeper, worker) = (capturing.child.id(), capturing.worker());
        assert_eq!(keeper == worker, has_all);
        assert_eq!(of_threads(worker, "Seccomp"), [seccomp]);
        // The questions cannot change: the thread that loaded their filters is gone.
        let kept = [rights(&[DAC_OVERRIDE, FOWNER]), rights(&[KILL])];
        until("the filters are loaded", || has_all || of_threads(keeper, "CapEff") == kept);
        if !has_all {
            assert_eq!(of_threads(worker, "CapEff"), [rights(&[])]);
            assert_eq!(of_threads(worker, "Uid"), [number("nobody").trim()]);
            assert_eq!(of_threads(keeper, "Uid"), ["0"]);
            let network = |process: u32| fs::read_link(format!("/proc/{process}/ns/net")).expect("it runs");
            assert_ne!(network(worker), network(keeper), "it has a network of its own");
        }
        assert_eq!(counter(&capturing.end(), "packets"), sent);
        let about = fs::metadata(&output).expect("it is there");
        assert_eq!((about.uid(), about.mode() & 0o777), (0, 0o600), "the file is that of root");
    }
    for (options, wanted) in [
        (["--user", "no-such-user"], "there is no user `no-such-user`"),
        (["--user", "nobody:no-such-group"], "there is no group"),
        (["--write-to", "/no/such/directory"], "no such directory"),
    ] {
        let (is_right, said) = weir(&[&["flows", "-i", "in0"][..], &options].concat());
        assert!(!is_right && said.contains(wanted), "{said}");
    }
    let (is_right, said) = weir(&["flows", "-r", "x.pcap", "--user", "nobody"]);
    assert!(!is_right && said.contains("--user is for captures on an interface"), "{said}");
    let _ = fs::remove_dir_all(&folder);
}

/// A run of root continues as another user, unless the command line says root. Its files are root's.
#[test]
fn captures_of_root_continue_as_another_user() {
    if !inside("service::captures_of_root_continue_as_another_user") {
        return;
    }
    make_pair(0);
    // The namespace has an /etc of its own.
    for line in ["mount -t tmpfs tmpfs /mnt", "cp -a /etc /mnt/etc", "mount --bind /mnt/etc /etc"] {
        sh(line);
    }
    sh("sed -i /^weir:/d /etc/passwd");
    let folder = open_folder("another");
    sh(&format!("chmod 700 {}", folder.display()));
    let (output, link) = (folder.join("out.json"), folder.join("link"));
    fs::create_dir(folder.join("logs")).expect("a directory");
    std::os::unix::fs::symlink(folder.join("logs"), &link).expect("a link");
    let run = ["packets", "-i", "in0", "-o", output.to_str().expect("text")];
    let number = |name: &str| text(&Command::new("id").args(["-u", name]).output().expect("id runs").stdout);
    let by_option = [(&[][..], "nobody"), (&["--user", "root"], "root"), (&["--no-sandbox"], "root")];
    for (options, user) in by_option {
        let _ = fs::remove_file(&output);
        let capturing = Capturing::start(&[&run[..], options].concat());
        let sent = send("out0", &datagrams(100, None)) as u64;
        until("all packets are written", || lines(&output) == sent);
        assert_eq!(of_threads(capturing.worker(), "Uid"), [number(user).trim()], "{options:?}");
        if !options.contains(&"--no-sandbox") {
            assert_eq!(of_threads(capturing.worker(), "CapEff"), [rights(&[])], "{options:?}");
        }
        assert_eq!(fs::metadata(&output).expect("it is there").uid(), 0, "{options:?}");
        capturing.end();
    }
    // The user of the packages. Logs are in a directory to which a link leads, and one has its rights kept.
    let users = fs::read_to_string("/etc/passwd").expect("a file");
    fs::write("/etc/passwd", users + "weir:x:12345:12345::/:/bin/false\n").expect("a file");
    let kept = folder.join("logs/conn.log");
    fs::write(&kept, "old").expect("a file");
    sh(&format!("chmod 644 {}", kept.display()));
    let capturing = Capturing::start(&["zeek", "-i", "in0", "-d", link.to_str().expect("text")]);
    send("out0", &frames_of(Path::new(FIRST_LIGHT)));
    assert_eq!(of_threads(capturing.worker(), "Uid"), ["12345"]);
    let output = capturing.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for log in fs::read_dir(folder.join("logs")).expect("a directory").flatten() {
        let about = log.metadata().expect("it is there");
        let wanted = if log.path() == kept { 0o644 } else { 0o600 };
        assert_eq!((about.uid(), about.mode() & 0o777), (0, wanted), "{:?}", log.path());
    }
    assert!(lines(&kept) > 10, "it has the connections");
    // A pipe of a shell, and the standard output by its name.
    let weir = env!("CARGO_BIN_EXE_weir");
    let piped = format!("{weir} packets -i in0 --format json -o /dev/stdout | head -n 3 | wc -l");
    let counting = std::thread::spawn(move || Command::new("bash").args(["-c", &piped]).output());
    let begun = Instant::now();
    while !counting.is_finished() && begun.elapsed() < Duration::from_secs(30) {
        send("out0", &datagrams(10, None));
        std::thread::sleep(Duration::from_millis(100));
    }
    let counted = counting.join().expect("no panic").expect("bash runs");
    assert_eq!(text(&counted.stdout).trim(), "3", "{}", text(&counted.stderr));
    let _ = fs::remove_dir_all(&folder);
}

/// A file of questions: names, each with the rest of its table.
fn write_questions(path: &Path, questions: &[(&str, String)]) {
    let tables = questions.iter().map(|(name, rest)| format!("[[question]]\nname = \"{name}\"\n{rest}\n"));
    fs::write(path, tables.collect::<String>()).expect("a temporary file");
}

/// The file of questions changes: questions that stay lose no packet and no connection, and files that were
/// moved away are complete.
#[test]
fn a_reload_keeps_what_stays() {
    if !inside("service::a_reload_keeps_what_stays") {
        return;
    }
    make_pair(0);
    let folder = open_folder("reload");
    let (file, at) = (folder.join("q.toml"), |name: &str| folder.join(name));
    let of = |ask: &str, output: &str| format!("ask = \"{ask}\"\noutput = {:?}", at(output));
    let kept = ("kept", of("packets", "kept.json"));
    let flows = ("flows", of("flows", "flows.json"));
    let moved = ("moved", of("packets", "moved.pcapng"));
    let limited = ("limited", of("packets", "limited.json") + "\nlimit = 3");
    let first =
        [kept.clone(), flows.clone(), moved.clone(), limited.clone(), ("gone", of("packets", "gone.json"))];
    write_questions(&file, &first);
    let capturing =
        Capturing::start(&["run", file.to_str().expect("text"), "-i", "in0", "-j", "2", "--stats"]);
    let count = |name: &str| lines(&at(name));
    let mut sent = 0;
    let mut more = || {
        sent += send("out0", &datagrams(500, None)) as u64;
        until("the packets are written", || count("kept.json") == sent);
        sent
    };
    let before = more();
    until("the other question has them, too", || count("gone.json") == before);
    // A mistake changes nothing.
    write_questions(
        &file,
        &[kept.clone(), ("wrong", of("packets", "wrong.json") + "\nfilter = \"tcp.prt == 1\"")],
    );
    capturing.signal("HUP");
    std::thread::sleep(Duration::from_millis(500));
    let unchanged = more();
    until("all questions continue", || count("gone.json") == unchanged);
    assert!(!at("wrong.json").exists());
    // As logrotate does.
    fs::rename(at("moved.pcapng"), at("moved-1.pcapng")).expect("it is there");
    let second = [kept, flows, moved, limited, ("new", of("packets", "new.json"))];
    write_questions(&file, &second);
    capturing.signal("HUP");
    until("the new question has begun", || at("new.json").exists() && at("moved.pcapng").exists());
    let all = more();
    until("the new question has packets", || count("new.json") == all - unchanged);
    let output = capturing.end();
    let said = text(&output.stderr);
    assert_exact(&output, all);
    assert_eq!(counter(&output, "packets"), all, "nothing is lost");
    assert_eq!(count("gone.json"), unchanged, "the removed question has ended");
    assert_eq!(count("limited.json"), 3, "a question that has ended does not begin again");
    let packets = |name: &str| {
        let (_, said) = weir(&["packets", "-r", at(name).to_str().expect("text"), "--count"]);
        said.trim().parse::<u64>().unwrap_or_else(|_| panic!("{said}"))
    };
    let parts = [packets("moved-1.pcapng"), packets("moved.pcapng")];
    assert!(parts.iter().all(|part| *part > 0) && parts.iter().sum::<u64>() == all, "{parts:?} {all}");
    // Each connection has the packets before and after the reload.
    let rows = fs::read_to_string(at("flows.json")).expect("it is there");
    assert_eq!(rows.lines().count(), 500, "{said}");
    assert!(
        rows.lines().all(|row| row.contains("\"orig_pkts\":3")),
        "{}",
        rows.lines().next().unwrap_or_default()
    );
    assert!(said.contains("tcp.prt") && said.contains("stay as they are"), "{said}");
    assert!(said.contains("reloaded: 1 questions begin, 1 end, 4 continue"), "{said}");
    let _ = fs::remove_dir_all(&folder);
}

/// On an interface, the file of a period is complete although no packet comes any more.
#[test]
fn a_file_ends_with_its_time_without_packets() {
    if !inside("service::a_file_ends_with_its_time_without_packets") {
        return;
    }
    make_pair(0);
    let folder = open_folder("time");
    let output = folder.join("p.json");
    let run = ["packets", "-i", "in0", "-o", output.to_str().expect("text"), "--rotate", "1s", "--stats"];
    let capturing = Capturing::start(&run);
    let files = || {
        let names = fs::read_dir(&folder).expect("it is there").flatten().map(|entry| entry.path());
        names.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect::<Vec<_>>()
    };
    let mut sent = 0;
    for _ in 0..2 {
        let before = files().len();
        sent += send("out0", &datagrams(100, None)) as u64;
        until("the file is complete", || files().len() > before);
    }
    assert_eq!(counter(&capturing.end(), "packets"), sent);
    assert_eq!(files().iter().map(|path| lines(path)).sum::<u64>(), sent);
    let _ = fs::remove_dir_all(&folder);
}

/// As systemd starts the unit: as another user, with one capability, and with all options in the file.
#[test]
fn a_file_states_a_whole_service() {
    if !inside("service::a_file_states_a_whole_service") {
        return;
    }
    make_pair(0);
    let folder = open_folder("whole");
    let at = |name: &str| folder.join(name).to_str().expect("text").to_string();
    let options = format!(
        "interface = [\"in0\"]\nmethod = \"af_packet\"\nbuffer = \"8M\"\nno_promiscuous = true\nworkers = 2\n\
         cpus = \"0\"\nmemory = \"200M\"\noutput_wait = \"2s\"\nstats = true\ncontrol = {:?}\nwrite_to = [{:?}]\n",
        at("socket"),
        at("")
    );
    let question =
        "[[question]]\nname = \"p\"\nask = \"packets\"\noutput = \"p.json\"\nrotate = \"1G,1h\"\nkeep = 3\n";
    fs::write(at("q.toml"), options + question).expect("a temporary file");
    // The program may lie where another user cannot reach it.
    fs::copy(env!("CARGO_BIN_EXE_weir"), at("weir")).expect("it was built");
    let (program, questions, said) = (at("weir"), at("q.toml"), at("said"));
    let caps =
        ["--inh-caps", "-all,+net_raw", "--ambient-caps", "-all,+net_raw", "--bounding-set", "-all,+net_raw"];
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "nobody", "--clear-groups"]).args(caps).args([&program, "run", &questions]);
    command.current_dir(&folder).stderr(fs::File::create(&said).expect("a temporary file"));
    let Ok(mut child) = command.stdin(std::process::Stdio::null()).spawn() else {
        eprintln!("skipped: a_file_states_a_whole_service needs setpriv (util-linux)");
        return;
    };
    let messages = || fs::read_to_string(&said).unwrap_or_default();
    until("it captures", || messages().contains("capturing on in0"));
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(of_threads(child.id(), set), ["0000000000000000"], "{set}");
    }
    let sent = send("out0", &datagrams(500, None)) as u64;
    std::thread::sleep(Duration::from_millis(500));
    sh(&format!("kill -TERM {}", child.id()));
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{}", messages());
    let written = fs::read_dir(&folder).expect("it is there").flatten().map(|entry| entry.path());
    let written: Vec<PathBuf> =
        written.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    assert_eq!(written.len(), 1, "{written:?} {}", messages());
    assert_eq!(lines(&written[0]), sent, "{}", messages());
    let _ = fs::remove_dir_all(&folder);
}
