//! The process that was started, once a capture on links, or a run of root, has divided. It keeps the rights
//! to load filters ([`Keeper`]) and, for root, to open files ([`Opener`]), and watches over the worker, which
//! has none and does everything else. `sandbox` decides when the process divides.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt::Display;
use std::io::Write;
use std::os::unix::net::UnixStream;
use weir::link::{Keeper, Loader};
use weir::sandbox::{
    self, CapabilitySet, Files, KeeperCalls, Limits, OPENER_CAPABILITIES, Opener, Pid, Side, WaitStatus,
    getpid,
};
use weir_questions::messages::Failure;

/// The worker is ended by these signals on request.
const ON_REQUEST: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// What the worker knows of its keeper.
#[derive(Debug)]
pub struct Kept {
    /// The process.
    pub keeper: Pid,
    /// The keeper opens the worker's files, or why not.
    pub opens_files: Result<(), String>,
}

/// The files that a keeper opens for its worker.
#[derive(Debug)]
pub struct Opened {
    /// Opens them.
    pub opener: Opener,
    /// Their folders.
    pub files: Files,
}

/// Divides the process; the worker goes on. The keeper loads filters with these capabilities, opens these
/// files, and never returns.
///
/// # Errors
/// If the process cannot be divided.
pub fn divide(loader: &Loader, capabilities: CapabilitySet, opened: Option<Opened>) -> Result<Kept, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("sandbox: {error}; --no-sandbox does without a second process"))
    };
    let divided = loader.divide().map_err(failed)?;
    // Both processes would write what is in the buffer.
    std::io::stdout().flush()?;
    let keeper = getpid();
    let (asking, answering) = UnixStream::pair().map_err(failed)?;
    match sandbox::divide().map_err(failed)? {
        Side::Child => {
            drop(answering);
            match loader.has_places() {
                true => loader.ask_keeper(divided),
                false => loader.end("the rights for filters are missing"),
            }
            let ask = |_| sandbox::forbid_new_rights().and_then(|()| sandbox::ask_opener(&asking));
            let opens_files = opened.map(ask).transpose().map_err(failed)?;
            Ok(Kept { keeper, opens_files: opens_files.unwrap_or_else(|| Err("the user stays".into())) })
        }
        Side::Parent { child } => {
            drop(asking);
            let opened = opened.map(|opened| (opened, answering));
            keep(divided.into_keeper(), child, capabilities, opened)
        }
    }
}

/// Keeps the rights until the worker ends, and ends as the worker does.
fn keep(keeper: Keeper, worker: Pid, capabilities: CapabilitySet, opened: Option<(Opened, UnixStream)>) -> ! {
    let _ = rustix::thread::set_name(c"weir-keeper");
    let limit = move || enter(capabilities, KeeperCalls::Loads, &Files::default());
    let begun = sandbox::close_to_others().and_then(|()| keeper.serve(limit)).and_then(|_| {
        let Some((Opened { opener, files }, socket)) = opened else { return Ok(()) };
        let calls = opener.calls();
        let limit = move || enter_limits(OPENER_CAPABILITIES, calls, &files);
        opener.serve(worker, &socket, limit, move || restrict_calls(calls))
    });
    if let Err(error) = begun {
        say!("weir: {error}");
        end(2);
    }
    // CAP_KILL: the worker may run as another user.
    enter(CapabilitySet::KILL, KeeperCalls::Watches(worker), &Files::default());
    match sandbox::watch(worker) {
        Ok(status) => end_as(status),
        Err(error) => {
            say!("weir: the worker is lost: {error}");
            end(2)
        }
    }
}

/// Gives up all rights of a thread but these, and all calls but these.
fn enter(capabilities: CapabilitySet, calls: KeeperCalls, files: &Files) {
    enter_limits(capabilities, calls, files);
    restrict_calls(calls);
}

/// Gives up all rights of a thread but these. Nothing else is opened, and no connection is made.
fn enter_limits(capabilities: CapabilitySet, calls: KeeperCalls, files: &Files) {
    let limits = Limits {
        capabilities,
        files: Some(files.clone()),
        connects_to: Some(vec![]),
        sends_signals: matches!(calls, KeeperCalls::Watches(_)),
        ..Limits::default()
    };
    limits.enter().unwrap_or_else(|error| fail(&error));
}

/// Gives up all other calls of the system.
fn restrict_calls(calls: KeeperCalls) {
    calls.restrict_thread().unwrap_or_else(|error| fail(&*error));
}

/// The kernel refuses a restriction that it has.
fn fail(why: &(impl Display + ?Sized)) -> ! {
    say!("weir: sandbox: {why}; --no-sandbox does without restrictions");
    end(2)
}

/// Ends as the worker has ended.
fn end_as(status: WaitStatus) -> ! {
    if let Some(code) = status.exit_status() {
        end(code);
    }
    let signal = status.terminating_signal().unwrap_or_default();
    if ON_REQUEST.contains(&signal) {
        // A shell that runs a script ends the script, too.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    } else {
        say!(
            "weir: signal {signal} ended the worker: rows not yet written are lost; recorded packets are kept"
        );
    }
    end(128 + signal)
}

/// Ends this process, and with it the worker, if it still runs.
fn end(status: i32) -> ! {
    // No destructors: what the process has belongs to the worker.
    signal_hook::low_level::exit(status)
}
