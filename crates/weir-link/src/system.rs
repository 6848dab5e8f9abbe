//! System calls for sockets and mapped memory.
#![allow(unsafe_code)]

use libc::{c_int, c_void, socklen_t};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Bytes of a TCP connection that were written and that the other end has not acknowledged. A connection that
/// has failed keeps the number that it had.
///
/// # Errors
/// The descriptor is no socket of TCP.
pub fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes the number. SIOCOUTQ has the number of TIOCOUTQ (tcp(7)).
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, ptr::from_mut(&mut bytes)) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Makes a static program look up hosts, users and groups with the code of its own C library: files and DNS.
/// Other programs are not changed.
///
/// The modules in `/etc/nsswitch.conf` belong to the C library of the system. A static program that loads
/// those of another version crashes (seen with glibc 2.36 in Debian 13, November 2026).
pub fn keep_lookups_built_in() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        use std::ffi::c_char;
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")] {
            // SAFETY: the function (nss.h of glibc) reads two texts that end with 0, and keeps neither.
            unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}

/// Values that the kernel may read and write byte by byte.
///
/// # Safety
/// Every pattern of bytes is a valid value, and the value has no pointers.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: the type consists of integers.
            unsafe impl Plain for $type {}
        )*
    };
}

plain!(
    c_int,
    libc::c_uint,
    libc::tpacket_req3,
    libc::tpacket_stats_v3,
    libc::packet_mreq,
    libc::sockaddr_ll,
    libc::sockaddr_xdp,
    libc::xdp_umem_reg,
    libc::xdp_mmap_offsets,
    libc::xdp_options,
    libc::xdp_statistics
);

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A socket that is closed when the process executes another program.
    pub fn new(family: c_int, kind: c_int, protocol: c_int) -> io::Result<Self> {
        // SAFETY: the call has no pointers.
        let fd = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
        // SAFETY: the descriptor is new, so nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The name of an interface in the socket's network namespace. Sockets of AF_XDP do not know it.
    pub fn interface_name(&self, index: u32) -> Option<String> {
        // SAFETY: zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = c_int::try_from(index).ok()?;
        // SAFETY: the kernel reads and writes the request.
        checked(unsafe { libc::ioctl(self.raw(), libc::SIOCGIFNAME as _, ptr::from_mut(&mut request)) })
            .ok()?;
        let name = request.ifr_name.map(|letter| letter.cast_unsigned());
        let name = std::ffi::CStr::from_bytes_until_nul(&name).ok()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// Another handle of the socket.
    pub fn duplicate(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Sets an option.
    pub fn set<T: Plain>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let bytes = size_of::<T>() as socklen_t;
        // SAFETY: the kernel reads `bytes` bytes of the value.
        let result = unsafe { libc::setsockopt(self.raw(), level, name, ptr::from_ref(value).cast(), bytes) };
        checked(result).map(drop)
    }

    /// Reads an option; the kernel may write only the first bytes of `value`.
    pub fn get<T: Plain>(&self, level: c_int, name: c_int, mut value: T) -> io::Result<T> {
        let mut bytes = size_of::<T>() as socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes, any of which `T: Plain` allows.
        let result = unsafe {
            libc::getsockopt(self.raw(), level, name, ptr::from_mut(&mut value).cast(), &mut bytes)
        };
        checked(result).map(|_| value)
    }

    /// Sets an option that is a program of classic BPF.
    pub fn set_program(&self, level: c_int, name: c_int, program: &[libc::sock_filter]) -> io::Result<()> {
        let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
        let bytes = size_of::<libc::sock_fprog>() as socklen_t;
        // SAFETY: the kernel copies the program, `length` instructions, and does not write it.
        let result =
            unsafe { libc::setsockopt(self.raw(), level, name, ptr::from_ref(&program).cast(), bytes) };
        checked(result).map(drop)
    }

    /// Binds the socket to an address of its family.
    pub fn bind<T: Plain>(&self, address: &T) -> io::Result<()> {
        let bytes = size_of::<T>() as socklen_t;
        // SAFETY: the kernel reads `bytes` bytes of the address.
        checked(unsafe { libc::bind(self.raw(), ptr::from_ref(address).cast(), bytes) }).map(drop)
    }

    /// Sends a packet.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the bytes.
        let sent = unsafe { libc::send(self.raw(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a message that waits; returns its length, at most that of `bytes`. Does not wait.
    pub fn receive_now(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the kernel writes at most `bytes.len()` bytes.
        let length = unsafe { libc::recv(self.raw(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }

    /// The error that the socket has met since the last call.
    pub fn take_error(&self) -> Option<io::Error> {
        let error: c_int = self.get(libc::SOL_SOCKET, libc::SO_ERROR, 0).ok()?;
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until one of the sockets has packets or an error, or until the time is over.
pub(crate) fn wait<'a>(sockets: impl Iterator<Item = &'a Socket>, time: Duration) -> io::Result<()> {
    wait_for(libc::POLLIN, sockets, time)
}

/// Waits until the socket can send, for a short time.
pub(crate) fn wait_to_send(socket: &Socket) -> io::Result<()> {
    wait_for(libc::POLLOUT, std::iter::once(socket), Duration::from_millis(10))
}

fn wait_for<'a>(
    events: libc::c_short,
    sockets: impl Iterator<Item = &'a Socket>,
    time: Duration,
) -> io::Result<()> {
    let poll = |socket: &Socket| libc::pollfd { fd: socket.raw(), events, revents: 0 };
    let mut all: Vec<libc::pollfd> = sockets.map(poll).collect();
    let millis = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the kernel writes the events of these entries.
    let result = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, millis) };
    match checked(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// The time since the start of the machine, and the time since 1970, nanoseconds.
pub(crate) fn clock() -> (i64, i64) {
    let read = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time.
        unsafe { libc::clock_gettime(clock, &mut time) };
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    (read(libc::CLOCK_MONOTONIC), read(libc::CLOCK_REALTIME))
}

/// The address of an interface (0: of all), for packets of a protocol.
pub(crate) fn link_address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// The index of an interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Memory that the kernel shares.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory; who accesses it sees to the order of accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of a socket's memory from `offset` on, readable and writable, and fills its pages.
    pub fn of(socket: &Socket, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, socket.raw(), offset)
    }

    /// `bytes` zeros. If the process divides, the new process has the same memory, not a copy of it: the
    /// kernel goes on to write there.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(bytes: usize, flags: c_int, file: RawFd, offset: i64) -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_POPULATE);
        // SAFETY: the kernel selects a free range of addresses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Maps `bytes` bytes of a file, readable and writable.
    pub fn of_file(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// A word of memory that is accessed only by such words, and by the kernel.
    ///
    /// # Panics
    /// If the mapping has fewer words.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / size_of::<AtomicU64>(), "the mapping has such a word");
        // SAFETY: the word lies in the mapping, which lives as long as the reference and starts with a page,
        // so the word is aligned. The process and the kernel access it atomically.
        unsafe { self.start.cast::<AtomicU64>().add(index).as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `of`, and nothing refers to it any more.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        debug_assert_eq!(result, 0, "the range is mapped");
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The names of all interfaces, in the order of their indices.
pub(crate) fn interface_names() -> io::Result<Vec<String>> {
    // SAFETY: the list ends with an entry without a name, and is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut names = vec![];
        let mut entry = list;
        while !(*entry).if_name.is_null() {
            names.push(std::ffi::CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
        Ok(names)
    }
}

/// `ETHTOOL_GDRVINFO`, and its answer's length and the place of the driver's name (linux/ethtool.h).
const DRIVER_INFO: (u32, usize, usize) = (0x3, 196, 4);
/// `ETHTOOL_GCHANNELS`, and its answer's length (linux/ethtool.h).
const CHANNELS: (u32, usize) = (0x3c, 36);
/// Bytes of the name of a driver.
const DRIVER_BYTES: usize = 32;

/// Asks the kernel about interfaces (`netdevice(7)`).
#[derive(Debug)]
pub(crate) struct InterfaceQuery(Socket);

impl InterfaceQuery {
    pub fn new() -> io::Result<Self> {
        Socket::new(libc::AF_INET, libc::SOCK_DGRAM, 0).map(Self)
    }

    /// A request about an interface; `None` if the name is too long.
    fn request(name: &str) -> Option<libc::ifreq> {
        // SAFETY: zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        (name.len() <= room).then(|| {
            request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
            request
        })
    }

    fn ask(&self, name: &str, what: libc::c_ulong) -> Option<libc::ifreq> {
        let mut request = Self::request(name)?;
        // SAFETY: the kernel reads and writes the request.
        checked(unsafe { libc::ioctl(self.0.raw(), what as _, ptr::from_mut(&mut request)) }).ok()?;
        Some(request)
    }

    /// The name of an interface.
    pub fn name(&self, index: u32) -> Option<String> {
        self.0.interface_name(index)
    }

    /// The interface's flags (`IFF_…`).
    pub fn flags(&self, name: &str) -> Option<i16> {
        // SAFETY: the kernel has written this member.
        self.ask(name, libc::SIOCGIFFLAGS).map(|request| unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Whether the interface is switched on.
    pub fn is_up(&self, name: &str) -> bool {
        self.flags(name).is_some_and(|flags| flags & libc::IFF_UP as i16 != 0)
    }

    /// The hardware type (`ARPHRD_…`).
    pub fn hardware(&self, name: &str) -> Option<u16> {
        // SAFETY: the kernel has written this member.
        self.ask(name, libc::SIOCGIFHWADDR).map(|request| unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
    }

    /// The longest packet, bytes.
    pub fn mtu_bytes(&self, name: &str) -> Option<u32> {
        // SAFETY: the kernel has written this member.
        let mtu = self.ask(name, libc::SIOCGIFMTU).map(|request| unsafe { request.ifr_ifru.ifru_mtu })?;
        u32::try_from(mtu).ok()
    }

    /// The answer to a request of ethtool.
    fn ethtool(&self, name: &str, command: u32, bytes: usize) -> Option<Vec<u8>> {
        let mut request = Self::request(name)?;
        let mut answer = vec![0u64; bytes.div_ceil(8)];
        let [a, b, c, d] = command.to_ne_bytes();
        answer[0] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most `bytes` bytes of the answer, which is as long.
        checked(unsafe { libc::ioctl(self.0.raw(), libc::SIOCETHTOOL as _, ptr::from_mut(&mut request)) })
            .ok()?;
        Some(answer.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect())
    }

    /// The name of the driver.
    pub fn driver(&self, name: &str) -> Option<String> {
        let (command, bytes, at) = DRIVER_INFO;
        let answer = self.ethtool(name, command, bytes)?;
        let name = answer[at..at + DRIVER_BYTES].split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
    }

    /// The number of receive queues.
    pub fn queues(&self, name: &str) -> Option<u32> {
        let (command, bytes) = CHANNELS;
        let answer = self.ethtool(name, command, bytes)?;
        let number =
            |at: usize| u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
        // After the command and the four limits: receive, transmit, other and combined queues.
        let (receive, combined) = (number(20), number(32));
        Some(receive + combined).filter(|&queues| queues > 0)
    }
}
