//! Bindings to the system's vectorscan (or hyperscan), if it is installed. The library finds the positions at
//! which literals end in a block of bytes.
//!
//! `libhs.so.5` is loaded on first use, once per process, and never unloaded; nothing is linked against it.
//! Of its interface (`hs_common.h`, `hs_compile.h`, `hs_runtime.h`) only the functions that [`Database`] and
//! [`Scanner`] need are declared, in block mode.
//!
//! Only literals are used, although the library supports expressions, and only after a self-test at load
//! time: vectorscan 5.4.9, the version of Debian 12, misses matches on processors with AVX-512, for
//! expressions as simple as `a[^a]` and for sets of 2 to 60 literals (2026-11-23; the release notes of later
//! versions mention fixes of such bugs). Hyperscan 5.4.0, also in Debian 12, does not.

mod error;
mod library;
mod proof;

pub use error::Error;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use library::{Functions, SCAN_TERMINATED, SUCCESS};

/// Maximum number of literals of a database: compilation cannot be interrupted, so its input is bounded.
pub const LITERALS_MAX: usize = 8_192;
/// Maximum length of a literal, in bytes.
pub const LITERAL_BYTES_MAX: usize = 32;
/// Minimum length of a scan, in bytes: the library uses other code for shorter input, which the self-test
/// does not cover.
pub const SCAN_BYTES_MIN: usize = 128;
/// Maximum memory of a database, in bytes.
pub const DATABASE_BYTES_MAX: usize = 32 << 20;
/// Maximum memory of a scanner, in bytes.
pub const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// `HS_MODE_BLOCK`
const MODE_BLOCK: c_uint = 1;
/// `HS_FLAG_CASELESS`
const FLAG_CASELESS: c_uint = 1;

/// The bytes to search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    /// 1 to [`LITERAL_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// ASCII letters match in either case.
    pub ignore_case: bool,
}

/// The library's version string: `5.4.9 2023-03-23`.
///
/// # Errors
///
/// [`Error::Missing`].
pub fn version() -> Result<&'static str, Error> {
    Ok(&proof::functions()?.version_text)
}

/// Literals, compiled together. Clones share the database.
#[derive(Debug, Clone)]
pub struct Database(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    hs: &'static Functions,
    database: NonNull<library::Database>,
}

// SAFETY: a compiled database is never written to; many threads may read it ("Scratch space" in the library's
// manual).
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
    /// Compiles literals. 8 192 literals take half a second.
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
                "{} literals; the maximum is {LITERALS_MAX}",
                literals.len()
            )));
        }
        if literals.iter().any(|literal| literal.bytes.is_empty() || literal.bytes.len() > LITERAL_BYTES_MAX)
        {
            return Err(Error::Refused(format!("one is empty, or longer than {LITERAL_BYTES_MAX} bytes")));
        }
        // NUL-terminated, which the header requires in addition to the length.
        let texts: Vec<Vec<u8>> = literals.iter().map(|literal| [&*literal.bytes, &[0]].concat()).collect();
        let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr().cast()).collect();
        let lengths: Vec<usize> = literals.iter().map(|literal| literal.bytes.len()).collect();
        let flags = literals.iter().map(|literal| if literal.ignore_case { FLAG_CASELESS } else { 0 });
        let flags: Vec<c_uint> = flags.collect();
        let (mut database, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the arrays have the given number of elements, and the literals the given number of bytes;
        // all outlive the call. Identifiers and platform may be null (`hs_compile.h`); the results are
        // written to our own variables.
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
        // SAFETY: the database is valid; the size is written to our own variable.
        let status = unsafe { (hs.database_size)(compiled.database.as_ptr(), &mut bytes) };
        match status {
            SUCCESS if bytes <= DATABASE_BYTES_MAX => Ok(Self(Arc::new(compiled))),
            SUCCESS => Err(Error::Refused(format!("the compiled database needs {bytes} bytes"))),
            failed => Err(Error::Failed(failed)),
        }
    }

    /// Allocates the working memory of one thread for scans.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if out of memory, [`Error::Refused`] if more than [`SCRATCH_BYTES_MAX`] bytes are
    /// needed.
    pub fn scanner(&self) -> Result<Scanner, Error> {
        let hs = self.0.hs;
        let mut scratch = ptr::null_mut();
        // SAFETY: the database is valid; a null pointer requests a new scratch space.
        let status = unsafe { (hs.alloc_scratch)(self.0.database.as_ptr(), &mut scratch) };
        let Some(scratch) = NonNull::new(scratch).filter(|_| status == SUCCESS) else {
            return Err(Error::Failed(status));
        };
        let scanner = Scanner { database: self.clone(), scratch };
        let mut bytes = 0;
        // SAFETY: the scratch space is valid; the size is written to our own variable.
        let status = unsafe { (hs.scratch_size)(scratch.as_ptr(), &mut bytes) };
        match status {
            SUCCESS if bytes <= SCRATCH_BYTES_MAX => Ok(scanner),
            SUCCESS => Err(Error::Refused(format!("a scan needs {bytes} bytes"))),
            failed => Err(Error::Failed(failed)),
        }
    }
}

/// A database with the working memory of a scan, for one thread at a time.
#[derive(Debug)]
pub struct Scanner {
    database: Database,
    scratch: NonNull<library::Scratch>,
}

// SAFETY: a scratch space is not bound to a thread. Two threads may not use it at the same time, and `ends`
// takes `&mut self`.
unsafe impl Send for Scanner {}

impl Drop for Scanner {
    fn drop(&mut self) {
        // SAFETY: it came from `hs_alloc_scratch`, and no scan is in progress.
        unsafe { (self.database.0.hs.free_scratch)(self.scratch.as_ptr()) };
    }
}

/// The ends found so far, and their maximum number.
struct Ends<'a> {
    found: &'a mut Vec<u32>,
    most: usize,
    is_all: bool,
}

impl Scanner {
    /// The ends of all literals in the bytes, ascending, without duplicates. Returns false if there are more
    /// than `most`: `found` then holds an arbitrary subset, because the library does not guarantee an order.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`]; [`Error::Refused`] for fewer than [`SCAN_BYTES_MIN`] bytes, or for 4 GiB and more.
    pub fn ends(&mut self, bytes: &[u8], most: usize, found: &mut Vec<u32>) -> Result<bool, Error> {
        let length = c_uint::try_from(bytes.len()).ok().filter(|_| bytes.len() >= SCAN_BYTES_MIN);
        let refused = || Error::Refused(format!("{} bytes are too few, or too many", bytes.len()));
        let length = length.ok_or_else(refused)?;
        found.clear();
        found.reserve(most);
        let mut ends = Ends { found, most, is_all: true };
        // SAFETY: database and scratch space are valid and belong together, and `&mut self` excludes other
        // uses of the scratch space; the bytes have the given length; `note` treats its context as the `Ends`
        // that it is.
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

/// Called by the library for each match. A result other than 0 ends the scan.
unsafe extern "C" fn note(
    _: c_uint,
    _: c_ulonglong,
    to: c_ulonglong,
    _: c_uint,
    context: *mut c_void,
) -> c_int {
    // SAFETY: this is the pointer that `ends` passed to `hs_scan`, which calls back on its own thread and
    // before it returns.
    let ends = unsafe { &mut *context.cast::<Ends<'_>>() };
    let end = to as u32;
    // Several literals often end at one offset.
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
