//! A receive queue of a device of DPDK (`weir-dpdk`). The packets come from the device without the kernel.

use crate::dpdk::PREFIX;
use crate::header_rules::Installed;
use crate::link_socket::{LinkSocket, LinkState, REMOVED, Target};
use crate::names::{NamedInterface, Names};
use crate::options::{LinkOptions, Method, Note, Notes};
use crate::share::of_interface;
use crate::system::{InterfaceQuery, Socket, clock};
use std::io;
use std::sync::Arc;
use weir_dpdk::{Device, Link, Losses, Needs, Packets, Queue, RuleId, Settings};
use weir_packet::{
    Block, Burst, ChecksumState, KernelFilters, LinkType, PacketExtra, PacketMeta, Retention, SourceError,
    SourceStats, Timestamp,
};

/// Who discards packets, for notes.
const DEVICE: &str = "the device";

/// The driver of captures of libpcap.
const OF_FILES: &str = "net_pcap";

/// A queue.
#[derive(Debug)]
pub(crate) struct DpdkQueue {
    target: Target,
    queue: Queue,
    names: Names,
    notes: Notes,
    number: Option<u16>,
    /// The device reads a file, and has nothing more after its end.
    is_file: bool,
    has_own_clock: bool,
    /// Packets that may be in the queue, since its capture was ended.
    left: Option<u64>,
    is_at_end: bool,
    taken: u64,
    /// Packets whose parts found no memory.
    unjoined: u64,
    /// By which the device discards packets; only the first queue has them.
    rules: Installed<RuleId>,
    /// What the device had lost when the capture was ended.
    lost: Option<Losses>,
    /// The device keeps rules of earlier questions.
    fault: Option<io::Error>,
}

/// The name of a device, without its arguments.
fn short(name: &str) -> &str {
    name.split(',').next().unwrap_or_default()
}

/// Opens the devices of these names, each with a queue for each of `parts` workers, or with one.
pub(crate) fn open(
    devices: &[&str],
    options: &LinkOptions,
    parts: usize,
    names: &Names,
) -> Result<Vec<Vec<DpdkQueue>>, SourceError> {
    let fail = |name: &str, why: String| of_interface(&format!("{PREFIX}{}", short(name)), why);
    let Some(first) = devices.first() else { return Ok(vec![]) };
    if let Some(name) = devices.iter().find(|name| short(name).is_empty()) {
        let why = "name a device, as in dpdk:0000:01:00.0 or dpdk:net_af_packet0,iface=eth0";
        return Err(fail(name, why.to_string()));
    }
    let named = |name: &str| devices.iter().filter(|other| short(other) == short(name)).count();
    if let Some(name) = devices.iter().find(|name| named(name) > 1) {
        return Err(fail(name, "the device is named twice".to_string()));
    }
    if options.mirror || options.method != Method::Packet {
        let why = "--mirror is for interfaces of the kernel: DPDK takes all packets of a device anyway";
        return Err(fail(first, why.to_string()));
    }
    if !options.dpdk_arguments.is_empty() && weir_dpdk::has_granted_rights() {
        let why = "--dpdk-eal may load code, and the program has rights of its own (setcap): run it as root";
        return Err(fail(first, why.to_string()));
    }
    let needs = Needs {
        devices: devices.iter().map(|name| name.to_string()).collect(),
        packet_bytes: (options.buffer_bytes as u64).saturating_mul((parts * devices.len()) as u64),
        stated: options.dpdk_arguments.clone(),
    };
    weir_dpdk::start(&needs).map_err(|error| fail(first, error.to_string()))?;
    let settings = Settings {
        queues: parts,
        buffer_bytes: options.buffer_bytes,
        promiscuous: options.promiscuous,
        hardware_time: options.hardware_time,
    };
    let open = |name: &&str| {
        let (device, queues) =
            Device::open(name, &settings).map_err(|error| fail(name, error.to_string()))?;
        // The kernel's interfaces have numbers from 1.
        let index = u32::MAX - u32::from(device.port());
        let target = Target { name: format!("{PREFIX}{}", short(name)), index };
        let method = format!(
            "{}, driver {}, queues: {}, descriptors: {}",
            weir_dpdk::release().unwrap_or("DPDK"),
            device.driver(),
            device.queues(),
            device.descriptors()
        );
        options.notes.tell(Note::Method(target.name.clone(), method));
        let is_file = device.driver() == OF_FILES && name.contains(",rx_pcap=");
        let of = |queue| DpdkQueue {
            target: target.clone(),
            queue,
            names: names.clone(),
            notes: options.notes.clone(),
            number: None,
            is_file: is_file && !name.contains(",infinite_rx=1"),
            has_own_clock: is_file || device.driver() != OF_FILES && device.has_times(),
            left: None,
            is_at_end: false,
            taken: 0,
            unjoined: 0,
            rules: Installed::default(),
            fault: None,
            lost: None,
        };
        Ok(queues.into_iter().map(of).collect())
    };
    devices.iter().map(open).collect()
}

impl DpdkQueue {
    fn number(&mut self) -> u16 {
        let (name, notes) = (&self.target.name, &self.notes);
        let index = self.target.index as i32;
        *self.number.get_or_insert_with(|| {
            self.names.number_of(index, || {
                let named = NamedInterface { name: name.clone(), link: LinkType::ETHERNET };
                notes.tell(Note::Interface(named));
            })
        })
    }

    /// Of the queues of a device, the one that knows what the device has lost.
    fn is_first(&self) -> bool {
        self.queue.number() == 0
    }

    fn losses(&self) -> Losses {
        match self.lost {
            Some(lost) => lost,
            None if self.is_first() => self.queue.device().losses(),
            None => Losses::default(),
        }
    }

    fn describe(&mut self, packets: Packets, burst: &mut Burst) {
        let (interface, now) = (self.number(), clock().1);
        let queue = (self.queue.device().queues() > 1).then_some(self.queue.number());
        for (index, packet) in packets.iter().enumerate() {
            let extra = PacketExtra {
                rss_hash: packet.rss_hash,
                queue,
                checksum: match packet.is_checksum_good {
                    Some(true) => ChecksumState::Valid,
                    Some(false) => ChecksumState::Invalid,
                    None => ChecksumState::Unknown,
                },
                ..PacketExtra::default()
            };
            if extra != PacketExtra::default() {
                burst.extras.push(index, extra);
            }
            burst.packets.push(PacketMeta {
                time: Timestamp(packet.time_ns.unwrap_or(now)),
                number: 0,
                offset: packet.offset,
                captured_bytes: packet.length,
                wire_bytes: packet.length,
                link: LinkType::ETHERNET,
                interface,
            });
        }
        burst.block = Arc::new(Block::foreign(Box::new(packets), Retention::Copy));
        self.taken += burst.packets.len() as u64;
    }
}

impl LinkSocket for DpdkQueue {
    fn target(&self) -> &Target {
        &self.target
    }

    fn socket(&self) -> Option<&Socket> {
        None
    }

    fn state(&self, _: &InterfaceQuery) -> LinkState {
        let name = self.target.name.clone();
        match self.queue.device().link() {
            Link::Up => LinkState::Up(name),
            Link::Down => LinkState::Down(name),
            Link::Gone => LinkState::Gone(REMOVED.to_string()),
        }
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn has_own_clock(&self) -> bool {
        self.has_own_clock
    }

    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The device goes on: it would discard the packets in its queue. At most those are still taken.
    fn stop(&mut self) -> io::Result<()> {
        self.lost = Some(self.losses());
        self.left = Some(u64::from(self.queue.device().descriptors()));
        Ok(())
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        if !self.is_first() {
            return;
        }
        let (device, name) = (self.queue.device(), self.target.name.clone());
        let replaced = match filters.map(|filters| filters.header_rules()) {
            None => self.rules.clear(device).map(|()| None),
            Some(Ok(rules)) => self.rules.replace(device, &rules).map(|done| {
                Some(match done {
                    Ok(()) => Note::Filtered(name, DEVICE),
                    Err(why) => Note::Unfiltered(name, DEVICE, format!("it accepts no rules: {why}")),
                })
            }),
            Some(Err(why)) => self.rules.clear(device).map(|()| {
                Some(Note::Unfiltered(name, DEVICE, format!("there are no rules for the questions: {why}")))
            }),
        };
        match replaced {
            Ok(note) => note.into_iter().for_each(|note| self.notes.tell(note)),
            Err(error) => self.fault = Some(error),
        }
    }

    fn stats(&self) -> SourceStats {
        let Losses { missed, no_buffer, errors } = self.losses();
        let lost = SourceStats {
            ring_full: missed,
            no_buffer: no_buffer + self.unjoined,
            damaged: errors,
            ..SourceStats::default()
        };
        let [filtered, filtered_bytes] = self.rules.discarded(self.queue.device());
        SourceStats { received: self.taken + filtered + lost.dropped(), filtered, filtered_bytes, ..lost }
    }

    fn fill(&mut self, burst: &mut Burst) -> io::Result<bool> {
        if let Some(error) = self.fault.take() {
            let message =
                format!("the device keeps rules of earlier questions, which discard packets: {error}");
            return Err(io::Error::new(error.kind(), message));
        }
        if self.is_at_end {
            return Ok(false);
        }
        let Some(packets) = self.queue.receive(&mut self.unjoined) else {
            self.is_at_end = self.is_file || self.left.is_some();
            return Ok(false);
        };
        self.describe(packets, burst);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(burst.packets.len() as u64);
            self.is_at_end = *left == 0;
        }
        Ok(true)
    }
}
