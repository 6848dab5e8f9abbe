//! The threads of a run's outputs: one for each output, and one for standard output, which questions may
//! share.

use crate::input_options::Input;
use crate::output::handover::Handover;
use crate::output::place;
use crate::source;
use crate::spec::Stdout;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir::io::outlet::Load;
use weir::io::{Outlet, Patience};

/// How long a run of several questions waits for an output that accepts nothing, by default.
const OUTPUT_WAIT: Duration = Duration::from_secs(5);

/// How the clients of a capture are waited for, and handed over to another output.
#[derive(Clone)]
pub struct ClientTerms {
    /// How long a client that accepts nothing is waited for: live traffic does not wait.
    pub patience: Patience,
    /// The run waits for the first client, since files do not change in the meantime.
    pub waits_for_first: bool,
    /// Where the previous output leaves its clients at a reload.
    pub handover: Arc<Handover>,
}

/// The outputs of a run.
pub struct Outlets {
    patience: Patience,
    clients: ClientTerms,
    /// The thread of standard output. All questions that write there share it, so that their rows keep their
    /// order.
    stdout: Arc<Outlet>,
    /// The outputs in use, each with its name.
    all: Mutex<Vec<(String, Arc<Outlet>)>>,
}

impl Outlets {
    /// The outputs of a run with these options. A single question waits for its output; with several, a
    /// blocked output must not stop the others.
    pub fn new(input: &Input, stdout: Stdout) -> Self {
        let default = if stdout.is_shared { Some(OUTPUT_WAIT) } else { None };
        // A time that is too long for the clock is unlimited.
        let given = input.output_wait.map(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let patience = given.unwrap_or(default).map_or_else(Patience::unlimited, Patience::of);
        // Even a run that never waits gives its outputs time for what they have accepted.
        let mut outlets = Self::with(patience.with_completion(OUTPUT_WAIT), source::input::is_live(input));
        if let Some(limit) = given {
            outlets.clients.patience = outlets.patience.of_part(limit).with_completion(OUTPUT_WAIT);
        }
        outlets
    }

    /// The outputs of a run that waits for them as `patience` says, and for clients only if the traffic is
    /// not live.
    pub fn with(patience: Patience, is_live: bool) -> Self {
        let stdout = Arc::new(Outlet::new(patience.clone()));
        let all = Mutex::new(vec![(place::name_of(None), Arc::clone(&stdout))]);
        let client_wait = if is_live { Duration::ZERO } else { OUTPUT_WAIT };
        let clients = ClientTerms {
            patience: patience.of_part(Some(client_wait)).with_completion(OUTPUT_WAIT),
            waits_for_first: !is_live,
            handover: Arc::default(),
        };
        Self { patience, clients, stdout, all }
    }

    /// How long this run waits for outputs.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// How this run waits for the clients of a capture, and hands them over.
    pub fn clients(&self) -> &ClientTerms {
        &self.clients
    }

    /// The thread of an output: a file, a directory, or standard output.
    pub fn of(&self, output: Option<&Path>) -> Arc<Outlet> {
        let Some(path) = output else { return Arc::clone(&self.stdout) };
        let outlet = Arc::new(Outlet::new(self.patience.clone()));
        let mut all = self.lock();
        // Outputs of removed questions are forgotten when they are complete.
        all.retain(|(_, outlet)| Arc::strong_count(outlet) > 1 || !outlet.is_idle());
        all.push((place::name_of(Some(path)), Arc::clone(&outlet)));
        outlet
    }

    /// Waits until all outputs are complete, or have been blocked for too long: returns the latter, each with
    /// the size of what is not written.
    pub fn wait(&self) -> Vec<(String, Load)> {
        let all = self.lock().clone();
        let blocked =
            |(name, outlet): (String, Arc<Outlet>)| Some((name, outlet.wait(&self.patience).err()?));
        all.into_iter().filter_map(blocked).collect()
    }

    /// The outputs that are not complete.
    pub fn waiting(&self) -> Vec<(String, Load)> {
        let busy = |(name, outlet): &(String, Arc<Outlet>)| {
            (!outlet.is_idle()).then(|| (name.clone(), outlet.waiting()))
        };
        self.lock().iter().filter_map(busy).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Arc<Outlet>)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
