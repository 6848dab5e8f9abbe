//! The numbers of interfaces in a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use weir_packet::LinkType;

/// An interface from which packets of a run come. Its place among all of them is
/// [`PacketMeta::interface`](weir_packet::PacketMeta::interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInterface {
    /// The system's name.
    pub name: String,
    /// The link type of its packets.
    pub link: LinkType,
}

/// The interfaces of a run so far; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<i32, u16>>>);

impl Names {
    /// The number of the interface with this index. `tell` is called once for each interface, in the order of
    /// numbers. Beyond 65 536 interfaces, all have the last number.
    pub fn number_of(&self, index: i32, tell: impl FnOnce()) -> u16 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = known.get(&index) {
            return number;
        }
        let Ok(number) = u16::try_from(known.len()) else { return u16::MAX };
        known.insert(index, number);
        tell();
        number
    }
}

/// The link type of packets of an interface with this hardware type (`ARPHRD_…`).
pub(crate) fn link_of(hardware: u16) -> LinkType {
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
        libc::ARPHRD_IEEE80211 => LinkType::IEEE802_11,
        libc::ARPHRD_IEEE80211_RADIOTAP => LinkType::IEEE802_11_RADIOTAP,
        // Interfaces of tunnels and of PPP, and those without a link layer: their packets begin with the IP
        // header.
        _ => LinkType::RAW,
    }
}
