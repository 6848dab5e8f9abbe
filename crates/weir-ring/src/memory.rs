//! Memory that processes share, as words of 64 bits. All access is atomic: a writer may overwrite what a
//! reader copies, and the reader finds out afterwards.
#![allow(unsafe_code)]

use crate::layout::WORD;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Of 2 MiB.
    Huge,
    /// Of the size that the system has otherwise.
    Small,
}

/// Mapped memory behind a file descriptor.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<AtomicU64>,
    words: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is this value's alone: it is made with it, and unmapped when it is dropped, which any
// thread may do.
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` gives access to its words as `AtomicU64` only, and to its descriptor. Other
// processes that map the same memory change it under atomics, too: an `AtomicU64` may change at any time.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory of zeros, all of which the system has: later writes do not fail. `bytes` is a multiple of
    /// [`HUGE_PAGE_BYTES`]. If the system has not enough huge pages, the pages are small.
    ///
    /// # Errors
    /// The system has not enough memory.
    pub fn create(bytes: usize, name: &str) -> io::Result<(Self, Pages)> {
        let sealable = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let huge = memfd_create(name, sealable | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
        let huge = huge.and_then(|fd| Self::of_new(fd, bytes));
        if let Ok(memory) = huge {
            return Ok((memory, Pages::Huge));
        }
        let small = memfd_create(name, sealable).and_then(|fd| Self::of_new(fd, bytes))?;
        Ok((small, Pages::Small))
    }

    fn of_new(fd: OwnedFd, bytes: usize) -> Result<Self, Errno> {
        ftruncate(&fd, bytes as u64)?;
        // The system has the pages, or says that it has not.
        fallocate(&fd, FallocateFlags::empty(), 0, bytes as u64)?;
        let memory = Self::map(fd, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::POPULATE)?;
        // Readers can neither change the ring nor take its pages away. Kernels before 5.1 do not know the
        // first seal.
        let _ = fcntl_add_seals(&memory.fd, SealFlags::FUTURE_WRITE);
        fcntl_add_seals(&memory.fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(memory)
    }

    /// The memory of another process, to read.
    ///
    /// # Errors
    /// `InvalidData` if the owner could take the memory away.
    pub fn attach(fd: OwnedFd) -> io::Result<Self> {
        let has_seals = rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let bytes = usize::try_from(fstat(&fd)?.st_size).unwrap_or(0);
        if !has_seals || bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no memory of a recorder"));
        }
        Ok(Self::map(fd, bytes, ProtFlags::READ, MapFlags::empty())?)
    }

    fn map(fd: OwnedFd, bytes: usize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        // SAFETY: the system selects the address, so nothing else is mapped there.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED | flags, &fd, 0) }?;
        let start = NonNull::new(start.cast::<AtomicU64>()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, words: bytes / WORD, fd })
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// All words. Those of another process must not be written.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words and exists as long as `self`; pages begin at multiples of
        // words; the seals keep the file from being cut; other processes read only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Writes words to a file, at a byte of the file. A writer may overwrite the words meanwhile: what is in
    /// the file may then be torn.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_to(&self, first: usize, count: usize, file: &File, at: u64) -> io::Result<()> {
        let words = &self.words()[first..first + count];
        let mut written = 0;
        while written < count * WORD {
            // SAFETY: the system reads bytes of the mapping, which exists as long as `self`. It does not
            // matter which values it reads.
            let result = unsafe {
                let start = words.as_ptr().cast::<u8>().add(written);
                libc::pwrite(
                    file.as_raw_fd(),
                    start.cast(),
                    count * WORD - written,
                    (at + written as u64) as i64,
                )
            };
            match usize::try_from(result) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_reader_sees_what_the_owner_writes() {
        let (own, _) = Memory::create(HUGE_PAGE_BYTES, "weir-ring-test").expect("2 MiB of memory");
        own.words()[5].store(7, Relaxed);
        let other = Memory::attach(own.fd().try_clone_to_owned().expect("a descriptor")).expect("the memory");
        assert_eq!(other.words().len(), HUGE_PAGE_BYTES / WORD);
        assert_eq!(other.words()[5].load(Relaxed), 7);
        own.words()[5].store(8, Relaxed);
        assert_eq!(other.words()[5].load(Relaxed), 8);
    }

    #[test]
    fn a_file_that_can_be_cut_is_no_memory() {
        let fd = memfd_create("weir-ring-test", MemfdFlags::CLOEXEC).expect("a descriptor");
        ftruncate(&fd, 4096).expect("a file");
        assert!(Memory::attach(fd).is_err());
    }
}
