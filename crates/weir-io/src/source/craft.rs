//! Builds captures in memory, for tests.

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    pub fn u16(self, n: u16) -> [u8; 2] {
        if self == Self::Big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    pub fn u32(self, n: u32) -> [u8; 4] {
        if self == Self::Big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    pub fn u64(self, n: u64) -> [u8; 8] {
        if self == Self::Big { n.to_be_bytes() } else { n.to_le_bytes() }
    }
}

/// The header of a pcap file, version 2.4, snap length 262 144.
pub fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    pcap_header_of(order, magic, (2, 4), 262_144, link)
}

pub fn pcap_header_of(order: Order, magic: u32, version: (u16, u16), snaplen: u32, link: u32) -> Vec<u8> {
    let mut out = order.u32(magic).to_vec();
    out.extend(order.u16(version.0));
    out.extend(order.u16(version.1));
    out.extend([0; 8]);
    out.extend(order.u32(snaplen));
    out.extend(order.u32(link));
    out
}

/// A record of a pcap file, with `more` between the header and the data.
pub fn pcap_record(
    order: Order,
    (seconds, fraction): (u32, u32),
    lengths: (u32, u32),
    more: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [seconds, fraction, lengths.0, lengths.1] {
        out.extend(order.u32(word));
    }
    out.extend(more);
    out.extend(data);
    out
}

/// A little-endian pcap file with microseconds, with a packet of each of these lengths.
pub fn plain_pcap(lengths: &[usize]) -> Vec<u8> {
    let order = Order::Little;
    let mut out = pcap_header(order, 0xa1b2_c3d4, 1);
    for (index, &length) in lengths.iter().enumerate() {
        let n = length as u32;
        out.extend(pcap_record(order, (index as u32, 5), (n, n), &[], &vec![index as u8; length]));
    }
    out
}

/// A block of pcapng.
pub fn block(order: Order, block_type: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let total = order.u32((12 + body.len() + padding) as u32);
    let mut out = order.u32(block_type).to_vec();
    out.extend(total);
    out.extend(body);
    out.extend(&[0; 3][..padding]);
    out.extend(total);
    out
}

pub fn section(order: Order) -> Vec<u8> {
    section_of(order, (1, 0))
}

pub fn section_of(order: Order, version: (u16, u16)) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(version.0));
    body.extend(order.u16(version.1));
    body.extend(order.u64(u64::MAX));
    block(order, 0x0a0d_0d0a, &body)
}

/// An interface with these options.
pub fn interface(order: Order, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = order.u16(link).to_vec();
    body.extend([0; 2]);
    body.extend(order.u32(snaplen));
    for (code, value) in options {
        body.extend(order.u16(*code));
        body.extend(order.u16(value.len() as u16));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(order, 1, &body)
}

pub fn enhanced(order: Order, interface: u32, ticks: u64, lengths: (u32, u32), data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [interface, (ticks >> 32) as u32, ticks as u32, lengths.0, lengths.1] {
        body.extend(order.u32(word));
    }
    body.extend(data);
    block(order, 6, &body)
}

/// A small pcapng file with packets of these lengths.
pub fn plain_pcapng(order: Order, lengths: &[usize]) -> Vec<u8> {
    let mut out = section(order);
    out.extend(interface(order, 1, 0, &[(2, b"eth0")]));
    for (index, &length) in lengths.iter().enumerate() {
        let n = length as u32;
        out.extend(enhanced(order, 0, index as u64 * 1_000_000 + 5, (n, n), &vec![index as u8; length]));
    }
    out
}
