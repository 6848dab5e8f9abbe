//! The library's functions, resolved at run time.
//!
//! Structures of the library differ between its versions. Flows and detectors are therefore only pointers
//! here: the library reports the size of a flow, and its functions read the fields.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulong, c_ushort, c_void};
use std::fmt;
use std::sync::OnceLock;

use crate::{Library, LoadError};

/// The file name; the number is the version of the binary interface.
const FILE: &str = "libndpi.so.4.2";
/// The remedy if the library is missing: Debian's package.
const INSTALL: &str = "install libndpi4.2";
/// The versions whose headers the types below follow.
const VERSION: &str = "4.2.";
/// `NDPI_API_VERSION` of these headers. The number grows with each change of the interface.
const API_VERSION: c_ushort = 8668;

/// The reason why nDPI can't be used: the library is not installed, or has another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub(super) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nDPI can't be used: {}", self.0)
    }
}

impl std::error::Error for Missing {}

impl From<LoadError> for Missing {
    fn from(why: LoadError) -> Self {
        Self(why.explained(|cause| format!("{cause}; {INSTALL}")))
    }
}

/// `struct ndpi_detection_module_struct`
#[repr(C)]
pub(super) struct Module([u8; 0]);

/// `struct ndpi_flow_struct`
#[repr(C)]
pub(super) struct RawFlow([u8; 0]);

/// `ndpi_protocol`. The library passes the structure by value.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Protocol {
    pub(super) master: u16,
    pub(super) app: u16,
    pub(super) category: c_uint,
}

/// `NDPI_PROTOCOL_BITMASK`: a bit for each protocol.
#[repr(C)]
pub(super) struct Protocols(pub(super) [u32; 16]);

// The sizes of version 4.2 (x86-64, `sizeof` in a C program, 2026-11-26).
const _: () = assert!(size_of::<Protocol>() == 8 && size_of::<Protocols>() == 64);

/// The functions in use, named as in the headers without `ndpi_`.
#[derive(Debug)]
pub(super) struct Functions {
    pub(super) version_text: String,
    pub(super) init_detection_module: unsafe extern "C" fn(u32) -> *mut Module,
    pub(super) set_protocol_detection_bitmask2: unsafe extern "C" fn(*mut Module, *const Protocols),
    pub(super) finalize_initialization: unsafe extern "C" fn(*mut Module),
    pub(super) exit_detection_module: unsafe extern "C" fn(*mut Module),
    pub(super) sizeof_flow: unsafe extern "C" fn() -> u32,
    pub(super) calloc: unsafe extern "C" fn(c_ulong, usize) -> *mut c_void,
    pub(super) free_flow: unsafe extern "C" fn(*mut RawFlow),
    pub(super) process_packet:
        unsafe extern "C" fn(*mut Module, *mut RawFlow, *const c_uchar, c_ushort, u64) -> Protocol,
    pub(super) extra_dissection_possible: unsafe extern "C" fn(*mut Module, *mut RawFlow) -> u8,
    pub(super) giveup: unsafe extern "C" fn(*mut Module, *mut RawFlow, u8, *mut u8) -> Protocol,
    pub(super) http_url: unsafe extern "C" fn(*mut Module, *mut RawFlow) -> *const c_char,
    pub(super) validate_url: unsafe extern "C" fn(*mut c_char) -> c_uint,
    pub(super) isset_risk: unsafe extern "C" fn(*mut Module, *mut RawFlow, c_uint) -> u8,
    pub(super) protocol2name: unsafe extern "C" fn(*mut Module, Protocol, *mut c_char, c_uint) -> *mut c_char,
    pub(super) category_name: unsafe extern "C" fn(*mut Module, c_uint) -> *const c_char,
    pub(super) risk2str: unsafe extern "C" fn(c_uint) -> *const c_char,
    /// Keeps the library loaded while its functions are in use.
    _library: Library,
}

/// The system's library, loaded by the first call.
pub(super) fn functions() -> Result<&'static Functions, Missing> {
    static FUNCTIONS: OnceLock<Result<Functions, Missing>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| load(FILE)).as_ref().map_err(Missing::clone)
}

/// Loads the library with this name.
pub(super) fn load(file: &str) -> Result<Functions, Missing> {
    // SAFETY: loading runs the constructors of a C library, which have no preconditions.
    let library = unsafe { Library::load(file) }?;
    // SAFETY: the types are those of the functions with these names in the headers of version 4.2. The
    // version is checked before any other function is called; the two functions that report the version have
    // had these types in all versions.
    unsafe {
        let version_text = library.text(c"ndpi_revision")?;
        let api_version: unsafe extern "C" fn() -> c_ushort = library.function(c"ndpi_get_api_version")?;
        check_version(file, &version_text, api_version())?;
        Ok(Functions {
            version_text,
            init_detection_module: library.function(c"ndpi_init_detection_module")?,
            set_protocol_detection_bitmask2: library.function(c"ndpi_set_protocol_detection_bitmask2")?,
            finalize_initialization: library.function(c"ndpi_finalize_initialization")?,
            exit_detection_module: library.function(c"ndpi_exit_detection_module")?,
            sizeof_flow: library.function(c"ndpi_detection_get_sizeof_ndpi_flow_struct")?,
            calloc: library.function(c"ndpi_calloc")?,
            free_flow: library.function(c"ndpi_free_flow")?,
            process_packet: library.function(c"ndpi_detection_process_packet")?,
            extra_dissection_possible: library.function(c"ndpi_extra_dissection_possible")?,
            giveup: library.function(c"ndpi_detection_giveup")?,
            http_url: library.function(c"ndpi_get_http_url")?,
            validate_url: library.function(c"ndpi_validate_url")?,
            isset_risk: library.function(c"ndpi_isset_risk")?,
            protocol2name: library.function(c"ndpi_protocol2name")?,
            category_name: library.function(c"ndpi_category_get_name")?,
            risk2str: library.function(c"ndpi_risk2str")?,
            _library: library,
        })
    }
}

/// Rejects versions other than that of the headers.
pub(super) fn check_version(file: &str, version: &str, api_version: c_ushort) -> Result<(), Missing> {
    match version.starts_with(VERSION) && api_version == API_VERSION {
        true => Ok(()),
        false => Err(Missing(format!(
            "{file} has version {version} (interface {api_version}); version {VERSION}x (interface {API_VERSION}) is \
             required: {INSTALL}"
        ))),
    }
}

/// `NDPI_MAX_RISK` of version 4.2: risks have the numbers from 1 to below this.
pub(super) const RISKS_END: c_int = 42;
