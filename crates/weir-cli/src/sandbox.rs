//! Gives up rights once the sockets of links are open: the parsers of hostile traffic run with as little as
//! possible.
//!
//! * Another user (`--user`), and no capabilities but those that replace filters in the kernel when questions
//!   change. Sockets and rings stay open, and nothing is opened again.
//! * `no_new_privs`: programs with more rights are of no use.
//! * seccomp: calls of the system that Weir never makes fail, such as `execve`, `ptrace` and `mount`, and no
//!   process can be made, only threads.
//! * Landlock: files can be created and changed only in the directories of outputs.
//!
//! Rights belong to threads, and a thread has those of the thread that starts it. [`enter`] is therefore
//! called before there are other threads, but for the one that DPDK has: it gives them up, too.

use crate::args::{Input, SandboxArgs};
use crate::failure::Failure;
use crate::spec::QuestionSpec;
use crate::{output, terminal, write_bounds};
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
use weir::link::dpdk;

/// What root may still do if no other user is given: write to directories of other users, and listen on low
/// ports.
const OF_ROOT: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::NET_BIND_SERVICE);

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
pub fn writable(args: &SandboxArgs, specs: &[QuestionSpec], socket: Option<&Path>) -> Vec<PathBuf> {
    let mut places = args.write_to.clone();
    for spec in specs {
        let output = spec.output.as_deref().filter(|path| !output::is_remote(path));
        // A link leads to another directory.
        let output = output.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
        places.extend(output.map(|path| match output::is_special(&path) {
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
        _ if output::is_directory(path) => path.to_path_buf(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Gives up the rights of this thread, of all threads that it starts from now on, and of the thread of DPDK:
/// files can be written only in `writable`. What the kernel does not support is reported with `-v`.
///
/// # Errors
/// The user does not exist, or the process may not become that user.
pub fn enter(input: &Input, writable: &[PathBuf]) -> Result<(), Failure> {
    let args = &input.sandbox;
    // Without CAP_PERFMON, the kernel accepts only programs without computed addresses.
    let of_sockets = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let filters = match input.method == "af_xdp" || input.mirror {
        true => of_sockets | CapabilitySet::NET_ADMIN,
        false => of_sockets,
    };
    // Some drivers add rules by calls of the kernel.
    let filters = match input.interface.iter().any(|name| name.starts_with(dpdk::PREFIX)) {
        true => filters | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW,
        false => filters,
    };
    let user = args.user.as_deref().map(ids_of).transpose()?;
    if let Some(missing) = args.write_to.iter().find(|path| !path.is_dir()) {
        return Err(Failure::new(format!("--write-to {}: there is no such directory", missing.display())));
    }
    let restriction = Restriction { args: args.clone(), user, filters, writable: writable.to_vec() };
    let of_dpdk = restriction.clone();
    match dpdk::in_its_thread(move || of_dpdk.enter_thread()) {
        Ok(None) => {}
        Ok(Some(entered)) => drop(entered?),
        Err(why) if args.no_sandbox => report("restriction of the thread of DPDK", &why),
        Err(why) => {
            let message = format!("the thread of DPDK keeps its rights: {why}; --no-sandbox accepts that");
            return Err(Failure::new(message));
        }
    }
    let missing = restriction.enter_thread()?;
    missing.iter().for_each(|(part, why)| report(part, why));
    if args.no_sandbox {
        return Ok(());
    }
    if !missing.iter().any(|(part, _)| *part == LANDLOCK) {
        write_bounds::set(writable);
    }
    let has_filters =
        thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::BPF));
    if let Err(why) = refuse_calls(has_filters) {
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

/// What a thread gives up.
#[derive(Clone)]
struct Restriction {
    args: SandboxArgs,
    user: Option<(Uid, Gid)>,
    /// Capabilities that filters in the kernel need.
    filters: CapabilitySet,
    writable: Vec<PathBuf>,
}

impl Restriction {
    /// Gives up the rights of this thread. Returns the parts that this system does not have, and why.
    fn enter_thread(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let Self { args, user, filters, writable } = self;
        if args.no_sandbox {
            return user.map_or(Ok(vec![]), |ids| become_user(args, ids).map(|()| vec![]));
        }
        let mut parts = vec![("capabilities", forget_capabilities())];
        if let Some(ids) = *user {
            // Another user would otherwise have none.
            parts.push(("capabilities", thread::set_keep_capabilities(true).map_err(Into::into)));
            become_user(args, ids)?;
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
    all.map(|task| of(task.path())).filter(|(_, rights)| *rights != own).map(|(name, _)| name).collect()
}

/// Reports a part of the sandbox that this system does not have.
fn report(part: &str, why: &str) {
    if terminal::is_verbose() {
        say!("weir: sandbox: no {part}: {why}");
    }
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

fn become_user(args: &SandboxArgs, (uid, gid): (Uid, Gid)) -> Result<(), Failure> {
    let changed = thread::set_thread_groups(&[gid])
        .and_then(|()| thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| thread::set_thread_res_uid(uid, uid, uid));
    let stated = args.user.as_deref().unwrap_or_default();
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

/// Refuses calls of the system, with the error EPERM; also `bpf`, unless filters in the kernel need this
/// call.
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
