//! Each test starts a thread, restricts the thread, and makes the system calls that an attacker would make
//! after taking over a parser. The error shows which mechanism refused: seccomp answers EPERM, Landlock
//! answers EACCES for files and TCP.

mod attempts;

use attempts::{Attempt, Raw, errno_of};
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use weir_sandbox::{
    Calls, CapabilitySet, Files, Gid, Grants, KeeperCalls, Limits, OPENER_CAPABILITIES, Opener, Pid, Sockets,
    Uid,
};

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

/// Runs `body` in a thread whose files are opened by other threads, and that has these limits itself.
fn with_opener(opened: &Grants, limits: Limits, body: impl FnOnce() + Send + 'static) {
    let opener = Opener::new(opened).expect("the folders are there");
    let (asking, answering) = UnixStream::pair().expect("sockets");
    let worker = std::thread::spawn(move || {
        weir_sandbox::forbid_new_rights().expect("no rights are needed");
        assert_eq!(
            weir_sandbox::ask_opener(&asking).expect("the opener answers"),
            Ok(()),
            "this kernel stops calls"
        );
        assert_eq!(limits.enter().expect("the kernel restricts the thread"), None);
        Calls::default().restrict_thread().expect("the kernel has seccomp");
        body();
    });
    let files = opened.files();
    let limit = || {
        let limits = Limits { capabilities: OPENER_CAPABILITIES, files: Some(files), ..Limits::default() };
        limits.enter().expect("the kernel restricts the thread");
    };
    let calls = opener.calls();
    let restrict = move || calls.restrict_thread().expect("the kernel has seccomp");
    opener.serve(weir_sandbox::getpid(), &answering, limit, restrict).expect("threads");
    worker.join().expect("its assertions hold");
}

/// A thread without rights and folders, and another one that opens files for it.
#[test]
fn an_opener_opens_what_is_beneath_its_folders() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let place = tempfile::tempdir().expect("a directory");
    let [read, write, other] = ["read", "write", "other"].map(|name| place.path().join(name));
    for directory in [&read, &write, &other] {
        fs::create_dir(directory).expect("a directory");
        fs::write(directory.join("file"), "text").expect("a file");
    }
    fs::write(other.join("single"), "one").expect("a file");
    for (target, link) in [
        (write.join("file"), "to-folder"),
        (other.join("file"), "to-other"),
        ("../other/file".into(), "up"),
        ("/proc/self/mem".into(), "to-memory"),
        ("loop".into(), "loop"),
        (write.clone(), "to-outputs"),
        ("../write".into(), "up-to-outputs"),
        ("../other".into(), "up-to-others"),
    ] {
        symlink(target, read.join(link)).expect("a link");
    }
    fs::create_dir(write.join("inner")).expect("a directory");
    symlink(write.join("inner"), write.join("to-inner")).expect("a link");
    // Another user enters none of these.
    let is_root = status(["Uid", "", "", "", ""])[0].starts_with('0');
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o700)).expect("its owner may");
    let files = Grants {
        folders: vec![read.clone()],
        files: vec![other.join("single")],
        output_folders: vec![write.clone()],
        ..Grants::default()
    };
    let nobody = is_root.then(|| (Uid::from_raw(65_534), Gid::from_raw(65_534)));
    with_opener(&files, Limits { user: nobody, ..none() }, move || {
        let refused = |done: std::io::Result<()>| {
            let error = done.expect_err("it is refused").raw_os_error();
            assert!(matches!(error, Some(libc::EACCES | libc::EXDEV | libc::EPERM)), "{error:?}");
        };
        let readable = |path: &Path| fs::read(path).map(drop);
        let written = |path: &Path| fs::write(path, "x");
        assert_eq!(fs::read(read.join("file")).expect("it is named"), b"text");
        assert_eq!(fs::read(other.join("single")).expect("it is named"), b"one");
        assert_eq!(fs::read(read.join("to-folder")).expect("both folders are named"), b"text");
        for link in ["to-outputs", "up-to-outputs"] {
            assert_eq!(fs::read(read.join(link).join("file")).expect("both folders are named"), b"text");
        }
        let new = write.join("to-inner/through-a-link");
        written(&new).and_then(|()| fs::rename(&new, write.join("named"))).expect("both are named");
        fs::remove_file(write.join("named")).expect("it is there");
        for closed in ["to-other", "up", "to-memory", "up-to-others/file"] {
            refused(readable(&read.join(closed)));
        }
        assert_eq!(fs::read(read.join("loop")).expect_err("a loop").raw_os_error(), Some(libc::ELOOP));
        for path in [read.join("file"), read.join("new"), other.join("single")] {
            refused(written(&path));
        }
        for path in [other.join("file"), read.join("../other/file"), "/etc/shadow".into()] {
            refused(readable(&path));
            refused(written(&path));
        }
        refused(fs::remove_file(read.join("file")));
        refused(fs::remove_file(other.join("single")));
        refused(fs::create_dir(read.join("folder")));
        refused(fs::rename(read.join("file"), write.join("taken")));
        refused(fs::rename(write.join("file"), read.join("given")));
        refused(fs::hard_link(other.join("single"), write.join("linked")));
        assert_eq!(fs::read(write.join("../write/./file")).expect("it is named"), b"text");
        fs::create_dir_all(&write).expect("it is there");
        assert_eq!(fs::create_dir(&write).expect_err("it is there").kind(), ErrorKind::AlreadyExists);
        assert!(fs::remove_dir_all(&write).is_err() && fs::rename(&write, read.join("w")).is_err());
        fs::write(write.join("file"), "text").expect("it may have been removed");
        fs::create_dir_all(write.join("a/b")).expect("it is named");
        let new = write.join("a/b/new");
        written(&new).expect("it is named");
        let about = fs::metadata(&new).expect("it is there");
        assert_eq!((about.len(), about.mode() & 0o002, is_root && about.uid() != 0), (1, 0, false));
        fs::rename(&new, write.join("newer")).expect("both are named");
        fs::hard_link(write.join("newer"), write.join("a/second")).expect("both are named");
        assert!(new.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound));
        assert_eq!(fs::read_dir(write.join("a")).expect("it is named").count(), 2);
        assert_eq!(write.join("a/../newer").canonicalize().expect("it is there"), write.join("newer"));
        assert_eq!(fs::read_link(read.join("up")).expect("a link"), Path::new("../other/file"));
        fs::remove_file(write.join("newer")).expect("it is named");
        fs::remove_dir(write.join("a/b")).expect("it is named");
        // Files of the system, and no others, by the rights of the thread itself.
        readable(Path::new("/etc/hosts")).expect("names of hosts");
        written(Path::new("/dev/null")).expect("nothing is kept there");
        for Attempt { name, raw } in attempts::REFUSED {
            assert_eq!(errno_of(*raw), libc::EPERM, "{name}");
        }
    });
}

/// An output is a file, and not the folder that it is in.
#[test]
fn an_opener_knows_the_names_of_an_output_and_no_other_of_its_folder() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a directory");
    let home = place.path().join("home");
    fs::create_dir_all(home.join(".ssh")).expect("a directory");
    for name in [".ssh/keys", "secret", "x.conf", "hosts", "socket", "xylophone"] {
        fs::write(home.join(name), "kept").expect("a file");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, home.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .expect("a pipe");
    fs::create_dir(place.path().join("other")).expect("a directory");
    fs::write(place.path().join("other/target"), "linked").expect("a file");
    std::os::unix::fs::symlink(place.path().join("other/target"), home.join("link")).expect("a link");
    fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).expect("its owner may");
    let is_root = status(["Uid", "", "", "", ""])[0].starts_with('0');
    let nobody = is_root.then(|| (Uid::from_raw(65_534), Gid::from_raw(65_534)));
    let grants = Grants {
        files: vec![home.join("hosts"), home.join("link")],
        outputs: vec![home.join("x.json.gz")],
        output_folders: vec![home.join("new/folder")],
        sinks: vec![home.join("pipe"), "/dev/null".into()],
        removed: vec![home.join("socket")],
        temporary: Some(place.path().into()),
        ..Grants::default()
    };
    let kept = home.clone();
    with_opener(&grants, Limits { user: nobody, ..none() }, move || {
        let in_home = |name: &str| home.join(name);
        assert_eq!(fs::read(in_home("link")).expect("a file that is named by a link"), b"linked");
        for name in ["x.json", "x.json.17.part", "x.2026-12-01-00-00-00.json", "x"] {
            fs::write(in_home(name), "row").expect("a name of the output");
        }
        fs::rename(in_home("x.json.17.part"), in_home("x.json")).expect("both are names of the output");
        fs::remove_file(in_home("x")).expect("a name of the output");
        assert!(fs::read_dir(&home).expect("a folder of an output is listed").count() >= 7);
        assert_eq!(fs::read(in_home("hosts")).expect("it is named"), b"kept");
        fs::rename(in_home("x.json"), in_home("hosts")).expect_err("the other name is only read");
        let closed = [".ssh/keys", ".ssh/new", "secret", "xylophone", "new/other", "y.json", ".x.json"];
        for name in closed {
            assert!(fs::read(in_home(name)).is_err(), "{name} is read");
            assert!(fs::write(in_home(name), "lost").is_err(), "{name} is written");
            assert!(fs::remove_file(in_home(name)).is_err(), "{name} is removed");
            assert!(fs::rename(in_home("x.json"), in_home(name)).is_err(), "{name} is replaced");
            assert!(fs::create_dir(in_home(name)).is_err(), "{name} is made");
        }
        fs::create_dir_all(in_home("new/folder/deep")).expect("a folder for outputs");
        fs::write(in_home("new/folder/deep/row"), "row").expect("a folder for outputs");
        assert!(fs::read(in_home("socket")).is_ok() && fs::write(in_home("socket"), "").is_err());
        fs::remove_file(in_home("socket")).expect("it is removed at the end");
        fs::write("/dev/null", "lost").expect("a device that is named");
        for done in [fs::remove_file(in_home("pipe")), fs::write(in_home("pipe.part"), "")] {
            assert!(done.is_err(), "a pipe is only opened");
        }
        // What is above is neither seen nor changed.
        let unknown = fs::metadata(home.join("none")).expect_err("it is not told").kind();
        assert!(!is_root || unknown == ErrorKind::PermissionDenied, "{unknown}");
        tempfile::tempfile_in(place.path()).expect("a file without a name");
        tempfile::tempfile_in(&home).expect_err("another folder");
    });
    for name in [".ssh/keys", "secret", "hosts", "xylophone"] {
        assert_eq!(fs::read(kept.join(name)).expect("it is there"), b"kept", "{name}");
    }
}

#[test]
fn an_opener_of_a_folder_that_grows_makes_new_files_and_leaves_the_old_ones() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a directory");
    let home = place.path().join("home");
    fs::create_dir_all(home.join("old")).expect("a directory");
    for name in [".profile", "secret", "old/file"] {
        fs::write(home.join(name), "kept").expect("a file");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, home.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .expect("a pipe");
    fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).expect("its owner may");
    let is_root = status(["Uid", "", "", "", ""])[0].starts_with('0');
    let nobody = is_root.then(|| (Uid::from_raw(65_534), Gid::from_raw(65_534)));
    let grants = Grants { growing: vec![home.clone()], ..Grants::default() };
    let kept = home.clone();
    let reader = fs::File::options().read(true).write(true).open(home.join("pipe")).expect("both ends");
    with_opener(&grants, Limits { user: nobody, ..none() }, move || {
        let in_home = |name: &str| home.join(name);
        for name in [".profile", ".bashrc", "secret", "old", "old/file", "old/new", "none/new"] {
            assert!(fs::read(in_home(name)).is_err(), "{name} is read");
            assert!(fs::write(in_home(name), "lost").is_err(), "{name} is written");
            assert!(fs::remove_file(in_home(name)).is_err(), "{name} is removed");
            assert!(fs::remove_dir(in_home(name)).is_err(), "{name} is removed");
            assert!(fs::create_dir(in_home(name)).is_err(), "{name} is made");
            assert!(fs::hard_link(in_home(name), in_home("linked")).is_err(), "{name} is linked");
            assert!(fs::rename(in_home(name), in_home("taken")).is_err(), "{name} is taken");
        }
        fs::metadata(in_home("secret")).expect("a file is described");
        assert!(fs::read_dir(&home).expect("a folder is listed").count() >= 4);
        for text in ["first", "next"] {
            fs::write(in_home("rows.part"), text).expect("a new file");
        }
        for name in ["secret", ".bashrc", "old/file", "old/new"] {
            assert!(fs::rename(in_home("rows.part"), in_home(name)).is_err(), "{name} is replaced");
        }
        for _ in 0..2 {
            fs::write(in_home("rows.part"), "row").expect("a new file");
            fs::rename(in_home("rows.part"), in_home("rows")).expect("both are new");
        }
        assert_eq!(fs::read(in_home("rows")).expect("it is new"), b"row");
        fs::create_dir_all(in_home("new/deep")).expect("new folders");
        fs::write(in_home("new/deep/.file"), "row").expect("a folder that is new");
        fs::remove_file(in_home("new/deep/.file")).expect("it is new");
        for folder in ["new/deep", "new"] {
            fs::remove_dir(in_home(folder)).expect("it is new");
        }
        fs::write(in_home("pipe"), "row").expect("a pipe is written to");
        assert!(fs::remove_file(in_home("pipe")).is_err() && fs::File::open(in_home("pipe")).is_err());
        fs::remove_file(in_home("rows")).expect("it is new");
    });
    drop(reader);
    for name in [".profile", "secret", "old/file"] {
        assert_eq!(fs::read(kept.join(name)).expect("it is there"), b"kept", "{name}");
    }
    assert_eq!(fs::read_dir(&kept).expect("a folder").count(), 4, "nothing is left");
}

/// An output in `/` makes every folder one that is written, but nothing of the kernel's.
#[test]
fn an_opener_of_the_root_folder_opens_no_file_of_the_kernel() {
    let place = tempfile::tempdir().expect("a directory");
    let link = place.path().join("host");
    std::os::unix::fs::symlink("/", &link).expect("a link");
    let files = Grants { output_folders: vec!["/".into(), link.clone()], ..Grants::default() };
    with_opener(&files, none(), move || {
        assert!(fs::read("/etc/hostname").is_ok(), "a file beneath the folder");
        for name in ["proc/self/mem", "proc/1/mem", "proc/sys/kernel/core_pattern", "sys/power/state"] {
            for path in [Path::new("/").join(name), link.join(name)] {
                assert!(fs::OpenOptions::new().write(true).open(&path).is_err(), "{}", path.display());
            }
        }
        let environment = link.join("proc/1/environ");
        assert!(fs::read(environment).is_err(), "what only the owner of a process reads");
        // Names of `/proc` are those of the worker.
        assert!(
            fs::read_link("/proc/self").is_ok_and(|own| own == Path::new(&std::process::id().to_string()))
        );
    });
}

/// Whatever a worker sends that was taken over, the other side opens nothing else, and goes on.
#[test]
fn no_call_harms_an_opener() {
    const NAMES: [&str; 10] =
        ["", ".", "..", "/", "a", "a/b", "../out", "./../out", "a/../../out", "/proc/self/mem"];
    let place = tempfile::tempdir().expect("a directory");
    let folder = place.path().join("in");
    fs::create_dir(&folder).expect("a directory");
    fs::write(place.path().join("out"), "kept").expect("a file");
    let files = Grants { output_folders: vec![folder.clone()], ..Grants::default() };
    with_opener(&files, none(), move || {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        for _ in 0..20_000 {
            let names = [(); 2].map(|()| {
                let one = NAMES[random(NAMES.len() as u64) as usize];
                let path = match random(8) {
                    0 => one.to_string(),
                    1 => "x/".repeat(3000),
                    _ => format!("{}/{one}", folder.display()),
                };
                std::ffi::CString::new(path).expect("no zeros")
            });
            let [one, two] = [&names[0], &names[1]].map(|name| match random(8) {
                0 => random(u64::MAX).cast_signed(),
                1 => 0,
                _ => name.as_ptr() as i64,
            });
            let from = [i64::from(libc::AT_FDCWD), random(8) as i64 + 1000][random(2) as usize];
            // With one of these, a descriptor neither reads nor writes: Landlock permits both.
            let flags = random(1 << 23) as i64 & !i64::from(libc::O_PATH | libc::O_RDWR);
            // Results would be written nowhere.
            let raw = match random(8) {
                0 => Raw(libc::SYS_openat, [from, one, flags, 0o7777, 0, 0]),
                1 => Raw(libc::SYS_mkdirat, [from, one, 0o7777, 0, 0, 0]),
                2 => Raw(libc::SYS_unlinkat, [from, one, flags, 0, 0, 0]),
                3 => Raw(libc::SYS_renameat2, [from, one, from, two, flags % 8, 0]),
                4 => Raw(libc::SYS_linkat, [from, one, from, two, flags, 0]),
                5 => Raw(libc::SYS_statx, [from, one, flags, flags, 0, 0]),
                6 => Raw(libc::SYS_readlinkat, [from, one, 0, flags, 0, 0]),
                _ => Raw(libc::SYS_faccessat, [from, one, flags % 8, 0, 0, 0]),
            };
            let opened = attempts::result_of(raw);
            if raw.0 == libc::SYS_openat && opened >= 0 {
                let path = fs::read_link(format!("/proc/self/fd/{opened}")).expect("it is open");
                let is_of_system = path.starts_with("/proc");
                assert!(path.starts_with(&folder) || is_of_system, "{}", path.display());
                errno_of(Raw(libc::SYS_close, [opened, 0, 0, 0, 0, 0]));
            }
        }
    });
    assert_eq!(fs::read(place.path().join("out")).expect("it is there"), b"kept");
    assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 2, "nothing is beside the folder");
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
    for sockets in [Sockets::None, Sockets::Network] {
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
