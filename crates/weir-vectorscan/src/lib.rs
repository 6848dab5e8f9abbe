//! The system's vectorscan (or hyperscan), where it is installed: where any of many literals ends in a block of bytes.
//!
//! `libhs.so.5` is loaded when it is first asked for, once per process, and never unloaded; nothing is linked
//! against it. Of its interface (`hs_common.h`, `hs_compile.h`, `hs_runtime.h`) only what [`Database`] and [`Scanner`] need is
//! here, in its block mode.
//!
//! Literals alone, though it knows expressions, and only of a library that proves itself when it is loaded: vectorscan
//! 5.4.9, which Debian 12 has, misses matches on processors with AVX-512, of expressions as simple as `a[^a]` and of sets
//! of 2 to 60 literals (2026-11-23; later versions tell of such faults corrected). Hyperscan 5.4.0, also there, does not.

mod library;
mod proof;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use library::{Functions, SCAN_TERMINATED, SUCCESS};

/// The most literals of a database: compiling can't be interrupted, so what goes in is bounded.
pub const LITERALS_MAX: usize = 8_192;
/// The most bytes of a literal.
pub const LITERAL_BYTES_MAX: usize = 32;
/// The fewest bytes that a scan is good for: those of fewer go other ways in the library, which are not proven.
pub const SCAN_BYTES_MIN: usize = 128;
/// The most memory of a database.
pub const DATABASE_BYTES_MAX: usize = 32 << 20;
/// The most memory of a scanner.
pub const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// `HS_MODE_BLOCK`
const MODE_BLOCK: c_uint = 1;
/// `HS_FLAG_CASELESS`
const FLAG_CASELESS: c_uint = 1;

/// Bytes that are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    /// One at least, [`LITERAL_BYTES_MAX`] at most.
    pub bytes: Vec<u8>,
    /// Letters of ASCII match in either case.
    pub ignore_case: bool,
}

/// Why vectorscan is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// It is not installed, is no version 5, or does not run on this processor, or not without faults.
    Missing(String),
    /// It refuses the literals, or what it is given is beyond the bounds.
    Refused(String),
    /// It could not get memory, or failed in a way that its interface does not provide for.
    Failed(c_int),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "vectorscan can't be used: {why}"),
            Self::Refused(why) => write!(f, "vectorscan does not take this: {why}"),
            Self::Failed(code) => write!(f, "vectorscan failed with {code}"),
        }
    }
}

impl std::error::Error for Error {}

/// What the library says of its version: `5.4.9 2023-03-23`.
///
/// # Errors
///
/// [`Error::Missing`].
pub fn version() -> Result<&'static str, Error> {
    Ok(&proof::functions()?.version_text)
}

/// Literals, compiled together. Clones share it.
#[derive(Debug, Clone)]
pub struct Database(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    hs: &'static Functions,
    database: NonNull<library::Database>,
}

// SAFETY: a compiled database is never written to; many threads may read it ("Scratch space" in the library's manual).
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: it came from `hs_compile_lit_multi`, and all scanners, which hold the `Arc`, are gone.
        unsafe { (self.hs.free_database)(self.database.as_ptr()) };
    }
}

impl Database {
    /// Compiles literals. 8 192 take half a second.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub fn compile(literals: &[Literal]) -> Result<Self, Error> {
        Self::compile_with(proof::functions()?, literals)
    }

    fn compile_with(hs: &'static Functions, literals: &[Literal]) -> Result<Self, Error> {
        if literals.is_empty() || literals.len() > LITERALS_MAX {
            return Err(Error::Refused(format!(
                "{} of them, and {LITERALS_MAX} is the most",
                literals.len()
            )));
        }
        if literals.iter().any(|literal| literal.bytes.is_empty() || literal.bytes.len() > LITERAL_BYTES_MAX)
        {
            return Err(Error::Refused(format!("one is empty, or longer than {LITERAL_BYTES_MAX} bytes")));
        }
        // With a NUL behind, which the header asks for beside the length.
        let texts: Vec<Vec<u8>> = literals.iter().map(|literal| [&*literal.bytes, &[0]].concat()).collect();
        let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr().cast()).collect();
        let lengths: Vec<usize> = literals.iter().map(|literal| literal.bytes.len()).collect();
        let flags = literals.iter().map(|literal| if literal.ignore_case { FLAG_CASELESS } else { 0 });
        let flags: Vec<c_uint> = flags.collect();
        let (mut database, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the arrays have as many elements as is said, and the literals as many bytes; all outlive the call. No
        // identifiers and no platform are allowed to be null (`hs_compile.h`); the results are written to what is ours.
        let status = unsafe {
            (hs.compile_lit_multi)(
                texts.as_ptr(),
                flags.as_ptr(),
                ptr::null(),
                lengths.as_ptr(),
                texts.len() as c_uint,
                MODE_BLOCK,
                ptr::null(),
                &mut database,
                &mut error,
            )
        };
        let Some(database) = NonNull::new(database).filter(|_| status == SUCCESS) else {
            return Err(hs.refused(status, error));
        };
        let compiled = Compiled { hs, database };
        let mut bytes = 0;
        // SAFETY: the database is a valid one; the size is written to what is ours.
        let status = unsafe { (hs.database_size)(compiled.database.as_ptr(), &mut bytes) };
        match status {
            SUCCESS if bytes <= DATABASE_BYTES_MAX => Ok(Self(Arc::new(compiled))),
            SUCCESS => Err(Error::Refused(format!("they take {bytes} bytes, compiled"))),
            failed => Err(Error::Failed(failed)),
        }
    }

    /// What one thread needs to scan.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] without memory, [`Error::Refused`] where more than [`SCRATCH_BYTES_MAX`] are needed.
    pub fn scanner(&self) -> Result<Scanner, Error> {
        let hs = self.0.hs;
        let mut scratch = ptr::null_mut();
        // SAFETY: the database is a valid one; a null pointer asks for a new scratch space.
        let status = unsafe { (hs.alloc_scratch)(self.0.database.as_ptr(), &mut scratch) };
        let Some(scratch) = NonNull::new(scratch).filter(|_| status == SUCCESS) else {
            return Err(Error::Failed(status));
        };
        let scanner = Scanner { database: self.clone(), scratch };
        let mut bytes = 0;
        // SAFETY: the scratch space is a valid one; the size is written to what is ours.
        let status = unsafe { (hs.scratch_size)(scratch.as_ptr(), &mut bytes) };
        match status {
            SUCCESS if bytes <= SCRATCH_BYTES_MAX => Ok(scanner),
            SUCCESS => Err(Error::Refused(format!("they take {bytes} bytes to scan with"))),
            failed => Err(Error::Failed(failed)),
        }
    }
}

/// A database, and the room that a scan needs: one thread's at a time.
#[derive(Debug)]
pub struct Scanner {
    database: Database,
    scratch: NonNull<library::Scratch>,
}

// SAFETY: a scratch space belongs to no thread; it may not be used by two at once, and `ends` takes `&mut self`.
unsafe impl Send for Scanner {}

impl Drop for Scanner {
    fn drop(&mut self) {
        // SAFETY: it came from `hs_alloc_scratch`, and no scan is under way.
        unsafe { (self.database.0.hs.free_scratch)(self.scratch.as_ptr()) };
    }
}

/// Ends found so far, and how many are taken.
struct Ends<'a> {
    found: &'a mut Vec<u32>,
    most: usize,
    is_all: bool,
}

impl Scanner {
    /// Where any of the literals ends in the bytes, ascending, each place once. False where there are more
    /// than `most`: then `found` has any of them, as no order is promised in which they are found.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`]; [`Error::Refused`] where there are fewer than [`SCAN_BYTES_MIN`], or 4 GiB and more.
    pub fn ends(&mut self, bytes: &[u8], most: usize, found: &mut Vec<u32>) -> Result<bool, Error> {
        let length = c_uint::try_from(bytes.len()).ok().filter(|_| bytes.len() >= SCAN_BYTES_MIN);
        let refused = || Error::Refused(format!("{} bytes are too few, or too many", bytes.len()));
        let length = length.ok_or_else(refused)?;
        found.clear();
        found.reserve(most);
        let mut ends = Ends { found, most, is_all: true };
        // SAFETY: database and scratch space are valid and belong together, and `&mut self` keeps others from using the
        // scratch space; the bytes are as many as is said; `note` takes its context for the `Ends` that it is.
        let status = unsafe {
            (self.database.0.hs.scan)(
                self.database.0.database.as_ptr(),
                bytes.as_ptr().cast(),
                length,
                0,
                self.scratch.as_ptr(),
                note,
                ptr::from_mut(&mut ends).cast(),
            )
        };
        let is_all = ends.is_all;
        match status {
            SUCCESS | SCAN_TERMINATED => {
                found.sort_unstable();
                found.dedup();
                Ok(is_all)
            }
            failed => Err(Error::Failed(failed)),
        }
    }
}

/// Called by the library for each match. Other than 0 ends the scan.
unsafe extern "C" fn note(
    _: c_uint,
    _: c_ulonglong,
    to: c_ulonglong,
    _: c_uint,
    context: *mut c_void,
) -> c_int {
    // SAFETY: it is what `ends` handed to `hs_scan`, which calls back on its own thread and before it returns.
    let ends = unsafe { &mut *context.cast::<Ends<'_>>() };
    let end = to as u32;
    // Several often end at one place.
    if ends.found.last() == Some(&end) {
        return 0;
    }
    ends.is_all = ends.found.len() < ends.most;
    if ends.is_all {
        ends.found.push(end);
    }
    c_int::from(!ends.is_all)
}

#[cfg(test)]
mod tests;
