//! Executables of Windows (PE) among the files in sessions, as in Zeek's `pe.log`. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `start` | the first bytes of a content, kept until the head of an executable in them is complete |
//! | `head` | bytes → the head |
//! | `names` | names of machines, subsystems and versions of Windows |
//!
//! A file refers to its head ([`File::executable`](crate::files::File)); no more of it is kept.

mod head;
mod names;
mod start;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use head::needed;
pub use head::{OptionalHead, PeHead};
pub use start::HEAD_BYTES_MAX;
pub(crate) use start::Start;

use crate::Session;
use crate::files::File;
use crate::session::session_fields;
use crate::values::{name, owned_texts};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A file that is an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// Time of the file.
    pub time: Option<Timestamp>,
    /// Number of the file in its connection.
    pub number: u64,
    /// The head.
    pub head: Box<PeHead>,
}

impl Executable {
    /// Whether a flag of the optional head is set; as in Zeek's log, a missing head has no flags.
    fn has_flag(&self, flag: u16) -> bool {
        self.head.optional.is_some_and(|optional| optional.flags & flag != 0)
    }

    /// Whether the optional head refers to a table that is not empty.
    fn has_table(&self, index: usize) -> Value<'static> {
        self.head.optional.map_or(Value::Absent, |optional| Value::Bool(optional.tables >> index & 1 != 0))
    }
}

session_fields! { Executable;
    "pe.fuid" [] id: Unsigned, "Number of the file in its connection; in rows its identifier in files.log" => |e| Value::Unsigned(e.number);
    "pe.machine" [] machine: Text, "Machine that the executable is for: AMD64, I386" => |e| name(Some(names::machine(e.head.machine)));
    "pe.compile_ts" [] compile_ts: Time, "Time of the build, as the linker stated it" => |e| Value::Time(Timestamp::from_parts(e.head.built_seconds.into(), 0));
    "pe.os" [] os: Text, "Version of Windows that is required" => |e| name(e.head.optional.map(|optional| names::system(optional.system)));
    "pe.subsystem" [] subsystem: Text, "Subsystem that runs the executable: WINDOWS_GUI, WINDOWS_CUI" => |e| name(e.head.optional.map(|optional| names::subsystem(optional.subsystem)));
    "pe.is_exe" [] is_exe: Bool, "Whether it is an executable or a library, and not an object file" => |e| Value::Bool(e.head.is_image);
    "pe.is_64bit" [] is_64bit: Bool, "Whether it is not marked as a 32-bit executable" => |e| Value::Bool(!e.head.is_32bit);
    "pe.uses_aslr" [] uses_aslr: Bool, "Whether its address may be randomised" => |e| Value::Bool(e.has_flag(0x40));
    "pe.uses_dep" [] uses_dep: Bool, "Whether it supports data that cannot be executed" => |e| Value::Bool(e.has_flag(0x100));
    "pe.uses_code_integrity" [] uses_code_integrity: Bool, "Whether its signature must be verified" => |e| Value::Bool(e.has_flag(0x80));
    "pe.uses_seh" [] uses_seh: Bool, "Whether it uses structured exception handling" => |e| Value::Bool(!e.has_flag(0x400));
    "pe.has_import_table" [] has_import_table: Bool, "Whether it imports symbols" => |e| e.has_table(1);
    "pe.has_export_table" [] has_export_table: Bool, "Whether it exports symbols" => |e| e.has_table(0);
    "pe.has_cert_table" [] has_cert_table: Bool, "Whether it has certificates: a signature" => |e| e.has_table(4);
    "pe.has_debug_data" [] has_debug_data: Bool, "Whether it has data for debuggers" => |e| e.has_table(6);
    "pe.section_names" [] section_names: Texts, "Names of the sections, in order" => |e| owned_texts(e.head.section_names().collect());
}

impl Session for Executable {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        self.time
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The executables among files.
pub(crate) fn among(files: &[Box<dyn Session>]) -> Vec<Box<dyn Session>> {
    let files = files.iter().filter_map(|file| file.as_any().downcast_ref::<File>());
    let executable = |file: &File| {
        let head = file.executable.clone()?;
        Some(Box::new(Executable { time: file.time, number: file.number, head }) as Box<dyn Session>)
    };
    files.filter_map(executable).collect()
}
