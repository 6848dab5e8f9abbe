//! Writes the packets of HTTP connections to a pcapng file with anonymised IP addresses. Addresses with a
//! common prefix keep a common prefix: ipcrypt-pfx (draft-denis-ipcrypt) encrypts each bit with two AES-128
//! operations, similar to Crypto-PAn (Xu et al., ICNP 2002). The key decrypts the addresses.
//!
//! Only packets with exactly one IP header are written: Ethernet with or without VLAN tags, IP without
//! options or extension headers, TCP, no tunnel, no fragment. The number of omitted packets is printed to
//! standard error. MAC addresses, TCP options and addresses within HTTP (`X-Forwarded-For`) are not changed.
//!
//! `cargo run --example anonymise -- KEY out.pcapng capture.pcap` with a key of 64 hexadecimal digits

use ipcrypt_rs::IpcryptPfx;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use weir::io::CaptureWriter;
use weir::packet::LinkType;
use weir::{Engine, Frame, Next};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(key), Some(out)) = (args.next(), args.next()) else {
        return Err("KEY OUT.pcapng FILE…".into());
    };
    let key = key_of(&key.to_string_lossy()).ok_or("a key is 64 hexadecimal digits, its halves unlike")?;
    let cipher = IpcryptPfx::new(key);
    let mut writer = CaptureWriter::create(Path::new(&out))?;
    let (mut fault, mut count, mut left_out) = (None, 0, 0);
    let mut engine = Engine::new();
    engine.subscribe("http", |frame: &Frame| {
        let mut bytes = frame.bytes.clone();
        if frame.meta.link != LinkType::ETHERNET || anonymise(&mut bytes, &cipher).is_none() {
            left_out += 1;
            return Next::Go;
        }
        count += 1;
        fault = writer.write(&frame.meta, &bytes).err();
        if fault.is_some() { Next::End } else { Next::Go }
    })?;
    engine.read(args)?;
    drop(engine);
    writer.finish()?;
    println!("{count} packets");
    if left_out > 0 {
        eprintln!("{left_out} left out: not plainly Ethernet, IP and TCP");
    }
    fault.map_or(Ok(()), |fault| Err(fault.into()))
}

fn key_of(hex: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        hex.bytes().map(|digit| (digit as char).to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok().filter(|key: &[u8; 32]| key[..16] != key[16..])
}

/// Replaces both IP addresses of an Ethernet frame, and updates the checksums. Returns `None` and leaves the
/// frame unchanged if it may contain further addresses or is not TCP.
fn anonymise(frame: &mut [u8], cipher: &IpcryptPfx) -> Option<()> {
    let mut ip = 14;
    while matches!(frame.get(ip - 2..ip)?, [0x81, 0] | [0x88, 0xa8]) {
        ip += 4;
    }
    let ether_type = frame.get(ip - 2..ip)?;
    // No options, because they may contain a route; no fragment (flag More Fragments, offset); the protocol
    // is TCP.
    let (addresses, transport) = match (ether_type, frame.get(ip..ip + 10)?) {
        ([8, 0], [0x45, _, _, _, _, _, 0 | 0x40, 0, _, 6]) => (ip + 12..ip + 20, ip + 20),
        ([0x86, 0xdd], [first, _, _, _, _, _, 6, ..]) if first >> 4 == 6 => (ip + 8..ip + 40, ip + 40),
        _ => return None,
    };
    let old = frame.get(addresses.clone())?.to_vec();
    let new: Vec<u8> = old.chunks(old.len() / 2).flat_map(|address| encrypt(address, cipher)).collect();
    frame[addresses].copy_from_slice(&new);
    if old.len() == 8 {
        mend(&mut frame[ip + 10..ip + 12], &old, &new);
    }
    if let Some(checksum) = frame.get_mut(transport + 16..transport + 18) {
        mend(checksum, &old, &new);
    }
    Some(())
}

fn encrypt(address: &[u8], cipher: &IpcryptPfx) -> Vec<u8> {
    let address = match <[u8; 4]>::try_from(address) {
        Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).unwrap_or_default())),
    };
    match cipher.encrypt_ipaddr(address) {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Updates a checksum after a part of the summed bytes was replaced (RFC 1624 §3, equation 3).
fn mend(checksum: &mut [u8], old: &[u8], new: &[u8]) {
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.as_chunks::<2>().0.iter().map(|&pair| u32::from(u16::from_be_bytes(pair))).collect()
    };
    let before = u32::from(!u16::from_be_bytes([checksum[0], checksum[1]]));
    let gone: u32 = words(old).iter().map(|word| !word & 0xffff).sum();
    let mut sum = before + gone + words(new).iter().sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
