//! The library's functions, resolved at run time.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::Error;

/// The file name; the number is the version of the binary interface.
const FILE: &str = "libhs.so.5";
/// The remedy if the library is missing: Debian's packages.
pub(crate) const INSTALL: &str = "install libhyperscan5, or a libvectorscan5 of 5.4.12 or later";
/// The version whose headers the types below follow.
const MAJOR: &str = "5.";

/// `HS_SUCCESS`
pub(crate) const SUCCESS: c_int = 0;
/// `HS_SCAN_TERMINATED`: the callback ended the search.
pub(crate) const SCAN_TERMINATED: c_int = -3;

/// `hs_database_t`
#[repr(C)]
pub(crate) struct Database([u8; 0]);

/// `hs_scratch_t`
#[repr(C)]
pub(crate) struct Scratch([u8; 0]);

/// `hs_compile_error_t`
#[repr(C)]
pub(crate) struct CompileError {
    message: *const c_char,
    expression: c_int,
}

/// `match_event_handler`
type OnMatch = unsafe extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;

/// The functions in use, named as in the headers without `hs_`.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) version_text: String,
    pub(crate) compile_lit_multi: unsafe extern "C" fn(
        *const *const c_char,
        *const c_uint,
        *const c_uint,
        *const usize,
        c_uint,
        c_uint,
        *const c_void,
        *mut *mut Database,
        *mut *mut CompileError,
    ) -> c_int,
    pub(crate) free_compile_error: unsafe extern "C" fn(*mut CompileError) -> c_int,
    pub(crate) database_size: unsafe extern "C" fn(*const Database, *mut usize) -> c_int,
    pub(crate) free_database: unsafe extern "C" fn(*mut Database) -> c_int,
    pub(crate) alloc_scratch: unsafe extern "C" fn(*const Database, *mut *mut Scratch) -> c_int,
    pub(crate) scratch_size: unsafe extern "C" fn(*const Scratch, *mut usize) -> c_int,
    pub(crate) free_scratch: unsafe extern "C" fn(*mut Scratch) -> c_int,
    pub(crate) scan: unsafe extern "C" fn(
        *const Database,
        *const c_char,
        c_uint,
        c_uint,
        *mut Scratch,
        OnMatch,
        *mut c_void,
    ) -> c_int,
    /// Keeps the library loaded while its functions are in use.
    _library: Library,
}

/// The system's library, loaded by the first call.
pub(crate) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceLock<Result<Functions, Error>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| load(FILE)).as_ref().map_err(Error::clone)
}

/// Loads the library with this name.
pub(crate) fn load(file: &str) -> Result<Functions, Error> {
    // A library needs the C library that it was linked with, and a static program has another one, or another
    // version: it would crash (seen with glibc 2.36 in Debian 13, November 2026).
    if cfg!(target_feature = "crt-static") {
        return Err(Error::Missing(format!("{file}: a static weir loads no libraries")));
    }
    let missing = |why: libloading::Error| {
        // The message of the system's loader is the source of the crate's error.
        let cause = why.source().map_or_else(|| why.to_string(), |cause| cause.to_string());
        Error::Missing(format!("{cause}; {INSTALL}"))
    };
    // SAFETY: loading runs the constructors of a C++ library, which have no preconditions. Whoever controls
    // the loader's search path controls the code of every library in the process.
    let library = unsafe { Library::new(file) }.map_err(missing)?;
    // SAFETY: the types are those of the functions with these names in the headers of version 5. The version
    // is checked before any function except `hs_version` is called, and `hs_version` has had this type in all
    // versions.
    unsafe {
        let version: unsafe extern "C" fn() -> *const c_char =
            *library.get(c"hs_version").map_err(missing)?;
        let version_text = CStr::from_ptr(version()).to_string_lossy().trim().to_owned();
        if !version_text.starts_with(MAJOR) {
            return Err(Error::Missing(format!("{file} has version {version_text}; version 5 is required")));
        }
        let valid_platform: unsafe extern "C" fn() -> c_int =
            *library.get(c"hs_valid_platform").map_err(missing)?;
        if valid_platform() != SUCCESS {
            return Err(Error::Missing(format!("{file} does not run on this processor")));
        }
        Ok(Functions {
            version_text,
            compile_lit_multi: *library.get(c"hs_compile_lit_multi").map_err(missing)?,
            free_compile_error: *library.get(c"hs_free_compile_error").map_err(missing)?,
            database_size: *library.get(c"hs_database_size").map_err(missing)?,
            free_database: *library.get(c"hs_free_database").map_err(missing)?,
            alloc_scratch: *library.get(c"hs_alloc_scratch").map_err(missing)?,
            scratch_size: *library.get(c"hs_scratch_size").map_err(missing)?,
            free_scratch: *library.get(c"hs_free_scratch").map_err(missing)?,
            scan: *library.get(c"hs_scan").map_err(missing)?,
            _library: library,
        })
    }
}

impl Functions {
    /// The compiler's error message; frees the error.
    pub(crate) fn refused(&self, status: c_int, error: *mut CompileError) -> Error {
        if error.is_null() {
            return Error::Failed(status);
        }
        // SAFETY: `hs_compile_lit_multi` allocated it, and its message is a NUL-terminated string until it is
        // freed, once.
        unsafe {
            let CompileError { message, expression } = *error;
            let message = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free_compile_error)(error);
            match expression {
                0.. => Error::Refused(format!("{message} (number {})", expression + 1)),
                _ => Error::Refused(message),
            }
        }
    }
}
