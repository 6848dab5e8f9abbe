//! `weir check`, and `--stack` with a file: diagnostics about `.weir` texts.

use crate::cli::{answer, count, example, scratch, text, weir, worker_of};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_protocols_that_are_shipped_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["protocols", "bench"].map(|name| std::fs::read_dir(root.join(name)).expect("a folder"));
    let paths = folders.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let texts: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "weir")).collect();
    assert!(texts.len() > 20, "{texts:?}");
    texts.iter().for_each(|path| drop(answer(&["check", path.to_str().unwrap()], 0)));
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
fn what_a_file_imports_is_named_as_seen_from_it() {
    let folder = scratch("imports");
    std::fs::create_dir_all(folder.join("common")).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write("common/numbers.weir", "import \"../hello.weir\"\nfn half(a) = a >> 1\ntable names { 1: 10 }\n");
    write(
        "hello.weir",
        "import \"common/numbers.weir\"\n\
         protocol hello { header { kind: u8 \"kind\" } let less = half(kind) \"half of it\" payload = rest }\n\
         stack mine extends internet { udp -> hello when dst_port == 53 or src_port == 53 }\n",
    );
    write("lost.weir", "import \"common/numbres.weir\"\nprotocol x { header { a: u8 } }\n");
    let stack = folder.join("hello.weir");
    let stack = stack.to_str().unwrap();
    answer(&["check", stack], 0);
    let file = example();
    let asked = &["packets", "-r", file.to_str().unwrap(), "--count", "--stack", stack, "hello.less >= 0"];
    assert_eq!(answer(asked, 0).trim().parse(), Ok(count("udp.port == 53")));
    let lost = weir(&["check", folder.join("lost.weir").to_str().unwrap()]);
    let message = text(&lost.stderr);
    assert!(lost.status.code() == Some(2) && message.contains("numbres.weir` can't be read"), "{message}");
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
fn a_changed_copy_of_what_is_shipped_replaces_it() {
    let path = scratch("changed.weir");
    let shipped = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
        std::fs::read_to_string(folder.join(name)).expect("a protocol that is shipped")
    };
    let file = example();
    let file = file.to_str().unwrap();
    // `check` and a question that uses the text print the same diagnostics.
    let tried = |text_of: &str| {
        std::fs::write(&path, text_of).expect("a temporary file");
        let name = path.to_str().unwrap();
        let check = weir(&["check", name]);
        let asked = weir(&["packets", "-r", file, "--stack", name, "--count", "udp"]);
        assert_eq!((check.status.code(), &check.stderr), (asked.status.code(), &asked.stderr));
        (check.status.code(), text(&asked.stdout), text(&check.stderr))
    };
    let all = format!("{}\n", count("udp"));
    let udp = shipped("udp.weir");
    assert_eq!(tried(&udp), (Some(0), all.clone(), String::new()));
    assert_eq!(tried(&shipped("internet.weir")), (Some(0), all.clone(), String::new()));
    // Filters then use the field names of the copy.
    assert_eq!(tried(&udp.replace("srcport", "from_port")).1, all);
    let name = path.to_str().unwrap();
    assert!(answer(&["fields", "udp.from_port", "--stack", name], 0).contains("source port"));
    assert!(answer(&["docs", name], 0).starts_with("# udp\n"));
    // A user's stack replaces the shipped stack of the same name.
    std::fs::write(&path, "stack internet { start ETHERNET: eth }").expect("a temporary file");
    answer(&["check", name], 0);
    let refused = weir(&["packets", "-r", file, "--stack", name, "udp"]);
    assert!(text(&refused.stderr).contains("there is no field `udp`"), "{refused:?}");
}

#[test]
fn what_a_text_breaks_elsewhere_is_said_where_it_is_right_itself() {
    let path = scratch("breaks.weir");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols/eth.weir");
    let wrong = std::fs::read_to_string(shipped).expect("it is shipped").replace("ethertype", "kind");
    let check = |text_of: &str| {
        std::fs::write(&path, text_of).expect("a temporary file");
        let output = weir(&["check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(check(&wrong).contains("links.weir"));
    let said = check(&format!("{wrong}\nprotocol p {{ header {{ a: uint16 }} payload = rest }}"));
    assert!(said.contains("uint16"), "{said}");
    assert!(said.lines().filter(|l| l.contains("--> ")).all(|l| l.contains("breaks.weir")), "{said}");
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

#[test]
fn without_keys_one_worker_runs_and_says_so() {
    let path = scratch("bare.weir");
    std::fs::write(&path, "//! Bare\nstack bare { start ETHERNET: eth }\n").expect("a temporary file");
    let file = example();
    let output = weir(&[
        "packets",
        "-r",
        file.to_str().unwrap(),
        "--stack",
        path.to_str().unwrap(),
        "--count",
        "-j",
        "3",
    ]);
    assert_eq!(text(&output.stdout).trim().parse(), Ok(count("")));
    assert!(text(&output.stderr).contains("using one worker instead of 3: the stack `bare`"), "{output:?}");
}

#[test]
fn a_stack_that_would_be_lost_is_an_error() {
    let (one, two) = (scratch("lost-one.weir"), scratch("lost-two.weir"));
    let protocol =
        |name: &str| format!("//! {name}\nprotocol {name} {{ header {{ a: u8 \"a\" }} payload = rest }}\n");
    let stack = |name: &str, base: &str, layer: &str| {
        format!("//! {name}\nstack {name} extends {base} {{ udp -> {layer} when dst_port == 53 }}\n")
    };
    std::fs::write(&one, protocol("first") + &stack("one", "internet", "first")).expect("a file");
    let file = example();
    let [file, first, second] = [&file, &one, &two].map(|path| path.to_str().unwrap());
    let asked = |stacks: &[&str]| {
        let named = stacks.iter().flat_map(|stack| ["--stack", *stack]);
        weir(&["packets", "-r", file, "--count", "udp"].into_iter().chain(named).collect::<Vec<_>>())
    };
    std::fs::write(&two, protocol("second") + &stack("two", "internet", "second")).expect("a file");
    let lost = asked(&[first, second]);
    assert_eq!(lost.status.code(), Some(2));
    let said = text(&lost.stderr);
    assert!(
        said.contains("only the last stack is used, `two`") && said.contains("stack both extends one"),
        "{said}"
    );
    assert_eq!(asked(&["quic", first]).status.code(), Some(2));
    // A stack that the last one extends, or that is selected by its name, is used; an unused stack is an
    // error.
    std::fs::write(&two, protocol("second") + &stack("two", "one", "second")).expect("a file");
    for stacks in [&[first, second][..], &[first, "one"], &[first, second, "one"]] {
        let output = asked(stacks);
        let kept = output.status.code() == Some(0);
        assert_eq!(kept, stacks.len() == 2, "{stacks:?}: {output:?}");
    }
}

#[test]
fn events_go_by_the_same_words_everywhere() {
    let path = scratch("named-events.weir");
    let source = "//! Named\nprotocol made as up.made { header { a: u8 \"a\" } payload = rest\n\
        instance (below.src, below.dst) timeout 1m\n event asked on packet { a } }\n\
        stack mine extends internet { udp -> made when dst_port == 53 }\n";
    std::fs::write(&path, source).expect("a temporary file");
    let (file, stack) = (example(), path.to_str().unwrap());
    let file = file.to_str().unwrap();
    let expected = count("udp.dstport == 53");
    assert!(expected > 0);
    // The name of a layer selects all its events.
    assert_eq!(
        answer(&["events", "-r", file, "--stack", stack, "-e", "made"], 0),
        answer(&["events", "-r", file, "--stack", stack, "-e", "asked"], 0)
    );
    // A name that two layers use selects neither of their events.
    let both = source.replace("event asked", "event beyond_window");
    let other = scratch("same-events.weir");
    std::fs::write(&other, both).expect("a temporary file");
    let refused =
        weir(&["packets", "-r", file, "--stack", other.to_str().unwrap(), "--count", "beyond_window.a == 1"]);
    let said = text(&refused.stderr);
    assert!(said.contains("write `tcp.beyond_window.a` or `up.made.beyond_window.a`"), "{said}");
    for name in ["up.made.asked", "made.asked", "asked"] {
        let rows = answer(&["events", "-r", file, "--stack", stack, "--format", "csv", "-e", name], 0);
        assert_eq!(rows.lines().count() as u64, expected + 1, "{name}");
        assert!(rows.lines().skip(1).all(|row| row.contains(",up.made.asked,")), "{name}");
        let filter = format!("{name} and {name}.a >= 0");
        let found = answer(&["packets", "-r", file, "--stack", stack, "--count", &filter], 0);
        assert_eq!(found.trim().parse(), Ok(expected), "{name}");
    }
}

#[test]
fn a_key_of_mac_addresses_is_shown_as_such() {
    let path = scratch("macs.weir");
    let source = "//! Ends\nprotocol ends { header { kind: u4 \"kind\"  _: u4 } payload = rest\n\
        instance (below.src) <-> (below.dst) timeout 1m\n event seen on packet { kind } }\n\
        stack mine { start ETHERNET: eth  eth -> ends }\n";
    std::fs::write(&path, source).expect("a temporary file");
    let (file, stack) = (example(), path.to_str().unwrap());
    let file = file.to_str().unwrap();
    let is_mac = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        parts.len() == 6 && parts.iter().all(|part| part.len() == 2)
    };
    for command in ["flows", "events"] {
        let rows = answer(&[command, "-r", file, "--stack", stack, "--format", "csv"], 0);
        let mut lines = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let at = head.iter().position(|name| *name == "id.orig_h").expect("a column");
        let mut count = 0;
        for row in lines {
            assert!(is_mac(row[at]) && is_mac(row[at + 2]), "{row:?}");
            count += 1;
        }
        assert!(count > 0, "{command}");
    }
}

#[test]
fn a_key_of_ipv4_addresses_alone_is_one_of_hosts() {
    let path = scratch("hosts.weir");
    let source = "//! Who asks whom\nprotocol asks { header { _: u64  sha: macaddr  spa: ipv4addr  tha: macaddr  tpa: ipv4addr }\n\
        payload = rest\n instance (spa) <-> (tpa) timeout 1m }\n\
        stack mine { start ETHERNET: eth  eth -> asks when ethertype == 0x0806 }\n";
    std::fs::write(&path, source).expect("a temporary file");
    let file = example();
    let asked =
        &["flows", "-r", file.to_str().unwrap(), "--stack", path.to_str().unwrap(), "--format", "csv"];
    let rows = answer(asked, 0);
    let hosts: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').nth(2)).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| host.split('.').count() == 4), "{rows}");
}

/// The thread that works is bound to the processor; a wrong list is refused.
#[test]
fn workers_are_bound_to_processors() {
    let allowed = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.expect("the kernel says").trim().to_string()
    };
    let itself = allowed(&std::fs::read_to_string("/proc/self/status").expect("this is Linux"));
    let last = itself.rsplit([',', '-']).next().expect("this test runs somewhere").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["packets", "-", "--count", "--cpus", &last]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built for this test");
    let status = || std::fs::read_to_string(format!("/proc/{}/status", worker_of(child.id())));
    let started = std::time::Instant::now();
    // The main thread runs the only worker.
    while allowed(&status().unwrap_or_else(|_| "Cpus_allowed_list: ?".into())) != last {
        assert!(started.elapsed().as_secs() < 30, "it is bound soon");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(child.stdin.take());
    child.wait().expect("it ends with its input");
    let file = example();
    for (list, said) in
        [("9999", "there is no processor 9999"), ("3-1", "is no list of processors, such as 0,2-3")]
    {
        let output = weir(&["packets", file.to_str().unwrap(), "--cpus", list]);
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(said), "{output:?}");
    }
}
