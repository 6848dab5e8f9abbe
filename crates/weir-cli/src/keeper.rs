//! The process that was started, once a capture on links has begun. It keeps the rights to load filters
//! ([`Keeper`]) and watches over the worker, which has none and does everything else. `sandbox` decides when
//! the process divides.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use weir::link::{Keeper, Loader};
use weir::sandbox::{self, CapabilitySet, Error, Files, KeeperCalls, Limits, Pid, Side, WaitStatus, getpid};
use weir_questions::messages::Failure;

/// The worker is ended by these signals on request.
const ON_REQUEST: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Divides the process; the worker goes on, and knows its keeper. The keeper has these capabilities, and
/// never returns.
///
/// # Errors
/// If the process cannot be divided.
pub fn divide(loader: &Loader, capabilities: CapabilitySet) -> Result<Pid, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("sandbox: {error}; --no-sandbox does without a second process"))
    };
    let divided = loader.divide().map_err(failed)?;
    // Both processes would write what is in the buffer.
    std::io::stdout().flush()?;
    let keeper = getpid();
    match sandbox::divide().map_err(failed)? {
        Side::Child => {
            loader.ask_keeper(divided);
            Ok(keeper)
        }
        Side::Parent { child } => keep(divided.into_keeper(), child, capabilities),
    }
}

/// Keeps the rights until the worker ends, and ends as the worker does.
fn keep(keeper: Keeper, worker: Pid, capabilities: CapabilitySet) -> ! {
    let _ = rustix::thread::set_name(c"weir-keeper");
    let enter = move || restrict(capabilities, KeeperCalls::Loads);
    if let Err(error) = sandbox::close_to_others().and_then(|()| keeper.serve(enter)) {
        say!("weir: {error}");
        end(2);
    }
    // CAP_KILL: the worker may run as another user.
    restrict(CapabilitySet::KILL, KeeperCalls::Watches(worker));
    match sandbox::watch(worker) {
        Ok(status) => end_as(status),
        Err(error) => {
            say!("weir: the worker is lost: {error}");
            end(2)
        }
    }
}

/// Gives up all rights of a thread but these. Nothing is opened and no connection is made.
fn restrict(capabilities: CapabilitySet, calls: KeeperCalls) {
    let limits = Limits {
        capabilities,
        files: Some(Files::default()),
        connects_to: Some(vec![]),
        sends_signals: matches!(calls, KeeperCalls::Watches(_)),
        ..Limits::default()
    };
    let restricted = limits.enter().map(drop).map_err(|error: Error| error.to_string());
    let restricted = restricted.and_then(|()| calls.restrict_thread().map_err(|error| error.to_string()));
    if let Err(why) = restricted {
        say!("weir: sandbox: {why}; --no-sandbox does without restrictions");
        end(2);
    }
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
