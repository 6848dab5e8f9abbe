//! The memory of sockets of AF_XDP (Documentation/networking/af_xdp.rst): frames of equal size, and rings by
//! which process and kernel pass each other descriptions of frames.
#![allow(unsafe_code)]

use crate::system::{Mapping, Socket};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_packet::{PacketMemory, offset_in};

/// Bytes of a frame.
pub(crate) const FRAME_BYTES: usize = 4096;

/// The frames of a socket.
#[derive(Debug)]
pub(crate) struct Umem {
    mapping: Mapping,
    /// For each frame: the kernel has passed it, and the process has not given it back.
    owned: Box<[AtomicBool]>,
    /// Frames that the process has given back, for the kernel.
    free: Mutex<Vec<u64>>,
}

impl Umem {
    /// Memory for this number of frames, all of which are free.
    pub fn new(frames: usize) -> io::Result<Arc<Self>> {
        let mapping = Mapping::anonymous(frames * FRAME_BYTES)?;
        let free = (0..frames as u64).map(|frame| frame * FRAME_BYTES as u64).collect();
        let owned = (0..frames).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(Self { mapping, owned, free: Mutex::new(free) }))
    }

    /// Registers the memory with a socket.
    pub fn register(&self, socket: &Socket) -> io::Result<()> {
        let request = libc::xdp_umem_reg {
            addr: self.mapping.start().as_ptr().addr() as u64,
            len: (self.owned.len() * FRAME_BYTES) as u64,
            chunk_size: FRAME_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        socket.set(libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
    }

    /// Passes up to `count` free frames to `each`, numbered from 0. Returns how many there were.
    fn take_free(&self, count: usize, mut each: impl FnMut(u32, u64)) -> u32 {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let first = free.len().saturating_sub(count);
        (0..).zip(free.drain(first..)).map(|(index, frame)| each(index, frame)).count() as u32
    }

    /// The kernel has passed the frame at an address. Returns whether there is such a frame, which the
    /// process did not have.
    fn own(&self, address: u64) -> bool {
        let frame = self.owned.get(address as usize / FRAME_BYTES);
        frame.is_some_and(|frame| !frame.swap(true, Ordering::Relaxed))
    }

    /// The process does not have the frame after all; if `is_free`, the kernel gets it back.
    fn disown(&self, address: u64, is_free: bool) {
        let frame = address as usize / FRAME_BYTES;
        self.owned[frame].store(false, Ordering::Relaxed);
        if is_free {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.push((frame * FRAME_BYTES) as u64);
        }
    }

    /// Gives frames back that the process has.
    pub fn give_back(&self, frames: impl Iterator<Item = u64>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        for address in frames {
            let frame = address as usize / FRAME_BYTES;
            if self.owned[frame].swap(false, Ordering::Relaxed) {
                free.push((frame * FRAME_BYTES) as u64);
            }
        }
    }

    /// The bytes of a range within one frame that the process has; `None` if the range lies elsewhere.
    pub fn bytes(&self, address: usize, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length)?;
        let is_in_frame = length == 0 || address / FRAME_BYTES == (end - 1) / FRAME_BYTES;
        let is_owned = self.owned.get(address / FRAME_BYTES)?.load(Ordering::Relaxed);
        // SAFETY: the range lies in a frame of the memory that the kernel has passed. The kernel does not
        // write the frame until the frame is given back.
        (is_in_frame && is_owned).then(|| unsafe {
            std::slice::from_raw_parts(self.mapping.start().add(address).as_ptr(), length)
        })
    }
}

/// The frames with the packets of a burst. When this value is dropped, the kernel gets the frames back.
#[derive(Debug)]
pub(crate) struct TakenFrames {
    pub umem: Arc<Umem>,
    pub frames: Vec<u64>,
}

impl Drop for TakenFrames {
    fn drop(&mut self) {
        self.umem.give_back(self.frames.drain(..));
    }
}

impl PacketMemory for TakenFrames {
    fn range(&self, offset: usize, length: usize) -> &[u8] {
        self.umem.bytes(offset, length).expect("the range lies in a frame")
    }

    fn locate(&self, bytes: &[u8]) -> Option<usize> {
        let of_frame = |&frame: &u64| {
            let frame = frame as usize & !(FRAME_BYTES - 1);
            Some(frame + offset_in(self.umem.bytes(frame, FRAME_BYTES)?, bytes)?)
        };
        self.frames.iter().find_map(of_frame)
    }

    fn size_bytes(&self) -> usize {
        self.frames.len() * FRAME_BYTES
    }
}

/// A ring between process and kernel.
#[derive(Debug)]
struct Ring {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    mask: u32,
}

impl Ring {
    /// Maps a ring of `size` entries of `entry_bytes` bytes each.
    fn map(
        socket: &Socket,
        offsets: libc::xdp_ring_offset,
        size: u32,
        entry_bytes: usize,
        page: u64,
    ) -> io::Result<Self> {
        assert!(size.is_power_of_two(), "the kernel's rings have powers of two");
        let bytes = offsets.desc as usize + size as usize * entry_bytes;
        Ok(Self { mapping: Mapping::of(socket, bytes, page as i64)?, offsets, mask: size - 1 })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets lie in the mapping, and the words are aligned; both sides access them
        // atomically.
        unsafe { self.mapping.start().add(offset as usize).cast::<AtomicU32>().as_ref() }
    }

    fn entry<T>(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & self.mask) as usize * size_of::<T>();
        // SAFETY: the mask keeps the index within the ring, which the mapping contains.
        unsafe { self.mapping.start().add(at).cast::<T>().as_ptr() }
    }
}

/// The ring by which the process passes free frames to the kernel.
#[derive(Debug)]
pub(crate) struct FillRing(Ring);

impl FillRing {
    pub fn map(socket: &Socket, offsets: &libc::xdp_mmap_offsets, size: u32) -> io::Result<Self> {
        Ring::map(socket, offsets.fr, size, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING).map(Self)
    }

    /// Passes free frames of `umem`, as many as the ring has room for.
    pub fn refill(&mut self, umem: &Umem) {
        let Self(ring) = self;
        let producer = ring.word(ring.offsets.producer);
        let next = producer.load(Ordering::Relaxed);
        let consumed = ring.word(ring.offsets.consumer).load(Ordering::Acquire);
        let room = (ring.mask + 1).saturating_sub(next.wrapping_sub(consumed));
        let count = umem.take_free(room as usize, |index, frame| {
            // SAFETY: the entry is free until the producer's index is raised, and this is the only producer.
            unsafe { ring.entry::<u64>(next.wrapping_add(index)).write(frame) };
        });
        producer.store(next.wrapping_add(count), Ordering::Release);
    }
}

/// The ring by which the kernel passes packets to the process.
#[derive(Debug)]
pub(crate) struct ReceiveRing(Ring);

impl ReceiveRing {
    pub fn map(socket: &Socket, offsets: &libc::xdp_mmap_offsets, size: u32) -> io::Result<Self> {
        Ring::map(socket, offsets.rx, size, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_RX_RING as u64)
            .map(Self)
    }

    /// Takes entries as long as `wants` returns `true` for them. The frames then belong to the process.
    /// Returns the number of entries that name no frame of the kernel's; `wants` does not see them.
    pub fn take_while(&mut self, umem: &Umem, mut wants: impl FnMut(&libc::xdp_desc) -> bool) -> u64 {
        let Self(ring) = self;
        let consumer = ring.word(ring.offsets.consumer);
        let (mut next, mut invalid) = (consumer.load(Ordering::Relaxed), 0);
        let produced = ring.word(ring.offsets.producer).load(Ordering::Acquire);
        while next != produced {
            // SAFETY: the kernel has written the entry, and does not change it before the consumer's index is
            // raised.
            let entry = unsafe { ring.entry::<libc::xdp_desc>(next).read() };
            if umem.own(entry.addr) {
                let is_whole = umem.bytes(entry.addr as usize, entry.len as usize).is_some();
                let is_wanted = is_whole && wants(&entry);
                if !is_wanted {
                    // The frame stays the kernel's, or is useless.
                    umem.disown(entry.addr, !is_whole);
                }
                if is_whole && !is_wanted {
                    break;
                }
                invalid += u64::from(!is_whole);
            } else {
                invalid += 1;
            }
            next = next.wrapping_add(1);
        }
        consumer.store(next, Ordering::Release);
        invalid
    }
}
