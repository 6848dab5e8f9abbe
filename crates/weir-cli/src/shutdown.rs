//! Ends the process within a second of SIGTERM or SIGHUP, whatever is blocked. Process managers send these
//! signals once. SIGINT has no such limit: a person sees that the process waits, and sends it again. Any
//! signal after [some time](signals::SECOND_AFTER) terminates the process.

use crate::signals::{self, Hangup};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir_questions::messages::Failure;
use weir_questions::output::Outlets;

/// Time from the signal until the run does not wait for outputs.
const OUTPUT_TIME: Duration = Duration::from_millis(250);

/// Time from the signal until their completion is not waited for.
const COMPLETION_TIME: Duration = Duration::from_millis(750);

/// Time from the signal until the process is ended, if it has not ended by then.
const END_TIME: Duration = Duration::from_millis(900);

/// Time for the last message: standard error may be blocked, too.
const MESSAGE_TIME: Duration = Duration::from_millis(50);

/// The thread that waits for the signal.
pub struct Shutdown {
    /// Number of the signal; 0: none.
    signal: Arc<AtomicI32>,
}

impl Shutdown {
    /// Begins to wait for the signal. The end removes `socket`, as the usual end of a run does.
    pub fn watch(outlets: Arc<Outlets>, socket: Option<&Path>, hangup: Hangup) -> Result<Self, Failure> {
        let numbers: &[i32] =
            if hangup == Hangup::Ends { &[SIGINT, SIGTERM, SIGHUP] } else { &[SIGINT, SIGTERM] };
        let mut signals = Signals::new(numbers).map_err(Failure::new)?;
        let socket = socket.map(Path::to_path_buf);
        let signal = Arc::new(AtomicI32::new(0));
        let received = Arc::clone(&signal);
        let thread = std::thread::Builder::new().name("weir-signal".into());
        signals::wait_elsewhere();
        let waiting = thread.spawn(move || {
            for number in signals.forever() {
                let now = Instant::now();
                if number != SIGINT {
                    received.store(number, Ordering::Relaxed);
                    outlets.patience().end_at(now + OUTPUT_TIME, now + COMPLETION_TIME);
                }
                std::thread::sleep(signals::SECOND_AFTER);
                signals::terminate_at_next();
                if number != SIGINT {
                    std::thread::sleep((now + END_TIME).saturating_duration_since(Instant::now()));
                    end(number, &outlets, socket);
                    return;
                }
            }
        });
        waiting.map(drop).map_err(Failure::new)?;
        Ok(Self { signal })
    }

    /// The name of the signal that came, and the exit status of a process that the signal ended.
    pub fn ended(&self) -> Option<(&'static str, ExitCode)> {
        let number = self.signal.load(Ordering::Relaxed);
        (number != 0).then(|| (name_of(number), ExitCode::from(128 + number as u8)))
    }
}

fn name_of(signal: i32) -> &'static str {
    if signal == SIGTERM { "SIGTERM" } else { "SIGHUP" }
}

/// Ends the process.
fn end(signal: i32, outlets: &Arc<Outlets>, socket: Option<PathBuf>) {
    socket.into_iter().for_each(|path| drop(std::fs::remove_file(path)));
    let (said, is_said) = channel();
    let outlets = Arc::clone(outlets);
    std::thread::spawn(move || {
        let name = name_of(signal);
        say!("weir: {name}: the run did not end within a second: its outputs are not complete");
        for (output, load) in outlets.waiting() {
            say!("weir: {output} is blocked: {} more rows are not written", load.rows);
        }
        let _ = said.send(());
    });
    let _ = is_said.recv_timeout(MESSAGE_TIME);
    // No destructors: they may wait for what is blocked.
    signal_hook::low_level::exit(128 + signal);
}
