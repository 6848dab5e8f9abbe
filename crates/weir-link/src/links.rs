//! The source of packets of one or several interfaces.

use crate::balance::Balance;
use crate::card::CardDrops;
use crate::dpdk::PREFIX;
use crate::dpdk_queue;
use crate::flow_maps::FlowMaps;
use crate::interface_states::InterfaceStates;
use crate::interfaces;
use crate::link_socket::{LinkSocket, Target};
use crate::names::Names;
use crate::options::{LinkOptions, Method, Note};
use crate::packet_socket::PacketSocket;
use crate::placement::Placement;
use crate::ring::Ring;
use crate::share::{Common, Share, of_interface};
use crate::system::{interface_index, interface_names};
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
    /// The assignment of packets to shares, and the rings of each share; `None`: the assignment never
    /// changes.
    placement: Option<(Placement, Vec<Vec<Weak<Ring>>>)>,
    /// Packets may be dropped before they are assigned to a share, so shares do not see all packets of their
    /// connections.
    is_mirror: bool,
}

impl Links {
    /// Captures on the interfaces of these names (`any`: all interfaces; `dpdk:DEVICE[,ARGUMENT=VALUE…]`:
    /// devices of DPDK), in `parts` parts, which [`split`](Source::split) hands out.
    ///
    /// # Errors
    /// If an interface does not exist, or the process may not capture. The message has a remedy.
    pub fn open(names: &[String], options: &LinkOptions, parts: usize) -> Result<Self, SourceError> {
        let (known, flows) = (Names::default(), FlowMaps::default());
        let parts = if options.method == Method::Xdp { 1 } else { parts.max(1) };
        if let Some(name) = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1) {
            return Err(of_interface(name, "the interface is named twice".to_string()));
        }
        if names.len() > 1 && names.iter().any(|name| name == ANY) {
            return Err(of_interface(ANY, "all interfaces include the others: name `any` alone".to_string()));
        }
        if options.buffer_bytes > BUFFER_BYTES_MAX {
            return Err(of_interface(&names.join(", "), "--buffer: a ring has at most 4095M".to_string()));
        }
        let devices: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
        let devices = dpdk_queue::open(&devices, options, if names.len() > 1 { 1 } else { parts }, &known)?;
        // A device that gives all packets to one queue cannot be split, and the others then are not, either.
        // Several sources of which one is a device assign packets to workers in different ways.
        let is_mixed = !devices.is_empty() && names.len() > 1;
        let parts = if is_mixed || devices.iter().any(|queues| queues.len() < parts) { 1 } else { parts };
        let mut sockets: Vec<Vec<Box<dyn LinkSocket>>> = (0..parts).map(|_| vec![]).collect();
        for (number, queue) in devices.into_iter().flat_map(|queues| queues.into_iter().enumerate()) {
            sockets[number % parts].push(Box::new(queue));
        }
        // A device of DPDK assigns packets to its queues by itself.
        let placement = match parts {
            1 => None,
            _ if names.iter().any(|name| name.starts_with(PREFIX)) => None,
            _ => Placement::new(parts)
                .inspect_err(|error| options.notes.tell(Note::Fixed(error.to_string())))
                .ok(),
        };
        let mut rings: Vec<Vec<Weak<Ring>>> = vec![vec![]; parts];
        for name in names.iter().filter(|name| !name.starts_with(PREFIX)) {
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
        let shares: io::Result<Vec<Share>> =
            sockets.into_iter().map(|sockets| Share::new(sockets, common.clone())).collect();
        let mut shares = shares.map_err(|error| of_interface(ANY, error.to_string()))?;
        shares.iter_mut().take(1).for_each(|share| share.watch_cards(cards(names)));
        Ok(Self {
            shares,
            placement: placement.map(|placement| (placement, rings)),
            is_mirror: options.mirror,
        })
    }
}

/// The cards of these interfaces; of `any`, those of all interfaces that there are now. Where the kernel
/// gives no statistics, nothing is counted.
fn cards(names: &[String]) -> Vec<CardDrops> {
    let all =
        if names.iter().any(|name| name == ANY) { interface_names().unwrap_or_default() } else { vec![] };
    let names = names.iter().chain(&all).filter(|name| *name != ANY);
    names.filter_map(|name| CardDrops::of(interface_index(name).ok()?).ok()).collect()
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
        // The driver may drop packets of a connection that the kernel counts, for any time: no pair is ever
        // forgotten then.
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
