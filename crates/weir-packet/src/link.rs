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
                    other => other.unread(),
                }
            }
        }
    };
}

link_types! {
    NULL = 0, "BSD loopback, family in host byte order";
    ETHERNET = 1, "Ethernet";
    ARCNET_BSD = 7, "ARCNET";
    SLIP = 8, "SLIP, behind a header of 16 bytes";
    PPP = 9, "PPP, also in HDLC-like framing";
    FDDI = 10, "FDDI";
    RAW_BSD = 12, "raw IP, the DLT_RAW of most systems";
    RAW_OPENBSD = 14, "raw IP, the DLT_RAW of OpenBSD";
    PPP_HDLC = 50, "PPP in HDLC-like framing, or Cisco HDLC";
    PPP_ETHER = 51, "PPPoE, sessions only";
    ATM_RFC1483 = 100, "LLC in ATM";
    RAW = 101, "raw IPv4 or IPv6";
    C_HDLC = 104, "Cisco HDLC";
    IEEE802_11 = 105, "802.11";
    FRELAY = 107, "Frame Relay";
    LOOP = 108, "OpenBSD loopback, family in network byte order";
    ENC = 109, "OpenBSD's packets inside IPsec";
    LINUX_SLL = 113, "Linux cooked capture v1";
    PFLOG = 117, "log of OpenBSD's packet filter";
    IEEE802_11_PRISM = 119, "802.11 behind a Prism or AVS header";
    IEEE802_11_RADIOTAP = 127, "802.11 behind a radiotap header";
    TZSP = 128, "TZSP";
    ARCNET_LINUX = 129, "ARCNET as Linux captures it";
    IEEE802_11_AVS = 163, "802.11 behind an AVS header";
    JUNIPER_MONITOR = 164, "IP behind Juniper's metadata";
    JUNIPER_ETHER = 178, "Ethernet behind Juniper's metadata";
    JUNIPER_PPP = 179, "PPP behind Juniper's metadata";
    JUNIPER_FRELAY = 180, "Frame Relay behind Juniper's metadata";
    JUNIPER_CHDLC = 181, "Cisco HDLC behind Juniper's metadata";
    MFR = 182, "multilink Frame Relay";
    PPI = 192, "Per-Packet Information: radio metadata, usually before 802.11";
    IEEE802_15_4_WITHFCS = 195, "802.15.4 with its checksum";
    IPNET = 226, "observation of IP in Solaris";
    IPV4 = 228, "raw IPv4";
    IPV6 = 229, "raw IPv6";
    IEEE802_15_4_NOFCS = 230, "802.15.4 without its checksum";
    NFLOG = 239, "Linux netfilter log messages";
    IPOIB = 242, "IP over InfiniBand";
    WIRESHARK_UPPER_PDU = 252, "data that Wireshark exported";
    PKTAP = 258, "packets with their process, of macOS";
    LINUX_SLL2 = 276, "Linux cooked capture v2";
    DSA_TAG_BRCM = 281, "Ethernet, with the tag of a Broadcom switch between the addresses and the EtherType";
    DSA_TAG_BRCM_PREPEND = 282, "Ethernet behind Broadcom's switch tag";
    IEEE802_15_4_TAP = 283, "802.15.4 behind metadata";
    DSA_TAG_DSA = 284, "Ethernet with Marvell's switch tag";
    DSA_TAG_EDSA = 285, "Ethernet with Marvell's switch tag behind an EtherType";
}

/// Further link types, by number: no stack of Weir starts from them, but messages name them.
const UNREAD: &[(u16, &str)] = &[
    (3, "AX25"),
    (6, "IEEE802_5"),
    (99, "SYMANTEC_FIREWALL"),
    (106, "ATM_CLIP"),
    (112, "NETBSD_HDLC"),
    (114, "LTALK"),
    (115, "ECONET"),
    (116, "IPFILTER"),
    (118, "CISCO_IOS"),
    (120, "AIRONET_HEADER"),
    (122, "IP_OVER_FC"),
    (123, "SUNATM"),
    (124, "RIO"),
    (125, "PCI_EXP"),
    (126, "AURORA"),
    (130, "JUNIPER_MLPPP"),
    (131, "JUNIPER_MLFR"),
    (132, "JUNIPER_ES"),
    (133, "JUNIPER_GGSN"),
    (134, "JUNIPER_MFR"),
    (135, "JUNIPER_ATM2"),
    (136, "JUNIPER_SERVICES"),
    (137, "JUNIPER_ATM1"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (139, "MTP2_WITH_PHDR"),
    (140, "MTP2"),
    (141, "MTP3"),
    (142, "SCCP"),
    (143, "DOCSIS"),
    (144, "LINUX_IRDA"),
    (145, "IBM_SP"),
    (146, "IBM_SN"),
    (165, "BACNET_MS_TP"),
    (166, "PPP_PPPD"),
    (167, "JUNIPER_PPPOE"),
    (168, "JUNIPER_PPPOE_ATM"),
    (169, "GPRS_LLC"),
    (170, "GPF_T"),
    (171, "GPF_F"),
    (172, "GCOM_T1E1"),
    (173, "GCOM_SERIAL"),
    (174, "JUNIPER_PIC_PEER"),
    (175, "ERF_ETH"),
    (176, "ERF_POS"),
    (177, "LINUX_LAPD"),
    (183, "JUNIPER_VP"),
    (184, "A429"),
    (185, "A653_ICM"),
    (186, "USB_FREEBSD"),
    (187, "BLUETOOTH_HCI_H4"),
    (188, "IEEE802_16_MAC_CPS"),
    (189, "USB_LINUX"),
    (190, "CAN20B"),
    (191, "IEEE802_15_4_LINUX"),
    (193, "IEEE802_16_MAC_CPS_RADIO"),
    (194, "JUNIPER_ISM"),
    (196, "SITA"),
    (197, "ERF"),
    (198, "RAIF1"),
    (199, "IPMB_KONTRON"),
    (200, "JUNIPER_ST"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (202, "AX25_KISS"),
    (203, "LAPD"),
    (204, "PPP_WITH_DIR"),
    (205, "C_HDLC_WITH_DIR"),
    (206, "FRELAY_WITH_DIR"),
    (207, "LAPB_WITH_DIR"),
    (209, "IPMB_LINUX"),
    (210, "FLEXRAY"),
    (211, "MOST"),
    (212, "LIN"),
    (213, "X2E_SERIAL"),
    (214, "X2E_XORAYA"),
    (215, "IEEE802_15_4_NONASK_PHY"),
    (216, "LINUX_EVDEV"),
    (217, "GSMTAP_UM"),
    (218, "GSMTAP_ABIS"),
    (219, "MPLS"),
    (220, "USB_LINUX_MMAPPED"),
    (221, "DECT"),
    (222, "AOS"),
    (223, "WIHART"),
    (224, "FC_2"),
    (225, "FC_2_WITH_FRAME_DELIMS"),
    (227, "CAN_SOCKETCAN"),
    (231, "DBUS"),
    (232, "JUNIPER_VS"),
    (233, "JUNIPER_SRX_E2E"),
    (234, "JUNIPER_FIBRECHANNEL"),
    (235, "DVB_CI"),
    (236, "MUX27010"),
    (237, "STANAG_5066_D_PDU"),
    (238, "JUNIPER_ATM_CEMIC"),
    (240, "NETANALYZER"),
    (241, "NETANALYZER_TRANSPARENT"),
    (243, "MPEG_2_TS"),
    (244, "NG40"),
    (245, "NFC_LLCP"),
    (246, "PFSYNC"),
    (247, "INFINIBAND"),
    (248, "SCTP"),
    (249, "USBPCAP"),
    (250, "RTAC_SERIAL"),
    (251, "BLUETOOTH_LE_LL"),
    (253, "NETLINK"),
    (254, "BLUETOOTH_LINUX_MONITOR"),
    (255, "BLUETOOTH_BREDR_BB"),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR"),
    (257, "PROFIBUS_DL"),
    (259, "EPON"),
    (260, "IPMI_HPM_2"),
    (261, "ZWAVE_R1_R2"),
    (262, "ZWAVE_R3"),
    (263, "WATTSTOPPER_DLM"),
    (264, "ISO_14443"),
    (265, "RDS"),
    (266, "USB_DARWIN"),
    (267, "OPENFLOW"),
    (268, "SDLC"),
    (269, "TI_LLN_SNIFFER"),
    (270, "LORATAP"),
    (271, "VSOCK"),
    (272, "NORDIC_BLE"),
    (273, "DOCSIS31_XRA31"),
    (274, "ETHERNET_MPACKET"),
    (275, "DISPLAYPORT_AUX"),
    (277, "SERCOS_MONITOR"),
    (278, "OPENVIZSLA"),
    (279, "EBHSCR"),
    (280, "VPP_DISPATCH"),
    (286, "ELEE"),
    (287, "Z_WAVE_SERIAL"),
    (288, "USB_2_0"),
    (289, "ATSC_ALP"),
    (290, "ETW"),
    (291, "NETANALYZER_NG"),
    (292, "ZBOSS_NCP"),
    (293, "USB_2_0_LOW_SPEED"),
    (294, "USB_2_0_FULL_SPEED"),
    (295, "USB_2_0_HIGH_SPEED"),
];

impl LinkType {
    fn unread(self) -> Option<&'static str> {
        match self.0 {
            147..=162 => USER.get(usize::from(self.0 - 147)).copied(),
            number => UNREAD.binary_search_by_key(&number, |(number, _)| *number).ok().map(|at| UNREAD[at].1),
        }
    }
}

/// The link types that users define, from 147 on.
const USER: [&str; 16] = [
    "USER0", "USER1", "USER2", "USER3", "USER4", "USER5", "USER6", "USER7", "USER8", "USER9", "USER10",
    "USER11", "USER12", "USER13", "USER14", "USER15",
];

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "link type {}", self.0),
        }
    }
}
