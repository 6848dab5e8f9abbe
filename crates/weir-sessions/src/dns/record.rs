//! Resource records (RFC 1035 §3.2, §4.1.3, and the RFCs of the types): their contents, and how a log shows
//! them.

use super::name;
use super::names;
use crate::wire::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum bytes kept of the strings of a TXT record. Longer ones occur in zone dumps and tunnels; the first
/// part is enough.
pub const TXT_BYTES_MAX: usize = 4096;

/// Maximum number of elements per list in a record: types of NSEC, parameters of SVCB.
const ELEMENTS_MAX: usize = 64;

/// A resource record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Owner name, in lower case.
    pub name: String,
    /// Type: 1 is A.
    pub kind: u16,
    /// Class: 1 is the Internet. In multicast DNS the top bit asks caches to flush older records.
    pub class: u16,
    /// Time to live, seconds.
    pub ttl: u32,
    /// Contents.
    pub data: RecordData,
}

/// The contents of a record, by type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordData {
    /// A: an address.
    A(Ipv4Addr),
    /// AAAA (RFC 3596): an address.
    Aaaa(Ipv6Addr),
    /// NS, CNAME, PTR, DNAME and others that consist of one name.
    Name(String),
    /// MX, KX, RT, AFSDB: a host and its preference.
    Mx {
        /// Preference; lower is better.
        preference: u16,
        /// The host.
        exchange: String,
    },
    /// SOA: the start of a zone.
    Soa(Box<Soa>),
    /// TXT and SPF: strings of up to 255 bytes with length prefixes, at most [`TXT_BYTES_MAX`] bytes.
    Txt(Vec<u8>),
    /// SRV (RFC 2782): the location of a service.
    Srv {
        /// Priority; lower is better.
        priority: u16,
        /// Relative weight among records of the same priority.
        weight: u16,
        /// Port of the service.
        port: u16,
        /// Host of the service.
        target: String,
    },
    /// NAPTR (RFC 3403): a rewrite rule.
    Naptr(Box<Naptr>),
    /// DS, CDS and DLV (RFC 4034 §5): digest of a key.
    Ds {
        /// Key tag.
        key_tag: u16,
        /// Algorithm of the key.
        algorithm: u8,
        /// Type of digest.
        digest_type: u8,
        /// The digest.
        digest: Vec<u8>,
    },
    /// RRSIG (RFC 4034 §3): a signature.
    Rrsig {
        /// Type of the signed records.
        type_covered: u16,
        /// Algorithm.
        algorithm: u8,
        /// Expiration, seconds since 1970.
        expiration: u32,
        /// Key tag.
        key_tag: u16,
        /// Owner of the key.
        signer: String,
    },
    /// DNSKEY and CDNSKEY (RFC 4034 §2): a key.
    Dnskey {
        /// 256 for a zone-signing key, 257 for a key-signing key.
        flags: u16,
        /// Algorithm.
        algorithm: u8,
    },
    /// NSEC (RFC 4034 §4): proof that names do not exist.
    Nsec {
        /// The next name that exists.
        next: String,
    },
    /// NSEC3 (RFC 5155 §3): the same proof with hashed names.
    Nsec3,
    /// NSEC3PARAM (RFC 5155 §4).
    Nsec3Param,
    /// TLSA and SMIMEA (RFC 6698 §2): constraint on a server's certificate.
    Tlsa {
        /// Usage.
        usage: u8,
        /// Selector: the part of the certificate that is matched.
        selector: u8,
        /// Matching type.
        matching: u8,
        /// The certificate, or its digest.
        data: Vec<u8>,
    },
    /// CAA (RFC 8659): authorities that may issue certificates.
    Caa {
        /// Flags; 128: critical.
        flags: u8,
        /// `issue`, `issuewild`, `iodef`.
        tag: String,
        /// The value of the property.
        value: String,
    },
    /// SVCB and HTTPS (RFC 9460): location and parameters of a service.
    Svcb(Box<Svcb>),
    /// HINFO: CPU and operating system.
    Hinfo {
        /// The CPU.
        cpu: String,
        /// The operating system.
        os: String,
    },
    /// SSHFP (RFC 4255): fingerprint of a host key.
    Sshfp {
        /// Algorithm of the key.
        algorithm: u8,
        /// Type of fingerprint.
        kind: u8,
        /// The fingerprint.
        fingerprint: Vec<u8>,
    },
    /// LOC (RFC 1876): a geographical location, of which only the sizes are kept.
    Loc {
        /// Size and precisions, encoded as in the RFC.
        sizes: [u8; 3],
    },
    /// A type whose contents are not read.
    Other,
    /// The contents are invalid for the type.
    Malformed,
}

/// The start of a zone (RFC 1035 §3.3.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soa {
    /// Primary name server.
    pub mname: String,
    /// Mailbox of the responsible person, with a dot in place of the at sign.
    pub rname: String,
    /// Serial number of the zone.
    pub serial: u32,
    /// Refresh, retry and expire intervals of secondary servers, and TTL of negative answers, in seconds.
    pub times: [u32; 4],
}

/// A rewrite rule (RFC 3403 §4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naptr {
    /// Order and preference; lower comes first.
    pub order: [u16; 2],
    /// Flags.
    pub flags: String,
    /// Service.
    pub service: String,
    /// Regular expression of the rule.
    pub regexp: String,
    /// Replacement name.
    pub replacement: String,
}

/// Location and parameters of a service (RFC 9460 §2.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Svcb {
    /// Priority; 0: an alias.
    pub priority: u16,
    /// Target host; `.` is the owner name.
    pub target: String,
    /// Application protocols (§7.1).
    pub alpn: Vec<String>,
    /// Port (§7.2).
    pub port: Option<u16>,
    /// IPv4 address hints (§7.3).
    pub ipv4_hints: Vec<Ipv4Addr>,
    /// IPv6 address hints (§7.3).
    pub ipv6_hints: Vec<Ipv6Addr>,
    /// The other parameters in the order of the record, at most 64: key and value.
    pub others: Vec<(u16, Box<[u8]>)>,
    /// Number of parameters that were not kept.
    pub omitted: u64,
}

/// The keys of parameters that have names (RFC 9460 §14.3.2, RFC 9461, RFC 9540).
const KEYS: [&str; 9] =
    ["mandatory", "alpn", "no-default-alpn", "port", "ipv4hint", "ech", "ipv6hint", "dohpath", "ohttp"];

/// The name of a parameter: `alpn`, `key65280`.
fn key_name(key: u16) -> Cow<'static, str> {
    match KEYS.get(usize::from(key)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("key{key}")),
    }
}

/// A text as in zone files (RFC 9460, appendix A): other bytes than printable ones are decimal, as `\000`.
fn presented(bytes: &[u8]) -> String {
    let shown = bytes.iter().map(|byte| match byte {
        b'\\' | b'"' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\{byte:03}"),
    });
    shown.collect()
}

/// Reads the contents of a record of type `kind`: bytes `at` to `end` of the message.
pub(super) fn read_data(kind: u16, message: &[u8], at: usize, end: usize) -> RecordData {
    let mut content = Content { message, at, end };
    content.read(kind).unwrap_or(RecordData::Malformed)
}

/// A cursor over the contents of a record. Names may have pointers to any offset of the message.
struct Content<'a> {
    message: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Content<'a> {
    fn read(&mut self, kind: u16) -> Option<RecordData> {
        Some(match kind {
            1 => RecordData::A(self.array::<4>()?.into()),
            28 => RecordData::Aaaa(self.array::<16>()?.into()),
            2..=5 | 7..=9 | 12 | 23 | 39 => RecordData::Name(self.name()?),
            6 => RecordData::Soa(Box::new(Soa {
                mname: self.name()?,
                rname: self.name()?,
                serial: self.u32()?,
                times: [self.u32()?, self.u32()?, self.u32()?, self.u32()?],
            })),
            13 => RecordData::Hinfo { cpu: self.string()?, os: self.string()? },
            15 | 18 | 21 | 36 => RecordData::Mx { preference: self.u16()?, exchange: self.name()? },
            16 | 99 => {
                let strings = self.rest();
                RecordData::Txt(strings[..strings.len().min(TXT_BYTES_MAX)].to_vec())
            }
            29 => {
                self.array::<1>()?; // version
                RecordData::Loc { sizes: self.array()? }
            }
            33 => RecordData::Srv {
                priority: self.u16()?,
                weight: self.u16()?,
                port: self.u16()?,
                target: self.name()?,
            },
            35 => RecordData::Naptr(Box::new(Naptr {
                order: [self.u16()?, self.u16()?],
                flags: self.string()?,
                service: self.string()?,
                regexp: self.string()?,
                replacement: self.name()?,
            })),
            43 | 59 | 32769 => RecordData::Ds {
                key_tag: self.u16()?,
                algorithm: self.u8()?,
                digest_type: self.u8()?,
                digest: self.digest(),
            },
            44 => RecordData::Sshfp { algorithm: self.u8()?, kind: self.u8()?, fingerprint: self.digest() },
            46 => self.signature()?,
            47 => RecordData::Nsec { next: self.name()? },
            48 | 60 => {
                let [high, low, _protocol, algorithm] = self.array()?;
                RecordData::Dnskey { flags: u16::from_be_bytes([high, low]), algorithm }
            }
            50 => RecordData::Nsec3,
            51 => RecordData::Nsec3Param,
            52 | 53 => {
                let [usage, selector, matching] = self.array()?;
                RecordData::Tlsa { usage, selector, matching, data: self.digest() }
            }
            64 | 65 => RecordData::Svcb(Box::new(self.service()?)),
            257 => {
                let (flags, tag) = (self.u8()?, self.string()?);
                let value = self.rest();
                RecordData::Caa { flags, tag, value: name::escape(&value[..value.len().min(255)]) }
            }
            _ => RecordData::Other,
        })
    }

    fn signature(&mut self) -> Option<RecordData> {
        let (type_covered, algorithm, _labels) = (self.u16()?, self.u8()?, self.u8()?);
        let (_original_ttl, expiration, _inception) = (self.u32()?, self.u32()?, self.u32()?);
        let key_tag = self.u16()?;
        Some(RecordData::Rrsig { type_covered, algorithm, expiration, key_tag, signer: self.name()? })
    }

    fn service(&mut self) -> Option<Svcb> {
        let mut service = Svcb { priority: self.u16()?, target: self.name()?, ..Svcb::default() };
        while self.at < self.end {
            let (key, length) = (self.u16()?, self.u16()?);
            let mut value = Content { end: self.at + usize::from(length), ..*self };
            self.take(length.into())?;
            match key {
                1 => {
                    while value.at < value.end && service.alpn.len() < ELEMENTS_MAX {
                        service.alpn.push(value.string()?);
                    }
                }
                3 => service.port = value.u16(),
                4 => service.ipv4_hints = value.addresses(),
                6 => service.ipv6_hints = value.addresses(),
                _ if service.others.len() < ELEMENTS_MAX => service.others.push((key, value.rest().into())),
                _ => service.omitted += 1,
            }
        }
        Some(service)
    }

    fn addresses<const N: usize, A: From<[u8; N]>>(&mut self) -> Vec<A> {
        std::iter::from_fn(|| self.array().map(A::from)).take(ELEMENTS_MAX).collect()
    }

    fn take(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let behind = self.at.checked_add(length_bytes).filter(|behind| *behind <= self.end)?;
        let bytes = self.message.get(self.at..behind)?;
        self.at = behind;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        self.take(self.end.saturating_sub(self.at)).unwrap_or_default()
    }

    /// The remaining bytes, at most as many as the longest digest has.
    fn digest(&mut self) -> Vec<u8> {
        let rest = self.rest();
        rest[..rest.len().min(64)].to_vec()
    }

    fn string(&mut self) -> Option<String> {
        let length = self.u8()?;
        self.take(length.into()).map(name::escape)
    }

    fn name(&mut self) -> Option<String> {
        let (mut text, behind) = name::read(self.message, self.at)?;
        if behind > self.end {
            return None;
        }
        self.at = behind;
        text.make_ascii_lowercase();
        Some(text)
    }
}

impl Record {
    /// The record as an answer in Zeek's `dns.log`; empty if Zeek shows nothing.
    pub fn answer(&self) -> String {
        let root = |name: &str| if name == "." { "<Root>".to_owned() } else { name.to_owned() };
        match &self.data {
            RecordData::A(address) => address.to_string(),
            RecordData::Aaaa(address) => address.to_string(),
            RecordData::Name(name) => name.clone(),
            RecordData::Mx { exchange, .. } => exchange.clone(),
            RecordData::Soa(soa) => soa.mname.clone(),
            RecordData::Txt(_) => {
                let label = if self.kind == 99 { "SPF" } else { "TXT" };
                let strings = self.strings();
                let shown = strings.map(|text| format!("{label} {} {}", text.len(), name::escape(text)));
                shown.collect::<Vec<_>>().join(" ")
            }
            RecordData::Srv { target, .. } => target.clone(),
            RecordData::Naptr(rule) => {
                let Naptr { order: [order, preference], flags, service, regexp, replacement } = &**rule;
                format!("NAPTR {order} {preference} {flags} {service} {regexp} {replacement}")
            }
            RecordData::Ds { algorithm, digest_type, .. } => format!("DS {algorithm} {digest_type}"),
            RecordData::Rrsig { type_covered, signer, .. } => {
                format!("RRSIG {type_covered} {}", root(signer))
            }
            RecordData::Dnskey { algorithm, .. } => format!("DNSKEY {algorithm}"),
            RecordData::Nsec { next } => format!("NSEC {} {}", root(&self.name), root(next)),
            RecordData::Nsec3 => "NSEC3".to_owned(),
            RecordData::Nsec3Param => "NSEC3PARAM".to_owned(),
            RecordData::Tlsa { usage, selector, matching, data } => {
                format!("{} {usage} {selector} {matching} {}", names::kind(self.kind), hex(data))
            }
            RecordData::Caa { flags, tag, value } => format!("CAA {flags} {tag} {value}"),
            RecordData::Svcb(service) => service.shown(&names::kind(self.kind)),
            RecordData::Hinfo { cpu, os } => format!("HINFO {cpu} {os}"),
            RecordData::Sshfp { fingerprint, .. } => format!("SSHFP: {}", hex(fingerprint)),
            RecordData::Loc { sizes: [size, horizontal, vertical] } => {
                format!("LOC:  {size} {horizontal} {vertical}")
            }
            RecordData::Other => format!("<unknown type={}>", self.kind),
            RecordData::Malformed => String::new(),
        }
    }

    /// The strings of a TXT or SPF record, of which the last may be truncated; empty for other types.
    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = if let RecordData::Txt(strings) = &self.data { &strings[..] } else { &[] };
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first()?;
            let (text, tail) = tail.split_at(usize::from(*length).min(tail.len()));
            rest = tail;
            Some(text)
        })
    }

    /// Bytes held, without the size of the record itself.
    pub(super) fn held_bytes(&self) -> usize {
        let data = match &self.data {
            RecordData::Name(name) | RecordData::Nsec { next: name } => name.len(),
            RecordData::Mx { exchange: name, .. } | RecordData::Srv { target: name, .. } => name.len(),
            RecordData::Rrsig { signer, .. } => signer.len(),
            RecordData::Soa(soa) => size_of::<Soa>() + soa.mname.len() + soa.rname.len(),
            RecordData::Naptr(rule) => {
                let texts = [&rule.flags, &rule.service, &rule.regexp, &rule.replacement];
                size_of::<Naptr>() + texts.map(String::len).iter().sum::<usize>()
            }
            RecordData::Txt(bytes)
            | RecordData::Ds { digest: bytes, .. }
            | RecordData::Tlsa { data: bytes, .. }
            | RecordData::Sshfp { fingerprint: bytes, .. } => bytes.len(),
            RecordData::Caa { tag, value, .. } | RecordData::Hinfo { cpu: tag, os: value } => {
                tag.len() + value.len()
            }
            RecordData::Svcb(service) => {
                let names = service.alpn.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
                let addresses = 4 * service.ipv4_hints.len() + 16 * service.ipv6_hints.len();
                let others =
                    service.others.iter().map(|(_, value)| size_of::<(u16, Box<[u8]>)>() + value.len());
                size_of::<Svcb>() + service.target.len() + names + addresses + others.sum::<usize>()
            }
            _ => 0,
        };
        self.name.len() + data
    }
}

impl Svcb {
    /// The keys of the parameters, in ascending order, which is the order of valid records.
    pub fn keys(&self) -> Vec<u16> {
        let present = [
            (1, !self.alpn.is_empty()),
            (3, self.port.is_some()),
            (4, !self.ipv4_hints.is_empty()),
            (6, !self.ipv6_hints.is_empty()),
        ];
        let known = present.into_iter().filter_map(|(key, is_present)| is_present.then_some(key));
        let mut keys: Vec<u16> = known.chain(self.others.iter().map(|(key, _)| *key)).collect();
        keys.sort_unstable();
        keys
    }

    /// The keys that a client must know (RFC 9460 §8).
    pub fn mandatory(&self) -> impl Iterator<Item = u16> {
        let value = self.other(0).unwrap_or_default();
        value.as_chunks::<2>().0.iter().map(|key| u16::from_be_bytes(*key))
    }

    /// The configurations for Encrypted Client Hello, in base64.
    pub fn ech(&self) -> Option<String> {
        self.other(5).map(|value| STANDARD.encode(value))
    }

    /// The template of URIs of DNS over HTTPS (RFC 9461 §5).
    pub fn doh_path(&self) -> Option<String> {
        self.other(7).map(presented)
    }

    /// The value of a parameter that has no field of its own.
    fn other(&self, key: u16) -> Option<&[u8]> {
        self.others.iter().find(|(found, _)| *found == key).map(|(_, value)| &**value)
    }

    fn shown(&self, kind: &str) -> String {
        let mut text = format!("{kind} {} {}", self.priority, self.target);
        let mut last = None;
        for key in self.keys() {
            // A key that is repeated, which is not allowed, is shown with its first value.
            if last.replace(key) != Some(key) {
                text.push(' ');
                text.push_str(&key_name(key));
                let value = self.shown_value(key);
                if !value.is_empty() {
                    text.push('=');
                    text.push_str(&value);
                }
            }
        }
        text
    }

    /// The value of a parameter as in zone files (RFC 9460 §7).
    fn shown_value(&self, key: u16) -> String {
        let addresses = |addresses: Vec<String>| addresses.join(",");
        match key {
            0 => self.mandatory().map(key_name).collect::<Vec<_>>().join(","),
            1 => self.alpn.join(","),
            3 => self.port.map(|port| port.to_string()).unwrap_or_default(),
            4 => addresses(self.ipv4_hints.iter().map(Ipv4Addr::to_string).collect()),
            5 => self.ech().unwrap_or_default(),
            6 => addresses(self.ipv6_hints.iter().map(Ipv6Addr::to_string).collect()),
            _ => self.other(key).map(presented).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u16, data: &[u8]) -> Record {
        let message = [b"\x01x\0", data].concat();
        let data = read_data(kind, &message, 3, message.len());
        Record { name: "x".into(), kind, class: 1, ttl: 60, data }
    }

    fn answer(kind: u16, data: &[u8]) -> String {
        record(kind, data).answer()
    }

    #[test]
    fn answers_are_shown_as_zeek_shows_them() {
        assert_eq!(answer(1, &[192, 0, 2, 1]), "192.0.2.1");
        assert_eq!(answer(28, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "2001:db8::1");
        assert_eq!(answer(5, b"\x01A\xc0\x00"), "a.x");
        assert_eq!(answer(15, b"\0\x0a\x02mx\xc0\x00"), "mx.x");
        assert_eq!(answer(16, b"\x05v=1 a\x01b"), "TXT 5 v=1 a TXT 1 b");
        assert_eq!(answer(99, b"\x04v\xff=1"), "SPF 4 v\\xff=1");
        assert_eq!(answer(33, b"\0\x01\0\x02\x14\x66\xc0\x00"), "x");
        assert_eq!(answer(6, &[&b"\x02ns\0\x01r\0"[..], &[0; 20]].concat()), "ns");
        assert_eq!(answer(46, &[&[0, 5, 8, 3][..], &[0; 14], &[0]].concat()), "RRSIG 5 <Root>");
        assert_eq!(answer(48, &[1, 1, 3, 13, 9, 9]), "DNSKEY 13");
        assert_eq!(answer(43, &[0, 9, 8, 2, 0xab]), "DS 8 2");
        assert_eq!(answer(47, b"\0\x00\x01\x40"), "NSEC x <Root>");
        assert_eq!(
            answer(35, b"\0\x64\0\x0a\x01s\x07SIP+D2U\0\x04_sip\xc0\x00"),
            "NAPTR 100 10 s SIP+D2U  _sip.x"
        );
        assert_eq!(answer(4711, b"?"), "<unknown type=4711>");
    }

    #[test]
    fn types_that_zeek_keeps_to_itself_are_shown_as_zone_files_have_them() {
        assert_eq!(answer(257, b"\0\x05issueca.example"), "CAA 0 issue ca.example");
        assert_eq!(
            answer(65, b"\0\x01\0\0\x01\0\x06\x02h2\x02h3\0\x03\0\x02\x20\xfb\0\x04\0\x04\xc0\x00\x02\x01"),
            "HTTPS 1 . alpn=h2,h3 port=8443 ipv4hint=192.0.2.1"
        );
        assert_eq!(
            answer(
                64,
                b"\0\x01\0\0\0\0\x04\0\x01\0\x03\0\x01\0\x03\x02h2\0\x02\0\0\0\x05\0\x03abc\0\x07\0\x03/{?\xff\0\0\x02\0b"
            ),
            "SVCB 1 . mandatory=alpn,port alpn=h2 no-default-alpn ech=YWJj dohpath=/{? key65280=\\000b"
        );
        assert_eq!(answer(52, &[3, 1, 1, 0xab, 0xcd]), "TLSA 3 1 1 abcd");
    }

    #[test]
    fn what_is_cut_is_malformed_and_shows_nothing() {
        for (kind, data) in
            [(1, &[1, 2, 3][..]), (28, &[0; 15]), (5, b"\x05ab"), (33, &[0; 6]), (65, b"\0\x01")]
        {
            let record = record(kind, data);
            assert_eq!((record.answer(), record.data), (String::new(), RecordData::Malformed), "{kind}");
        }
        // A name that begins in the record and runs past its end.
        let message = b"\x03abc\0";
        assert_eq!(read_data(5, message, 0, 3), RecordData::Malformed);
    }

    #[test]
    fn the_strings_of_a_text_are_bounded() {
        let long = record(16, &[&[255][..], &[b'x'; 255]].concat().repeat(100));
        assert_eq!(long.held_bytes(), 1 + TXT_BYTES_MAX);
    }
}
