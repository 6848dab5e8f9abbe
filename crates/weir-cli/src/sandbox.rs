//! Gives up rights once the sockets of links are open: the parsers of hostile traffic run with as little as
//! possible.
//!
//! * Another user (`--user`), and no capabilities. One thread that sees neither packets nor clients keeps
//!   those that load filters into the kernel ([`Loader`]), as long as questions can change. Sockets and rings
//!   stay open, and nothing is opened again.
//! * `no_new_privs`: programs with more rights are of no use.
//! * seccomp: calls of the system that Weir never makes fail, such as `execve`, `ptrace` and `mount`, and no
//!   process can be made, only threads.
//! * Landlock: files can be created and changed only in the directories of outputs.
//!
//! Rights belong to threads, and a thread has those of the thread that starts it. [`enter`] is therefore
//! called before there are other threads, but for the one that DPDK has: it gives them up, too.

use crate::terminal;
use landlock::{ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules};
use nix::unistd::{Group, User};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use weir::link::{LOADER_THREAD, Loader, dpdk};
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::messages::set_writable;
use weir_questions::output::place;

/// What root may still do if no other user is given: write to directories of other users, and listen on low
/// ports.
const OF_ROOT: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::NET_BIND_SERVICE);

/// Names the user as whom captures of root continue, if the command line names none. Made at the
/// installation.
const INSTALLED_USER: &str = "/etc/weir/user";

/// Calls of the system that Weir never makes once the sockets are open.
const REFUSED: &[i64] = &[
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Programs in the kernel, its modules, and its inside.
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_syslog,
    // File systems.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// The directories, and files that are no regular ones, that the questions of a run and its control socket
/// write to.
pub fn writable(input: &Input, specs: &[QuestionSpec], socket: Option<&Path>) -> Vec<PathBuf> {
    let mut places = input.write_to.clone();
    for spec in specs {
        let output = spec.output.as_deref().filter(|path| !place::is_remote(path));
        // A link leads to another directory.
        let output = output.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
        places.extend(output.map(|path| match place::is_special(&path) {
            true => path,
            false => directory_of(&path),
        }));
        places.extend([&spec.files, &spec.extract, &spec.spool].into_iter().flatten().cloned());
    }
    // Rows that are sorted may need more than memory, also those of questions that come later.
    places.push(std::env::temp_dir());
    places.extend(socket.map(directory_of));
    // Directories that do not exist yet are created in the nearest one that does.
    let there = |path: &PathBuf| {
        let path = std::path::absolute(path).ok()?;
        path.ancestors().find(|path| path.exists()).map(Path::to_path_buf)
    };
    let mut places: Vec<PathBuf> = places.iter().filter_map(there).collect();
    places.sort();
    places.dedup();
    places
}

/// The directory in which an output is created.
fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        _ if place::is_directory(path) => path.to_path_buf(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Gives up the rights of this thread, of all threads that it starts from now on, and of the thread of DPDK:
/// files can be written only in `writable`. What the kernel does not support is reported with `-v`.
///
/// # Errors
/// The user does not exist, or the process may not become that user.
pub fn enter(input: &Input, writable: &[PathBuf], loader: &Loader) -> Result<(), Failure> {
    let stated = &Stated { user: stated_user(input)?, no_sandbox: input.no_sandbox };
    // Without CAP_PERFMON, the kernel accepts only programs without computed addresses.
    let of_sockets = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let of_loader = match input.method == "af_xdp" || input.mirror {
        true => of_sockets | CapabilitySet::NET_ADMIN,
        false => of_sockets,
    };
    // Some drivers add rules by calls of the kernel.
    let of_devices = match input.interface.iter().any(|name| name.starts_with(dpdk::PREFIX)) {
        true => CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW,
        false => CapabilitySet::empty(),
    };
    // An older kernel asks for rights whenever the table of connections is read.
    let is_alone = has_free_maps();
    let filters = if is_alone { of_devices } else { of_devices | of_loader };
    let user = stated.user.as_deref().map(ids_of).transpose()?;
    if let Some(missing) = input.write_to.iter().find(|path| !path.is_dir()) {
        return Err(Failure::new(format!("--write-to {}: there is no such directory", missing.display())));
    }
    let restriction = Restriction { stated: stated.clone(), user, filters, writable: writable.to_vec() };
    let of_its_thread = Restriction { filters: of_loader, ..restriction.clone() };
    // The loader's thread is restricted as this one is below. What the system lacks for that is reported
    // once, by this thread.
    if let Some(entered) = loader.call_in_thread(move || of_its_thread.enter_thread()) {
        drop(entered?);
    }
    let of_dpdk = restriction.clone();
    match dpdk::in_its_thread(move || of_dpdk.enter_thread()) {
        Ok(None) => {}
        Ok(Some(entered)) => drop(entered?),
        Err(why) if stated.no_sandbox => report("restriction of the thread of DPDK", &why),
        Err(why) => {
            let message = format!("the thread of DPDK keeps its rights: {why}; --no-sandbox accepts that");
            return Err(Failure::new(message));
        }
    }
    let had_filters =
        thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::BPF));
    let missing = restriction.enter_thread()?;
    missing.iter().for_each(|(part, why)| report(part, why));
    if stated.no_sandbox {
        return Ok(());
    }
    if !missing.iter().any(|(part, _)| *part == LANDLOCK) {
        set_writable(writable);
    }
    let of_loading = || if had_filters && is_alone { refuse_loading() } else { Ok(()) };
    if let Err(why) = refuse_calls(had_filters).and_then(|()| of_loading()) {
        report("seccomp", &why.to_string());
    }
    let free = threads_with_other_rights();
    if !free.is_empty() {
        report("restriction of the threads of drivers", &free.join(", "));
    }
    Ok(())
}

/// The part that restricts files.
const LANDLOCK: &str = "landlock";

/// What the command line says.
#[derive(Clone, Default)]
struct Stated {
    user: Option<String>,
    no_sandbox: bool,
}

/// What a thread gives up.
#[derive(Clone)]
struct Restriction {
    stated: Stated,
    user: Option<(Uid, Gid)>,
    /// Capabilities that filters in the kernel need.
    filters: CapabilitySet,
    writable: Vec<PathBuf>,
}

impl Restriction {
    /// Gives up the rights of this thread. Returns the parts that this system does not have, and why.
    fn enter_thread(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let Self { stated, user, filters, writable } = self;
        if stated.no_sandbox {
            return user.map_or(Ok(vec![]), |ids| become_user(stated, ids).map(|()| vec![]));
        }
        let mut parts = vec![("capabilities", forget_capabilities())];
        if let Some(ids) = *user {
            // Another user would otherwise have none.
            parts.push(("capabilities", thread::set_keep_capabilities(true).map_err(Into::into)));
            become_user(stated, ids)?;
        }
        let of_user = if geteuid().is_root() { OF_ROOT } else { CapabilitySet::empty() };
        parts.push(("capabilities", keep_capabilities(of_user | *filters)));
        parts.push(("no_new_privs", thread::set_no_new_privs(true).map_err(Into::into)));
        parts.push((LANDLOCK, restrict_files(writable)));
        let missing = parts.into_iter().filter_map(|(part, done)| Some((part, done.err()?.to_string())));
        Ok(missing.collect())
    }
}

/// The names of threads that have other capabilities than this one.
fn threads_with_other_rights() -> Vec<String> {
    let of = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let line =
            |start| status.lines().find_map(|line| line.strip_prefix(start)).map(str::trim).map(String::from);
        (line("Name:").unwrap_or_default(), line("CapEff:"))
    };
    let (_, own) = of(PathBuf::from("/proc/thread-self"));
    let all = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let others = all.map(|task| of(task.path())).filter(|(_, rights)| *rights != own).map(|(name, _)| name);
    others.filter(|name| name != LOADER_THREAD).collect()
}

/// Reports a part of the sandbox that this system does not have.
fn report(part: &str, why: &str) {
    if terminal::is_verbose() {
        say!("weir: sandbox: no {part}: {why}");
    }
}

/// The user of the command line, or of the installation if root captures.
fn stated_user(input: &Input) -> Result<Option<String>, Failure> {
    if input.user.is_some() || input.no_sandbox || !geteuid().is_root() {
        return Ok(input.user.clone());
    }
    let text = match std::fs::read_to_string(INSTALLED_USER) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| Failure::new(format!("{INSTALLED_USER}: {error}")))?,
    };
    let user = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    user.iter().for_each(|user| {
        inform!("weir: the run continues as {user} ({INSTALLED_USER}; --user root keeps root)")
    });
    Ok(user.map(str::to_string))
}

/// The numbers of `NAME[:GROUP]`. Without a group, that of the user.
fn ids_of(stated: &str) -> Result<(Uid, Gid), Failure> {
    let (name, group) = stated.split_once(':').map_or((stated, None), |(name, group)| (name, Some(group)));
    let wrong = |what: String| Failure::new(format!("--user {stated}: {what}"));
    let user = User::from_name(name).map_err(|error| wrong(error.to_string()))?;
    let user = user.ok_or_else(|| wrong(format!("there is no user `{name}`")))?;
    let gid = match group {
        None => user.gid,
        Some(group) => {
            let found = Group::from_name(group).map_err(|error| wrong(error.to_string()))?;
            found.ok_or_else(|| wrong(format!("there is no group `{group}`")))?.gid
        }
    };
    Ok((Uid::from_raw(user.uid.as_raw()), Gid::from_raw(gid.as_raw())))
}

fn become_user(stated: &Stated, (uid, gid): (Uid, Gid)) -> Result<(), Failure> {
    let changed = thread::set_thread_groups(&[gid])
        .and_then(|()| thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| thread::set_thread_res_uid(uid, uid, uid));
    let stated = stated.user.as_deref().unwrap_or_default();
    changed.map_err(|error| {
        Failure::new(format!("--user {stated}: {error}: start weir as root, or without --user"))
    })
}

/// Removes all capabilities from those that programs of this process could get. Needs CAP_SETPCAP, which only
/// root has.
fn forget_capabilities() -> Result<(), Box<dyn Error>> {
    thread::clear_ambient_capability_set()?;
    if !thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // The kernel may not know a newer one.
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
    Ok(())
}

/// Gives up all other capabilities.
fn keep_capabilities(kept: CapabilitySet) -> Result<(), Box<dyn Error>> {
    let permitted = thread::capabilities(None)?.permitted & kept;
    let inheritable = CapabilitySet::empty();
    Ok(thread::set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?)
}

/// Files can be created and changed only here.
fn restrict_files(writable: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    // The third version of the interface (Linux 6.2) includes truncation. Older kernels restrict what they
    // know.
    let abi = ABI::V3;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_write(abi))?
        .create()?
        .add_rules(path_beneath_rules(writable, AccessFs::from_write(abi)))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_write(abi)))?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("this kernel has none".into());
    }
    Ok(())
}

/// Calls of the system that are refused: always, or if one of the rules holds.
type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Whether the kernel lets a process read and change maps that it has, without rights (Linux 5.19).
fn has_free_maps() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 19),
        _ => false,
    }
}

/// Commands of `bpf` that read and change maps: lookup, update, delete, next key, lookup and delete
/// (linux/bpf.h).
const OF_MAPS: [u64; 5] = [1, 2, 3, 4, 21];

/// Refuses all other commands of `bpf`, in this thread and those that it starts: the loader is not one of
/// them.
fn refuse_loading() -> Result<(), Box<dyn Error>> {
    let is_other = |command| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, command);
    let conditions = OF_MAPS.into_iter().map(is_other).collect::<Result<Vec<_>, _>>()?;
    let calls = Calls::from([(libc::SYS_bpf, vec![SeccompRule::new(conditions)?])]);
    Ok(seccompiler::apply_filter(&program(calls, libc::EPERM)?)?)
}

/// Refuses calls of the system in all threads, with the error EPERM; also `bpf`, unless filters in the kernel
/// need this call.
fn refuse_calls(has_filters: bool) -> Result<(), Box<dyn Error>> {
    let filters = (!has_filters).then_some(&libc::SYS_bpf);
    let mut refused = processes()?;
    refused.extend(REFUSED.iter().chain(filters).map(|&call| (call, vec![])));
    for program in [program(refused, libc::EPERM)?, without_clone3()?] {
        seccompiler::apply_filter_all_threads(&program)?;
    }
    Ok(())
}

/// The calls that make processes: `clone`, unless for a thread.
fn processes() -> Result<Calls, Box<dyn Error>> {
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_process = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), 0)?;
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "nothing is added"))]
    let mut calls = Calls::from([(libc::SYS_clone, vec![SeccompRule::new(vec![is_process])?])]);
    // Other processors have only `clone`.
    #[cfg(target_arch = "x86_64")]
    calls.extend([(libc::SYS_fork, vec![]), (libc::SYS_vfork, vec![])]);
    Ok(calls)
}

/// Answers as if the kernel had no `clone3`, whose flags are in memory, where a filter cannot read them. The
/// C library then makes threads with `clone`.
fn without_clone3() -> Result<BpfProgram, Box<dyn Error>> {
    program(Calls::from([(libc::SYS_clone3, vec![])]), libc::ENOSYS)
}

/// A program that answers these calls with an error.
fn program(calls: Calls, error: libc::c_int) -> Result<BpfProgram, Box<dyn Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    Ok(SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::process::Command;

    /// The values of these lines of `status` of this thread.
    fn status(names: [&str; 5]) -> [String; 5] {
        let text = std::fs::read_to_string("/proc/thread-self/status").expect("the kernel has it");
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        names.map(|name| value(name).unwrap_or_default().trim().to_string())
    }

    /// Rights are those of a thread: one of this process gives them up, and says what it has left.
    #[test]
    fn a_thread_has_what_it_keeps_and_cannot_get_more() {
        if !geteuid().is_root() {
            return say!("skipped: only root has rights to give up");
        }
        let place = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        std::fs::create_dir(&inside).expect("a directory");
        let of_loader = CapabilitySet::BPF | CapabilitySet::PERFMON;
        for (user, filters, wanted) in [
            (None, CapabilitySet::empty(), OF_ROOT),
            (None, of_loader, OF_ROOT | of_loader),
            (
                Some((Uid::from_raw(65_534), Gid::from_raw(65_534))),
                CapabilitySet::empty(),
                CapabilitySet::empty(),
            ),
            (Some((Uid::from_raw(65_534), Gid::from_raw(65_534))), of_loader, of_loader),
        ] {
            let (stated, writable) = (Stated::default(), vec![inside.clone()]);
            let (inside, outside) = (inside.join("file"), outside.clone());
            let restricted = std::thread::spawn(move || {
                let restriction = Restriction { stated, user, filters, writable };
                let missing = restriction.enter_thread().unwrap_or_else(|_| panic!("root may"));
                assert!(missing.is_empty(), "{missing:?}");
                let rights = status(["CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs"]);
                let none = "0000000000000000";
                let wanted = format!("{:016x}", wanted.bits());
                assert_eq!(rights, [wanted.as_str(), &wanted, none, none, "1"].map(str::to_string));
                let all = CapabilitySets {
                    effective: CapabilitySet::all(),
                    permitted: CapabilitySet::all(),
                    inheritable: CapabilitySet::empty(),
                };
                assert!(thread::set_capabilities(None, all).is_err(), "rights do not come back");
                assert!(std::fs::write(&outside, "x").is_err(), "Landlock");
                std::fs::write(&inside, "x").map_err(|error| error.kind()).is_ok() == user.is_none()
            });
            assert!(restricted.join().expect("its assertions hold"), "root still writes inside");
        }
    }

    /// A thread that loads nothing reads and changes maps that it has, and loads no program.
    #[test]
    fn a_thread_without_the_loader_may_only_use_maps() {
        let load = || weir::link::trial::Assignment::new().map(drop);
        if let Err(error) = load() {
            return say!("skipped: programs cannot be loaded into the kernel: {error}");
        }
        let restricted = std::thread::spawn(move || {
            thread::set_no_new_privs(true).expect("every thread may");
            refuse_loading().expect("the kernel has seccomp");
            load()
        });
        let said = restricted.join().expect("it ends").expect_err("it is refused");
        assert_eq!(said.kind(), ErrorKind::PermissionDenied);
    }

    /// The filters hold for one thread, which is not that of other tests, and for those that it starts.
    #[test]
    fn threads_can_be_made_and_processes_cannot() {
        let run = || Command::new("true").status();
        assert!(run().is_ok_and(|status| status.success()), "the program `true` runs");
        let restricted = std::thread::spawn(move || {
            thread::set_no_new_privs(true).expect("every thread may");
            let programs = [program(processes().expect("rules"), libc::EPERM), without_clone3()];
            for program in programs {
                seccompiler::apply_filter(&program.expect("a program")).expect("the kernel has seccomp");
            }
            let inner = std::thread::spawn(move || run().map_err(|error| error.kind()));
            let from_inner = inner.join().expect("a thread is no process");
            (from_inner, run().map_err(|error| error.kind()))
        });
        let refused = Err(ErrorKind::PermissionDenied);
        assert_eq!(restricted.join().expect("it ends"), (refused, refused));
        assert!(run().is_ok_and(|status| status.success()), "other threads are free");
    }
}
