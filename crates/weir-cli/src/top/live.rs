//! What the screen of `weir top` asks of the run: other questions, while the run goes on.

use super::app::Requests;
use super::lock;
use super::questions::{Receiver, questions};
use super::traffic::Traffic;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{Receiver as Receiving, Sender, channel};
use std::sync::{Arc, Mutex};
use weir::io::tcp::Endpoint;
use weir::{Control, Subscription};
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::run::QuestionChanges;
use weir_questions::run::QuestionSet;
use weir_questions::run::Run;

/// The name of the question whose answers are recorded.
const RECORDING: &str = "recording";

/// Adds to a run that does not go on the questions about traffic that matches a filter.
///
/// # Errors
/// All mistakes in the filter.
pub fn subscribe(
    run: &mut Run<'_>,
    filter: &str,
    traffic: &Arc<Mutex<Traffic>>,
) -> Result<Subscription, Failure> {
    let set = Arc::clone(run.set());
    let receiver = Receiver::new(&set.compiler, Arc::clone(traffic));
    run.subscribe(questions(&set.compiler, filter), receiver)
}

/// A request to read the files again.
pub struct Again {
    /// The filter of the traffic that is shown.
    pub filter: String,
    /// Takes the answer: what is wrong, if the files cannot be read with this filter.
    pub answer: Sender<Result<(), String>>,
}

/// A running capture.
pub struct Live {
    control: Control,
    set: Arc<QuestionSet>,
    changes: QuestionChanges,
    /// The questions whose answers are shown.
    shown: Arc<Mutex<Subscription>>,
    traffic: Arc<Mutex<Traffic>>,
    /// Takes requests to read the files again.
    again: Sender<Again>,
}

impl Live {
    /// The screen's view of a run; `shown` are the questions about `traffic`. Also returns
    /// the receiver of requests: after the end of the files, the main thread reads them again.
    pub fn new(run: &Run<'_>, shown: Subscription, traffic: Arc<Mutex<Traffic>>) -> (Self, Receiving<Again>) {
        let (again, receiver) = channel();
        let (control, set, changes) = (run.control(), Arc::clone(run.set()), run.changes());
        let shown = Arc::new(Mutex::new(shown));
        (Self { control, set, changes, shown, traffic, again }, receiver)
    }

    /// The questions whose answers are shown.
    pub fn shown(&self) -> Arc<Mutex<Subscription>> {
        Arc::clone(&self.shown)
    }

    /// Whether all captures are files, which can be read several times.
    fn is_repeatable(&self) -> bool {
        let input = &self.set.input;
        let is_file = |name: &OsString| name != "-" && !Endpoint::is_named(Path::new(name));
        input.interface.is_empty() && input.read.iter().all(is_file)
    }
}

impl Requests for Live {
    fn check(&self, filter: &str) -> Result<(), String> {
        let set = &self.set;
        set.compiler.check_filter(filter, self.is_bpf()).map_err(|wrong| wrong.render(false))
    }

    fn select(&mut self, filter: &str) -> Result<(), String> {
        let is_over = lock(&self.traffic).is_over;
        if is_over && !self.is_repeatable() {
            return Err("the capture has ended, and cannot be read again".to_string());
        }
        if is_over {
            let (answer, answered) = channel();
            let request = Again { filter: filter.to_string(), answer };
            let sent = self.again.send(request).map_err(|_| "the run is over");
            return sent.and_then(|()| answered.recv().map_err(|_| "the run is over"))?;
        }
        let previous = lock(&self.traffic).restart();
        let Self { control, set, .. } = &*self;
        let receiver = Receiver::new(&set.compiler, Arc::clone(&self.traffic));
        let before = *lock(&self.shown);
        let asked = control.subscribe_questions(questions(&set.compiler, filter), receiver);
        *lock(&self.shown) = asked.inspect_err(|_| lock(&self.traffic).return_to(previous))?;
        control.unsubscribe(before)
    }

    fn record(&mut self, filter: &str, file: &Path) -> Result<(), String> {
        let spec = QuestionSpec {
            name: RECORDING.to_string(),
            ask: "packets".to_string(),
            filter: filter.to_string(),
            output: Some(file.to_path_buf()),
            ..QuestionSpec::default()
        };
        self.changes.add(spec).map(drop)
    }

    fn stop_recording(&mut self) -> Result<(), String> {
        self.changes.remove(RECORDING)
    }

    fn is_bpf(&self) -> bool {
        self.set.input.bpf
    }
}
