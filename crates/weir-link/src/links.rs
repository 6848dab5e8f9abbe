//! The source of packets of one or several interfaces.

use crate::balance::Balance;
use crate::flow_map::FlowMaps;
use crate::interface_states::InterfaceStates;
use crate::interfaces;
use crate::link_socket::{LinkSocket, Target};
use crate::names::Names;
use crate::options::{LinkOptions, Method, Note};
use crate::packet_socket::PacketSocket;
use crate::placement::Placement;
use crate::ring::Ring;
use crate::share::{Common, Share, of_interface};
use crate::system::interface_index;
use crate::xdp_socket;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;
use weir_packet::{Burst, KernelFilters, Poll, Source, SourceError, SourceStats};

/// The name that stands for all interfaces.
const ANY: &str = "any";

/// Bytes of a ring at most: the kernel and descriptions of packets count them in 32 bits.
const BUFFER_BYTES_MAX: usize = 4095 << 20;

/// A source of the packets of one or several interfaces.
#[derive(Debug)]
pub struct Links {
    shares: Vec<Share>,
    /// The assignment of packets to shares, and the rings of each share; `None`: the assignment never changes.
    placement: Option<(Placement, Vec<Vec<Weak<Ring>>>)>,
    /// Packets may be dropped before they are assigned to a share, so shares do not see all packets of their connections.
    is_mirror: bool,
}

impl Links {
    /// Captures on the interfaces of these names (`any`: all interfaces), in `parts` parts, which
    /// [`split`](Source::split) hands out.
    ///
    /// # Errors
    /// If an interface does not exist, or the process may not capture. The message has a remedy.
    pub fn open(names: &[String], options: &LinkOptions, parts: usize) -> Result<Self, SourceError> {
        let (known, flows) = (Names::default(), FlowMaps::default());
        let parts = if options.method == Method::Xdp { 1 } else { parts.max(1) };
        let mut sockets: Vec<Vec<Box<dyn LinkSocket>>> = (0..parts).map(|_| vec![]).collect();
        if let Some(name) = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1) {
            return Err(of_interface(name, "the interface is named twice".to_string()));
        }
        if names.len() > 1 && names.iter().any(|name| name == ANY) {
            return Err(of_interface(ANY, "all interfaces include the others: name `any` alone".to_string()));
        }
        if options.buffer_bytes > BUFFER_BYTES_MAX {
            return Err(of_interface(&names.join(", "), "--buffer: a ring has at most 4095M".to_string()));
        }
        let placement = match parts {
            1 => None,
            _ => Placement::new(parts)
                .inspect_err(|error| options.notes.tell(Note::Fixed(error.to_string())))
                .ok(),
        };
        let mut rings: Vec<Vec<Weak<Ring>>> = vec![vec![]; parts];
        for name in names {
            let fail = |error: &io::Error| of_interface(name, interfaces::remedy(name, error));
            let index = if name == ANY { Ok(0) } else { interface_index(name) };
            let target = Target { name: name.clone(), index: index.map_err(|error| fail(&error))? };
            if options.mirror && target.index == 0 {
                return Err(of_interface(
                    name,
                    "--mirror is for single interfaces: name each of them".to_string(),
                ));
            }
            if options.method == Method::Xdp {
                if target.index == 0 {
                    return Err(of_interface(
                        name,
                        "AF_XDP takes single interfaces: name each of them".to_string(),
                    ));
                }
                let queues =
                    xdp_socket::open(&target, options, &flows, &known).map_err(|error| fail(&error))?;
                sockets[0].extend(queues.into_iter().map(|socket| Box::new(socket) as Box<dyn LinkSocket>));
                continue;
            }
            let open = |_| PacketSocket::open(target.clone(), options, &known);
            let mut group: Vec<PacketSocket> =
                (0..parts).map(open).collect::<Result<_, _>>().map_err(|error| fail(&error))?;
            if group.len() > 1 {
                PacketSocket::join(&group, placement.as_ref()).map_err(|error| fail(&error))?;
            }
            if target.index != 0 {
                PacketSocket::add_sieve(&mut group, options, &flows).map_err(|error| fail(&error))?;
            }
            rings.iter_mut().zip(&group).for_each(|(list, socket)| list.push(Arc::downgrade(socket.ring())));
            sockets.iter_mut().zip(group).for_each(|(list, socket)| list.push(Box::new(socket)));
        }
        for socket in sockets.iter_mut().flatten() {
            socket.start().map_err(|error| of_interface(&socket.target().name, error.to_string()))?;
        }
        let common = Common {
            numbers: Arc::new(AtomicU64::new(0)),
            stop: Arc::clone(&options.stop),
            notes: options.notes.clone(),
            states: InterfaceStates::default(),
            hardware_time: options.hardware_time,
        };
        let shares: io::Result<_> =
            sockets.into_iter().map(|sockets| Share::new(sockets, common.clone())).collect();
        Ok(Self {
            shares: shares.map_err(|error| of_interface(ANY, error.to_string()))?,
            placement: placement.map(|placement| (placement, rings)),
            is_mirror: options.mirror,
        })
    }
}

impl Source for Links {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        // The source was not split: one thread reads all of it.
        while self.shares.len() > 1 {
            let last = self.shares.pop();
            last.into_iter().for_each(|last| self.shares[0].absorb(last));
        }
        match self.shares.first_mut() {
            Some(share) => share.poll(burst),
            None => Ok(Poll::End),
        }
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        if parts != self.shares.len() || parts < 2 {
            return Ok(None);
        }
        // The driver may drop packets of a connection that the kernel counts, for any time: no pair is ever forgotten then.
        let idle_max = idle_max.filter(|_| !self.is_mirror);
        if let Some((placement, rings)) = self.placement.take() {
            let balance = Arc::new(Balance::new(placement, rings, idle_max));
            self.shares.iter_mut().enumerate().for_each(|(number, share)| share.join(&balance, number == 0));
        }
        Ok(Some(self.shares.drain(..).map(|share| Box::new(share) as Box<dyn Source + Send>).collect()))
    }

    fn clock_step(&mut self) -> i64 {
        self.shares.first_mut().map_or(0, Share::clock_step)
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.shares.iter_mut().for_each(|share| share.narrow(filters));
    }

    fn stats(&self) -> SourceStats {
        let mut all = SourceStats::default();
        self.shares.iter().for_each(|share| all.add(share.stats()));
        all
    }
}
