//! What discards packets that no question needs, before they reach Weir: a filter of each socket of an
//! interface, or the XDP program of the interface.
//!
//! The kernel takes milliseconds to verify a simple filter, and up to a second for an exact one. A thread of
//! its own loads filters ([`Loader`]); everything passes until the first one is in place.

use crate::bpf::{OF_FLOWS, SocketMap, UNNEEDED};
use crate::flow_maps::FlowMaps;
use crate::loader::{Kernel, Loader};
use crate::options::{LinkOptions, Note, Notes};
use crate::place::{Place, PlaceKind};
use crate::system::Socket;
use libc::SOL_SOCKET;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_packet::{KernelFilters, KernelFlows, LinkType, SourceStats};

/// Who discards packets, for notes.
const KERNEL: &str = "the kernel";

/// The sieve of an interface.
#[derive(Debug)]
pub(crate) struct Sieve {
    name: String,
    link: LinkType,
    /// The place of its filters, with its number for the loader; or why there is none.
    place: Result<(Arc<Place>, usize), String>,
    /// Those that filters are attached to; none if filters run in the driver.
    sockets: Vec<Socket>,
    state: Mutex<State>,
    loader: Loader,
    notes: Notes,
    /// `None` if the times of packets are not those of the kernel: the engine could then not tell which
    /// packets were on their way when the kernel took a connection over.
    flows: Option<FlowMaps>,
}

#[derive(Debug, Default)]
struct State {
    /// The filters that are wanted.
    wanted: Option<Arc<dyn KernelFilters>>,
    is_stopped: bool,
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
        let place = Place::new(PlaceKind::Sockets).map_err(|error| error.to_string());
        Self::new(name, link, place, sockets, options, flows)
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
        let place = Place::on_interface(interface, sockets, options.mirror)?;
        Ok(Self::new(name, link, Ok(place), vec![], options, flows))
    }

    fn new(
        name: &str,
        link: LinkType,
        place: Result<Place, String>,
        sockets: Vec<Socket>,
        options: &LinkOptions,
        flows: &FlowMaps,
    ) -> Arc<Self> {
        let (name, notes, loader) = (name.to_string(), options.notes.clone(), options.loader.clone());
        let place = place.map(|place| {
            let place = Arc::new(place);
            let number = loader.add(Arc::clone(&place));
            (place, number)
        });
        let flows = (!options.hardware_time).then(|| flows.clone());
        Arc::new(Self { name, link, place, sockets, state: Mutex::default(), loader, notes, flows })
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
        let (place, number) = match &self.place {
            Ok((place, number)) => (place, *number),
            Err(why) => return self.tell(&io::Error::other(why.clone())),
        };
        if had_filter && let Err(error) = self.widen(place) {
            self.tell(&error);
        }
        let (sieve, Some(filters)) = (Arc::clone(self), filters.cloned()) else { return };
        let started = self.loader.run(number, move |kernel| {
            if let Err(error) = sieve.install(&filters, &kernel)
                && is_wanted(&sieve.state(), Some(&filters))
            {
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
    fn widen(&self, place: &Place) -> io::Result<()> {
        for socket in &self.sockets {
            match socket.set(SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32) {
                // There is no filter.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                other => other?,
            }
        }
        place.open()
    }

    /// Loads the filters, each more exact than the one before, and puts them into place as long as they are
    /// wanted.
    ///
    /// # Errors
    /// If the kernel refuses the first one.
    fn install(&self, filters: &Arc<dyn KernelFilters>, kernel: &Kernel) -> io::Result<()> {
        let Ok((place, _)) = &self.place else { return Ok(()) };
        if !is_wanted(&self.state(), Some(filters)) {
            return Ok(());
        }
        let flows = self.flows.as_ref().map(|maps| maps.of(filters, kernel)).transpose()?.flatten();
        let flows = flows.as_ref();
        for number in 0.. {
            let Some(filter) =
                filters.filter(self.link, number, flows.is_some()).map_err(io::Error::other)?
            else {
                break;
            };
            let program = match kernel.load(&filter, flows.map(|map| &**map)) {
                Ok(program) => program,
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            };
            let state = self.state();
            if !is_wanted(&state, Some(filters)) || state.is_stopped {
                break;
            }
            match &*place.attachment() {
                Some(attachment) => attachment.replace(&program)?,
                None if place.is_interface() => break,
                None => self
                    .sockets
                    .iter()
                    .try_for_each(|socket| socket.set(SOL_SOCKET, libc::SO_ATTACH_BPF, &program.number()))?,
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

    /// Ends the work of the sieve: the program of an interface is detached, and filters of sockets stay as
    /// they are.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        if let Ok((place, _)) = &self.place {
            place.attachment().take();
        }
    }

    /// The packets discarded so far: those that no question needs, and those counted for connections.
    pub fn discarded(&self) -> SourceStats {
        let read = |which| match &self.place {
            Ok((place, _)) => place.counts.read(which).unwrap_or_default(),
            Err(_) => [0; 2],
        };
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
