//! QUIC versions whose Initials can be read: 1 (RFC 9000), 2 (RFC 9369), and drafts from 22 on, which share
//! its format.

use std::borrow::Cow;

/// The differences between versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Salt of the Initial secrets (RFC 9001 §5.2).
    pub(super) salt: [u8; 20],
    /// Whether labels and packet types are those of version 2 (RFC 9369 §3).
    pub(super) is_v2: bool,
}

const V1: Version = Version {
    salt: [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
        0xbb, 0x7f, 0x0a,
    ],
    is_v2: false,
};

const V2: Version = Version {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
        0xbd, 0x2e, 0xd9,
    ],
    is_v2: true,
};

const DRAFT_29: Version = Version {
    salt: [
        0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43,
        0x90, 0xa8, 0x99,
    ],
    is_v2: false,
};

const DRAFT_23: Version = Version {
    salt: [
        0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65, 0xbe,
        0xf9, 0xf5, 0x02,
    ],
    is_v2: false,
};

const DRAFT_22: Version = Version {
    salt: [
        0x7f, 0xbc, 0xdb, 0x0e, 0x7c, 0x66, 0xbb, 0xe9, 0x2a, 0x96, 0xcd, 0x21, 0x51, 0x9e, 0xbd, 0x7a, 0x02,
        0x64, 0x41, 0x90,
    ],
    is_v2: false,
};

/// The version with this number. `None` if it is unsupported.
pub(super) fn find(number: u32) -> Option<&'static Version> {
    Some(match number {
        0x0000_0001 | 0xff00_0021..=0xff00_0022 => &V1,
        0x6b33_43cf => &V2,
        0xff00_001d..=0xff00_0020 => &DRAFT_29,
        // The second number is Facebook's.
        0xff00_0017..=0xff00_001c | 0xface_b002 => &DRAFT_23,
        0xff00_0016 | 0xface_b001 => &DRAFT_22,
        _ => return None,
    })
}

/// Whether the number is reserved to exercise version negotiation (RFC 9000 §15).
pub(super) fn is_greased(number: u32) -> bool {
    number & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Whether a version that can be recognised may have a byte at a place: a supported or reserved one, or
/// version negotiation (0). [`find`] and [`is_greased`] are exact.
pub(super) fn may_have(place: usize, byte: u8) -> bool {
    const SIMILAR: [u32; 5] = [0, 1, 0x6b33_43cf, 0xff00_0000, 0xface_b000];
    let is_similar = SIMILAR.iter().any(|number| number.to_be_bytes()[place] == byte);
    is_similar || byte & 0x0f == 0x0a || place == 3
}

/// The name of a version, Zeek's if it has one: `1`, `quicv2`, `draft-29`, `unknown-1a2a3a4a`.
pub fn name(number: u32) -> Cow<'static, str> {
    match number {
        1 => "1".into(),
        0x6b33_43cf => "quicv2".into(),
        0xff00_0000..=0xff00_00ff => format!("draft-{}", number & 0xff).into(),
        _ => format!("unknown-{number:x}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_names_and_salts() {
        assert_eq!(
            (name(1), name(0xff00_001d), name(0x1a2a_3a4a)),
            ("1".into(), "draft-29".into(), "unknown-1a2a3a4a".into())
        );
        assert_eq!(find(0xff00_0022), Some(&V1));
        assert_eq!(find(0x5130_3433), None, "Google's own before the IETF's");
        assert!(is_greased(0x1a2a_3a4a) && !is_greased(1));
    }
}
