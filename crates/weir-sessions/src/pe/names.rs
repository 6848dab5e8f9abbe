//! Names of the numbers in heads of executables (Microsoft's PE format), as Zeek writes them.

use std::borrow::Cow;

/// Machines, sorted by number.
const MACHINES: &[(u16, &str)] = &[
    (0, "UNKNOWN"),
    (0x14c, "I386"),
    (0x166, "R4000"),
    (0x169, "WCEMIPSV2"),
    (0x1a2, "SH3"),
    (0x1a3, "SH3DSP"),
    (0x1a6, "SH4"),
    (0x1a8, "SH5"),
    (0x1c0, "ARM"),
    (0x1c2, "THUMB"),
    (0x1c4, "ARMNT"),
    (0x1d3, "AM33"),
    (0x1f0, "POWERPC"),
    (0x1f1, "POWERPCFP"),
    (0x200, "IA64"),
    (0x266, "MIPS16"),
    (0x366, "MIPSFPU"),
    (0x466, "MIPSFPU16"),
    (0xebc, "EBC"),
    (0x8664, "AMD64"),
    (0x9041, "M32R"),
    (0xaa64, "ARM64"),
];

/// Subsystems, sorted by number.
const SUBSYSTEMS: &[(u16, &str)] = &[
    (0, "UNKNOWN"),
    (1, "NATIVE"),
    (2, "WINDOWS_GUI"),
    (3, "WINDOWS_CUI"),
    (7, "POSIX_CUI"),
    (9, "WINDOWS_CE_GUI"),
    (10, "EFI_APPLICATION"),
    (11, "EFI_BOOT_SERVICE_DRIVER"),
    (12, "EFI_RUNTIME_DRIVER"),
    (13, "EFI_ROM"),
    (14, "XBOX"),
];

/// Versions of Windows, sorted by version.
const SYSTEMS: &[((u16, u16), &str)] = &[
    ((3, 10), "Windows 3.1 or NT 3.1"),
    ((3, 50), "Windows NT 3.5"),
    ((3, 51), "Windows NT 3.51"),
    ((4, 0), "Windows 95 or NT 4.0"),
    ((4, 10), "Windows 98"),
    ((4, 90), "Windows Me"),
    ((5, 0), "Windows 2000"),
    ((5, 1), "Windows XP"),
    ((5, 2), "Windows XP x64 or Server 2003"),
    ((6, 0), "Windows Vista or Server 2008"),
    ((6, 1), "Windows 7 or Server 2008 R2"),
    ((6, 2), "Windows 8 or Server 2012"),
    ((6, 3), "Windows 8.1 or Server 2012 R2"),
    ((10, 0), "Windows 10"),
];

fn find<K: Ord + Copy>(table: &[(K, &'static str)], key: K) -> Option<&'static str> {
    table.binary_search_by_key(&key, |entry| entry.0).ok().map(|at| table[at].1)
}

fn numbered(table: &[(u16, &'static str)], number: u16) -> Cow<'static, str> {
    find(table, number).map_or_else(|| format!("unknown-{number}").into(), Cow::Borrowed)
}

/// Name of a machine: `AMD64`.
pub(super) fn machine(number: u16) -> Cow<'static, str> {
    numbered(MACHINES, number)
}

/// Name of a subsystem: `WINDOWS_GUI`.
pub(super) fn subsystem(number: u16) -> Cow<'static, str> {
    numbered(SUBSYSTEMS, number)
}

/// Name of a version of Windows: `Windows XP`.
pub(super) fn system(version: (u16, u16)) -> Cow<'static, str> {
    let unknown = || format!("unknown-{}.{}", version.0, version.1).into();
    find(SYSTEMS, version).map_or_else(unknown, Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_have_names() {
        assert!(MACHINES.is_sorted_by(|a, b| a.0 < b.0) && SUBSYSTEMS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(SYSTEMS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((machine(0x8664), machine(5)), ("AMD64".into(), "unknown-5".into()));
        assert_eq!((subsystem(2), subsystem(99)), ("WINDOWS_GUI".into(), "unknown-99".into()));
        assert_eq!((system((5, 1)), system((7, 7))), ("Windows XP".into(), "unknown-7.7".into()));
    }
}
