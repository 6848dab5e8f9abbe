//! Frames of link layers other than Ethernet.

use super::{datagram, join, ping, ping6};
use crate::traces::frame::ethernet;

/// LINKTYPE_ numbers of the captures.
pub const PPP_HDLC: u32 = 50;
pub const C_HDLC: u32 = 104;
pub const IEEE802_11: u32 = 105;
pub const RADIOTAP: u32 = 127;
pub const PPI: u32 = 192;
pub const NFLOG: u32 = 239;

const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];
const POINT: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

/// A type of seven bits, a length of nine, and the value (IEEE 802.1AB, section 8.4).
fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
    join(&[&(kind << 9 | value.len() as u16).to_be_bytes(), value])
}

/// An announcement with every basic type and one of an organisation, behind a tag as well; a port that goes
/// down.
pub fn lldp() -> Vec<Vec<u8>> {
    let (chassis, port) = (tlv(1, &join(&[&[4], &NEAR])), tlv(2, &join(&[&[5], b"eth0"])));
    let more = [
        tlv(4, b"uplink"),
        tlv(5, b"switch-1"),
        tlv(6, b"a switch"),
        tlv(7, &[0, 4, 0, 4]),
        tlv(8, &[5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 1, 0]),
        tlv(127, &[0, 0x80, 0xc2, 1, 0, 42]),
        tlv(0, &[]),
    ];
    let announced = join(&[&chassis, &port, &tlv(3, &[0, 120]), &more.concat()]);
    let down = join(&[&chassis, &port, &tlv(3, &[0, 0]), &tlv(0, &[])]);
    vec![
        ethernet(0x88cc, &announced),
        ethernet(0x8100, &join(&[&[0, 42, 0x88, 0xcc], &announced])),
        ethernet(0x88cc, &down),
    ]
}

/// Cisco HDLC (RFC 1547, section 4.3.1): address, control, EtherType.
fn cisco_of(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0x0f, 0], &ethertype.to_be_bytes(), payload])
}

/// PPP in HDLC-like framing (RFC 1662), compressed PPP, and Cisco HDLC, in one capture.
pub fn hdlc() -> Vec<Vec<u8>> {
    vec![
        join(&[&[0xff, 3, 0, 0x21], &ping()]),
        join(&[&[0xff, 3, 0, 0x57], &ping6()]),
        join(&[&[0xff, 3, 0x21], &datagram()]),
        join(&[&[0xff, 3, 0xc0, 0x21], &[9, 1, 0, 8, 1, 2, 3, 4]]),
        cisco_of(0x0800, &ping()),
    ]
}

/// Datagrams, a label, and a keep-alive of SLARP.
pub fn chdlc() -> Vec<Vec<u8>> {
    let keep_alive = [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff];
    vec![
        cisco_of(0x0800, &ping()),
        cisco_of(0x86dd, &ping6()),
        cisco_of(0x8847, &join(&[&[0, 0x06, 0x41, 64], &datagram()])),
        join(&[&[0x8f, 0, 0x80, 0x35], &keep_alive]),
    ]
}

/// An 802.11 header (IEEE 802.11, section 9.2.4): two bytes of control, duration, three addresses, number.
fn header(control: [u8; 2], addresses: [[u8; 6]; 3], number: u16) -> Vec<u8> {
    let number = (number << 4).to_le_bytes();
    join(&[&control, &[0x2c, 0], &addresses.concat(), &number])
}

/// An 802.2 and a SNAP header (RFC 1042).
fn snap(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ethertype.to_be_bytes(), payload])
}

/// Data frames in all directions, with quality of service, protected, without data; a beacon, a clear to
/// send.
pub fn wlan() -> Vec<Vec<u8>> {
    let up = header([0x08, 0x01], [POINT, NEAR, FAR], 1);
    let down = header([0x08, 0x02], [NEAR, POINT, FAR], 2);
    let relayed = header([0x08, 0x03], [POINT, [2, 0, 0, 0, 0, 0xb], FAR], 3);
    let qos = header([0x88, 0x01], [POINT, NEAR, FAR], 4);
    let part = |payload: &[u8]| join(&[&FAR, &NEAR, &(payload.len() as u16).to_be_bytes(), payload]);
    let beacon =
        join(&[&header([0x80, 0], [[0xff; 6], POINT, POINT], 5), &[0; 12], &[0, 3, b'l', b'a', b'b']]);
    vec![
        join(&[&up, &snap(0x0800, &ping())]),
        join(&[&down, &snap(0x86dd, &ping6())]),
        join(&[&relayed, &NEAR, &snap(0x0800, &datagram())]),
        join(&[&qos, &[6, 0], &snap(0x0800, &ping())]),
        // Protected: the bytes mean nothing.
        join(&[&header([0x08, 0x41], [POINT, NEAR, FAR], 6), &[1, 2, 3, 0x20, 4, 5, 6, 7, 8, 9, 10, 11]]),
        // No data.
        header([0x48, 0x11], [POINT, NEAR, FAR], 7),
        beacon,
        join(&[&[0xc4, 0, 0x2c, 0], &NEAR]),
        // An aggregate of two (section 9.3.2.2), the first padded to four bytes.
        join(&[&qos, &[0x80, 0], &part(&snap(0x86dd, &ping6())), &[0; 2], &part(&snap(0x0800, &ping()))]),
    ]
}

/// Radiotap headers of different length: nothing, flags, the time and flags, two words of present fields.
pub fn radiotap() -> Vec<Vec<u8>> {
    let up = header([0x08, 0x01], [POINT, NEAR, FAR], 1);
    let qos = join(&[&header([0x88, 0x01], [POINT, NEAR, FAR], 2), &[6, 0]]);
    let flags = |flags: u8| [0, 0, 9, 0, 2, 0, 0, 0, flags];
    let time = join(&[&[0, 0, 17, 0, 3, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0], &[0]]);
    vec![
        join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &up, &snap(0x0800, &ping())]),
        // With the frame's checksum at the end.
        join(&[&flags(0x10), &up, &snap(0x0800, &datagram()), &[0xde, 0xad, 0xbe, 0xef]]),
        // The payload aligned to four bytes.
        join(&[&flags(0x20), &qos, &[0, 0], &snap(0x0800, &ping())]),
        join(&[&time, &qos, &snap(0x86dd, &ping6())]),
        join(&[&[0, 0, 12, 0, 0, 0, 0, 0x80, 0, 0, 0, 0], &up, &snap(0x0800, &ping())]),
    ]
}

/// Per-Packet Information before 802.11 and before Ethernet, with a field and without.
pub fn ppi() -> Vec<Vec<u8>> {
    let up = header([0x08, 0x01], [POINT, NEAR, FAR], 1);
    // The field 802.11-common has 20 bytes.
    let common = join(&[&[0, 0, 32, 0, 105, 0, 0, 0], &[2, 0, 20, 0], &[0; 20]]);
    vec![
        join(&[&common, &up, &snap(0x0800, &ping())]),
        join(&[&[0, 0, 8, 0, 105, 0, 0, 0], &up, &snap(0x86dd, &ping6())]),
        join(&[&[0, 0, 8, 0, 1, 0, 0, 0], &ethernet(0x0800, &datagram())]),
    ]
}

/// An attribute of a netfilter log message, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = join(&[&(4 + value.len() as u16).to_le_bytes(), &kind.to_le_bytes(), value]);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Packet header, interface, prefix, time stamp and the packet.
pub fn nflog() -> Vec<Vec<u8>> {
    let message = |family: u8, ethertype: u16, packet: &[u8]| {
        let head = attribute(1, &join(&[&ethertype.to_be_bytes(), &[1, 0]]));
        let prefix = attribute(10, b"lab\0\0");
        join(&[&[family, 0, 0, 30], &head, &attribute(4, &[0, 0, 0, 2]), &prefix, &attribute(9, packet)])
    };
    vec![
        message(2, 0x0800, &ping()),
        message(10, 0x86dd, &ping6()),
        message(2, 0x0800, &datagram()),
        join(&[&[2, 0, 0, 31], &attribute(9, &ping())]),
    ]
}
