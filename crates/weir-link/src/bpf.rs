//! Programs of eBPF: loading, maps, and attachment to an interface (`bpf(2)`, linux/bpf.h).
//!
//! A program stays attached as long as its [`Attachment`] exists: if the process ends in any way, the kernel detaches it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of the verifier's explanation.
const LOG_BYTES: usize = 64 << 10;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program accepts packets in several pieces.
const HAS_FRAGMENTS: u32 = 1 << 5;

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// The destination in the lower four bits, the source in the upper ones.
    registers: u8,
    offset: i16,
    number: i32,
}

impl Instruction {
    pub const fn new(code: u8, destination: u8, source: u8, offset: i16, number: i32) -> Self {
        Self { code, registers: source << 4 | destination, offset, number }
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    program_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
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

fn call<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    let bytes = size_of::<T>();
    // SAFETY: the kernel reads `bytes` bytes of attributes; the addresses in them are those of live buffers, see the callers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// A map from queues to sockets of AF_XDP.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// An empty map for this number of queues.
    pub fn new(queues: u32) -> io::Result<Self> {
        let attributes = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_bytes: 4,
            value_bytes: 4,
            entries_max: queues,
            flags: 0,
        };
        descriptor(MAP_CREATE, &attributes).map(Self)
    }

    /// Maps a queue to a socket.
    pub fn set(&self, queue: u32, socket: libc::c_int) -> io::Result<()> {
        let socket = socket as u32;
        let attributes = MapUpdate {
            map: self.number() as u32,
            key: std::ptr::from_ref(&queue).addr() as u64,
            value: std::ptr::from_ref(&socket).addr() as u64,
            ..MapUpdate::default()
        };
        call(MAP_UPDATE_ELEM, &attributes).map(drop)
    }

    /// The number by which programs name the map.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A loaded program.
#[derive(Debug)]
pub(crate) struct XdpProgram(OwnedFd);

impl XdpProgram {
    /// Loads a program for interfaces.
    ///
    /// # Errors
    /// If the process lacks the right, or the verifier refuses the program; the message then ends with the verifier's last
    /// lines.
    pub fn load(instructions: &[Instruction]) -> io::Result<Self> {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"weir");
        let load = |log: Option<&mut Vec<u8>>| {
            let attributes = ProgramLoad {
                program_type: PROG_TYPE_XDP,
                count: instructions.len() as u32,
                instructions: instructions.as_ptr().addr() as u64,
                license: c"Apache-2.0".as_ptr().addr() as u64,
                log_level: u32::from(log.is_some()),
                log_bytes: log.as_ref().map_or(0, |log| log.len() as u32),
                log: log.map_or(0, |log| log.as_mut_ptr().addr() as u64),
                kernel: 0,
                flags: HAS_FRAGMENTS,
                name,
            };
            descriptor(PROG_LOAD, &attributes).map(Self)
        };
        load(None).or_else(|error| {
            if error.kind() == io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            let mut log = vec![0; LOG_BYTES];
            load(Some(&mut log)).map_err(|error| {
                let text = String::from_utf8_lossy(&log);
                let lines: Vec<&str> = text.trim_matches('\0').lines().collect();
                let last = lines[lines.len().saturating_sub(6)..].join("; ");
                io::Error::new(error.kind(), format!("{error}: {last}"))
            })
        })
    }

    /// Attaches the program to an interface, unless another one is attached (`EBUSY`, `EEXIST`).
    pub fn attach(&self, interface: u32) -> io::Result<Attachment> {
        let program = self.0.as_raw_fd() as u32;
        let attributes = LinkCreate { program, interface, attach_type: ATTACH_XDP, flags: 0 };
        descriptor(LINK_CREATE, &attributes).map(Attachment)
    }
}

/// The attachment of a program to an interface; dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct Attachment(#[expect(dead_code, reason = "the kernel detaches when it is closed")] OwnedFd);
