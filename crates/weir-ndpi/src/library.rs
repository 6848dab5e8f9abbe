//! The library's functions, resolved at run time.
//!
//! Structures of the library differ between its versions. Flows and detectors are therefore only pointers
//! here: the library reports the size of a flow, and its functions read the fields.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulong, c_ushort, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::Missing;

/// The file name; the number is the version of the binary interface.
const FILE: &str = "libndpi.so.4.2";
/// The remedy if the library is missing: Debian's package.
const INSTALL: &str = "install libndpi4.2";
/// The versions whose headers the types below follow.
const VERSION: &str = "4.2.";
/// `NDPI_API_VERSION` of these headers. The number grows with each change of the interface.
const API_VERSION: c_ushort = 8668;

/// `struct ndpi_detection_module_struct`
#[repr(C)]
pub(crate) struct Module([u8; 0]);

/// `struct ndpi_flow_struct`
#[repr(C)]
pub(crate) struct RawFlow([u8; 0]);

/// `ndpi_protocol`. The library passes the structure by value.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Protocol {
    pub(crate) master: u16,
    pub(crate) app: u16,
    pub(crate) category: c_uint,
}

/// `NDPI_PROTOCOL_BITMASK`: a bit for each protocol.
#[repr(C)]
pub(crate) struct Protocols(pub(crate) [u32; 16]);

// The sizes of version 4.2 (x86-64, `sizeof` in a C program, 2026-11-26).
const _: () = assert!(size_of::<Protocol>() == 8 && size_of::<Protocols>() == 64);

/// The functions in use, named as in the headers without `ndpi_`.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) version_text: String,
    pub(crate) init_detection_module: unsafe extern "C" fn(u32) -> *mut Module,
    pub(crate) set_protocol_detection_bitmask2: unsafe extern "C" fn(*mut Module, *const Protocols),
    pub(crate) finalize_initialization: unsafe extern "C" fn(*mut Module),
    pub(crate) exit_detection_module: unsafe extern "C" fn(*mut Module),
    pub(crate) sizeof_flow: unsafe extern "C" fn() -> u32,
    pub(crate) calloc: unsafe extern "C" fn(c_ulong, usize) -> *mut c_void,
    pub(crate) free_flow: unsafe extern "C" fn(*mut RawFlow),
    pub(crate) process_packet:
        unsafe extern "C" fn(*mut Module, *mut RawFlow, *const c_uchar, c_ushort, u64) -> Protocol,
    pub(crate) extra_dissection_possible: unsafe extern "C" fn(*mut Module, *mut RawFlow) -> u8,
    pub(crate) giveup: unsafe extern "C" fn(*mut Module, *mut RawFlow, u8, *mut u8) -> Protocol,
    pub(crate) http_url: unsafe extern "C" fn(*mut Module, *mut RawFlow) -> *const c_char,
    pub(crate) validate_url: unsafe extern "C" fn(*mut c_char) -> c_uint,
    pub(crate) isset_risk: unsafe extern "C" fn(*mut Module, *mut RawFlow, c_uint) -> u8,
    pub(crate) protocol2name: unsafe extern "C" fn(*mut Module, Protocol, *mut c_char, c_uint) -> *mut c_char,
    pub(crate) category_name: unsafe extern "C" fn(*mut Module, c_uint) -> *const c_char,
    pub(crate) risk2str: unsafe extern "C" fn(c_uint) -> *const c_char,
    /// Keeps the library loaded while its functions are in use.
    _library: Library,
}

/// The system's library, loaded by the first call.
pub(crate) fn functions() -> Result<&'static Functions, Missing> {
    static FUNCTIONS: OnceLock<Result<Functions, Missing>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| load(FILE)).as_ref().map_err(Missing::clone)
}

/// Loads the library with this name.
pub(crate) fn load(file: &str) -> Result<Functions, Missing> {
    // A library needs the C library that it was linked with, and a static program has another one, or another
    // version: it would crash (seen with glibc 2.36 in Debian 13, November 2026).
    if cfg!(target_feature = "crt-static") {
        return Err(Missing(format!("{file}: a static weir loads no libraries")));
    }
    let missing = |why: libloading::Error| {
        // The message of the system's loader is the source of the crate's error.
        let cause = why.source().map_or_else(|| why.to_string(), |cause| cause.to_string());
        Missing(format!("{cause}; {INSTALL}"))
    };
    // SAFETY: loading runs the constructors of a C library, which have no preconditions. Whoever controls the
    // loader's search path controls the code of every library in the process.
    let library = unsafe { Library::new(file) }.map_err(missing)?;
    // SAFETY: the types are those of the functions with these names in the headers of version 4.2. The
    // version is checked before any other function is called; the two functions that report the version have
    // had these types in all versions.
    unsafe {
        let revision: unsafe extern "C" fn() -> *const c_char =
            *library.get(c"ndpi_revision").map_err(missing)?;
        let api_version: unsafe extern "C" fn() -> c_ushort =
            *library.get(c"ndpi_get_api_version").map_err(missing)?;
        let version_text = CStr::from_ptr(revision()).to_string_lossy().trim().to_owned();
        check_version(file, &version_text, api_version())?;
        Ok(Functions {
            version_text,
            init_detection_module: *library.get(c"ndpi_init_detection_module").map_err(missing)?,
            set_protocol_detection_bitmask2: *library
                .get(c"ndpi_set_protocol_detection_bitmask2")
                .map_err(missing)?,
            finalize_initialization: *library.get(c"ndpi_finalize_initialization").map_err(missing)?,
            exit_detection_module: *library.get(c"ndpi_exit_detection_module").map_err(missing)?,
            sizeof_flow: *library.get(c"ndpi_detection_get_sizeof_ndpi_flow_struct").map_err(missing)?,
            calloc: *library.get(c"ndpi_calloc").map_err(missing)?,
            free_flow: *library.get(c"ndpi_free_flow").map_err(missing)?,
            process_packet: *library.get(c"ndpi_detection_process_packet").map_err(missing)?,
            extra_dissection_possible: *library.get(c"ndpi_extra_dissection_possible").map_err(missing)?,
            giveup: *library.get(c"ndpi_detection_giveup").map_err(missing)?,
            http_url: *library.get(c"ndpi_get_http_url").map_err(missing)?,
            validate_url: *library.get(c"ndpi_validate_url").map_err(missing)?,
            isset_risk: *library.get(c"ndpi_isset_risk").map_err(missing)?,
            protocol2name: *library.get(c"ndpi_protocol2name").map_err(missing)?,
            category_name: *library.get(c"ndpi_category_get_name").map_err(missing)?,
            risk2str: *library.get(c"ndpi_risk2str").map_err(missing)?,
            _library: library,
        })
    }
}

/// Rejects versions other than that of the headers.
pub(crate) fn check_version(file: &str, version: &str, api_version: c_ushort) -> Result<(), Missing> {
    match version.starts_with(VERSION) && api_version == API_VERSION {
        true => Ok(()),
        false => Err(Missing(format!(
            "{file} has version {version} (interface {api_version}); version {VERSION}x (interface {API_VERSION}) is \
             required: {INSTALL}"
        ))),
    }
}

/// `NDPI_MAX_RISK` of version 4.2: risks have the numbers from 1 to below this.
pub(crate) const RISKS_END: c_int = 42;
