//! A place where a filter of questions runs: the sockets of an interface, or its driver. Whoever has the
//! rights loads filters for a place: this process, or its keeper.

use crate::bpf::{Attachment, CountMap, Program, ProgramKind, ScratchMap, SocketMap};
use crate::programs::{Fate, for_interface, for_socket};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_packet::{BpfInstruction, KernelFilter};

/// A place for filters, with the maps that all of its programs share.
#[derive(Debug)]
pub(crate) struct Place {
    kind: PlaceKind,
    pub counts: CountMap,
    scratch: ScratchMap,
    /// The program of an interface that lets everything pass. `None` for sockets.
    open: Option<Program>,
    /// The program of an interface. `None` for sockets, and once the capture has ended.
    attachment: Mutex<Option<Attachment>>,
}

/// Where programs run.
#[derive(Debug)]
pub(crate) enum PlaceKind {
    /// In each socket. The machine receives all packets.
    Sockets,
    /// In the driver. Packets go to the sockets of AF_XDP, with a mark before their times, or to the machine.
    /// Packets that no question needs are dropped, or go to the machine.
    Interface { sockets: Option<(SocketMap, u64)>, drops: bool },
}

impl Place {
    /// A place without a filter.
    ///
    /// # Errors
    /// If the kernel refuses the maps: for want of CAP_BPF.
    pub fn new(kind: PlaceKind) -> io::Result<Self> {
        let (counts, scratch) = (CountMap::new()?, ScratchMap::new()?);
        Ok(Self { kind, counts, scratch, open: None, attachment: Mutex::default() })
    }

    /// A place in the driver of an interface, where a program runs that lets everything pass.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if another program is attached.
    pub fn on_interface(interface: u32, sockets: Option<(SocketMap, u64)>, drops: bool) -> io::Result<Self> {
        let mut place = Self::new(PlaceKind::Interface { sockets, drops })?;
        let open = place.load(None, None)?;
        *place.attachment() = Some(open.attach(interface)?);
        place.open = Some(open);
        Ok(place)
    }

    /// Lets everything pass an interface again.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(&self) -> io::Result<()> {
        match (&*self.attachment(), &self.open) {
            (Some(attachment), Some(open)) => attachment.replace(open),
            _ => Ok(()),
        }
    }

    pub fn is_interface(&self) -> bool {
        matches!(self.kind, PlaceKind::Interface { .. })
    }

    /// The program of an interface, as long as it is attached.
    pub fn attachment(&self) -> MutexGuard<'_, Option<Attachment>> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of a filter that runs here.
    pub fn part_of<'a>(&self, filter: &'a KernelFilter) -> &'a [BpfInstruction] {
        if self.is_interface() { &filter.frame } else { &filter.copy }
    }

    /// The program around the part of a filter. `None`: everything passes. `flows`: the number of the map of
    /// connections that the filter takes over.
    pub fn program(&self, filter: Option<&[BpfInstruction]>, flows: Option<i32>) -> Vec<BpfInstruction> {
        match &self.kind {
            PlaceKind::Interface { sockets, drops } => {
                let sockets = sockets.as_ref().map(|(map, mark)| (map, *mark));
                for_interface(Fate { sockets, drops: *drops }, filter, &self.counts, flows)
            }
            PlaceKind::Sockets => for_socket(filter.unwrap_or_default(), &self.scratch, &self.counts, flows),
        }
    }

    /// Loads the program around the part of a filter.
    ///
    /// # Errors
    /// If the thread lacks CAP_BPF, or CAP_NET_ADMIN for an interface, or if the kernel refuses the program.
    pub fn load(&self, filter: Option<&[BpfInstruction]>, flows: Option<i32>) -> io::Result<Program> {
        let kind = if self.is_interface() { ProgramKind::Xdp } else { ProgramKind::Socket };
        Program::load(kind, &self.program(filter, flows))
    }
}
