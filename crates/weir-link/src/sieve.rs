//! What discards packets that no question needs, before they reach Weir: a filter of each socket of an
//! interface, or the XDP program of the interface.
//!
//! The kernel takes milliseconds to verify a simple filter, and up to a second for an exact one. A thread of
//! its own loads filters ([`Loader`]); everything passes until the first one is in place.

use crate::bpf::{Attachment, CountMap, OF_FLOWS, Program, ProgramKind, ScratchMap, SocketMap, UNNEEDED};
use crate::flow_map::{FlowMap, FlowMaps};
use crate::loader::Loader;
use crate::options::{LinkOptions, Note, Notes};
use crate::programs::{Fate, for_interface, for_socket};
use crate::system::Socket;
use libc::SOL_SOCKET;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_packet::{BpfInstruction, KernelFilter, KernelFilters, KernelFlows, LinkType, SourceStats};

/// Who discards packets, for notes.
const KERNEL: &str = "the kernel";

/// The sieve of an interface.
#[derive(Debug)]
pub(crate) struct Sieve {
    name: String,
    link: LinkType,
    place: Place,
    state: Mutex<State>,
    loader: Loader,
    notes: Notes,
    /// `None` if the times of packets are not those of the kernel: the engine could then not tell which
    /// packets were on their way when the kernel took a connection over.
    flows: Option<FlowMaps>,
}

/// Where the filter runs.
#[derive(Debug)]
enum Place {
    /// In each of these sockets. The machine receives all packets.
    Sockets(Vec<Socket>),
    /// In the driver. Packets go to the sockets of AF_XDP, with a mark before their times, or to the machine.
    /// Packets that no question needs are dropped, or go to the machine.
    Interface { sockets: Option<(SocketMap, u64)>, drops: bool },
}

#[derive(Debug, Default)]
struct State {
    /// The filters that are wanted.
    wanted: Option<Arc<dyn KernelFilters>>,
    /// The program of the interface. `None` for sockets, and once the capture has ended.
    attachment: Option<Attachment>,
    is_stopped: bool,
    counts: Option<Arc<CountMap>>,
    scratch: Option<Arc<ScratchMap>>,
}

impl Sieve {
    /// A sieve of all sockets of an interface, which lets everything pass.
    pub fn of_sockets(
        name: &str,
        link: LinkType,
        sockets: Vec<Socket>,
        options: &LinkOptions,
        flows: &FlowMaps,
    ) -> Arc<Self> {
        Self::new(name, link, Place::Sockets(sockets), State::default(), options, flows)
    }

    /// Attaches a program to an interface, which lets everything pass: to the sockets of AF_XDP, or else to
    /// the machine.
    pub fn of_interface(
        (name, interface): (&str, u32),
        link: LinkType,
        sockets: Option<(SocketMap, u64)>,
        options: &LinkOptions,
        flows: &FlowMaps,
    ) -> io::Result<Arc<Self>> {
        let counts = Arc::new(CountMap::new()?);
        let place = Place::Interface { sockets, drops: options.mirror };
        let program = Program::load(ProgramKind::Xdp, &place.program(None, &counts, None))?;
        let attachment = Some(program.attach(interface)?);
        let state = State { attachment, counts: Some(counts), ..State::default() };
        Ok(Self::new(name, link, place, state, options, flows))
    }

    fn new(
        name: &str,
        link: LinkType,
        place: Place,
        state: State,
        options: &LinkOptions,
        flows: &FlowMaps,
    ) -> Arc<Self> {
        let (name, notes, loader) = (name.to_string(), options.notes.clone(), options.loader.clone());
        let flows = (!options.hardware_time).then(|| flows.clone());
        Arc::new(Self { name, link, place, state: Mutex::new(state), loader, notes, flows })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets only packets pass that the filter for the link type passes, soon; everything if there is none, or
    /// if the kernel refuses it. Further calls with the same filters have no effect.
    pub fn narrow(self: &Arc<Self>, filters: Option<&Arc<dyn KernelFilters>>) {
        let mut state = self.state();
        if is_wanted(&state, filters) || state.is_stopped {
            return;
        }
        let had_filter = state.wanted.is_some();
        state.wanted = filters.cloned();
        drop(state);
        if had_filter && let Err(error) = self.widen_with_rights() {
            self.tell(&error);
        }
        let (sieve, Some(filters)) = (Arc::clone(self), filters.cloned()) else { return };
        let started = self.loader.run(move || {
            if let Err(error) = sieve.install(&filters) {
                sieve.tell(&error);
            }
        });
        if let Err(error) = started {
            self.tell(&error);
        }
    }

    fn tell(&self, error: &io::Error) {
        self.notes.tell(Note::Unfiltered(self.name.clone(), KERNEL, error.to_string()));
    }

    /// Lets everything pass, before the questions change.
    fn widen_with_rights(self: &Arc<Self>) -> io::Result<()> {
        let sieve = Arc::clone(self);
        if !self.loader.is_started() {
            return sieve.widen(&sieve.state());
        }
        let widened = self.loader.call_in_thread(move || sieve.widen(&sieve.state()));
        widened.unwrap_or_else(|| Err(io::Error::other("the rights to load filters were given up")))
    }

    /// Lets everything pass.
    fn widen(&self, state: &State) -> io::Result<()> {
        match &self.place {
            Place::Sockets(sockets) => {
                for socket in sockets {
                    match socket.set(SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32) {
                        // There is no filter.
                        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                        other => other?,
                    }
                }
                Ok(())
            }
            Place::Interface { .. } => {
                let (Some(attachment), Some(counts)) = (&state.attachment, &state.counts) else {
                    return Ok(());
                };
                attachment.replace(&Program::load(ProgramKind::Xdp, &self.place.program(None, counts, None))?)
            }
        }
    }

    /// Loads the filters, each more exact than the one before, and puts them into place as long as they are
    /// wanted.
    ///
    /// # Errors
    /// If the kernel refuses the first one.
    fn install(&self, filters: &Arc<dyn KernelFilters>) -> io::Result<()> {
        let (counts, scratch) = self.maps()?;
        let flows = self.flows.as_ref().map(|maps| maps.of(filters)).transpose()?.flatten();
        let flows = flows.as_ref();
        for number in 0.. {
            let Some(filter) =
                filters.filter(self.link, number, flows.is_some()).map_err(io::Error::other)?
            else {
                break;
            };
            let loaded = match &self.place {
                Place::Sockets(_) => Program::load(
                    ProgramKind::Socket,
                    &for_socket(&filter, &scratch, &counts, flows.map(|map| &**map)),
                ),
                Place::Interface { .. } => Program::load(
                    ProgramKind::Xdp,
                    &self.place.program(Some(&filter), &counts, flows.map(|map| &**map)),
                ),
            };
            let program = match loaded {
                Ok(program) => program,
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            };
            let state = self.state();
            if !is_wanted(&state, Some(filters)) || state.is_stopped {
                break;
            }
            match (&self.place, &state.attachment) {
                (Place::Sockets(sockets), _) => sockets
                    .iter()
                    .try_for_each(|socket| socket.set(SOL_SOCKET, libc::SO_ATTACH_BPF, &program.number()))?,
                (_, Some(attachment)) => attachment.replace(&program)?,
                (_, None) => break,
            }
            drop(state);
            if let Some(flows) = flows {
                filters.take_over(Arc::clone(flows) as Arc<dyn KernelFlows>);
            }
            if number == 0 {
                self.notes.tell(Note::Filtered(self.name.clone(), KERNEL));
            }
        }
        Ok(())
    }

    /// The maps of the programs, which are created when the first filter needs them.
    fn maps(&self) -> io::Result<(Arc<CountMap>, Arc<ScratchMap>)> {
        let mut state = self.state();
        let counts = match &state.counts {
            Some(counts) => Arc::clone(counts),
            None => Arc::clone(state.counts.insert(Arc::new(CountMap::new()?))),
        };
        let scratch = match &state.scratch {
            Some(scratch) => Arc::clone(scratch),
            None => Arc::clone(state.scratch.insert(Arc::new(ScratchMap::new()?))),
        };
        Ok((counts, scratch))
    }

    /// Ends the work of the sieve: the program of an interface is detached, and filters of sockets stay as
    /// they are.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        state.attachment = None;
    }

    /// The packets discarded so far: those that no question needs, and those counted for connections.
    pub fn discarded(&self) -> SourceStats {
        let counts = self.state().counts.clone();
        let read = |which| counts.as_ref().and_then(|counts| counts.read(which).ok()).unwrap_or_default();
        let ([filtered, filtered_bytes], [counted, counted_bytes]) = (read(UNNEEDED), read(OF_FLOWS));
        let received = filtered + counted;
        SourceStats { received, filtered, filtered_bytes, counted, counted_bytes, ..SourceStats::default() }
    }
}

/// Whether these filters are the wanted ones.
fn is_wanted(state: &State, filters: Option<&Arc<dyn KernelFilters>>) -> bool {
    match (&state.wanted, filters) {
        (Some(wanted), Some(filters)) => Arc::ptr_eq(wanted, filters),
        (wanted, filters) => wanted.is_none() && filters.is_none(),
    }
}

impl Place {
    /// The program of an interface.
    fn program(
        &self,
        filter: Option<&KernelFilter>,
        counts: &CountMap,
        flows: Option<&FlowMap>,
    ) -> Vec<BpfInstruction> {
        let fate = match self {
            Place::Interface { sockets, drops } => {
                let sockets = sockets.as_ref().map(|(map, mark)| (map, *mark));
                Fate { sockets, drops: *drops }
            }
            Place::Sockets(_) => Fate { sockets: None, drops: false },
        };
        for_interface(fate, filter, counts, flows)
    }
}
