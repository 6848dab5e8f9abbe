//! Rules about headers on a device. Devices accept only some rules: a rule that passes packets is widened
//! until the device accepts it, and a class of packets for which that is impossible is not discarded.

use std::collections::HashSet;
use std::io;
use weir_dpdk::{Device, RuleId};
use weir_packet::{HeaderPattern, HeaderRules, Masked};

/// A device that takes rules.
pub(crate) trait RuleDevice {
    /// The number of a rule.
    type Id: Copy;

    /// Adds a rule. Rules that pass packets precede those that discard.
    fn add(&self, pattern: &HeaderPattern, discards: bool) -> Result<Self::Id, String>;

    /// Removes all rules: every packet passes.
    ///
    /// # Errors
    /// The device keeps the rules.
    fn remove_all(&self) -> io::Result<()>;

    /// Packets and bytes that a rule has discarded.
    fn discarded_by(&self, rule: Self::Id) -> [u64; 2];
}

impl RuleDevice for Device {
    type Id = RuleId;

    fn add(&self, pattern: &HeaderPattern, discards: bool) -> Result<RuleId, String> {
        self.add_rule(pattern, discards).map_err(|why| why.to_string())
    }

    fn remove_all(&self) -> io::Result<()> {
        self.remove_rules()
    }

    fn discarded_by(&self, rule: RuleId) -> [u64; 2] {
        self.discarded_by(rule)
    }
}

/// The rules of a device that discard packets, and what earlier ones have discarded.
#[derive(Debug)]
pub(crate) struct Installed<Id> {
    discarding: Vec<Id>,
    before: [u64; 2],
}

impl<Id> Default for Installed<Id> {
    fn default() -> Self {
        Self { discarding: vec![], before: [0; 2] }
    }
}

impl<Id: Copy> Installed<Id> {
    /// Packets and bytes discarded so far.
    pub fn discarded(&self, device: &impl RuleDevice<Id = Id>) -> [u64; 2] {
        let add = |[packets, bytes]: [u64; 2], rule: &Id| {
            let [more, more_bytes] = device.discarded_by(*rule);
            [packets + more, bytes + more_bytes]
        };
        self.discarding.iter().fold(self.before, add)
    }

    /// Removes all rules.
    ///
    /// # Errors
    /// The device goes on discarding packets.
    pub fn clear(&mut self, device: &impl RuleDevice<Id = Id>) -> io::Result<()> {
        self.before = self.discarded(device);
        self.discarding.clear();
        device.remove_all()
    }

    /// Replaces the rules. Between the old and the new ones, every packet passes. The inner result says why
    /// the device discards nothing.
    ///
    /// # Errors
    /// The device keeps old rules.
    pub fn replace(
        &mut self,
        device: &impl RuleDevice<Id = Id>,
        rules: &HeaderRules,
    ) -> io::Result<Result<(), String>> {
        self.clear(device)?;
        let (mut added, mut refused) = (HashSet::new(), "there are no rules".to_string());
        for &class in &rules.discarded {
            let mut patterns = rules.passed.iter().filter(|pattern| pattern.class == class);
            let passed = patterns.try_for_each(|pattern| add_widened(device, pattern, &mut added));
            match passed.and_then(|()| device.add(&HeaderPattern::of(class), true)) {
                Ok(rule) => self.discarding.push(rule),
                Err(why) => refused = why,
            }
        }
        if self.discarding.is_empty() {
            device.remove_all()?;
            return Ok(Err(refused));
        }
        Ok(Ok(()))
    }
}

/// Adds the narrowest rule for the packets of a pattern that the device accepts, and that does not pass the
/// whole class.
fn add_widened(
    device: &impl RuleDevice,
    pattern: &HeaderPattern,
    added: &mut HashSet<HeaderPattern>,
) -> Result<(), String> {
    let mut refused = String::new();
    for wider in widened(pattern) {
        if added.contains(&wider) {
            return Ok(());
        }
        match device.add(&wider, false) {
            Ok(_) => {
                added.insert(wider);
                return Ok(());
            }
            Err(why) => refused = why,
        }
    }
    Err(refused)
}

/// The pattern, and those that describe more packets, but not all of the class: without masks of ports,
/// without addresses, without ports.
fn widened(pattern: &HeaderPattern) -> Vec<HeaderPattern> {
    let any = Masked::default();
    let whole = |port: Masked| if port.mask == 0xffff { port } else { any };
    let (source_port, destination_port) = (whole(pattern.source_port), whole(pattern.destination_port));
    let no_masks = HeaderPattern { source_port, destination_port, ..*pattern };
    let no_addresses = |pattern| HeaderPattern { source: any, destination: any, ..pattern };
    let no_ports = HeaderPattern { source_port: any, destination_port: any, ..*pattern };
    let mut all = vec![*pattern, no_masks, no_addresses(*pattern), no_addresses(no_masks), no_ports];
    all.retain(|wider| *wider != HeaderPattern::of(pattern.class));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use weir_packet::HeaderClass;

    /// A device that accepts some rules.
    struct Picky<'a> {
        accepts: &'a dyn Fn(&HeaderPattern, bool) -> bool,
        rules: RefCell<Vec<String>>,
    }

    impl<'a> Picky<'a> {
        fn new(accepts: &'a dyn Fn(&HeaderPattern, bool) -> bool) -> Self {
            Self { accepts, rules: RefCell::default() }
        }
    }

    impl RuleDevice for Picky<'_> {
        type Id = u64;

        fn add(&self, pattern: &HeaderPattern, discards: bool) -> Result<u64, String> {
            if !(self.accepts)(pattern, discards) {
                return Err(format!("not {pattern}"));
            }
            let mut rules = self.rules.borrow_mut();
            rules.push(format!("{} {pattern}", if discards { "discard" } else { "pass" }));
            Ok(rules.len() as u64)
        }

        fn remove_all(&self) -> io::Result<()> {
            self.rules.borrow_mut().clear();
            Ok(())
        }

        fn discarded_by(&self, rule: u64) -> [u64; 2] {
            [rule, 100 * rule]
        }
    }

    const TCP: HeaderClass = HeaderClass::ALL[0];
    const UDP: HeaderClass = HeaderClass::ALL[1];

    fn port(value: u128, mask: u128) -> Masked {
        Masked { value, mask }
    }

    fn rules() -> HeaderRules {
        let tcp = HeaderPattern {
            source: port(0x0a00_0000, 0xff00_0000),
            destination_port: port(0x1f40, 0xfff0),
            ..HeaderPattern::of(TCP)
        };
        let other = HeaderPattern { source: port(0x0a00_0000, 0xff00_0000), ..HeaderPattern::of(TCP) };
        let udp = HeaderPattern { source_port: port(53, 0xffff), ..HeaderPattern::of(UDP) };
        HeaderRules { passed: vec![tcp, other, udp], discarded: vec![TCP, UDP] }
    }

    fn replaced(accepts: &dyn Fn(&HeaderPattern, bool) -> bool) -> (Result<(), String>, Vec<String>) {
        let (device, mut installed) = (Picky::new(accepts), Installed::default());
        let result = installed.replace(&device, &rules());
        (result.expect("it removes rules"), device.rules.into_inner())
    }

    #[test]
    fn a_device_that_accepts_all_has_the_rules() {
        let (result, rules) = replaced(&|_, _| true);
        assert_eq!(result, Ok(()));
        let expected = [
            "pass eth / ipv4 / tcp src 10.0.0.0/8 dstport 0x1f40/0xfff0",
            "pass eth / ipv4 / tcp src 10.0.0.0/8",
            "discard eth / ipv4 / tcp",
            "pass eth / ipv4 / udp srcport 53",
            "discard eth / ipv4 / udp",
        ];
        assert_eq!(rules, expected);
    }

    #[test]
    fn a_rule_that_is_refused_becomes_wider() {
        let (result, rules) = replaced(&|pattern, _| [0, 0xffff].contains(&pattern.destination_port.mask));
        assert_eq!(result, Ok(()));
        // The wider rule is there only once.
        assert_eq!(rules[..2], ["pass eth / ipv4 / tcp src 10.0.0.0/8", "discard eth / ipv4 / tcp"]);
    }

    #[test]
    fn a_class_is_discarded_only_with_all_of_its_rules() {
        let (result, rules) = replaced(&|pattern, _| pattern.source.mask == 0);
        assert_eq!(result, Ok(()));
        assert!(!rules.contains(&"discard eth / ipv4 / tcp".to_string()), "{rules:?}");
        assert!(rules.contains(&"discard eth / ipv4 / udp".to_string()), "{rules:?}");
    }

    #[test]
    fn a_device_that_cannot_discard_has_no_rules() {
        for (result, rules) in [replaced(&|_, discards| !discards), replaced(&|_, _| false)] {
            assert!(result.is_err_and(|why| why.starts_with("not eth")) && rules.is_empty());
        }
    }

    #[test]
    fn what_was_discarded_is_kept_when_rules_change() {
        let (device, mut installed) = (Picky::new(&|_, _| true), Installed::default());
        installed.replace(&device, &rules()).unwrap().unwrap();
        // Rules 3 and 5.
        assert_eq!(installed.discarded(&device), [8, 800]);
        installed.replace(&device, &rules()).unwrap().unwrap();
        assert_eq!(installed.discarded(&device), [16, 1600]);
        installed.clear(&device).unwrap();
        assert_eq!(installed.discarded(&device), [16, 1600]);
        assert!(device.rules.borrow().is_empty());
    }
}
