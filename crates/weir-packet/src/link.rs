//! Link types of captures: the LINKTYPE_ numbers of <https://www.tcpdump.org/linktypes.html>.

use std::fmt;

/// A LINKTYPE_ value as capture files store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl LinkType {
            $(#[doc = concat!("LINKTYPE_", stringify!($name), ": ", $text, ".")]
            pub const $name: Self = Self($value);)*

            /// The name without its LINKTYPE_ prefix, for known types.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

link_types! {
    NULL = 0, "BSD loopback, family in host byte order";
    ETHERNET = 1, "Ethernet";
    PPP = 9, "PPP, also in HDLC-like framing";
    RAW_BSD = 12, "raw IP, the DLT_RAW of most systems";
    RAW_OPENBSD = 14, "raw IP, the DLT_RAW of OpenBSD";
    PPP_HDLC = 50, "PPP in HDLC-like framing, or Cisco HDLC";
    PPP_ETHER = 51, "PPPoE, sessions only";
    RAW = 101, "raw IPv4 or IPv6";
    C_HDLC = 104, "Cisco HDLC";
    IEEE802_11 = 105, "802.11";
    LOOP = 108, "OpenBSD loopback, family in network byte order";
    LINUX_SLL = 113, "Linux cooked capture v1";
    IEEE802_11_RADIOTAP = 127, "802.11 behind a radiotap header";
    PPI = 192, "Per-Packet Information: radio metadata, usually before 802.11";
    IPV4 = 228, "raw IPv4";
    IPV6 = 229, "raw IPv6";
    NFLOG = 239, "Linux netfilter log messages";
    LINUX_SLL2 = 276, "Linux cooked capture v2";
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "link type {}", self.0),
        }
    }
}
