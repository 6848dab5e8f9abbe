//! The arguments with which DPDK is initialised (its "EAL parameters").

use crate::Error;

/// Memory beside that of packets: rings, tables of devices, bytes.
const FIXED_BYTES: u64 = 64 << 20;
/// Options of memory: with one of them, none is added.
const OF_MEMORY: [&str; 7] =
    ["--no-huge", "-m", "--socket-mem", "--huge-dir", "--legacy-mem", "--single-file-segments", "--numa-mem"];
/// Options of processors: with one of them, none is added.
const OF_PROCESSORS: [&str; 5] = ["-l", "-c", "--lcores", "-s", "-S"];
/// Options that end the process, or make it the secondary of another one.
const REFUSED: [&str; 4] = ["-h", "--help", "-v", "--proc-type"];

/// What a process needs of DPDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The devices (`DEVICE[,ARGUMENT=VALUE…]`).
    pub devices: Vec<String>,
    /// Memory for packets of all devices, bytes.
    pub packet_bytes: u64,
    /// Further arguments, of the user.
    pub stated: Vec<String>,
}

/// A device on a bus of the machine, by its address (`0000:01:00.0`), not one that DPDK makes (`net_pcap0`).
fn is_on_bus(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit());
    address.contains(':') && address.split([':', '.']).all(is_part)
}

fn names(stated: &[String], options: &[&str]) -> Option<String> {
    let is_option = |word: &str, option: &str| match option.starts_with("--") {
        true => word.split('=').next() == Some(option),
        // Values may follow without a space.
        false => word.starts_with(option) && !word.starts_with("--"),
    };
    stated.iter().find(|word| options.iter().any(|option| is_option(word, option))).cloned()
}

/// The arguments: nothing on disk, no other process, no thread for each processor, no address of physical
/// memory.
///
/// * `free_huge_bytes`: memory in free huge pages.
/// * `processor`: one on which the process may run.
///
/// # Errors
/// If an argument of the user would end the process.
pub(crate) fn arguments(needs: &Needs, free_huge_bytes: u64, processor: usize) -> Result<Vec<String>, Error> {
    if let Some(word) = names(&needs.stated, &REFUSED) {
        return Err(Error::Failed(format!("--dpdk-eal: {word} is not for captures")));
    }
    // An eighth is for what lies between packets.
    let bytes = needs.packet_bytes + needs.packet_bytes / 8 + FIXED_BYTES;
    let states = |options: &[&str]| names(&needs.stated, options).is_some();
    let is_short = !states(&OF_MEMORY) && free_huge_bytes < bytes;
    let mut all = vec!["weir".to_string(), "--no-telemetry".to_string()];
    // `--in-memory` is of huge pages alone, and includes the other option.
    let has_huge = !is_short && !states(&["--no-huge", "--legacy-mem"]);
    all.push(if has_huge { "--in-memory" } else { "--no-shconf" }.to_string());
    if is_short {
        all.extend(["--no-huge".to_string(), "-m".to_string(), bytes.div_ceil(1 << 20).to_string()]);
    }
    if !states(&["--iova-mode"]) {
        all.push("--iova-mode=va".to_string());
    }
    if !states(&OF_PROCESSORS) {
        all.push(format!("--lcores=0@{processor}"));
    }
    let on_bus: Vec<&String> = needs.devices.iter().filter(|device| is_on_bus(device)).collect();
    if on_bus.is_empty() && !states(&["-a", "--allow", "-b", "--block"]) {
        all.push("--no-pci".to_string());
    }
    on_bus.into_iter().for_each(|device| all.extend(["-a".to_string(), device.clone()]));
    all.extend(needs.stated.iter().cloned());
    Ok(all)
}

/// Memory in free huge pages of all sizes, bytes.
pub fn free_huge_bytes() -> u64 {
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let bytes = sizes.filter_map(|size| {
        let name = size.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let free = std::fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        Some(kib * 1024 * free.trim().parse::<u64>().ok()?)
    });
    bytes.sum()
}

/// The first processor on which the process may run.
pub(crate) fn first_processor() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|list| list.trim().split(['-', ',']).next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(devices: &[&str], stated: &[&str], free_huge_bytes: u64) -> Result<String, Error> {
        let own = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        let needs = Needs { devices: own(devices), packet_bytes: 64 << 20, stated: own(stated) };
        arguments(&needs, free_huge_bytes, 3).map(|words| words.join(" "))
    }

    #[test]
    fn a_machine_without_huge_pages_needs_none() {
        let expected =
            "weir --no-telemetry --no-shconf --no-huge -m 136 --iova-mode=va --lcores=0@3 --no-pci --foo";
        assert_eq!(of(&["net_pcap0,rx_pcap=/a:b.pcap"], &["--foo"], 2 << 20).unwrap(), expected);
    }

    #[test]
    fn huge_pages_are_used_and_devices_on_a_bus_are_named() {
        let expected = "weir --no-telemetry --in-memory --iova-mode=va --lcores=0@3 -a 0000:01:00.0,x=1";
        assert_eq!(of(&["net_null0", "0000:01:00.0,x=1"], &[], 1 << 30).unwrap(), expected);
    }

    #[test]
    fn what_the_user_states_replaces_the_usual() {
        let words = of(&["net_null0"], &["-m512", "--lcores=1", "--iova-mode=pa", "-b", "01:00.0"], 0);
        let expected = "weir --no-telemetry --in-memory -m512 --lcores=1 --iova-mode=pa -b 01:00.0";
        assert_eq!(words.unwrap(), expected);
        let words = of(&["net_null0"], &["--no-huge", "-m", "99"], 1 << 30).unwrap();
        let expected = "weir --no-telemetry --no-shconf --iova-mode=va --lcores=0@3 --no-pci --no-huge -m 99";
        assert_eq!(words, expected);
        for wrong in ["--help", "-h", "-v", "--proc-type=secondary"] {
            assert!(of(&["net_null0"], &[wrong], 0).unwrap_err().to_string().contains(wrong));
        }
    }
}
