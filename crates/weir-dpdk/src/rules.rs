//! Rules about headers, by which a device discards packets.
#![allow(unsafe_code)]

use crate::library::RawRule;
use crate::{Device, Error};
use std::io;
use weir_packet::{HeaderPattern, IpVersion, Masked, Transport};

/// The number of a rule on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(i32);

impl Device {
    /// Adds a rule. If it discards, packets of the pattern are discarded and counted, unless a rule that
    /// passes packets describes them, or they are fragments.
    ///
    /// # Errors
    /// [`Error::Failed`]: why the device does not accept the rule.
    pub fn add_rule(&self, pattern: &HeaderPattern, discards: bool) -> Result<RuleId, Error> {
        let raw = raw(pattern, discards);
        self.functions().take_log();
        // SAFETY: the plug-in reads the structure; the port is open.
        let result = unsafe { (self.functions().add_rule)(self.port(), &raw) };
        let number = self.functions().checked(result).map_err(Error::Failed)?;
        i32::try_from(number).map(RuleId).map_err(|_| Error::Failed("no such rule".to_string()))
    }

    /// Removes all rules: every packet passes.
    ///
    /// # Errors
    /// The device keeps them: it goes on discarding packets.
    pub fn remove_rules(&self) -> io::Result<()> {
        // SAFETY: the port is open.
        let failed = unsafe { (self.functions().remove_rules)(self.port()) };
        if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-failed)) }
    }

    /// Packets and bytes that a rule has discarded. 0 if the device does not count.
    pub fn discarded_by(&self, RuleId(number): RuleId) -> [u64; 2] {
        let [mut packets, mut bytes] = [0, 0];
        // SAFETY: the plug-in writes the two numbers; the port is open.
        unsafe { (self.functions().count_rule)(self.port(), number, &mut packets, &mut bytes) };
        [packets, bytes]
    }
}

/// The rule in the plug-in's form.
fn raw(pattern: &HeaderPattern, discards: bool) -> RawRule {
    let unused_bits = 128 - pattern.class.address_bits();
    let address = |number: u128| (number << unused_bits).to_be_bytes();
    let port = |number: u128| (number as u16).to_be();
    let HeaderPattern { class, source, destination, source_port, destination_port } = *pattern;
    let address_of = |Masked { value, mask }: Masked| [address(value), address(mask)];
    let port_of = |Masked { value, mask }: Masked| [port(value), port(mask)];
    let ([source, source_mask], [destination, destination_mask]) =
        (address_of(source), address_of(destination));
    let [source_port, source_port_mask] = port_of(source_port);
    let [destination_port, destination_port_mask] = port_of(destination_port);
    RawRule {
        version: if class.version == IpVersion::V4 { 4 } else { 6 },
        transport: if class.transport == Transport::Tcp { 6 } else { 17 },
        discards: discards.into(),
        source,
        source_mask,
        destination,
        destination_mask,
        source_port,
        source_port_mask,
        destination_port,
        destination_port_mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::HeaderClass;

    #[test]
    fn rules_have_the_order_of_the_network() {
        let pattern = HeaderPattern {
            source: Masked { value: 0x0a01_0000, mask: 0xffff_0000 },
            destination_port: Masked { value: 443, mask: 0xffff },
            ..HeaderPattern::of(HeaderClass::ALL[0])
        };
        let rule = raw(&pattern, false);
        assert_eq!((rule.version, rule.transport, rule.discards), (4, 6, 0));
        assert_eq!(
            (&rule.source[..5], &rule.source_mask[..5]),
            (&[10, 1, 0, 0, 0][..], &[255, 255, 0, 0, 0][..])
        );
        assert_eq!(rule.destination_port.to_ne_bytes(), [1, 0xbb]);
        assert_eq!((rule.destination_mask, rule.source_port_mask), ([0; 16], 0));
        let pattern = HeaderPattern {
            destination: Masked { value: 1, mask: u128::MAX },
            ..HeaderPattern::of(HeaderClass::ALL[3])
        };
        let rule = raw(&pattern, true);
        assert_eq!((rule.version, rule.transport, rule.discards), (6, 17, 1));
        assert_eq!((rule.destination[15], rule.destination_mask), (1, [255; 16]));
    }
}
