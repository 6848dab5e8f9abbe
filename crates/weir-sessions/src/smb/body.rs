//! What requests and responses say (MS-SMB2 §2.2). Places of names are told from the header's first byte on.

use super::action::{ShareType, SmbTimes};
use super::header::{Message, read_u16, read_u32, read_u64};
use crate::wire::read_utf16;
use weir_packet::Timestamp;

/// Longest name that is kept, units of UTF-16: the longest path of Windows.
const NAME_UNITS_MAX: usize = 260;

/// How a file is told from others: two numbers of eight bytes (§2.2.14.1).
pub(super) type Handle = [u8; 16];

/// In compounded requests: that of the CREATE before.
pub(super) const RELATED: Handle = [0xff; 16];

fn name(bytes: &[u8], at: usize, length: usize) -> Option<String> {
    // What the capture or our bound cut off is left out.
    let name = bytes.get(at..)?;
    Some(read_utf16(&name[..name.len().min(length)], NAME_UNITS_MAX))
}

fn named(message: &Message<'_>, place: usize) -> Option<String> {
    let body = message.body();
    let (at, length) = (read_u16(body, place)?, read_u16(body, place + 2)?);
    name(message.bytes, at.into(), length.into())
}

fn handle(body: &[u8], at: usize) -> Option<Handle> {
    body.get(at..)?.first_chunk().copied()
}

/// Dialect of a negotiation (§2.2.4).
pub(super) fn dialect(response: &Message<'_>) -> Option<u16> {
    read_u16(response.body(), 4)
}

/// The token of a login (§2.2.5, §2.2.6): GSS-API or NTLM, as far as it is at hand.
pub(super) fn token<'a>(message: &Message<'a>) -> &'a [u8] {
    let place = if message.is_response { 4 } else { 12 };
    let read = |at| read_u16(message.body(), at).map(usize::from);
    let (Some(at), Some(length)) = (read(place), read(place + 2)) else { return &[] };
    let token = message.bytes.get(at..).unwrap_or_default();
    &token[..token.len().min(length)]
}

/// What kind of session it has become (§2.2.6): 1 guest, 2 nobody, 4 encrypted.
pub(super) fn session_flags(response: &Message<'_>) -> u16 {
    read_u16(response.body(), 2).unwrap_or(0)
}

/// The share of a TREE_CONNECT (§2.2.9): `\\server\share`.
pub(super) fn share_path(request: &Message<'_>) -> Option<String> {
    named(request, 4)
}

/// What kind of share it is (§2.2.10).
pub(super) fn share_type(response: &Message<'_>) -> Option<ShareType> {
    match response.body().get(2)? {
        1 => Some(ShareType::Disk),
        2 => Some(ShareType::Pipe),
        3 => Some(ShareType::Print),
        _ => None,
    }
}

/// The name of a file to open, and whether it is deleted when it is closed (§2.2.13).
pub(super) fn create_request(request: &Message<'_>) -> Option<(String, bool)> {
    const DELETE_ON_CLOSE: u32 = 0x1000;
    let options = read_u32(request.body(), 40)?;
    Some((named(request, 44)?, options & DELETE_ON_CLOSE != 0))
}

/// What is said of a file that was opened (§2.2.14).
pub(super) struct Created {
    pub(super) handle: Handle,
    /// 1: it was there; 2: it is new; 0 and 3: it was there and is written anew.
    pub(super) how: u32,
    pub(super) times: SmbTimes,
    pub(super) size_bytes: u64,
    pub(super) is_directory: bool,
}

/// Reads the answer to a CREATE.
pub(super) fn create_response(response: &Message<'_>) -> Option<Created> {
    let body = response.body();
    let time = |at| read_u64(body, at).and_then(read_time);
    Some(Created {
        how: read_u32(body, 4)?,
        times: SmbTimes { created: time(8), accessed: time(16), modified: time(24), changed: time(32) },
        size_bytes: read_u64(body, 48)?,
        is_directory: read_u32(body, 56)? & 0x10 != 0,
        handle: handle(body, 64)?,
    })
}

/// A time of Windows: tenths of microseconds since 1601; none where it is 0, or far beyond.
fn read_time(ticks: u64) -> Option<Timestamp> {
    const EPOCH_TICKS: u64 = 116_444_736_000_000_000;
    let since = i64::try_from(ticks.checked_sub(EPOCH_TICKS)?).ok()?;
    since.checked_mul(100).map(Timestamp)
}

/// The file that a request is for: of CLOSE, READ, WRITE, IOCTL, QUERY_DIRECTORY, SET_INFO.
pub(super) fn request_handle(request: &Message<'_>) -> Option<Handle> {
    use super::header::command::{CLOSE, IOCTL, QUERY_DIRECTORY, READ, SET_INFO, WRITE};
    let at = match request.command {
        CLOSE | IOCTL | QUERY_DIRECTORY => 8,
        READ | WRITE | SET_INFO => 16,
        _ => return None,
    };
    handle(request.body(), at)
}

/// Where a WRITE begins in its file (§2.2.21); 0 of others.
pub(super) fn offset(request: &Message<'_>) -> u64 {
    let is_write = request.command == super::header::command::WRITE;
    is_write.then(|| read_u64(request.body(), 8)).flatten().unwrap_or(0)
}

/// The size at the end, where a CLOSE asked for it (§2.2.16).
pub(super) fn closed_size(response: &Message<'_>) -> Option<u64> {
    let is_told = read_u16(response.body(), 2)? & 1 != 0;
    is_told.then(|| read_u64(response.body(), 48)).flatten()
}

/// Bytes that were read (§2.2.20) or written (§2.2.22).
pub(super) fn moved_bytes(response: &Message<'_>) -> u64 {
    read_u32(response.body(), 4).unwrap_or(0).into()
}

/// What is set of a file (§2.2.39, MS-FSCC §2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Its name.
    Name(String),
    /// Whether it is deleted when it is closed.
    Deletion(bool),
    /// Something else.
    Other,
}

/// Reads a SET_INFO.
pub(super) fn change(request: &Message<'_>) -> Option<Change> {
    let body = request.body();
    let (kind, class) = (body.get(2)?, body.get(3)?);
    let buffer = request.bytes.get(usize::from(read_u16(body, 8)?)..)?;
    match (kind, class) {
        (1, 10) => {
            let length = usize::try_from(read_u32(buffer, 16)?).ok()?;
            name(buffer, 20, length).map(Change::Name)
        }
        (1, 13 | 64) => buffer.first().map(|flags| Change::Deletion(flags & 1 != 0)),
        _ => Some(Change::Other),
    }
}

/// The names of dialects that a NEGOTIATE of SMB 1 offers (MS-CIFS §2.2.4.52.1), in their order, 16 at most.
pub(super) fn old_dialects(message: &[u8]) -> Vec<String> {
    const PARTS_MAX: usize = 16;
    let parts = message.get(35..).unwrap_or_default().split(|byte| *byte == 2).skip(1);
    let name = |part: &[u8]| {
        let end = memchr::memchr(0, part).unwrap_or(part.len());
        crate::line::text(&part[..end], 32)
    };
    parts.take(PARTS_MAX).map(name).collect()
}

/// The dialect that the answer takes of them (§2.2.4.52.2).
pub(super) fn old_choice(message: &[u8]) -> Option<usize> {
    let words = message.get(32)?;
    (*words > 0).then(|| read_u16(message, 33).map(usize::from)).flatten()
}
