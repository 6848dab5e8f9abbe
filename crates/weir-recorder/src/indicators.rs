//! Indicators as triggers of a recorder: the connections with an address, a network or a name of a list are
//! dumped.

use crate::asking::PendingAsker;
use crate::options::RecorderOptions;
use crate::triggers::Trigger;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use weir_questions::messages::Failure;
use weir_questions::run::Run;
use weir_questions::source::input;

/// Indicators of a list.
const INDICATORS_MAX: usize = 10_000;
/// Indicators of one filter: the text of a filter has a bound.
const OF_FILTER_MAX: usize = 256;

/// Fields with names that clients ask for, in the case of the traffic.
const NAMES: &[&str] = &["tls.sni", "quic.sni", "http.server_name"];
/// Names of one filter: each field has them as a pattern, whose size has a bound.
const NAMES_OF_FILTER_MAX: usize = 32;

/// Adds the triggers of the lists that the options state.
///
/// # Errors
/// A list cannot be read, or has too many lines; a line is neither an address nor a name.
pub fn ask(options: &RecorderOptions, run: &mut Run<'_>, asking: &PendingAsker) -> Result<(), Failure> {
    if run.set().input.bpf && !options.indicators.is_empty() {
        return Err(Failure::new(
            "--indicators: the filters of lists are in the syntax of Weir: leave --bpf out",
        ));
    }
    for path in &options.indicators {
        let list = List::of(path)?;
        let name = path.display().to_string();
        for filter in list.filters() {
            let reason = format!("has an indicator of {name}");
            let (trigger, question) = Trigger::new((&filter, name.clone(), reason), asking.clone());
            run.subscribe(vec![question], trigger)?;
        }
    }
    Ok(())
}

/// The indicators of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct List {
    ipv4: Vec<String>,
    ipv6: Vec<String>,
    names: Vec<String>,
}

impl List {
    fn of(path: &Path) -> Result<Self, Failure> {
        let text = input::read_text(path)?;
        Self::read(&text).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
    }

    /// Lines that are empty or begin with `#` are left out.
    fn read(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("line {number}: `{line}` is no address, network or name of a host");
            let (address, prefix) = line.split_once('/').map_or((line, None), |(a, bits)| (a, Some(bits)));
            match (address.parse::<IpAddr>(), prefix.map(str::parse::<u8>)) {
                (Ok(IpAddr::V4(_)), None) => list.ipv4.push(line.to_string()),
                (Ok(IpAddr::V6(_)), None) => list.ipv6.push(line.to_string()),
                (Ok(IpAddr::V4(host)), Some(Ok(bits @ 0..=32))) => list.ipv4.push(network_v4(host, bits)),
                (Ok(IpAddr::V6(host)), Some(Ok(bits @ 0..=128))) => list.ipv6.push(network_v6(host, bits)),
                (Err(_), None) if is_name(line.trim_end_matches('.')) => {
                    list.names.push(line.trim_end_matches('.').to_ascii_lowercase());
                }
                _ => return Err(wrong()),
            }
        }
        let count = list.ipv4.len() + list.ipv6.len() + list.names.len();
        match count {
            0 => Err("there is no indicator in it".to_string()),
            1..=INDICATORS_MAX => Ok(list),
            _ => Err(format!("it has {count} indicators, and a list may have {INDICATORS_MAX}")),
        }
    }

    /// Filters of which a connection with an indicator matches one.
    fn filters(&self) -> Vec<String> {
        let addresses = [("ip.addr", &self.ipv4), ("ipv6.addr", &self.ipv6)];
        let of_addresses = addresses.into_iter().flat_map(|(field, all)| {
            all.chunks(OF_FILTER_MAX).map(move |some| format!("{field} in {{{}}}", some.join(", ")))
        });
        let of_names = self.names.chunks(NAMES_OF_FILTER_MAX).map(|some| {
            let quoted: Vec<String> = some.iter().map(|name| format!("\"{name}\"")).collect();
            let pattern = some.iter().map(|name| name.replace('.', "[.]")).collect::<Vec<_>>().join("|");
            // Names of questions to DNS have lower case.
            let asked = format!("dns.query in {{{}}}", quoted.join(", "));
            let of = |field: &&str| format!("{field} matches \"(?i)^({pattern})$\"");
            let all = std::iter::once(asked).chain(NAMES.iter().map(of));
            all.collect::<Vec<_>>().join(" or ")
        });
        of_addresses.chain(of_names).collect()
    }
}

/// The network of an address.
fn network_v4(host: Ipv4Addr, bits: u8) -> String {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    format!("{}/{bits}", Ipv4Addr::from(u32::from(host) & mask))
}

/// The network of an address.
fn network_v6(host: Ipv6Addr, bits: u8) -> String {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    format!("{}/{bits}", Ipv6Addr::from(u128::from(host) & mask))
}

/// Whether a text may be the name of a host. The last part of a name is no number: of an address, it is.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 253 && text.split('.').all(is_label) && !text.rsplit('.').next().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::Compiler;

    #[test]
    fn lines_are_addresses_networks_and_names() {
        let list = List::read("# bad\n10.0.0.7\n\n 192.0.2.5/24\n2001:db8::/32\nBad.Example.\n").unwrap();
        assert_eq!(list.ipv4, ["10.0.0.7", "192.0.2.0/24"]);
        assert_eq!((list.ipv6, list.names), (vec!["2001:db8::/32".into()], vec!["bad.example".into()]));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, said) in [
            ("10.0.0.1\n10.0.0.1/33", "line 2: `10.0.0.1/33`"),
            ("bad host", "line 1"),
            ("10.0.0.256", "line 1"),
            ("a\"b.example", "line 1"),
            ("# none", "no indicator"),
        ] {
            let why = List::read(text).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        let many = "10.0.0.1\n".repeat(INDICATORS_MAX + 1);
        assert!(List::read(&many).unwrap_err().contains("10001 indicators"));
    }

    #[test]
    fn lists_of_any_length_become_filters() {
        let hosts = (0..2000).map(|n| format!("10.0.{}.{}\n", n / 250, n % 250));
        let networks = (0..300).map(|n| format!("2001:db8:{n:x}::/48\n"));
        let names = (0..300).map(|n| format!("host-{n}.a-long-name-of-a-domain.example\n"));
        let list = List::read(&hosts.chain(networks).chain(names).collect::<String>()).unwrap();
        let compiler = Compiler::default();
        for filter in list.filters() {
            assert!(compiler.check_filter(&filter, false).is_ok(), "{} bytes", filter.len());
        }
    }
}
