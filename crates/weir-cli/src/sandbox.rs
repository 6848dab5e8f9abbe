//! Restricts the process before the first packet, so that a mistake in a parser can do little harm. This file
//! decides what a run still needs: which files, whether the network, which capabilities. `weir::sandbox` has
//! the mechanisms:
//!
//! * Another user, and no capabilities. Sockets and rings stay open, and nothing is opened again. Filters are
//!   loaded into the kernel by another process, which parses neither packets nor what clients send
//!   ([`keeper`]); it also opens the files of a worker that root has started, for runs over files, too.
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
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::io::ring::recorders;
use weir::io::tcp::Endpoint;
use weir::link::{Loader, dpdk};
use weir::sandbox::{
    Calls, CapabilitySet, Error, Files, Gid, Grants, Limits, Missing, Opener, Sockets, Uid, has_user,
    is_by_process,
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
    /// Files and folders, by what is done with them.
    grants: Grants,
    /// Folders of files that were named: what is beside such a file is read, too, as far as the worker's user
    /// may.
    beside: Vec<PathBuf>,
    /// Connections are made or accepted.
    has_network: bool,
    /// A script has the rights of the process, without its capabilities.
    is_trusting: bool,
}

impl Needs {
    /// What the questions of a run and its control socket need.
    pub fn of(input: &Input, specs: &[QuestionSpec], socket: Option<&Path>) -> Self {
        let mut needs = Self {
            has_network: socket.is_some() || input.metrics.is_some() || input.otlp.is_some(),
            is_trusting: specs.iter().any(|spec| spec.trust),
            ..Self::default()
        };
        needs.grants.output_folders.clone_from(&input.write_to);
        needs.grants.folders.clone_from(&input.read_from);
        for spec in specs {
            needs.reads_question(spec);
            needs.has_network |= spec.output.as_deref().is_some_and(place::is_remote);
            let output = spec.output.as_deref().filter(|path| !place::is_remote(path));
            output.into_iter().for_each(|path| needs.writes(path));
            let files = spec.files.iter().filter(|directory| directory.as_os_str() != "-");
            needs.writes_in(files.chain(&spec.extract).chain(&spec.spool).cloned());
        }
        // Rows that are sorted may need more than memory, also those of questions that come later.
        needs.grants.temporary = Some(std::env::temp_dir()).filter(|directory| directory.is_dir());
        needs.removes(socket);
        for name in input.read.iter().map(Path::new) {
            if Endpoint::is_named(name) {
                needs.has_network = true;
                needs.grants.folders.extend(spool_of(name));
            } else {
                needs.grants.files.push(name.to_path_buf());
                // Another file takes the place of one that is followed.
                needs.beside.extend(input.follow.then(|| directory_of(name)));
            }
        }
        // Questions that come later are compiled with the same stacks.
        let stacks = input.stack.iter().map(Path::new).filter(|path| path.is_file());
        stacks.for_each(|stack| needs.reads(stack));
        // Of libraries that are loaded where they are there: nDPI, Vectorscan.
        let libraries = std::env::var_os("LD_LIBRARY_PATH");
        // An empty part would be the directory of the process.
        let libraries = libraries.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
        needs.beside.extend(libraries);
        let outputs = specs.iter().filter_map(|spec| spec.output.as_deref());
        let mut peers = outputs.chain(input.read.iter().map(Path::new));
        needs.grants.makes_sockets = peers.any(is_of_user);
        needs
    }

    /// The files that a question reads, also those that it reads again when it is reloaded.
    fn reads_question(&mut self, spec: &QuestionSpec) {
        let single = [&spec.variables, &spec.classes, &spec.tunings, &spec.script].into_iter().flatten();
        let lists = spec.rules.iter().chain(&spec.names).map(Path::new);
        let files = lists.chain(single.chain(&spec.pattern_files).map(PathBuf::as_path));
        for path in files.filter(|path| path.exists()) {
            match path.is_dir() {
                true => {
                    self.grants.folders.push(path.to_path_buf());
                    self.grants.files.extend(targets_in(path));
                }
                false => self.reads(path),
            }
        }
    }

    /// Also lets the run read this file, what takes its place, and what is beside it.
    pub fn reads(&mut self, file: &Path) {
        self.grants.files.push(file.to_path_buf());
        self.beside.extend(directories_of(file));
    }

    /// Also lets the run write this output.
    pub fn writes(&mut self, output: &Path) {
        let Grants { output_folders, sinks, outputs, .. } = &mut self.grants;
        let to = match place::is_directory(output) {
            true => output_folders,
            false if is_by_process(output) || place::is_special(output) => sinks,
            false => outputs,
        };
        to.push(output.to_path_buf());
    }

    /// Also lets the run write in these folders.
    pub fn writes_in(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        self.grants.output_folders.extend(folders);
    }

    /// Questions may come later: new files are made beside the outputs and the control socket.
    pub fn grows(&mut self, socket: Option<&Path>) {
        let folders = self.grants.outputs.iter().map(PathBuf::as_path).chain(socket).map(directory_of);
        let folders: Vec<PathBuf> = folders.collect();
        self.grants.growing.extend(folders);
    }

    /// Also lets the run remove this socket at its end.
    pub fn removes(&mut self, socket: Option<&Path>) {
        self.grants.removed.extend(socket.map(Path::to_path_buf));
    }

    /// Also lets the run make and accept connections.
    pub fn connects(&mut self) {
        self.has_network = true;
    }

    /// What a keeper opens.
    fn opened(&self) -> Result<Opened, Failure> {
        let opener = Opener::new(&self.grants).map_err(Failure::new)?;
        Ok(Opened { opener, files: self.grants.files() })
    }

    /// What may be written if a keeper opens the files, for messages.
    fn written(&self) -> Vec<PathBuf> {
        let Grants { outputs, output_folders, growing, sinks, .. } = &self.grants;
        let outputs = outputs.iter().map(|output| output.with_extension("*"));
        let growing = growing.iter().map(|folder| folder.join("(new files)"));
        outputs.chain(output_folders.iter().cloned()).chain(growing).chain(sinks.iter().cloned()).collect()
    }

    /// All files, for a process that opens them itself.
    fn files(&self) -> Files {
        let Grants { files, folders, .. } = &self.grants;
        let read = [files.as_slice(), folders, &self.beside].concat();
        let mut write = self.grants.files().write;
        write.sort();
        write.dedup();
        Files { read, write }
    }
}

/// Whether the other end may ask whose this end is: packets over TCP on this machine, where another Weir
/// admits only its own user. All others get a socket of the worker's user.
fn is_of_user(name: &Path) -> bool {
    match Endpoint::of(name) {
        Some(Ok(Endpoint::Connect { host, .. })) => {
            host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        _ => false,
    }
}

/// Where the recorder of this name has its packets on the disk. The recorder answers now, and not the user
/// that this process becomes.
fn spool_of(name: &Path) -> Option<PathBuf> {
    let Some(Ok(Endpoint::Recorder(name))) = Endpoint::of(name) else { return None };
    recorders::find_early(&name)
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
    let mut written = files.write;
    let limits = match keeper.as_ref().map(|kept| &kept.opens_files) {
        Some(Ok(())) => {
            written = needs.written();
            owner::keep();
            let user = ids.unwrap_or(*STRANGER);
            // What only root reads is opened by the keeper.
            let (user, files) = (Some(user), Some(Files { read: needs.beside.clone(), write: vec![] }));
            Limits { user, files, capabilities: of_tables, ..limits }
        }
        kept => {
            if let (true, Some(Err(why))) = (is_served, kept) {
                report(&format!("{why}: files are opened by the process that parses packets"));
            }
            limits
        }
    };
    match limits.enter().map_err(unrestricted)? {
        None => set_writable(&written),
        Some(missing) => {
            report(&missing.to_string());
            if missing == Missing::Some {
                set_writable(&written);
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
