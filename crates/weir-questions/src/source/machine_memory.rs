//! The memory of the machine, and of the control groups that the process runs in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// A limit of this size is none: the first version of the interface writes the largest number of pages.
const UNLIMITED_BYTES: u64 = 1 << 62;

/// Memory that may be taken, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    pub bytes: u64,
    pub by: String,
}

/// A control group with a limit.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    place: PathBuf,
    limit_bytes: u64,
    /// Without pages of files that the kernel can drop.
    used_bytes: u64,
}

/// The memory of the machine, or the limit of the control group that has the least. `None` if the system does
/// not say.
pub fn total_bytes() -> Option<u64> {
    let groups = groups(Path::new(GROUPS), &own_groups());
    machine("MemTotal:").into_iter().chain(groups.iter().map(|group| group.limit_bytes)).min()
}

/// What could be taken when this was called first: of the machine, or of the control group that has the
/// least.
pub fn available_at_start() -> Option<&'static Available> {
    static AVAILABLE: OnceLock<Option<Available>> = OnceLock::new();
    let look = || {
        let of_machine =
            machine("MemAvailable:").map(|bytes| Available { bytes, by: "MemAvailable".to_string() });
        let groups = groups(Path::new(GROUPS), &own_groups()).into_iter();
        let of_groups = groups.map(|group| Available {
            bytes: group.limit_bytes.saturating_sub(group.used_bytes),
            by: format!("the limit of {}", group.place.display()),
        });
        of_machine.into_iter().chain(of_groups).min_by_key(|available| available.bytes)
    };
    AVAILABLE.get_or_init(look).as_ref()
}

/// Bytes of huge pages that nobody has.
pub fn free_huge_bytes() -> u64 {
    let Ok(text) = fs::read_to_string("/proc/meminfo") else { return 0 };
    let count =
        text.lines().find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse::<u64>().ok());
    count.zip(kilobytes_of(&text, "Hugepagesize:")).map_or(0, |(count, bytes)| count.saturating_mul(bytes))
}

fn machine(name: &str) -> Option<u64> {
    kilobytes_of(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The groups with limits among those that `own` names (`/proc/self/cgroup`), and among those above them, in
/// both versions of the interface.
fn groups(root: &Path, own: &str) -> Vec<Group> {
    let mut found = vec![];
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (above, names) = match controllers {
            "" => (root.to_path_buf(), ["memory.max", "memory.current", "inactive_file "]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "];
                (root.join("memory"), names)
            }
            _ => continue,
        };
        // In a namespace of its own, a process sees its group as the root, and maybe a path outside of it.
        let below = Path::new(path).strip_prefix("/").unwrap_or(Path::new(""));
        found.extend(below.ancestors().filter_map(|below| group(above.join(below), names)));
    }
    found
}

/// A group, if it has a limit.
fn group(place: PathBuf, [limit, used, droppable]: [&str; 3]) -> Option<Group> {
    let number = |name: &str| fs::read_to_string(place.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit_bytes = number(limit).filter(|bytes| *bytes < UNLIMITED_BYTES)?;
    let stat = fs::read_to_string(place.join("memory.stat")).unwrap_or_default();
    let droppable = stat.lines().find_map(|line| line.strip_prefix(droppable)?.trim().parse::<u64>().ok());
    let used_bytes = number(used).unwrap_or(0).saturating_sub(droppable.unwrap_or(0));
    Some(Group { place, limit_bytes, used_bytes })
}

/// The bytes of a line `name  12 kB` in a text of `/proc`.
pub fn kilobytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let text = "MemTotal:       24690000 kB\nMemFree:         1234 kB\n";
        assert_eq!(kilobytes_of(text, "MemTotal:"), Some(24_690_000 * 1024));
        assert_eq!(kilobytes_of("MemFree: 12 kB\n", "MemTotal:"), None);
        assert_eq!(kilobytes_of("MemTotal: many kB\n", "MemTotal:"), None);
        assert!(available_at_start().is_some_and(|available| available.bytes > 0));
    }

    #[test]
    fn limits_of_groups_above_count_in_both_versions() {
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path();
        let make = |path: &str, files: &[(&str, &str)]| {
            fs::create_dir_all(root.join(path)).expect("a directory");
            files
                .iter()
                .for_each(|(name, text)| fs::write(root.join(path).join(name), text).expect("a file"));
        };
        make("a/b", &[("memory.max", "max\n"), ("memory.current", "7\n")]);
        make(
            "a",
            &[
                ("memory.max", "1000\n"),
                ("memory.current", "700\n"),
                ("memory.stat", "anon 5\ninactive_file 200\n"),
            ],
        );
        make("memory/x", &[("memory.limit_in_bytes", "5000\n"), ("memory.usage_in_bytes", "100\n")]);
        make(
            "memory",
            &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "1\n")],
        );
        let group =
            |path: &str, limit_bytes, used_bytes| Group { place: root.join(path), limit_bytes, used_bytes };
        assert_eq!(groups(root, "0::/a/b\n"), [group("a", 1000, 500)]);
        assert_eq!(groups(root, "4:memory:/x\n0::/\n"), [group("memory/x", 5000, 100)]);
        assert_eq!(groups(root, "1:cpu:/x\n0::/../elsewhere\nnonsense\n"), []);
    }
}
