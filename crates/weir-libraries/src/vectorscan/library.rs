//! The library's functions, resolved at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use super::error::Error;
use crate::Library;

/// The file name; the number is the version of the binary interface.
const FILE: &str = "libhs.so.5";
/// The version whose headers the types below follow.
const MAJOR: &str = "5.";

/// `HS_SUCCESS`
pub(super) const SUCCESS: c_int = 0;
/// `HS_SCAN_TERMINATED`: the callback ended the search.
pub(super) const SCAN_TERMINATED: c_int = -3;

/// `hs_database_t`
#[repr(C)]
pub(super) struct Database([u8; 0]);

/// `hs_scratch_t`
#[repr(C)]
pub(super) struct Scratch([u8; 0]);

/// `hs_compile_error_t`
#[repr(C)]
pub(super) struct CompileError {
    message: *const c_char,
    expression: c_int,
}

/// `match_event_handler`
type OnMatch = unsafe extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;

/// The functions in use, named as in the headers without `hs_`.
#[derive(Debug)]
pub(super) struct Functions {
    pub(super) version_text: String,
    pub(super) compile_lit_multi: unsafe extern "C" fn(
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
    pub(super) free_compile_error: unsafe extern "C" fn(*mut CompileError) -> c_int,
    pub(super) database_size: unsafe extern "C" fn(*const Database, *mut usize) -> c_int,
    pub(super) free_database: unsafe extern "C" fn(*mut Database) -> c_int,
    pub(super) alloc_scratch: unsafe extern "C" fn(*const Database, *mut *mut Scratch) -> c_int,
    pub(super) scratch_size: unsafe extern "C" fn(*const Scratch, *mut usize) -> c_int,
    pub(super) free_scratch: unsafe extern "C" fn(*mut Scratch) -> c_int,
    pub(super) scan: unsafe extern "C" fn(
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
pub(super) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceLock<Result<Functions, Error>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| load(FILE)).as_ref().map_err(Error::clone)
}

/// Loads the library with this name.
pub(super) fn load(file: &str) -> Result<Functions, Error> {
    // SAFETY: loading runs the constructors of a C++ library, which have no preconditions.
    let library = unsafe { Library::load(file) }?;
    // SAFETY: the types are those of the functions with these names in the headers of version 5. The version
    // is checked before any function except `hs_version` is called, and `hs_version` has had this type in all
    // versions.
    unsafe {
        let version_text = library.text(c"hs_version")?;
        if !version_text.starts_with(MAJOR) {
            return Err(Error::Missing(format!("{file} has version {version_text}; version 5 is required")));
        }
        let valid_platform: unsafe extern "C" fn() -> c_int = library.function(c"hs_valid_platform")?;
        if valid_platform() != SUCCESS {
            return Err(Error::Missing(format!("{file} does not run on this processor")));
        }
        Ok(Functions {
            version_text,
            compile_lit_multi: library.function(c"hs_compile_lit_multi")?,
            free_compile_error: library.function(c"hs_free_compile_error")?,
            database_size: library.function(c"hs_database_size")?,
            free_database: library.function(c"hs_free_database")?,
            alloc_scratch: library.function(c"hs_alloc_scratch")?,
            scratch_size: library.function(c"hs_scratch_size")?,
            free_scratch: library.function(c"hs_free_scratch")?,
            scan: library.function(c"hs_scan")?,
            _library: library,
        })
    }
}

impl Functions {
    /// The compiler's error message; frees the error.
    pub(super) fn refused(&self, status: c_int, error: *mut CompileError) -> Error {
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
