//! The plug-in's functions, resolved at run time. `plugin/weir_dpdk.h` has the same declarations for C.
#![allow(unsafe_code)]

use crate::Error;
use std::ffi::{OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weir_libraries::{Library, LoadError};

/// The file of the plug-in.
pub const FILE: &str = "libweir_dpdk.so";
/// Names another file.
pub const VARIABLE: &str = "WEIR_DPDK";
/// How the plug-in is built.
const BUILD: &str = "in Weir's source: apt-get install libdpdk-dev, then cargo xtask dpdk --release";
/// `WEIR_DPDK_VERSION`
const VERSION: u32 = 1;

/// `struct weir_dpdk_settings`
#[repr(C)]
pub(crate) struct RawSettings {
    pub queues: u32,
    pub descriptors: u32,
    pub buffer_bytes: u64,
    pub promiscuous: u8,
    pub hardware_time: u8,
}

/// `struct weir_dpdk_port`
#[repr(C)]
pub(crate) struct RawPort {
    pub queues: u32,
    pub descriptors: u32,
    pub number: u16,
    pub has_times: u8,
    pub driver: [c_char; 32],
}

/// `struct weir_dpdk_packet`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawPacket {
    pub bytes: *const u8,
    pub owner: *mut c_void,
    pub time_ns: u64,
    pub length: u32,
    pub rss_hash: u32,
    pub flags: u32,
}

/// `struct weir_dpdk_rule`
#[repr(C)]
pub(crate) struct RawRule {
    pub version: u8,
    pub transport: u8,
    pub discards: u8,
    pub source: [u8; 16],
    pub source_mask: [u8; 16],
    pub destination: [u8; 16],
    pub destination_mask: [u8; 16],
    pub source_port: u16,
    pub source_port_mask: u16,
    pub destination_port: u16,
    pub destination_port_mask: u16,
}

/// `struct weir_dpdk_counters`
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawCounters {
    pub missed: u64,
    pub no_buffer: u64,
    pub errors: u64,
}

// The layouts of the header, on 64-bit machines.
const _: () = assert!(size_of::<RawSettings>() == 24 && size_of::<RawPort>() == 44);
const _: () =
    assert!(size_of::<RawPacket>() == 40 && size_of::<RawCounters>() == 24 && size_of::<RawRule>() == 76);

/// The functions, named as in the header without `weir_dpdk_`.
#[derive(Debug)]
pub(crate) struct Functions {
    pub release: String,
    pub start: unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int,
    pub take_log: unsafe extern "C" fn(*mut c_char, usize) -> usize,
    pub call: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int,
    pub attach: unsafe extern "C" fn(*const c_char) -> c_int,
    pub open: unsafe extern "C" fn(u16, *const RawSettings, *mut RawPort) -> c_int,
    pub receive: unsafe extern "C" fn(u16, u16, *mut RawPacket, u32, *mut u64) -> c_int,
    pub release_packets: unsafe extern "C" fn(*const RawPacket, u32),
    pub count: unsafe extern "C" fn(u16, *mut RawCounters) -> c_int,
    pub link: unsafe extern "C" fn(u16) -> c_int,
    pub add_rule: unsafe extern "C" fn(u16, *const RawRule) -> c_int,
    pub remove_rules: unsafe extern "C" fn(u16) -> c_int,
    pub count_rule: unsafe extern "C" fn(u16, c_int, *mut u64, *mut u64) -> c_int,
    pub close: unsafe extern "C" fn(u16),
    /// Keeps the plug-in loaded while its functions are in use.
    _library: Library,
}

/// The plug-in, loaded by the first call.
pub(crate) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceLock<Result<Functions, Error>> = OnceLock::new();
    let variable = if has_granted_rights() { None } else { std::env::var_os(VARIABLE) };
    FUNCTIONS.get_or_init(|| load(&place(variable))).as_ref().map_err(Error::clone)
}

/// Whether the program has rights that its caller does not have, such as those of `setcap`. Files that the
/// caller names must then not be loaded.
pub fn has_granted_rights() -> bool {
    // SAFETY: the function reads a value that the kernel passed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Where the plug-in is: the file that the variable names, or beside the executable, or in the system's
/// library path.
fn place(variable: Option<OsString>) -> PathBuf {
    let beside = || std::env::current_exe().ok().map(|path| path.with_file_name(FILE));
    match variable.filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => beside().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(FILE)),
    }
}

impl From<LoadError> for Error {
    fn from(why: LoadError) -> Self {
        Self::Missing(why.explained(|cause| {
            // The plug-in is there, and a library that it needs is not.
            let remedy = match cause.contains("librte_") && !cause.starts_with(FILE) {
                true => "install DPDK, in Debian: apt-get install dpdk".to_string(),
                false => format!("build it, {BUILD}; or name it in ${VARIABLE}"),
            };
            format!("{cause}: {remedy}")
        }))
    }
}

/// Loads the plug-in from this file.
pub(crate) fn load(file: &Path) -> Result<Functions, Error> {
    // SAFETY: loading runs the constructors of DPDK's libraries, which register log types and tail queues,
    // and have no preconditions.
    let library = unsafe { Library::load(file) }?;
    // SAFETY: the types are those of the functions with these names in this version of the header. The
    // version is checked before any other function is called, and `weir_dpdk_version` has this type in all
    // versions.
    unsafe {
        let version: unsafe extern "C" fn() -> u32 = library.function(c"weir_dpdk_version")?;
        let version = version();
        if version != VERSION {
            return Err(Error::Missing(format!(
                "{} has version {version} of the interface, and version {VERSION} is required: build it anew, {BUILD}",
                file.display()
            )));
        }
        Ok(Functions {
            release: library.text(c"weir_dpdk_release")?,
            start: library.function(c"weir_dpdk_start")?,
            take_log: library.function(c"weir_dpdk_take_log")?,
            call: library.function(c"weir_dpdk_call")?,
            attach: library.function(c"weir_dpdk_attach")?,
            open: library.function(c"weir_dpdk_open")?,
            receive: library.function(c"weir_dpdk_receive")?,
            release_packets: library.function(c"weir_dpdk_release_packets")?,
            count: library.function(c"weir_dpdk_count")?,
            link: library.function(c"weir_dpdk_link")?,
            add_rule: library.function(c"weir_dpdk_add_rule")?,
            remove_rules: library.function(c"weir_dpdk_remove_rules")?,
            count_rule: library.function(c"weir_dpdk_count_rule")?,
            close: library.function(c"weir_dpdk_close")?,
            _library: library,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_plug_in_says_how_to_build_it() {
        let missing = load(Path::new("libweir_dpdk.so.none")).unwrap_err().to_string();
        assert!(
            missing.contains("libweir_dpdk.so.none") && missing.contains("cargo xtask dpdk"),
            "{missing}"
        );
    }

    #[test]
    fn another_library_is_no_plug_in() {
        let other = load(Path::new("libc.so.6")).unwrap_err().to_string();
        assert!(other.contains("weir_dpdk_version") && other.contains(VARIABLE), "{other}");
    }

    #[test]
    fn the_variable_comes_first() {
        assert_eq!(place(Some("/opt/x.so".into())), Path::new("/opt/x.so"));
        assert_eq!(place(Some("".into())), place(None));
    }
}
