//! A reload that changes a question with clients (`tcp-listen:PORT`): the output of the previous question
//! hands its clients over to the output of the changed one. The port is never closed, and clients stay
//! connected.
//!
//! [`Handover::begin`] names the outputs of the questions that end. Until the [`Guard`] is dropped, such an
//! output leaves its clients here when it completes, and the output that replaces it takes them.

use crate::metrics::totals::RunTotals;
use crate::output::place;
use crate::spec::QuestionSpec;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir::io::CaptureClients;
use weir::io::tcp::Endpoint;

/// The clients that outputs of a run hand over.
#[derive(Default)]
pub struct Handover {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The endpoints that questions give up.
    given_up: Vec<Endpoint>,
    /// Clients that nobody has taken yet: one entry for each of these endpoints at most.
    waiting: Vec<(Endpoint, CaptureClients)>,
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, the outputs of the questions `gone` hand over their clients if a question of `new` has
    /// the same output.
    pub fn begin<'h>(
        &'h self,
        gone: &[&QuestionSpec],
        new: &[QuestionSpec],
        totals: &'h RunTotals,
    ) -> Guard<'h> {
        let ending = gone.iter().filter_map(|spec| endpoint(spec));
        let is_taken = |one: &Endpoint| new.iter().any(|spec| endpoint(spec).as_ref() == Some(one));
        self.lock().given_up = ending.filter(is_taken).collect();
        Guard { handover: self, totals }
    }

    /// Whether the output that has this endpoint hands it over.
    pub fn is_given_up(&self, endpoint: &Endpoint) -> bool {
        self.lock().given_up.contains(endpoint)
    }

    /// Leaves clients for the output that comes next.
    ///
    /// # Errors
    /// No output with this endpoint is expected: the clients are returned.
    pub fn leave(&self, endpoint: Endpoint, clients: CaptureClients) -> Result<(), CaptureClients> {
        let mut state = self.lock();
        if !state.given_up.contains(&endpoint) {
            return Err(clients);
        }
        state.waiting.push((endpoint, clients));
        Ok(())
    }

    /// Takes the clients that the previous output with this endpoint has left.
    pub fn take(&self, endpoint: &Endpoint) -> Option<CaptureClients> {
        let mut state = self.lock();
        let index = state.waiting.iter().position(|(one, _)| one == endpoint)?;
        Some(state.waiting.swap_remove(index).1)
    }
}

/// The endpoint of an output where clients connect.
fn endpoint(spec: &QuestionSpec) -> Option<Endpoint> {
    let endpoint = place::endpoint(spec.output.as_deref()?).ok()??;
    matches!(endpoint, Endpoint::Listen { .. }).then_some(endpoint)
}

/// The time in which outputs hand over clients. Its end completes the captures of clients that nobody took.
pub struct Guard<'h> {
    handover: &'h Handover,
    totals: &'h RunTotals,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let State { waiting, .. } = std::mem::take(&mut *self.handover.lock());
        for (endpoint, clients) in waiting {
            match clients.finish() {
                Ok(losses) => self.totals.add_client_losses(None, &endpoint.to_string(), &losses),
                Err(error) => self.totals.add_fault(error.into()),
            }
        }
    }
}
