//! NTLM logins (MS-NLMP §2.2.1): finds the NTLM messages in login tokens, at any offset, and reads the names
//! in them.

use super::action::SmbLogin;
use super::header::{read_u16, read_u32};
use crate::wire::read_utf16;

/// First bytes of a message.
const MARK: &[u8] = b"NTLMSSP\0";

/// Longest name kept, UTF-16 units.
const NAME_UNITS_MAX: usize = 96;

/// Maximum number of names read of a server.
const PAIRS_MAX: usize = 16;

/// Object identifiers of Kerberos in GSS-API: 1.2.840.113554.1.2.2 (RFC 4121), and Microsoft's variant with
/// one bit wrong.
const KERBEROS: [&[u8]; 2] =
    [b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02", b"\x2a\x86\x48\x82\xf7\x12\x01\x02\x02"];

/// Takes a token of either side.
pub(super) fn take_token(token: &[u8], login: &mut SmbLogin) {
    let Some(at) = memchr::memmem::find(token, MARK) else {
        // A server's first token lists several mechanisms and does not show the chosen one.
        let is_kerberos = KERBEROS.iter().any(|name| memchr::memmem::find(token, name).is_some());
        if is_kerberos && login.mechanism.is_none() {
            login.mechanism = Some("kerberos");
        }
        return;
    };
    login.mechanism = Some("ntlm");
    let message = &token[at..];
    let _ = match read_u32(message, 8) {
        Some(2) => take_challenge(message, login),
        Some(3) => take_answer(message, login),
        _ => None,
    };
}

/// The bytes whose length and offset are stored at `at`.
fn field(message: &[u8], at: usize) -> Option<&[u8]> {
    let length = usize::from(read_u16(message, at)?);
    let from = usize::try_from(read_u32(message, at + 4)?).ok()?;
    message.get(from..from.checked_add(length)?)
}

/// Reads the server's names (§2.2.1.2, §2.2.2.1).
fn take_challenge(message: &[u8], login: &mut SmbLogin) -> Option<()> {
    let mut pairs = field(message, 40)?;
    for _ in 0..PAIRS_MAX {
        let (kind, length) = (read_u16(pairs, 0)?, read_u16(pairs, 2)?.into());
        let value = pairs.get(4..)?.get(..length)?;
        let slot = match kind {
            1 => &mut login.server_netbios_name,
            3 => &mut login.server_dns_name,
            5 => &mut login.server_tree_name,
            0 => return None,
            _ => &mut None,
        };
        *slot = Some(read_utf16(value, NAME_UNITS_MAX));
        pairs = &pairs[4 + length..];
    }
    Some(())
}

/// Reads the user's and the host's names (§2.2.1.3).
fn take_answer(message: &[u8], login: &mut SmbLogin) -> Option<()> {
    let is_unicode = read_u32(message, 60).is_none_or(|flags| flags & 1 != 0);
    let name = |at| {
        let bytes = field(message, at)?;
        let name = if is_unicode {
            read_utf16(bytes, NAME_UNITS_MAX)
        } else {
            crate::line::text(bytes, NAME_UNITS_MAX)
        };
        (!name.is_empty()).then_some(name)
    };
    login.domain = name(28);
    login.user = name(36);
    login.host = name(44);
    Some(())
}
