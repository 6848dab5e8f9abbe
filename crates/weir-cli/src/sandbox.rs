//! Restricts the process before the first packet, so that a mistake in a parser can do little harm. This file
//! decides what a run still needs: which files, whether the network, which capabilities. `weir::sandbox` has
//! the mechanisms:
//!
//! * Another user, and no capabilities. Sockets and rings stay open, and nothing is opened again. Filters are
//!   loaded into the kernel by another process, which sees neither packets nor clients ([`keeper`]); it also
//!   opens the files of a worker that root has started, for runs over files, too.
//! * `no_new_privs`: a program that the process starts gets no more rights than the process has.
//! * Landlock: files can be created and changed only in the directories of outputs, and read only there, in
//!   those of the captures, and among the files of the system that every program may read.
//! * seccomp: only a list of system calls. No process can be made, only threads; sockets
//!   only if the run needs the network.
//!
//! Rights belong to threads, and a thread has those of the thread that starts it. [`enter`] is therefore
//! called before there are other threads, but for the one that DPDK has: it gives them up, too.

use crate::keeper::{self, Opened};
use crate::terminal;
use nix::unistd::{Group, User};
use rustix::process::geteuid;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::io::ring::recorders;
use weir::io::tcp::Endpoint;
use weir::link::{Loader, dpdk};
use weir::sandbox::{
    Calls, CapabilitySet, Error, Files, Gid, Limits, Missing, Opener, Sockets, Uid, has_user, is_by_process,
};
use weir_guard::owner;
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::messages::set_writable;
use weir_questions::output::place;

/// What root may still do if it opens its files itself: write to directories of other users, and listen on
/// low ports.
const OF_ROOT: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::NET_BIND_SERVICE);

/// As whom runs of root continue if the command line names no user: the first one that exists. The
/// packages make the first.
const STRANGERS: [&str; 2] = ["weir", "nobody"];
/// The number of a user without files (Documentation/admin-guide/sysctl/fs.rst, `overflowuid`).
const NOBODY: u32 = 65_534;

/// Files and connections that a run opens after it is restricted.
#[derive(Debug, Default)]
pub struct Needs {
    /// Directories, and files that are no regular ones, that are written.
    write: Vec<PathBuf>,
    /// Files and directories that are only read.
    read: Vec<PathBuf>,
    /// Where files without a name are made.
    temporary: Option<PathBuf>,
    /// Connections are made or accepted.
    has_network: bool,
    /// A script has the rights of the process, without its capabilities.
    is_trusting: bool,
}

impl Needs {
    /// What the questions of a run and its control socket need.
    pub fn of(input: &Input, specs: &[QuestionSpec], socket: Option<&Path>) -> Self {
        let mut write = input.write_to.clone();
        let mut has_network = socket.is_some() || input.metrics.is_some() || input.otlp.is_some();
        for spec in specs {
            has_network |= spec.output.as_deref().is_some_and(place::is_remote);
            let output = spec.output.as_deref().filter(|path| !place::is_remote(path));
            // A descriptor that a shell has opened.
            write.extend(output.filter(|path| is_by_process(path)).map(Path::to_path_buf));
            // A link leads to another directory.
            let output = output.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
            write.extend(output.map(|path| match place::is_special(&path) {
                true => path,
                false => directory_of(&path),
            }));
            let files = spec.files.iter().filter(|directory| directory.as_os_str() != "-");
            write.extend(files.chain(&spec.extract).chain(&spec.spool).cloned());
        }
        // Rows that are sorted may need more than memory, also those of questions that come later.
        let temporary = Some(std::env::temp_dir()).filter(|directory| directory.is_dir());
        write.extend(socket.map(directory_of));
        let mut read = input.read_from.clone();
        for name in input.read.iter().map(Path::new) {
            if Endpoint::is_named(name) {
                has_network = true;
                read.extend(spool_of(name));
            } else {
                // Another file takes the place of one that is followed.
                match input.follow {
                    true => read.extend(directories_of(name)),
                    false => read.push(name.to_path_buf()),
                }
            }
        }
        read.extend(specs.iter().flat_map(files_of_question));
        // Questions that come later are compiled with the same stacks.
        let stacks = input.stack.iter().map(Path::new).filter(|path| path.is_file());
        read.extend(stacks.flat_map(directories_of));
        // Of libraries that are loaded where they are there: nDPI, Vectorscan.
        read.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
        let is_trusting = specs.iter().any(|spec| spec.trust);
        Self { write, read, temporary, has_network, is_trusting }
    }

    /// Also lets the run write here.
    pub fn writes(&mut self, places: impl IntoIterator<Item = PathBuf>) {
        self.write.extend(places);
    }

    /// Also lets the run read what is beside this file: an editor writes another one in its place.
    pub fn reads_beside(&mut self, file: &Path) {
        self.read.extend(directories_of(file));
    }

    /// Also lets the run make and accept connections.
    pub fn connects(&mut self) {
        self.has_network = true;
    }

    /// What a keeper opens.
    fn opened(&self) -> Result<Opened, Failure> {
        let folders = Files { read: self.read.clone(), write: self.places() };
        let opener = Opener::new(&folders, self.temporary.clone(), self.has_network).map_err(Failure::new)?;
        Ok(Opened { opener, files: self.files() })
    }

    /// The places to write.
    fn places(&self) -> Vec<PathBuf> {
        // Directories that do not exist yet are created in the nearest one that does.
        let there = |path: &PathBuf| {
            let path = std::path::absolute(path).ok()?;
            path.ancestors().find(|path| path.exists()).map(Path::to_path_buf)
        };
        let mut places: Vec<PathBuf> = self.write.iter().filter_map(there).collect();
        places.sort();
        places.dedup();
        places
    }

    /// All files, for a process that opens them itself.
    fn files(&self) -> Files {
        let mut write = self.places();
        write.extend(self.temporary.clone());
        Files { read: self.read.clone(), write }
    }
}

/// Where the recorder of this name has its packets on the disk. The recorder answers now, and not the user
/// that this process becomes.
fn spool_of(name: &Path) -> Option<PathBuf> {
    let Some(Ok(Endpoint::Recorder(name))) = Endpoint::of(name) else { return None };
    recorders::find_early(&name)
}

/// The directories of the files that a question reads, also those that it reads again when it is reloaded.
fn files_of_question(spec: &QuestionSpec) -> Vec<PathBuf> {
    let single = [&spec.variables, &spec.classes, &spec.tunings, &spec.script].into_iter().flatten();
    let lists = spec.rules.iter().chain(&spec.names).map(Path::new);
    let files = lists.chain(single.chain(&spec.pattern_files).map(PathBuf::as_path));
    let places = |path: &Path| match path.is_dir() {
        true => [path.to_path_buf()].into_iter().chain(targets_in(path)).collect(),
        false => directories_of(path),
    };
    files.filter(|path| path.exists()).flat_map(places).collect()
}

/// The files to which links in a directory lead.
fn targets_in(directory: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let links = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|link| link.path().canonicalize().ok()).collect()
}

/// The directories in which a file, and what a link leads to, get another file in their place.
fn directories_of(file: &Path) -> Vec<PathBuf> {
    let target = file.canonicalize().ok();
    [Some(file), target.as_deref()].into_iter().flatten().map(directory_of).collect()
}

/// The directory in which an output is created.
fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        _ if place::is_directory(path) => path.to_path_buf(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Whether the worker's files are opened by its keeper, which stays root: the worker becomes another user,
/// who may not enter the folders of root.
pub fn is_served(input: &Input, needs: &Needs) -> bool {
    let stays_root = input.user.as_deref().is_none_or(|user| user == "root");
    let has_rights = [CapabilitySet::KILL, CapabilitySet::SETUID, CapabilitySet::SETGID].map(has_capability);
    stays_root
        && geteuid().is_root()
        && has_rights == [true; 3]
        && !(input.no_sandbox || needs.is_trusting || has_drivers(input))
        && has_user(*STRANGER)
}

/// Whether some interface is a device of DPDK.
fn has_drivers(input: &Input) -> bool {
    input.interface.iter().any(|name| name.starts_with(dpdk::PREFIX))
}

/// Gives up the rights of this thread, of all threads that it starts from now on, and of the thread of DPDK.
/// A capture on links, and each run of root, divides the process first. What an old kernel does not restrict
/// is reported with `-v`.
///
/// # Errors
/// The user does not exist, or the process may not become that user; the kernel refuses a restriction.
pub fn enter(input: &Input, needs: &Needs, loader: &Loader) -> Result<(), Failure> {
    // Some commands run several times. What a thread gave up stays given up.
    static HAS_ENTERED: AtomicBool = AtomicBool::new(false);
    if HAS_ENTERED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let is_link = !input.interface.is_empty();
    let user = &input.user;
    // Some drivers add rules by calls of the kernel.
    let has_drivers = has_drivers(input);
    let of_devices = match has_drivers {
        true => CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW,
        false => CapabilitySet::empty(),
    };
    // An older kernel asks for rights whenever the table of connections is read.
    let of_tables = match is_link && !weir::sandbox::has_free_maps() {
        true => CapabilitySet::BPF,
        false => CapabilitySet::empty(),
    };
    if let Some(missing) = input.write_to.iter().find(|path| !path.is_dir()) {
        return Err(Failure::new(format!("--write-to {}: there is no such directory", missing.display())));
    }
    let ids = user.as_deref().map(ids_of).transpose()?;
    let is_root = ids.map_or_else(geteuid, |(user, _)| user).is_root();
    let of_user = if is_root { OF_ROOT } else { CapabilitySet::empty() };
    let files = needs.files();
    let limits = Limits {
        user: ids,
        capabilities: of_user | of_devices | of_tables,
        files: (!needs.is_trusting).then(|| files.clone()),
        sends_signals: false,
        connects_to: (!needs.has_network && !needs.is_trusting).then(Vec::new),
        leaves_network: !(needs.has_network || needs.is_trusting || has_drivers),
    };
    let refused = |error: std::io::Error| {
        let user = user.as_deref().unwrap_or_default();
        Failure::new(format!("--user {user}: {error}: start weir as root, or without --user"))
    };
    if input.no_sandbox {
        say!("weir: --no-sandbox: the parsers of packets keep all rights of this process");
        let of_dpdk = limits.clone();
        match dpdk::in_its_thread(move || of_dpdk.become_user()) {
            Ok(entered) => entered.transpose().map(drop).map_err(refused)?,
            Err(why) => report(&format!("the thread of DPDK keeps its user: {why}")),
        }
        return limits.become_user().map_err(refused);
    }
    let unrestricted = |error: Error| match error {
        Error::User(error) => refused(error),
        error => failed(&error.to_string()),
    };
    let of_dpdk = limits.clone();
    match dpdk::in_its_thread(move || of_dpdk.enter()) {
        Ok(entered) => entered.transpose().map(drop).map_err(unrestricted)?,
        Err(why) => return Err(failed(&format!("the thread of DPDK keeps its rights: {why}"))),
    }
    // A keeper must be able to end a worker that is another user's.
    let is_out_of_reach = ids.is_some() && !has_capability(CapabilitySet::KILL);
    let is_served = is_served(input, needs);
    let alone = match loader.has_places() {
        false if is_served => None,
        false => Some("the rights for filters are missing"),
        true if has_drivers => Some("DPDK has threads in this process, which then has no rights for filters"),
        true if is_out_of_reach && !is_served => {
            Some("CAP_KILL is missing, for a second process that loads filters")
        }
        true => None,
    };
    let keeper = match alone {
        Some(why) => {
            loader.end(why);
            None
        }
        None => {
            let opened = is_served.then(|| needs.opened()).transpose()?;
            Some(keeper::divide(loader, of_loader(input), opened)?)
        }
    };
    let limits = match &keeper {
        Some(kept) if kept.opens_files => {
            owner::keep();
            let user = ids.unwrap_or(*STRANGER);
            let (user, files) = (Some(user), Some(Files::default()));
            Limits { user, files, capabilities: of_tables, ..limits }
        }
        _ => {
            if is_served {
                report("this kernel passes no calls to another process: files are opened by this one");
            }
            limits
        }
    };
    match limits.enter().map_err(unrestricted)? {
        None => set_writable(&files.write),
        Some(missing) => {
            report(&missing.to_string());
            if missing == Missing::Some {
                set_writable(&files.write);
            }
        }
    }
    keeper
        .map(|kept| weir::sandbox::accept_signals(kept.keeper))
        .transpose()
        .map_err(|error| failed(&error.to_string()))?;
    if needs.is_trusting {
        return Ok(());
    }
    let sockets = if needs.has_network { Sockets::Network } else { Sockets::None };
    let calls = Calls { sockets, uses_maps: is_link, has_drivers };
    calls.restrict_process().map_err(|error| failed(&format!("seccomp: {error}")))?;
    let free = threads_with_other_rights();
    if !free.is_empty() {
        report(&format!("threads of drivers keep their rights: {}", free.join(", ")));
    }
    Ok(())
}

/// The capabilities that load filters. Without CAP_PERFMON, the kernel accepts only programs without computed
/// addresses; programs of XDP are for administrators of the network.
fn of_loader(input: &Input) -> CapabilitySet {
    let of_sockets = CapabilitySet::BPF | CapabilitySet::PERFMON;
    match input.method == "af_xdp" || input.mirror {
        true => of_sockets | CapabilitySet::NET_ADMIN,
        false => of_sockets,
    }
}

/// The kernel refuses a restriction that it has.
fn failed(why: &str) -> Failure {
    Failure::new(format!("sandbox: {why}; --no-sandbox does without restrictions"))
}

/// Whether this thread has a capability.
fn has_capability(capability: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
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
    others.collect()
}

/// Reports what is not restricted.
fn report(what: &str) {
    if terminal::is_verbose() {
        say!("weir: sandbox: {what}");
    }
}

/// As whom runs of root continue. A system without users has this number, too. The files of the system are
/// asked once, while this process may open them.
static STRANGER: LazyLock<(Uid, Gid)> = LazyLock::new(|| {
    let found = STRANGERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let ids = found.map_or((NOBODY, NOBODY), |user| (user.uid.as_raw(), user.gid.as_raw()));
    (Uid::from_raw(ids.0), Gid::from_raw(ids.1))
});

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
