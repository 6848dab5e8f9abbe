//! ClientHello and ServerHello (RFC 8446 §4.1.2 and §4.1.3, RFC 5246 §7.4.1) and their extensions (§4.2).
//!
//! The input is the body of the handshake message: from TLS records here, from CRYPTO frames in QUIC. The
//! part before the lists must be complete. Truncated lists are read as far as they go, because a passive
//! observer should report all it can read.

use crate::values::readable;
use crate::wire::{Reader, numbers16};

/// Random of a HelloRetryRequest, which has the format of a ServerHello: SHA-256 of "HelloRetryRequest" (RFC
/// 8446 §4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Extension types that are parsed (IANA "TLS ExtensionType Values").
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const EC_POINT_FORMATS: u16 = 11;
    pub(super) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(super) const ALPN: u16 = 16;
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const KEY_SHARE: u16 = 51;
}

/// A client's offer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// `legacy_version`: 0x0303 for TLS 1.2 and 1.3.
    pub version: u16,
    /// Random; for an SSLv2-style hello its challenge, zero-padded on the left (RFC 5246 §E.2).
    pub random: [u8; 32],
    /// Session id; empty if the client has none.
    pub session_id: Vec<u8>,
    /// Cipher suites in the client's order, including GREASE and signalling values. Of an SSLv2-style hello
    /// only the TLS suites.
    pub ciphers: Vec<u16>,
    /// Types of all extensions in the client's order, including GREASE.
    pub extensions: Vec<u16>,
    /// The first host name of `server_name` (RFC 6066 §3).
    pub server_name: Option<String>,
    /// Offered application protocols (RFC 7301); invalid UTF-8 is replaced.
    pub alpn: Vec<String>,
    /// First and last byte of the first name in `alpn`, unmodified, for JA4.
    pub alpn_ends: Option<(u8, u8)>,
    /// `supported_versions` (RFC 8446 §4.2.1).
    pub supported_versions: Vec<u16>,
    /// `supported_groups`, once called elliptic curves (RFC 8446 §4.2.7).
    pub groups: Vec<u16>,
    /// `ec_point_formats` (RFC 8422 §5.1.2).
    pub point_formats: Vec<u8>,
    /// `signature_algorithms` (RFC 8446 §4.2.3).
    pub signature_algorithms: Vec<u16>,
    /// Groups with a share in `key_share` (RFC 8446 §4.2.8).
    pub key_share_groups: Vec<u16>,
    /// Whether `session_ticket` holds a ticket (RFC 5077 §3.2).
    pub has_ticket: bool,
    /// Whether a pre-shared key is offered (RFC 8446 §4.2.11).
    pub has_pre_shared_key: bool,
    /// Whether the client sends early data before the server's answer (RFC 8446 §4.2.10).
    pub has_early_data: bool,
    /// Length of the DTLS cookie, which proves the client's address, bytes.
    pub cookie_bytes: usize,
    /// Whether the hello has the format of SSLv2.
    pub is_sslv2: bool,
}

impl ClientHello {
    /// Parses the body of a ClientHello message, without its header of four bytes.
    ///
    /// Cipher suites and extensions are read up to the first truncated one. `None` if the part before them is
    /// truncated.
    pub fn parse(body: &[u8]) -> Option<Self> {
        Self::read(body, false)
    }

    /// As [`parse`](Self::parse), for DTLS, where a cookie follows the session id (RFC 6347 §4.2.1, RFC 9147
    /// §5.3).
    pub fn parse_dtls(body: &[u8]) -> Option<Self> {
        Self::read(body, true)
    }

    fn read(body: &[u8], has_cookie: bool) -> Option<Self> {
        let mut reader = Reader::new(body);
        let mut hello = Self { version: reader.u16()?, random: reader.array()?, ..Self::default() };
        hello.session_id = reader.vector8()?.to_vec();
        if has_cookie {
            hello.cookie_bytes = reader.vector8()?.len();
        }
        let ciphers_bytes = reader.u16()?;
        hello.ciphers = numbers16(reader.take_up_to(ciphers_bytes)).collect();
        reader.vector8(); // compression methods
        for (kind, data) in extensions(&mut reader) {
            hello.extensions.push(kind);
            // A malformed extension leaves its fields unset.
            let _ = hello.take_extension(kind, data);
        }
        Some(hello)
    }

    /// Parses a ClientHello in the format of SSLv2 (RFC 5246 §E.2): the content of the record, type byte
    /// first. `None` if it is truncated or no ClientHello.
    pub fn parse_sslv2(content: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(content);
        if reader.u8()? != super::message::CLIENT_HELLO {
            return None;
        }
        let version = reader.u16()?;
        let lengths = [reader.u16()?, reader.u16()?, reader.u16()?].map(usize::from);
        let specs = reader.take(lengths[0])?.as_chunks::<3>().0;
        let session_id = reader.take(lengths[1])?.to_vec();
        let challenge = reader.take(lengths[2])?;
        let challenge = &challenge[challenge.len().saturating_sub(32)..];
        let mut random = [0; 32];
        random[32 - challenge.len()..].copy_from_slice(challenge);
        // A three-byte cipher spec is a TLS suite if its first byte is zero.
        let ciphers =
            specs.iter().filter(|spec| spec[0] == 0).map(|spec| u16::from_be_bytes([spec[1], spec[2]]));
        Some(Self {
            version,
            random,
            session_id,
            ciphers: ciphers.collect(),
            is_sslv2: true,
            ..Self::default()
        })
    }

    fn take_extension(&mut self, kind: u16, data: &[u8]) -> Option<()> {
        let mut reader = Reader::new(data);
        match kind {
            extension::SERVER_NAME => {
                let mut names = Reader::new(reader.vector16()?);
                while !names.is_empty() {
                    let (name_type, name) = (names.u8()?, names.vector16()?);
                    if name_type == 0 && self.server_name.is_none() {
                        self.server_name = Some(text(name));
                    }
                }
            }
            extension::SUPPORTED_GROUPS => self.groups.extend(numbers16(reader.vector16()?)),
            extension::EC_POINT_FORMATS => self.point_formats.extend_from_slice(reader.vector8()?),
            extension::SIGNATURE_ALGORITHMS => {
                self.signature_algorithms.extend(numbers16(reader.vector16()?))
            }
            extension::ALPN => {
                let mut names = Reader::new(reader.vector16()?);
                while !names.is_empty() {
                    let name = names.vector8()?;
                    if self.alpn.is_empty() {
                        self.alpn_ends = name.first().copied().zip(name.last().copied());
                    }
                    self.alpn.push(text(name));
                }
            }
            extension::SESSION_TICKET => self.has_ticket |= !data.is_empty(),
            extension::PRE_SHARED_KEY => self.has_pre_shared_key = true,
            extension::EARLY_DATA => self.has_early_data = true,
            extension::SUPPORTED_VERSIONS => self.supported_versions.extend(numbers16(reader.vector8()?)),
            extension::KEY_SHARE => {
                let mut shares = Reader::new(reader.vector16()?);
                while !shares.is_empty() {
                    let group = shares.u16()?;
                    self.key_share_groups.push(group);
                    shares.vector16()?;
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// A server's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerHello {
    /// `legacy_version`: 0x0303 for TLS 1.2 and 1.3, 0x7fxx in drafts of the latter.
    pub version: u16,
    /// Random; shorter ones of SSLv2 are zero-padded on the left.
    pub random: [u8; 32],
    /// Session id: an echo of the client's if TLS 1.2 resumes a session, and always in TLS 1.3.
    pub session_id: Vec<u8>,
    /// Cipher suite; `None` for SSLv2, where the client chooses.
    pub cipher: Option<u16>,
    /// Types of all extensions in the server's order.
    pub extensions: Vec<u16>,
    /// The version in `supported_versions`, which overrides `version` (RFC 8446 §4.2.1).
    pub selected_version: Option<u16>,
    /// Application protocol (RFC 7301); TLS 1.3 sends it in an encrypted message.
    pub alpn: Option<String>,
    /// Group of the server's key share, or the group requested by a HelloRetryRequest.
    pub key_share_group: Option<u16>,
    /// Whether the server accepted a pre-shared key.
    pub has_pre_shared_key: bool,
}

impl ServerHello {
    /// Parses the body of a ServerHello message, without its header of four bytes.
    ///
    /// Extensions are read up to the first truncated one. `None` if the part before them is truncated.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let mut hello = Self { version: reader.u16()?, random: reader.array()?, ..Self::default() };
        if is_draft_without_session(hello.version) {
            hello.cipher = Some(reader.u16()?);
        } else {
            hello.session_id = reader.vector8()?.to_vec();
            hello.cipher = Some(reader.u16()?);
            reader.u8()?; // compression method
        }
        for (kind, data) in extensions(&mut reader) {
            hello.extensions.push(kind);
            let _ = hello.take_extension(kind, data);
        }
        Some(hello)
    }

    /// Parses a server's SSLv2 hello (draft-hickman-netscape-ssl-00 §2.6): the content of the record, type
    /// byte first. Also returns its certificate. `None` if it is truncated or of another type.
    pub fn parse_sslv2(content: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader::new(content);
        if reader.u8()? != 4 {
            return None;
        }
        reader.u16()?; // session id hit, certificate type
        let version = reader.u16()?;
        let lengths = [reader.u16()?, reader.u16()?, reader.u16()?].map(usize::from);
        let certificate = reader.take(lengths[0])?;
        reader.take(lengths[1])?; // cipher specs, of which the client chooses one
        let connection_id = reader.take(lengths[2])?;
        let connection_id = &connection_id[connection_id.len().saturating_sub(32)..];
        let mut random = [0; 32];
        random[32 - connection_id.len()..].copy_from_slice(connection_id);
        Some((Self { version, random, ..Self::default() }, certificate))
    }

    /// Whether this is a HelloRetryRequest (RFC 8446 §4.1.4), which precedes the real ServerHello.
    pub fn is_retry_request(&self) -> bool {
        self.random == RETRY_RANDOM
    }

    /// The negotiated version.
    pub fn negotiated_version(&self) -> u16 {
        self.selected_version.unwrap_or(self.version)
    }

    fn take_extension(&mut self, kind: u16, data: &[u8]) -> Option<()> {
        let mut reader = Reader::new(data);
        match kind {
            extension::ALPN => {
                let name = Reader::new(reader.vector16()?).vector8()?;
                self.alpn.get_or_insert_with(|| text(name));
            }
            extension::PRE_SHARED_KEY => self.has_pre_shared_key = true,
            extension::SUPPORTED_VERSIONS => self.selected_version = Some(reader.u16()?),
            extension::KEY_SHARE => self.key_share_group = Some(reader.u16()?),
            _ => {}
        }
        Some(())
    }
}

/// Whether a version is TLS 1.3, one of its drafts or DTLS 1.3, which encrypt everything after the
/// ServerHello.
pub fn is_tls13(version: u16) -> bool {
    matches!(version, 0x0304 | 0xfefc) || version >> 8 == 0x7f
}

/// Whether a ServerHello of this version lacks session id and compression method: TLS 1.3 drafts up to 21.
/// The value 0x0304 occurs in this field only in drafts up to 14.
fn is_draft_without_session(version: u16) -> bool {
    version == 0x0304 || (version >> 8 == 0x7f && version & 0xff <= 21)
}

/// Types and contents of the extensions at the end of a hello, up to the first truncated one.
fn extensions<'a>(reader: &mut Reader<'a>) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
    // If the block is truncated, the complete extensions in it are still read.
    let block_bytes = reader.u16().unwrap_or(0);
    let mut block = Reader::new(reader.take_up_to(block_bytes));
    std::iter::from_fn(move || Some((block.u16()?, block.vector16()?)))
}

fn text(bytes: &[u8]) -> String {
    readable(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with the given extensions: version 0x0303, a random value of bytes 4, two suites.
    fn client_hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([4; 32]);
        body.extend([1, 9, 0, 4, 0x13, 0x01, 0x0a, 0x0a, 1, 0]);
        body.extend(u16::try_from(extensions.len()).expect("short").to_be_bytes());
        body.extend(extensions);
        body
    }

    #[test]
    fn reads_the_fixed_part_and_extensions_in_order() {
        let hello = ClientHello::parse(&client_hello(&[
            0, 0, 0, 8, 0, 6, 0, 0, 3, b'a', b'.', b'b', // server_name
            0x5a, 0x5a, 0, 0, // GREASE
            0, 16, 0, 5, 0, 3, 2, b'h', b'2', // ALPN
            0, 43, 0, 3, 2, 3, 4, // supported_versions
            0, 51, 0, 7, 0, 5, 0, 29, 0, 1, 7, // key_share
        ]))
        .expect("whole");
        assert_eq!(hello.version, 0x0303);
        assert_eq!(hello.session_id, [9]);
        assert_eq!(hello.ciphers, [0x1301, 0x0a0a]);
        assert_eq!(hello.extensions, [0, 0x5a5a, 16, 43, 51]);
        assert_eq!(hello.server_name.as_deref(), Some("a.b"));
        assert_eq!(hello.alpn, ["h2"]);
        assert_eq!(hello.alpn_ends, Some((b'h', b'2')));
        assert_eq!(hello.supported_versions, [0x0304]);
        assert_eq!(hello.key_share_groups, [29]);
    }

    #[test]
    fn a_hello_without_extensions_is_a_hello() {
        let mut body = client_hello(&[]);
        body.truncate(body.len() - 2);
        assert_eq!(ClientHello::parse(&body).expect("whole").extensions, []);
    }

    #[test]
    fn extensions_are_read_up_to_the_one_that_is_cut() {
        let mut body = client_hello(&[0, 23, 0, 0, 0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
        body.pop();
        let hello = ClientHello::parse(&body).expect("fixed part is whole");
        assert_eq!(hello.extensions, [23]);
    }

    #[test]
    fn a_cut_fixed_part_is_no_hello() {
        let body = client_hello(&[]);
        for length in 0..2 + 32 + 2 + 2 {
            assert_eq!(ClientHello::parse(&body[..length]), None, "{length} bytes");
        }
        // A list of suites whose length exceeds the message.
        let cut = ClientHello::parse(&body[..2 + 32 + 2 + 2 + 3]).expect("all before the suites is whole");
        assert_eq!(cut.ciphers, [0x1301]);
    }

    #[test]
    fn an_sslv2_hello_has_the_suites_of_tls_only() {
        let content = [1, 3, 1, 0, 6, 0, 0, 0, 2, 0, 0, 0x2f, 7, 0, 0xc0, 0xaa, 0xbb];
        let hello = ClientHello::parse_sslv2(&content).expect("whole");
        assert_eq!((hello.version, hello.is_sslv2), (0x0301, true));
        assert_eq!(hello.ciphers, [0x2f]);
        assert_eq!(hello.random[29..], [0, 0xaa, 0xbb]);
        assert_eq!(ClientHello::parse_sslv2(&content[..16]), None);
    }

    #[test]
    fn an_old_draft_has_no_session_id() {
        let mut body = vec![0x7f, 18];
        body.extend([4; 32]);
        body.extend([0x13, 0x01, 0, 6, 0, 51, 0, 2, 0, 29]);
        let hello = ServerHello::parse(&body).expect("whole");
        assert_eq!((hello.cipher, hello.key_share_group), (Some(0x1301), Some(29)));
        assert!(is_tls13(hello.negotiated_version()));
    }
}
