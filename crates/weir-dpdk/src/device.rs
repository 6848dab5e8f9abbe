//! Devices of DPDK, and their queues.
#![allow(unsafe_code)]

use crate::library::{self, Functions, RawCounters, RawPacket, RawPort, RawSettings};
use crate::{Error, Packets};
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;
use weir_packet::BURST_PACKETS_MAX;

/// How a device is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Receive queues wanted, one for each worker.
    pub queues: usize,
    /// Memory of packets for each queue, bytes.
    pub buffer_bytes: usize,
    /// Receive packets for other hosts, too.
    pub promiscuous: bool,
    /// Use the times of the device's clock, if it has one.
    pub hardware_time: bool,
}

/// Packets that a queue has room for, wanted. Drivers have less, or other multiples.
const DESCRIPTORS: u32 = 4_096;

/// A device that receives. It is given back to the machine when this value, and all of its queues, are
/// dropped.
#[derive(Debug)]
pub struct Device {
    functions: &'static Functions,
    port: u16,
    queues: u32,
    descriptors: u32,
    driver: String,
    has_times: bool,
}

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The link is up.
    Up,
    /// The link is down.
    Down,
    /// The device was removed.
    Gone,
}

/// Packets that a device has lost since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// The queue was full.
    pub missed: u64,
    /// There was no memory to receive into.
    pub no_buffer: u64,
    /// The device received the packet with an error, such as a wrong checksum of the frame.
    pub errors: u64,
}

impl Device {
    /// Attaches a device (`DEVICE[,ARGUMENT=VALUE…]`), and starts to receive. Call [`start`] before. Returns
    /// the device with its queues: as many as wanted, or one, if the device does not distribute packets by
    /// their addresses.
    ///
    /// # Errors
    /// [`Error::Failed`] with the log of DPDK.
    pub fn open(name: &str, settings: &Settings) -> Result<(Arc<Self>, Vec<Queue>), Error> {
        let functions = library::functions()?;
        let device = CString::new(name).map_err(|_| Error::Failed("a zero byte in the name".to_string()))?;
        functions.take_log();
        // SAFETY: the text ends with a zero byte.
        let port =
            functions.checked(unsafe { (functions.attach)(device.as_ptr()) }).map_err(Error::Failed)?;
        let port = u16::try_from(port).map_err(|_| Error::Failed("no such port".to_string()))?;
        let wanted = RawSettings {
            queues: u32::try_from(settings.queues.max(1)).unwrap_or(u32::MAX),
            descriptors: DESCRIPTORS,
            buffer_bytes: settings.buffer_bytes as u64,
            promiscuous: settings.promiscuous.into(),
            hardware_time: settings.hardware_time.into(),
        };
        let mut opened = RawPort { queues: 0, descriptors: 0, number: port, has_times: 0, driver: [0; 32] };
        // SAFETY: the plug-in reads one structure, and writes the other.
        let result = unsafe { (functions.open)(port, &wanted, &mut opened) };
        functions.checked(result).map_err(Error::Failed)?;
        // SAFETY: the plug-in ends the text with a zero byte.
        let driver = unsafe { CStr::from_ptr(opened.driver.as_ptr()) }.to_string_lossy().into_owned();
        let RawPort { queues, descriptors, has_times, .. } = opened;
        let has_times = has_times != 0;
        let device = Arc::new(Self { functions, port, queues, descriptors, driver, has_times });
        let queue = |number| Queue { device: Arc::clone(&device), number };
        let queues = (0..device.queues as u16).map(queue).collect();
        Ok((device, queues))
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// The number of the device in DPDK.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of its queues.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// Packets that each queue has room for.
    pub fn descriptors(&self) -> u32 {
        self.descriptors
    }

    /// The driver of DPDK.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Whether packets have times that the device gave them.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// The packets lost so far. None if the device does not count.
    pub fn losses(&self) -> Losses {
        let mut counters = RawCounters::default();
        // SAFETY: the plug-in writes the structure; the port is open.
        let result = unsafe { (self.functions.count)(self.port, &mut counters) };
        let RawCounters { missed, no_buffer, errors } = counters;
        if result == 0 { Losses { missed, no_buffer, errors } } else { Losses::default() }
    }

    /// The state of the device.
    pub fn link(&self) -> Link {
        // SAFETY: the port is open.
        match unsafe { (self.functions.link)(self.port) } {
            ..0 => Link::Gone,
            0 => Link::Down,
            _ => Link::Up,
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the port is open, and no queue receives any more: each holds a reference to the device.
        unsafe { (self.functions.close)(self.port) };
    }
}

/// A receive queue of a device, for one thread at a time.
#[derive(Debug)]
pub struct Queue {
    device: Arc<Device>,
    number: u16,
}

impl Queue {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number of the queue.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Receives the packets that are there, at most [`BURST_PACKETS_MAX`], without waiting. `None`: there are
    /// none. Adds packets whose parts found no memory to `lost`. Copies no packet, unless it is in several
    /// buffers.
    pub fn receive(&mut self, lost: &mut u64) -> Option<Packets> {
        let functions = self.device.functions;
        let none = RawPacket {
            bytes: ptr::null(),
            owner: ptr::null_mut(),
            time_ns: 0,
            length: 0,
            rss_hash: 0,
            flags: 0,
        };
        let mut raw = [none; BURST_PACKETS_MAX];
        // SAFETY: the array has room for so many packets; the port is open, and `&mut self` excludes other
        // users of the queue.
        let count = unsafe {
            (functions.receive)(self.device.port, self.number, raw.as_mut_ptr(), raw.len() as u32, lost)
        };
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the plug-in has just passed these packets.
        (count > 0).then(|| unsafe { Packets::of(functions, raw, count) })
    }
}
