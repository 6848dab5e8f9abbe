//! Protection of Initial packets (RFC 9001 §5): keys derived from the client's first connection id, AES-128
//! in Galois/counter mode (NIST SP 800-38D), and header protection.

use super::version::Version;
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hkdf::Hkdf;
use sha2::Sha256;

/// Length of the authentication tag at the end of a packet, bytes.
const TAG_BYTES: usize = 16;

/// Keys of one side.
pub(super) struct SideKeys {
    key: Aes128,
    hash: GHash,
    iv: [u8; 12],
    header: Aes128,
}

/// Keys of both sides.
pub(super) struct InitialKeys {
    pub(super) client: SideKeys,
    pub(super) server: SideKeys,
}

/// A decrypted Initial packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// Packet number.
    pub(super) number: u64,
    /// Frames.
    pub(super) payload: Vec<u8>,
}

impl InitialKeys {
    /// Derives the keys from the connection id that the client's first Initial is sent to.
    pub(super) fn derive(version: &Version, destination_id: &[u8]) -> Self {
        let initial = Hkdf::<Sha256>::new(Some(&version.salt), destination_id);
        let side = |label| {
            let mut secret = [0; 32];
            expand_label(&initial, label, &mut secret);
            SideKeys::derive(version, &secret)
        };
        Self { client: side("client in"), server: side("server in") }
    }
}

impl SideKeys {
    fn derive(version: &Version, secret: &[u8; 32]) -> Self {
        let labels = if version.is_v2 {
            ["quicv2 key", "quicv2 iv", "quicv2 hp"]
        } else {
            ["quic key", "quic iv", "quic hp"]
        };
        let (mut key, mut iv, mut header) = ([0; 16], [0; 12], [0; 16]);
        if let Ok(secret) = Hkdf::<Sha256>::from_prk(secret) {
            expand_label(&secret, labels[0], &mut key);
            expand_label(&secret, labels[1], &mut iv);
            expand_label(&secret, labels[2], &mut header);
        }
        let key = Aes128::new(&key.into());
        let mut hash_key = [0; 16].into();
        key.encrypt_block(&mut hash_key);
        Self { key, hash: GHash::new(&hash_key), iv, header: Aes128::new(&header.into()) }
    }

    /// Decrypts a packet whose number begins at offset `number_at`; `expected` is the next packet number.
    /// `None` if the packet is too short or was not sealed with these keys.
    pub(super) fn open(&self, packet: &[u8], number_at: usize, expected: u64) -> Option<Opened> {
        // The sample's position assumes a packet number of four bytes (RFC 9001 §5.4.2).
        let sample = packet.get(number_at + 4..)?.first_chunk::<16>()?;
        let mut mask = (*sample).into();
        self.header.encrypt_block(&mut mask);
        let first = packet.first()? ^ mask[0] & 0x0f;
        let number_bytes = usize::from(first & 3) + 1;
        let mut header = packet.get(..number_at + number_bytes)?.to_vec();
        *header.first_mut()? = first;
        let mut number = 0;
        for (byte, mask) in header.get_mut(number_at..)?.iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            number = number << 8 | u64::from(*byte);
        }
        let number = restore_number(expected, number, number_bytes);
        let (sealed, tag) = packet.get(number_at + number_bytes..)?.split_last_chunk::<TAG_BYTES>()?;
        let nonce = self.nonce(number);
        if self.tag(&nonce, &header, sealed) != *tag {
            return None;
        }
        Some(Opened { number, payload: self.crypt(&nonce, sealed) })
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// Block `counter` of the key stream.
    fn key_stream(&self, nonce: &[u8; 12], counter: u32) -> [u8; 16] {
        let mut block = [0; 16];
        block[..12].copy_from_slice(nonce);
        block[12..].copy_from_slice(&counter.to_be_bytes());
        let mut block = block.into();
        self.key.encrypt_block(&mut block);
        block.into()
    }

    fn tag(&self, nonce: &[u8; 12], header: &[u8], sealed: &[u8]) -> [u8; TAG_BYTES] {
        let mut hash = self.hash.clone();
        hash.update_padded(header);
        hash.update_padded(sealed);
        let [header_bits, sealed_bits] = [header, sealed].map(|bytes| (bytes.len() as u64 * 8).to_be_bytes());
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&header_bits);
        lengths[8..].copy_from_slice(&sealed_bits);
        hash.update(&[lengths.into()]);
        let mut tag: [u8; TAG_BYTES] = hash.finalize().into();
        for (byte, stream) in tag.iter_mut().zip(self.key_stream(nonce, 1)) {
            *byte ^= stream;
        }
        tag
    }

    fn crypt(&self, nonce: &[u8; 12], bytes: &[u8]) -> Vec<u8> {
        let mut crypted = bytes.to_vec();
        for (counter, block) in (2..).zip(crypted.chunks_mut(16)) {
            for (byte, stream) in block.iter_mut().zip(self.key_stream(nonce, counter)) {
                *byte ^= stream;
            }
        }
        crypted
    }

    /// Seals a payload behind a header that ends in a four-byte packet number; the inverse of
    /// [`open`](Self::open).
    #[cfg(test)]
    pub(super) fn seal(&self, header: &[u8], number: u32, payload: &[u8]) -> Vec<u8> {
        let nonce = self.nonce(number.into());
        let sealed = self.crypt(&nonce, payload);
        let tag = self.tag(&nonce, header, &sealed);
        let number_at = header.len() - 4;
        let mut packet = [header, &sealed, &tag].concat();
        let mut mask = packet[number_at + 4..].first_chunk::<16>().copied().expect("long enough").into();
        self.header.encrypt_block(&mut mask);
        packet[0] ^= mask[0] & 0x0f;
        packet[number_at..number_at + 4].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        packet
    }
}

/// HKDF-Expand-Label of TLS 1.3 (RFC 8446 §7.1) with an empty context.
fn expand_label(secret: &Hkdf<Sha256>, label: &str, output: &mut [u8]) {
    let length = [0, output.len() as u8, 6 + label.len() as u8];
    // Fails only for outputs of 8 KiB and more.
    let _ = secret.expand_multi_info(&[&length, b"tls13 ", label.as_bytes(), &[0]], output);
}

/// The packet number closest to `expected` whose low bytes are `truncated` (RFC 9000 §A.3).
fn restore_number(expected: u64, truncated: u64, number_bytes: usize) -> u64 {
    let window = 1_u64 << (8 * number_bytes);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected.saturating_add(window / 2) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::super::version;
    use super::*;
    use crate::wire::hex;

    /// The connection id of the examples in RFC 9001 and RFC 9369.
    const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    fn keys(number: u32) -> InitialKeys {
        InitialKeys::derive(version::find(number).expect("known"), &ID)
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(16)).collect();
        digits.as_chunks::<2>().0.iter().map(|[high, low]| (high << 4 | low) as u8).collect()
    }

    #[test]
    fn initialization_vectors_are_those_of_the_rfcs() {
        assert_eq!(hex(&keys(1).client.iv), "fa044b2f42a3fd3b46fb255c");
        assert_eq!(hex(&keys(1).server.iv), "0ac1493ca1905853b0bba03e");
        assert_eq!(hex(&keys(0x6b33_43cf).client.iv), "91f73e2351d8fa91660e909f");
        assert_eq!(hex(&keys(0x6b33_43cf).server.iv), "dd13c276499c0249d3310652");
    }

    #[test]
    fn the_servers_initial_of_rfc_9001_is_opened() {
        let packet = unhex(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb3
             8cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        );
        let opened = keys(1).server.open(&packet, 18, 0).expect("authentic");
        assert_eq!(opened.number, 1);
        assert!(
            hex(&opened.payload)
                .starts_with("02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf7")
        );
        assert_eq!(keys(1).client.open(&packet, 18, 0), None, "not the client's");
    }

    #[test]
    fn what_is_sealed_is_opened_and_what_is_changed_is_not() {
        for number in [1, 0x6b33_43cf, 0xff00_001d, 0xff00_0017, 0xff00_0016] {
            let keys = keys(number);
            let packet = keys.client.seal(&[0xc3, 9, 9, 0, 0, 0, 7], 7, b"some twenty bytes here");
            let opened = keys.client.open(&packet, 3, 0).expect("authentic");
            assert_eq!((opened.number, &opened.payload[..]), (7, &b"some twenty bytes here"[..]));
            for at in 0..packet.len() {
                let mut changed = packet.clone();
                changed[at] ^= 0x41;
                assert_eq!(keys.client.open(&changed, 3, 0), None, "{at}");
                assert_eq!(keys.client.open(&packet[..at], 3, 0), None, "{at}");
            }
        }
    }

    #[test]
    fn a_truncated_number_is_restored() {
        // RFC 9000 §A.3.
        assert_eq!(restore_number(0xa82f_30eb, 0x9b32, 2), 0xa82f_9b32);
        assert_eq!(restore_number(0, 7, 1), 7);
        assert_eq!(restore_number(255, 0, 1), 256);
        assert_eq!(restore_number(256, 255, 1), 255);
    }
}
