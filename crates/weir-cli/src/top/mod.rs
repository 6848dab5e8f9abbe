//! `weir top`: a screen that shows the traffic while it comes.
//!
//! - `questions.rs`: the questions to the engine; their answers are added to the `Traffic`, `traffic.rs`
//! - `app.rs`: the state of the screen, and what keys do; `keys.rs`: keys of the terminal
//! - `panes.rs`: the tables; `sheet.rs`: the sorted part that is shown; `history.rs`: rates
//! - `view.rs`: draws all this
//! - `recording.rs`: the packets of a connection as a file
//! - `live.rs`: what the screen asks of the run
//!
//! The engine runs on the main thread, the screen on one of its own.

mod app;
mod history;
mod keys;
mod live;
mod panes;
mod questions;
mod recording;
mod sheet;
mod traffic;
mod view;

use crate::ask::{self, Finished};
use crate::metrics::{self, Readers};
use crate::sandbox::{self, Needs};
use crate::shutdown::Shutdown;
use crate::signals::{self, Hangup};
use crate::terminal;
use app::App;
use keys::Keys;
use live::{Again, Live};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use traffic::Traffic;
use weir::link::Loader;
use weir::{Subscription, Watch};
use weir_questions::Input;
use weir_questions::Stdout;
use weir_questions::local_users;
use weir_questions::messages::Failure;
use weir_questions::run::report;
use weir_questions::run::{Run, RunSettings};
use weir_questions::source::Captures;
use weir_questions::source::Ender;

/// Time between two drawings without a key.
const DRAW_PERIOD: Duration = Duration::from_millis(250);

/// Shows the traffic that matches the filter, until `q` is pressed or a signal comes.
///
/// # Errors
/// Standard output is no terminal; mistakes in the filter; the captures cannot be opened.
pub fn run(input: &Input, filter: &str) -> Result<ExitCode, Failure> {
    check(input)?;
    let watch = Watch::default();
    let settings = RunSettings {
        stdout: Stdout { is_shared: true, screen: None },
        watch: Some(watch.clone()),
        is_timed: terminal::is_verbose(),
        // Other filters come while the traffic is shown.
        is_open: true,
        ..RunSettings::default()
    };
    local_users::begin(&input.allow_user, input.group_read);
    let mut needs = Needs::of(input, &[], None);
    // Recordings.
    needs.writes(Path::new("weir.pcapng"));
    // Threads have the rights of the one that starts them, so threads come later.
    let is_link = !input.interface.is_empty();
    if !is_link {
        sandbox::enter(input, &needs, &Loader::default())?;
    }
    let mut run = Run::new(input, settings, &[])?;
    let set = Arc::clone(run.set());
    let traffic = Arc::<Mutex<Traffic>>::default();
    let shown = live::subscribe(&mut run, filter, &traffic)?;
    run.compile()?;
    let captures = open(&run)?;
    if is_link {
        sandbox::enter(input, &needs, captures.loader())?;
    }
    let published = metrics::publish(Readers::of(input), &[], &watch, &set.totals)?;
    let leaving = Leaving::of(captures.ender());
    let (live, again) = Live::new(&run, shown, Arc::clone(&traffic));
    let shown = live.shown();
    let mut app = App::new(live, Arc::clone(&traffic), watch, source(input), filter.to_string());
    app.is_colored = terminal::stdout_color();
    // The process ends within a second of SIGTERM or SIGHUP, also if the terminal or an output is blocked.
    let _shutdown = Shutdown::watch(Arc::clone(&set.outlets), None, Hangup::Ends)?;
    let left = leaving.clone();
    let screen = std::thread::Builder::new().name("weir-top".into()).spawn(move || show(app, &left));
    let screen = screen.map_err(Failure::new)?;
    let ended = Rounds { leaving: &leaving, traffic: &traffic, shown: &shown, again }.run(captures, &mut run);
    if ended.is_err() {
        leaving.leave();
    }
    let shown = screen.join();
    terminal::release();
    let blocked = set.outlets.wait();
    published.finish();
    if let Err(panic) = shown {
        std::panic::resume_unwind(panic);
    }
    // A signal is the normal end.
    let (_, status) = ended?.report(&run, true, terminal::is_verbose());
    let is_lost = report::lost_rows(&set.totals.losses(), &blocked, false);
    match (shown, set.totals.take_fault()) {
        (Ok(Err(error)), _) => Err(Failure::new(format!("the terminal: {error}"))),
        (_, Some(fault)) => Err(fault),
        _ => Ok(if is_lost { ExitCode::from(2) } else { status }),
    }
}

/// Opens the captures. Requests and signals do not wait for packets.
fn open(run: &Run<'_>) -> Result<Captures, Failure> {
    run.open(true, &signals::install(Hangup::Ends)?)
}

/// The runs over the captures: files are read again if the screen asks for another filter at their end.
struct Rounds<'a> {
    leaving: &'a Leaving,
    traffic: &'a Arc<Mutex<Traffic>>,
    /// The questions whose answers are shown.
    shown: &'a Mutex<Subscription>,
    again: Receiver<Again>,
}

impl Rounds<'_> {
    /// Runs until the screen is left; returns the last run.
    fn run(self, mut captures: Captures, run: &mut Run<'_>) -> Result<Finished, Failure> {
        loop {
            let ended = ask::run_over(run, captures)?;
            lock(self.traffic).is_over = true;
            let recordings: Vec<_> = lock(&run.set().names).drain().collect();
            recordings.into_iter().for_each(|(_, recording)| run.unsubscribe(recording.subscription));
            run.unsubscribe(*lock(self.shown));
            captures = loop {
                // The screen was left.
                let Ok(Again { filter, answer }) = self.again.recv() else { return Ok(ended) };
                let prepared = self.prepare(&filter, run);
                let (captures, said) =
                    prepared.map_or_else(|wrong| (None, Err(wrong)), |one| (Some(one), Ok(())));
                // The screen waits for the answer, or was left.
                let _ = answer.send(said.map_err(|wrong| wrong.to_string()));
                if let Some(captures) = captures {
                    break captures;
                }
            };
        }
    }

    /// Prepares another run over the files, with another filter. If that fails, the traffic stays as it is.
    fn prepare(&self, filter: &str, run: &mut Run<'_>) -> Result<Captures, Failure> {
        let previous = lock(self.traffic).restart();
        let prepared = live::subscribe(run, filter, self.traffic).and_then(|shown| {
            let opened = run.compile().map(drop).and_then(|()| open(run));
            opened.map(|captures| (shown, captures)).inspect_err(|_| {
                // The engine knows the subscription.
                run.unsubscribe(shown);
            })
        });
        match prepared {
            Ok((shown, captures)) => {
                *lock(self.shown) = shown;
                lock(self.traffic).is_over = false;
                self.leaving.renew(captures.ender());
                Ok(captures)
            }
            Err(wrong) => {
                lock(self.traffic).return_to(previous);
                Err(wrong)
            }
        }
    }
}

/// Checks that there is a terminal, and something to show.
fn check(input: &Input) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return Err(Failure::new(
            "weir top draws on a terminal, and standard output is none: `weir stats` prints a report, and --monitor (with \
             any other command) a line each second",
        ));
    }
    if input.read.is_empty() && input.interface.is_empty() {
        return Err(Failure::new(
            "no input: name an interface, as in `weir top -i eth0`, or a capture file, as in `weir top FILE`",
        ));
    }
    match input.monitor {
        true => {
            Err(Failure::new("--monitor prints lines where weir top draws: its first line says the same"))
        }
        false => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the captures, without the folders of files.
fn source(input: &Input) -> String {
    let name = |file: &OsString| Path::new(file).file_name().unwrap_or(file).to_string_lossy().into_owned();
    let files = input.read.iter().map(name);
    input.interface.iter().cloned().chain(files).collect::<Vec<_>>().join(" ")
}

/// Ends the run when the screen is left, and the screen when a signal ends the run.
#[derive(Clone)]
struct Leaving(Arc<Mutex<(Ender, bool)>>);

impl Leaving {
    fn of(ender: Ender) -> Self {
        Self(Arc::new(Mutex::new((ender, false))))
    }

    /// Other captures are read from now on.
    fn renew(&self, ender: Ender) {
        let (current, is_left) = &mut *lock(&self.0);
        *current = ender;
        if *is_left {
            current.end();
        }
    }

    /// The screen is left.
    fn leave(&self) {
        let (current, is_left) = &mut *lock(&self.0);
        *is_left = true;
        current.end();
    }

    /// Whether a signal came.
    fn has_ended(&self) -> bool {
        lock(&self.0).0.has_ended()
    }
}

/// Leaves the screen, whatever the reason.
struct LeaveAtEnd<'a>(&'a Leaving);

impl Drop for LeaveAtEnd<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Draws the screen until it is left.
fn show(mut app: App<Live>, leaving: &Leaving) -> io::Result<()> {
    let _leave = LeaveAtEnd(leaving);
    terminal::hold();
    // Panics of any thread restore the terminal, too.
    let mut terminal = ratatui::try_init()?;
    let keys = Keys::open();
    let draw = || -> io::Result<()> {
        let keys = keys?;
        while !leaving.has_ended() {
            let height = terminal.size()?.height;
            app.refresh(Instant::now(), view::table_lines(height));
            terminal.draw(|frame| view::draw(&app, frame))?;
            if !keys.wait(DRAW_PERIOD)?.into_iter().all(|key| app.press(key)) {
                break;
            }
        }
        app.finish().map_err(io::Error::other)
    };
    let shown = draw();
    ratatui::try_restore()?;
    shown
}
