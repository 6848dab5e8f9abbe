//! Each test starts a thread, restricts the thread, and makes the system calls that an attacker would make
//! after taking over a parser. The error shows which mechanism refused: seccomp answers EPERM, Landlock
//! answers EACCES for files and TCP.

mod attempts;

use attempts::{Attempt, Raw, errno_of};
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use weir_sandbox::{Calls, CapabilitySet, Files, Gid, KeeperCalls, Limits, Pid, Sockets, Uid};

/// Runs in a thread of its own: limits cannot be left.
fn within<T: Send + 'static>(limits: Limits, calls: Calls, body: impl FnOnce() -> T + Send + 'static) -> T {
    let restricted = std::thread::spawn(move || {
        assert_eq!(limits.enter().expect("the kernel restricts the thread"), None);
        calls.restrict_thread().expect("the kernel has seccomp");
        body()
    });
    restricted.join().expect("its assertions hold")
}

fn none() -> Limits {
    Limits { files: Some(Files::default()), connects_to: Some(vec![]), ..Limits::default() }
}

#[test]
fn calls_of_the_system_that_weir_never_makes_are_refused() {
    for calls in [Calls::default(), Calls { sockets: Sockets::Network, uses_maps: true, ..Calls::default() }]
    {
        within(none(), calls, || {
            for Attempt { name, raw } in attempts::REFUSED {
                assert_eq!(errno_of(*raw), libc::EPERM, "{name}");
            }
        });
    }
}

/// The process that loads programs for another one has these rights, and no use for others.
#[test]
fn a_keeper_loads_programs_or_sends_signals_to_its_worker() {
    let worker = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let number = Pid::from_child(&worker);
    let raw = i64::from(number.as_raw_pid());
    let opening: [(&str, i64, [i64; 6]); 8] = [
        ("open", libc::SYS_openat, [-1, 0, 0, 0, 0, 0]),
        ("socket", libc::SYS_socket, [libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0, 0, 0, 0]),
        ("connect", libc::SYS_connect, [-1, 0, 0, 0, 0, 0]),
        ("unlink", libc::SYS_unlinkat, [-1, 0, 0, 0, 0, 0]),
        ("thread", libc::SYS_clone, [libc::CLONE_THREAD.into(), 0, 0, 0, 0, 0]),
        ("prctl", libc::SYS_prctl, [0; 6]),
        ("bpf: the program of another", libc::SYS_bpf, [13, 0, 0, 0, 0, 0]),
        ("bpf: attach a program", libc::SYS_bpf, [28, 0, 0, 0, 0, 0]),
    ];
    for calls in [KeeperCalls::Loads, KeeperCalls::Watches(number)] {
        let restricted = std::thread::spawn(move || {
            let capabilities = CapabilitySet::BPF | CapabilitySet::KILL;
            let limits = Limits { sends_signals: true, capabilities, ..none() };
            assert_eq!(limits.enter().expect("the kernel restricts the thread"), None);
            let has_rights = status(["CapEff", "", "", "", ""])[0] != "0000000000000000";
            calls.restrict_thread().expect("the kernel has seccomp");
            let loads = calls == KeeperCalls::Loads;
            let load = errno_of(Raw(libc::SYS_bpf, [5, 0, 0, 0, 0, 0]));
            if loads && has_rights {
                assert_ne!(load, libc::EPERM, "the kernel looks at the arguments");
            } else {
                assert_eq!(load, libc::EPERM);
            }
            let kill = |process| errno_of(Raw(libc::SYS_kill, [process, 0, 0, 0, 0, 0]));
            assert_eq!(
                (kill(raw), kill(1), kill(-1)),
                match loads {
                    true => (libc::EPERM, libc::EPERM, libc::EPERM),
                    false => (0, libc::EPERM, libc::EPERM),
                }
            );
            let others = attempts::REFUSED.iter().filter(|one| !one.name.starts_with("bpf"));
            for Attempt { name, raw } in others.chain(attempts::PACKET_SOCKETS) {
                assert_eq!(errno_of(*raw), libc::EPERM, "{name}");
            }
            for (name, call, arguments) in opening {
                assert_eq!(errno_of(Raw(call, arguments)), libc::EPERM, "{name}");
            }
            let execute = i64::from(libc::PROT_READ | libc::PROT_EXEC);
            assert_eq!(attempts::map(execute), Err(libc::EPERM), "code");
        });
        restricted.join().expect("its assertions hold");
    }
    let mut worker = worker;
    worker.kill().and_then(|()| worker.wait()).expect("it runs");
}

#[test]
fn the_numbers_of_x32_are_refused() {
    if cfg!(not(target_arch = "x86_64")) {
        return println!("skipped: only x86-64 has them");
    }
    within(none(), Calls::default(), || {
        // The kernel answers ENOSYS where it has no x32; seccomp comes first.
        assert_eq!(errno_of(Raw(attempts::X32 | libc::SYS_getpid, [0; 6])), libc::EPERM);
        assert_eq!(errno_of(Raw(libc::SYS_getpid, [0; 6])), 0);
    });
}

#[test]
fn memory_is_never_written_and_executed_at_once() {
    within(none(), Calls::default(), || {
        let [read, write, execute] = [libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC].map(i64::from);
        for wrong in [read | write | execute, write | execute] {
            assert_eq!(attempts::map(wrong), Err(libc::EPERM));
        }
        let page = attempts::map(read | write).expect("code is written");
        let protect = |access| errno_of(Raw(libc::SYS_mprotect, [page, 4096, access, 0, 0, 0]));
        assert_eq!(protect(read | write | execute), libc::EPERM);
        assert_eq!(protect(read | execute), 0, "and then executed");
    });
}

#[test]
fn files_are_those_that_are_named() {
    let place = tempfile::tempdir().expect("a directory");
    let [read, write, other] = ["read", "write", "other"].map(|name| place.path().join(name));
    for directory in [&read, &write, &other] {
        fs::create_dir(directory).expect("a directory");
        fs::write(directory.join("file"), "text").expect("a file");
    }
    let files = Files { read: vec![read.clone()], write: vec![write.clone()] };
    within(Limits { files: Some(files), ..none() }, Calls::default(), move || {
        let refused = |done: std::io::Result<()>| {
            assert_eq!(done.expect_err("it is refused").raw_os_error(), Some(libc::EACCES));
        };
        let readable = |path: &Path| fs::read(path).map(drop);
        let written = |path: &Path| fs::write(path, "x");
        readable(&read.join("file")).expect("it is named");
        refused(written(&read.join("file")));
        refused(written(&read.join("new")));
        readable(&write.join("file")).expect("what is written is read");
        written(&write.join("new")).expect("it is named");
        fs::rename(write.join("new"), write.join("newer")).expect("both are named");
        let moved = fs::rename(write.join("newer"), other.join("newer")).expect_err("it is refused");
        assert!(matches!(moved.raw_os_error(), Some(libc::EACCES | libc::EXDEV)), "{moved}");
        refused(readable(&other.join("file")));
        refused(written(&other.join("file")));
        refused(fs::read_dir(&other).map(drop));
        refused(readable(Path::new("/etc/shadow")));
        readable(Path::new("/etc/hosts")).expect("names of hosts");
        written(Path::new("/dev/null")).expect("nothing is kept there");
    });
}

/// The kernel takes no rules for pipes: the others must hold nevertheless.
#[test]
fn a_pipe_with_a_name_is_read() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"text").expect("it has room");
    drop(writer);
    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let files = Files { read: vec![path.clone().into()], write: vec![] };
    within(Limits { files: Some(files), ..none() }, Calls::default(), move || {
        assert!(fs::read("/etc/shadow").is_err(), "Landlock");
        assert_eq!(fs::read(path).expect("it was open"), b"text");
    });
    drop(reader);
}

#[test]
fn other_processes_are_out_of_reach() {
    let own = std::process::id();
    let named = format!("weir-sandbox-{own}");
    let address = {
        use std::os::linux::net::SocketAddrExt;
        std::os::unix::net::SocketAddr::from_abstract_name(&named).expect("an abstract name")
    };
    let _other = UnixDatagram::bind_addr(&address).expect("it is free");
    let network = Calls { sockets: Sockets::Network, ..Calls::default() };
    within(none(), network, move || {
        let socket = UnixDatagram::unbound().expect("sockets can be made");
        let refused = socket.connect_addr(&address).expect_err("an abstract socket of others");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "Landlock's answer for abstract sockets");
        // `/proc/1/mem` and `environ` need the rights of a tracer, which Landlock takes away.
        for file in ["mem", "environ"] {
            assert!(fs::read(format!("/proc/1/{file}")).is_err(), "{file}");
        }
    });
}

#[test]
fn sockets_are_made_and_connected_only_where_the_run_needs_the_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let connect = move || TcpStream::connect(address).map(drop).map_err(|error| error.raw_os_error());
    assert_eq!(within(none(), Calls::default(), connect), Err(Some(libc::EPERM)), "no socket");
    let network = Calls { sockets: Sockets::Network, ..Calls::default() };
    assert_eq!(within(none(), network, connect), Err(Some(libc::EACCES)), "no connection");
    let to_it = Limits { connects_to: Some(vec![address.port()]), ..none() };
    assert_eq!(within(to_it, network, connect), Ok(()));
    for sockets in [Sockets::None, Sockets::Queries, Sockets::Network] {
        within(none(), Calls { sockets, ..Calls::default() }, || {
            for Attempt { name, raw } in attempts::PACKET_SOCKETS {
                assert_eq!(errno_of(*raw), libc::EPERM, "{name}");
            }
        });
    }
}

#[test]
fn threads_can_be_made_and_processes_cannot() {
    let run = || Command::new("true").status();
    assert!(run().is_ok_and(|status| status.success()), "the program `true` runs");
    let refused = within(Limits::default(), Calls::default(), move || {
        let inner = std::thread::spawn(move || run().map_err(|error| error.kind()));
        (inner.join().expect("a thread is no process"), run().map_err(|error| error.kind()))
    });
    let denied = Err(ErrorKind::PermissionDenied);
    assert_eq!(refused, (denied, denied));
    assert!(run().is_ok_and(|status| status.success()), "other threads are free");
}

/// The values of these lines of `status` of this thread.
fn status(names: [&str; 5]) -> [String; 5] {
    let text = fs::read_to_string("/proc/thread-self/status").expect("the kernel has it");
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    names.map(|name| value(name).unwrap_or_default().trim().to_string())
}

#[test]
fn a_thread_has_what_it_keeps_and_cannot_get_more() {
    if status(["CapEff", "", "", "", ""])[0] == "0000000000000000" {
        return println!("skipped: only root has rights to give up");
    }
    let loading = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let nobody = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    for (user, capabilities) in [(None, CapabilitySet::empty()), (None, loading), (Some(nobody), loading)] {
        within(Limits { user, capabilities, ..none() }, Calls::default(), move || {
            let rights = status(["CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs"]);
            let (none, kept) = ("0000000000000000", format!("{:016x}", capabilities.bits()));
            assert_eq!(rights, [kept.as_str(), &kept, none, none, "1"].map(str::to_string));
            assert_eq!(errno_of(Raw(libc::SYS_setuid, [0; 6])), libc::EPERM);
        });
    }
}
