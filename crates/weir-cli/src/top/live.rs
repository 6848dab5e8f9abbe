//! What the screen of `weir top` asks of the run: other questions, while the run goes on.

use super::app::Run;
use super::questions::{Receiver, questions};
use super::traffic::Traffic;
use crate::control::Service;
use crate::spec::QuestionSpec;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use weir::Subscription;

/// The name of the question whose answers are recorded.
const RECORDING: &str = "recording";

/// A running capture.
pub struct Live {
    service: Service,
    /// The questions whose answers are shown.
    shown: Subscription,
    traffic: Arc<Mutex<Traffic>>,
}

impl Live {
    /// The run of this service; `shown` are the questions about `traffic`.
    pub fn new(service: Service, shown: Subscription, traffic: Arc<Mutex<Traffic>>) -> Self {
        Self { service, shown, traffic }
    }
}

impl Run for Live {
    fn check(&self, filter: &str) -> Result<(), String> {
        let set = &self.service.set;
        set.compiler.check_filter(filter, self.is_bpf()).map_err(|wrong| wrong.render(false))
    }

    fn select(&mut self, filter: &str) -> Result<(), String> {
        let Service { control, set } = &self.service;
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).restart();
        let receiver = Receiver::new(&set.compiler, Arc::clone(&self.traffic));
        let before = self.shown;
        self.shown = control.subscribe_questions(questions(&set.compiler, filter), receiver)?;
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
        self.service.add(spec).map(drop)
    }

    fn stop_recording(&mut self) -> Result<(), String> {
        self.service.remove(RECORDING).map(drop)
    }

    fn is_bpf(&self) -> bool {
        self.service.set.input.program.bpf
    }
}
