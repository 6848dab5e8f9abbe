//! Programs of eBPF: loading, maps, and attachment to an interface (`bpf(2)`, linux/bpf.h).
//!
//! A program stays attached as long as its [`Attachment`] exists: if the process ends in any way, the kernel
//! detaches it.
#![allow(unsafe_code)]

use crate::system::Mapping;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use weir_packet::{BpfInstruction, KernelFilter};

/// Bytes of the verifier's explanation.
const LOG_BYTES: usize = 64 << 10;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const OBJECT_INFO: libc::c_int = 15;
const MAP_LOOKUP_AND_DELETE_ELEM: libc::c_int = 21;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;

const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const MAP_TYPE_XSKMAP: u32 = 17;
const ATTACH_XDP: u32 = 37;
/// The program accepts packets in several pieces.
const HAS_FRAGMENTS: u32 = 1 << 5;

/// A run of a program makes packets, which go where the program sends them (Linux 5.18).
const LIVE_FRAMES: u32 = 1 << 1;

/// An entry is added only if there is none.
const IF_NEW: u64 = 1;
/// Entries get memory when they are added.
const NO_PREALLOCATION: u32 = 1;
/// The process can map the memory of an array (Linux 5.5).
const MAPPABLE: u32 = 1 << 10;

/// The counts of a [`CountMap`].
const COUNTS: u32 = 2;
/// The count of packets that no question needs.
pub(crate) const UNNEEDED: u32 = 0;
/// The count of packets that were counted for connections.
pub(crate) const OF_FLOWS: u32 = 1;

/// Bytes of a count of packets and bytes, for each processor.
const COUNT_BYTES: u32 = 16;

/// The address of memory of this process that the kernel reads or writes during a call. The memory stays
/// borrowed as long as the address, and is as large as the call says.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
struct Address<'a>(u64, PhantomData<&'a mut [u8]>);

impl<'a> Address<'a> {
    /// Of memory that the kernel reads.
    fn to_read<T>(memory: &'a [T]) -> Self {
        Self(memory.as_ptr().expose_provenance() as u64, PhantomData)
    }

    /// Of memory that the kernel writes.
    fn to_write<T: Copy>(memory: &'a mut [T]) -> Self {
        Self(memory.as_mut_ptr().expose_provenance() as u64, PhantomData)
    }
}

/// The arguments of a call.
///
/// # Safety
/// The type is `repr(C)` and has the layout that the kernel has for its call. Its addresses are of type
/// [`Address`], and lead to as many bytes as the kernel reads or writes there: the sizes that stand beside
/// them, or those of the keys and values of the map.
unsafe trait Attributes {}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

/// The description of a map (`struct bpf_map_info`): its beginning.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoQuery<'a> {
    object: u32,
    bytes: u32,
    info: Address<'a>,
}

/// Also the attributes of a lookup.
#[repr(C)]
#[derive(Default)]
struct MapUpdate<'a> {
    map: u32,
    padding: u32,
    key: Address<'a>,
    value: Address<'a>,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramRun<'a> {
    program: u32,
    result: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: Address<'a>,
    data_out: Address<'a>,
    repeat: u32,
    nanoseconds: u32,
    context_bytes: [u32; 2],
    contexts: [Address<'a>; 2],
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad<'a> {
    program_type: u32,
    count: u32,
    instructions: Address<'a>,
    license: Address<'a>,
    log_level: u32,
    log_bytes: u32,
    log: Address<'a>,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

// SAFETY: no addresses.
unsafe impl Attributes for MapCreate {}
// SAFETY: no addresses.
unsafe impl Attributes for LinkCreate {}
// SAFETY: no addresses.
unsafe impl Attributes for LinkUpdate {}
// SAFETY: `bytes` is the size of the description.
unsafe impl Attributes for InfoQuery<'_> {}
// SAFETY: whoever makes one checks the sizes of key and value against those of the map.
unsafe impl Attributes for MapUpdate<'_> {}
// SAFETY: `bytes_in` is the size of the frame; there is room for nothing else.
unsafe impl Attributes for ProgramRun<'_> {}
// SAFETY: `count` and `log_bytes` are the sizes; the licence ends with a 0.
unsafe impl Attributes for ProgramLoad<'_> {}

fn call<T: Attributes>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    let bytes = size_of::<T>();
    // SAFETY: the kernel accesses `bytes` bytes of attributes, and the memory behind their addresses, which
    // is borrowed and large enough (`Attributes`).
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor<T: Attributes>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

impl MapInfo {
    fn of(map: &OwnedFd) -> io::Result<Self> {
        let mut info = [Self::default()];
        let (object, bytes) = (map.as_raw_fd() as u32, size_of::<Self>() as u32);
        call(OBJECT_INFO, &mut InfoQuery { object, bytes, info: Address::to_write(&mut info) })?;
        Ok(info[0])
    }
}

fn map(map_type: u32, value_bytes: u32, entries_max: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate { map_type, key_bytes: 4, value_bytes, entries_max, flags: 0 };
    descriptor(MAP_CREATE, &mut attributes)
}

/// A map from queues to sockets of AF_XDP.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// An empty map for this number of queues.
    pub fn new(queues: u32) -> io::Result<Self> {
        map(MAP_TYPE_XSKMAP, 4, queues).map(Self)
    }

    /// Maps a queue to a socket.
    pub fn set(&self, queue: u32, socket: libc::c_int) -> io::Result<()> {
        let (queue, socket) = ([queue], [socket as u32]);
        let mut attributes = MapUpdate {
            map: self.number() as u32,
            key: Address::to_read(&queue),
            value: Address::to_read(&socket),
            ..MapUpdate::default()
        };
        call(MAP_UPDATE_ELEM, &mut attributes).map(drop)
    }

    /// The number by which programs name the map.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A map whose keys and entries are words of 64 bits.
#[derive(Debug)]
pub(crate) struct HashMap {
    map: OwnedFd,
    key_words: usize,
    entry_words: usize,
}

impl HashMap {
    /// An empty map, with room for a number of entries.
    pub fn new([key_words, entry_words]: [usize; 2], entries_max: usize) -> io::Result<Self> {
        let mut attributes = MapCreate {
            map_type: MAP_TYPE_HASH,
            key_bytes: 8 * key_words as u32,
            value_bytes: 8 * entry_words as u32,
            entries_max: entries_max as u32,
            flags: NO_PREALLOCATION,
        };
        Ok(Self::of(descriptor(MAP_CREATE, &mut attributes)?, [key_words, entry_words]))
    }

    /// A map that another process has made, with keys and entries of these words.
    ///
    /// # Errors
    /// If the map has others: the kernel would read or write beyond them.
    pub fn from_other(map: OwnedFd, [key_words, entry_words]: [usize; 2]) -> io::Result<Self> {
        let bytes = |words: usize| u32::try_from(8 * words).ok();
        let stated = (Some(MAP_TYPE_HASH), bytes(key_words), bytes(entry_words));
        let MapInfo { map_type, key_bytes, value_bytes, .. } = MapInfo::of(&map)?;
        match (Some(map_type), Some(key_bytes), Some(value_bytes)) == stated {
            true => Ok(Self::of(map, [key_words, entry_words])),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "another map than the one asked for")),
        }
    }

    fn of(map: OwnedFd, [key_words, entry_words]: [usize; 2]) -> Self {
        Self { map, key_words, entry_words }
    }

    /// The map itself, for another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The attributes of a call about the entry of a key. `value` is the address of an entry, or of a key.
    fn attributes<'a>(&self, key: &'a [u64], value: Address<'a>) -> MapUpdate<'a> {
        assert_eq!(key.len(), self.key_words);
        MapUpdate { map: self.number() as u32, key: Address::to_read(key), value, ..MapUpdate::default() }
    }

    /// Adds an entry, unless the key has one.
    pub fn insert(&self, key: &[u64], entry: &[u64]) -> io::Result<()> {
        assert_eq!(entry.len(), self.entry_words);
        let mut attributes = self.attributes(key, Address::to_read(entry));
        attributes.flags = IF_NEW;
        call(MAP_UPDATE_ELEM, &mut attributes).map(drop)
    }

    /// Reads an entry.
    pub fn look_up(&self, key: &[u64], entry: &mut [u64]) -> io::Result<()> {
        assert_eq!(entry.len(), self.entry_words);
        call(MAP_LOOKUP_ELEM, &mut self.attributes(key, Address::to_write(entry))).map(drop)
    }

    /// Reads an entry and removes it.
    pub fn take(&self, key: &[u64], entry: &mut [u64]) -> io::Result<()> {
        assert_eq!(entry.len(), self.entry_words);
        match call(MAP_LOOKUP_AND_DELETE_ELEM, &mut self.attributes(key, Address::to_write(entry))) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                // Kernels before 5.14 have no such call for this kind of map.
                self.look_up(key, entry)?;
                self.remove(key)
            }
            result => result.map(drop),
        }
    }

    /// Removes an entry.
    pub fn remove(&self, key: &[u64]) -> io::Result<()> {
        call(MAP_DELETE_ELEM, &mut self.attributes(key, Address::default())).map(drop)
    }

    /// Replaces a key by the next one in the map's own order, or by the first one if the map does not have
    /// the key. Returns whether there is one.
    pub fn next(&self, key: &mut [u64]) -> io::Result<bool> {
        let before = key.to_vec();
        assert_eq!(key.len(), self.key_words);
        match call(MAP_GET_NEXT_KEY, &mut self.attributes(&before, Address::to_write(key))) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// The number by which programs name the map.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }
}

/// Memory that programs and the process share: words of 64 bits, which are 0 at first. Both sides access them
/// atomically.
#[derive(Debug)]
pub(crate) struct SharedWords {
    map: OwnedFd,
    mapping: Mapping,
}

impl SharedWords {
    /// This number of words.
    pub fn new(words: usize) -> io::Result<Self> {
        let bytes = 8 * words;
        let mut attributes = MapCreate {
            map_type: MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes: bytes as u32,
            entries_max: 1,
            flags: MAPPABLE,
        };
        let map = descriptor(MAP_CREATE, &mut attributes)?;
        let mapping = Mapping::of_file(map.as_fd(), bytes)?;
        Ok(Self { map, mapping })
    }

    /// A word.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        self.mapping.word(index)
    }

    /// The number by which programs name the memory.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }
}

/// Counts of packets and of bytes, which each processor keeps for itself: of packets that no question needs,
/// and of those counted for connections.
#[derive(Debug)]
pub(crate) struct CountMap {
    map: OwnedFd,
    processors: usize,
}

impl CountMap {
    /// A count of nothing.
    pub fn new() -> io::Result<Self> {
        Ok(Self { map: map(MAP_TYPE_PERCPU_ARRAY, COUNT_BYTES, COUNTS)?, processors: processors()? })
    }

    /// The packets and the bytes so far, by count.
    pub fn read(&self, count: u32) -> io::Result<[u64; 2]> {
        let (count, mut all) = ([count], vec![[0u64; 2]; self.processors]);
        let mut attributes = MapUpdate {
            map: self.number() as u32,
            key: Address::to_read(&count),
            // The kernel writes a count for each processor that may exist.
            value: Address::to_write(&mut all),
            ..MapUpdate::default()
        };
        call(MAP_LOOKUP_ELEM, &mut attributes)?;
        Ok(all.iter().fold([0; 2], |[packets, bytes], one| [packets + one[0], bytes + one[1]]))
    }

    /// The number by which programs name the map.
    pub fn number(&self) -> i32 {
        self.map.as_raw_fd()
    }
}

/// Room for the copy of a frame's first bytes, on each processor.
#[derive(Debug)]
pub(crate) struct ScratchMap(OwnedFd);

impl ScratchMap {
    /// Room for [`KernelFilter::COPY_BYTES`].
    pub fn new() -> io::Result<Self> {
        map(MAP_TYPE_PERCPU_ARRAY, KernelFilter::COPY_BYTES as u32, 1).map(Self)
    }

    /// The number by which programs name the map.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// The number of processors that may exist: the kernel's maps have a value for each.
fn processors() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    Ok(last.ok_or(io::ErrorKind::InvalidData)? + 1)
}

/// A kind of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// Filters of sockets.
    Socket = 1,
    /// For [`Program::run`]: as filters of sockets, over whole frames.
    Frames = 3,
    /// Programs that drivers run.
    Xdp = 6,
}

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// If the process lacks the right, or the verifier refuses the program; the message then ends with the
    /// verifier's last lines.
    pub fn load(kind: ProgramKind, instructions: &[BpfInstruction]) -> io::Result<Self> {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"weir");
        let load = |log: Option<&mut Vec<u8>>| {
            let mut attributes = ProgramLoad {
                program_type: kind as u32,
                count: instructions.len() as u32,
                instructions: Address::to_read(instructions),
                license: Address::to_read(c"Apache-2.0".to_bytes_with_nul()),
                log_level: u32::from(log.is_some()),
                log_bytes: log.as_ref().map_or(0, |log| log.len() as u32),
                log: log.map_or_else(Address::default, |log| Address::to_write(log)),
                kernel: 0,
                flags: if kind == ProgramKind::Xdp { HAS_FRAGMENTS } else { 0 },
                name,
            };
            descriptor(PROG_LOAD, &mut attributes).map(Self)
        };
        load(None).or_else(|error| {
            // A program that is too large for the verifier needs no explanation, which would take seconds.
            if let Some(libc::EPERM | libc::E2BIG) = error.raw_os_error() {
                return Err(error);
            }
            let mut log = vec![0; LOG_BYTES];
            load(Some(&mut log)).map_err(|_| {
                let text = String::from_utf8_lossy(&log);
                let lines: Vec<&str> = text.trim_matches('\0').lines().collect();
                let last = lines[lines.len().saturating_sub(6)..].join("; ");
                io::Error::new(error.kind(), format!("{error}: {last}"))
            })
        })
    }

    /// A program that another process has loaded. Sockets and interfaces accept only a program of their kind.
    pub fn from_other(program: OwnedFd) -> Self {
        Self(program)
    }

    /// The program itself, for another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Attaches the program to an interface, unless another one is attached (`EBUSY`, `EEXIST`).
    pub fn attach(&self, interface: u32) -> io::Result<Attachment> {
        let mut attributes =
            LinkCreate { program: self.number() as u32, interface, attach_type: ATTACH_XDP, flags: 0 };
        descriptor(LINK_CREATE, &mut attributes).map(Attachment)
    }

    /// Runs the program on a frame, several times. Returns its result, and the nanoseconds of one run.
    pub fn run(&self, frame: &[u8], repeat: u32) -> io::Result<(u32, u32)> {
        let mut attributes = ProgramRun {
            program: self.number() as u32,
            bytes_in: frame.len() as u32,
            data_in: Address::to_read(frame),
            repeat,
            ..ProgramRun::default()
        };
        call(PROG_TEST_RUN, &mut attributes)?;
        Ok((attributes.result, attributes.nanoseconds))
    }

    /// Runs the program on packets that the kernel makes as copies of a frame, in batches: what the program
    /// decides becomes of them.
    pub fn run_live(&self, frame: &[u8], packets: u32, batch: u32) -> io::Result<()> {
        let mut attributes = ProgramRun {
            program: self.number() as u32,
            bytes_in: frame.len() as u32,
            data_in: Address::to_read(frame),
            repeat: packets,
            flags: LIVE_FRAMES,
            batch,
            ..ProgramRun::default()
        };
        call(PROG_TEST_RUN, &mut attributes).map(drop)
    }

    /// The number by which sockets name the program.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// The attachment of a program to an interface; dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct Attachment(OwnedFd);

impl Attachment {
    /// Puts another program in the place of the attached one: each packet is seen by one of them.
    pub fn replace(&self, program: &Program) -> io::Result<()> {
        let (link, program) = (self.0.as_raw_fd() as u32, program.number() as u32);
        call(LINK_UPDATE, &mut LinkUpdate { link, program, ..LinkUpdate::default() }).map(drop)
    }
}
