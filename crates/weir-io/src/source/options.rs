//! Options of pcapng, which follow the fixed part of a block: each has a code, a length and a value.
//!
//! ```text
//! option   code:u16 length:u16 value padding             code 0 ends them; the block's end does, too
//! ```
//!
//! Options are kept in the form of a little-endian section, without the end marker. The sink writes them
//! unchanged, whatever their original byte order.

use super::walk::{Fault, u16_at};

/// The block that options belong to; codes have different meanings in different blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Section,
    Interface,
    Packet,
    Names,
    Secrets,
}

/// Calls `each` with the code and value of every option in `bytes`.
pub(crate) fn for_each_option<const BIG: bool>(
    mut bytes: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> Result<(), Fault> {
    while let Some(head) = bytes.first_chunk::<4>() {
        let (code, length) = (u16_at::<BIG>(head, 0), usize::from(u16_at::<BIG>(head, 2)));
        if code == 0 {
            break;
        }
        let Some(value) = bytes[4..].get(..length) else {
            return Err(Fault::corrupt(format!(
                "an option (code {code}) claims {length} bytes, and its block has only {} more",
                bytes.len() - 4
            )));
        };
        each(code, value);
        // The padding of the last option may be missing.
        bytes = bytes[4..].get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// Appends an option, with numbers in little-endian order.
pub(crate) fn push_option<const BIG: bool>(out: &mut Vec<u8>, of: Of, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    let start = out.len();
    out.extend(value);
    if BIG {
        let mut rest = &mut out[start..];
        for &width in numbers(of, code, value.len()) {
            let Some((number, behind)) = rest.split_at_mut_checked(width) else { break };
            number.reverse();
            rest = behind;
        }
    }
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Options that are kept, within a limit.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub options: Vec<u8>,
    /// Some options exceeded the limit, or claimed more bytes than there were.
    pub is_cut: bool,
}

impl Kept {
    /// Keeps an option if the total then does not exceed `bytes_max`.
    pub fn push<const BIG: bool>(&mut self, of: Of, code: u16, value: &[u8], bytes_max: usize) {
        match self.options.len() + 4 + value.len().next_multiple_of(4) <= bytes_max {
            true => push_option::<BIG>(&mut self.options, of, code, value),
            false => self.is_cut = true,
        }
    }
}

/// The options in `bytes`, up to the first invalid one.
pub(crate) fn little_endian<const BIG: bool>(of: Of, bytes: &[u8], bytes_max: usize) -> Kept {
    let mut kept = Kept::default();
    let all = for_each_option::<BIG>(bytes, |code, value| kept.push::<BIG>(of, code, value, bytes_max));
    kept.is_cut |= all.is_err();
    kept
}

/// Sizes of the numbers that an option's value begins with, whose byte order depends on the section
/// (draft-ietf-opsawg-pcapng-03, sections 3.5 and 4). Texts, addresses and hashes have no byte order.
fn numbers(of: Of, code: u16, length: usize) -> &'static [usize] {
    match (of, code) {
        // Custom options begin with the enterprise number; the rest has an unknown form.
        (_, 2988 | 2989 | 19372 | 19373) => &[4],
        (Of::Interface, 8 | 14 | 16 | 17) => &[8], // if_speed, if_tsoffset, if_txspeed, if_rxspeed
        (Of::Interface, 10) => &[4],               // if_tzone
        (Of::Packet, 2 | 6) => &[4],               // epb_flags, epb_queue
        (Of::Packet, 4 | 5) => &[8],               // epb_dropcount, epb_packetid
        (Of::Packet, 7) if length == 9 => &[1, 8], // epb_verdict of eBPF
        (Of::Packet, 8) => &[4, 4],                // epb_processid_threadid
        _ => &[],
    }
}

/// Bytes of the complete options at the start of `bytes`, whose length is a multiple of 4.
pub(crate) fn whole_bytes(bytes: &[u8]) -> usize {
    let mut whole = 0;
    let _ = for_each_option::<false>(bytes, |_, value| whole += 4 + value.len().next_multiple_of(4));
    whole.min(bytes.len())
}
