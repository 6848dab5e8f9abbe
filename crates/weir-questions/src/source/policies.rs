//! `--policy`: which bytes win where segments or fragments overlap.

use crate::messages::failure::Failure;
use crate::quantity::classified;
use std::net::IpAddr;
use weir::stream::{Policies, Policy};

/// Policies by network. The last one given without a network applies to all others.
pub fn read_policies(texts: &[String]) -> Result<Policies, Failure> {
    let known = || Policy::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
    let read = |text: &str| {
        let policy = Policy::named(text);
        policy.ok_or_else(|| Failure::new(format!("--policy {text}: unknown policy; known are: {}", known())))
    };
    let default = texts.iter().rfind(|text| !text.contains(':'));
    let mut policies = Policies::new(default.map_or(Ok(Policy::default()), |text| read(text))?);
    for text in texts.iter().filter(|text| text.contains(':')) {
        let (Some(network), policy) = classified(text) else { continue };
        let wrong =
            || Failure::new(format!("--policy {text}: give NETWORK:POLICY, for example 10.0.0.0/8:windows"));
        let (address, length) = network.split_once('/').map_or((network, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), |text| text.parse::<u8>().map_err(|_| wrong()))?;
        if length > most {
            return Err(wrong());
        }
        policies.add(address, length, read(policy)?);
    }
    Ok(policies)
}
