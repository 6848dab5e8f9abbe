//! Who loads filters into the kernel: this process, or another one that has the rights ([`Keeper`]).
//!
//! Rights are needed for programs and for tables, which new questions need at any time. A process that parses
//! hostile bytes should not have rights. So it divides once its sockets are open: the keeper keeps the rights
//! and parses no packet, the worker has none and asks the keeper.

use crate::bpf::Program;
use crate::flow_map::FlowMap;
use crate::keeper::{Client, Keeper, channels};
use crate::place::Place;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_packet::KernelFilter;

/// The name of threads that load filters.
const THREAD: &str = "weir-sieve";

/// What loads filters for the interfaces of a capture: at first the process itself, with the rights of the
/// thread that captures.
#[derive(Debug, Clone, Default)]
pub struct Loader(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    places: Vec<Arc<Place>>,
    way: Way,
}

#[derive(Debug, Default)]
enum Way {
    #[default]
    Own,
    /// By place: the sockets of the keeper's threads for it.
    Keeper(Vec<Clients>),
    /// Nobody, and why.
    Ended(&'static str),
}

/// The sockets of a place.
type Clients = Arc<[Mutex<Client>]>;

/// What loads filters for a place.
#[derive(Debug, Clone)]
pub(crate) enum Kernel {
    Own(Arc<Place>),
    Keeper(Clients),
}

impl Kernel {
    /// Loads a filter.
    ///
    /// # Errors
    /// If the rights are missing, or the kernel refuses the program.
    pub fn load(&self, filter: &KernelFilter, flows: Option<&FlowMap>) -> io::Result<Program> {
        match self {
            Self::Own(place) => place.load(Some(place.part_of(filter)), flows.map(FlowMap::number)),
            Self::Keeper(clients) => free(clients).load(filter, flows.and_then(FlowMap::keeper_number)),
        }
    }

    /// An empty table of connections with these words ([`KernelFilters::flow_words`]).
    ///
    /// # Errors
    /// If the rights are missing, or the kernel has no memory.
    ///
    /// [`KernelFilters::flow_words`]: weir_packet::KernelFilters::flow_words
    pub fn table(&self, words: [usize; 3]) -> io::Result<FlowMap> {
        match self {
            Self::Own(_) => FlowMap::new(words),
            Self::Keeper(clients) => free(clients).table(words),
        }
    }
}

/// A socket on which no other thread waits for an answer, if there is one.
fn free(clients: &[Mutex<Client>]) -> MutexGuard<'_, Client> {
    clients.iter().find_map(|client| client.try_lock().ok()).unwrap_or_else(|| locked(&clients[0]))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loader {
    /// Adds a place; returns its number.
    pub(crate) fn add(&self, place: Arc<Place>) -> usize {
        let mut state = locked(&self.0);
        state.places.push(place);
        state.places.len() - 1
    }

    /// What loads filters for a place.
    ///
    /// # Errors
    /// If the loader has ended.
    pub(crate) fn kernel(&self, place: usize) -> io::Result<Kernel> {
        let state = locked(&self.0);
        let (kernel, why) = match &state.way {
            Way::Own => (state.places.get(place).cloned().map(Kernel::Own), "it has no place"),
            Way::Keeper(clients) => (clients.get(place).cloned().map(Kernel::Keeper), "it has no place"),
            Way::Ended(why) => (None, *why),
        };
        kernel.ok_or_else(|| io::Error::other(why))
    }

    /// Does a job of a place meanwhile: the kernel may take a second, and jobs of several interfaces do not
    /// wait for each other.
    ///
    /// # Errors
    /// If the system makes no thread, or the loader has ended.
    pub(crate) fn run(&self, place: usize, job: impl FnOnce(Kernel) + Send + 'static) -> io::Result<()> {
        let kernel = self.kernel(place)?;
        std::thread::Builder::new().name(THREAD.into()).spawn(move || job(kernel)).map(drop)
    }

    /// Whether filters can be loaded for some interface.
    pub fn has_places(&self) -> bool {
        !locked(&self.0).places.is_empty()
    }

    /// Prepares the division of the process: what the keeper serves. The worker calls
    /// [`ask_keeper`](Self::ask_keeper) with it, and the keeper serves; each drops the rest.
    ///
    /// # Errors
    /// If the system has no sockets.
    pub fn divide(&self) -> io::Result<Divided> {
        let places = locked(&self.0).places.clone();
        let (clients, keeper) = channels(places)?;
        Ok(Divided { clients, keeper })
    }

    /// Filters are loaded by the keeper from now on.
    pub fn ask_keeper(&self, divided: Divided) {
        let clients =
            divided.clients.into_iter().map(|clients| clients.into_iter().map(Mutex::new).collect());
        locked(&self.0).way = Way::Keeper(clients.collect());
    }

    /// No filters are loaded from now on, for this reason: those that are loaded stay. What has begun is
    /// completed.
    pub fn end(&self, why: &'static str) {
        locked(&self.0).way = Way::Ended(why);
    }
}

/// The two sides of a process that divides.
#[derive(Debug)]
pub struct Divided {
    clients: Vec<Vec<Client>>,
    keeper: Keeper,
}

impl Divided {
    /// The keeper's side.
    pub fn into_keeper(self) -> Keeper {
        self.keeper
    }
}
