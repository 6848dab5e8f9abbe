//! Bodies of requests and responses (MS-SMB2 §2.2). Offsets of names count from the header's first byte.

use super::action::{ShareType, SmbTimes};
use super::header::{Message, read_u16, read_u32, read_u64};
use crate::wire::read_utf16;
use weir_packet::Timestamp;

/// Longest name kept, UTF-16 units: the longest path of Windows.
const NAME_UNITS_MAX: usize = 260;

/// A file id: two numbers of eight bytes (§2.2.14.1).
pub(super) type Handle = [u8; 16];

/// The id in compounded requests that stands for the file of the preceding CREATE.
pub(super) const RELATED: Handle = [0xff; 16];

fn name(bytes: &[u8], at: usize, length: usize) -> Option<String> {
    // The name may be truncated by the capture or by our limit.
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

/// Dialect in a NEGOTIATE response (§2.2.4).
pub(super) fn dialect(response: &Message<'_>) -> Option<u16> {
    read_u16(response.body(), 4)
}

/// Token of a login (§2.2.5, §2.2.6): GSS-API or NTLM, possibly truncated.
pub(super) fn token<'a>(message: &Message<'a>) -> &'a [u8] {
    let place = if message.is_response { 4 } else { 12 };
    let read = |at| read_u16(message.body(), at).map(usize::from);
    let (Some(at), Some(length)) = (read(place), read(place + 2)) else { return &[] };
    let token = message.bytes.get(at..).unwrap_or_default();
    &token[..token.len().min(length)]
}

/// Flags of a session (§2.2.6): 1 guest, 2 anonymous, 4 encrypted.
pub(super) fn session_flags(response: &Message<'_>) -> u16 {
    read_u16(response.body(), 2).unwrap_or(0)
}

/// Path of the share in a TREE_CONNECT (§2.2.9): `\\server\share`.
pub(super) fn share_path(request: &Message<'_>) -> Option<String> {
    named(request, 4)
}

/// Type of the share (§2.2.10).
pub(super) fn share_type(response: &Message<'_>) -> Option<ShareType> {
    match response.body().get(2)? {
        1 => Some(ShareType::Disk),
        2 => Some(ShareType::Pipe),
        3 => Some(ShareType::Print),
        _ => None,
    }
}

/// Name of the file in a CREATE, and whether it is deleted on close (§2.2.13).
pub(super) fn create_request(request: &Message<'_>) -> Option<(String, bool)> {
    const DELETE_ON_CLOSE: u32 = 0x1000;
    let options = read_u32(request.body(), 40)?;
    Some((named(request, 44)?, options & DELETE_ON_CLOSE != 0))
}

/// Contents of a CREATE response (§2.2.14).
pub(super) struct Created {
    pub(super) handle: Handle,
    /// Create action: 0 superseded, 1 opened, 2 created, 3 overwritten.
    pub(super) how: u32,
    pub(super) times: SmbTimes,
    pub(super) size_bytes: u64,
    pub(super) is_directory: bool,
}

/// Parses a CREATE response.
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

/// Converts a Windows time, 100 ns units since 1601. `None` if it is 0 or out of range.
fn read_time(ticks: u64) -> Option<Timestamp> {
    const EPOCH_TICKS: u64 = 116_444_736_000_000_000;
    let since = i64::try_from(ticks.checked_sub(EPOCH_TICKS)?).ok()?;
    since.checked_mul(100).map(Timestamp)
}

/// File id in a CLOSE, READ, WRITE, IOCTL, QUERY_DIRECTORY or SET_INFO request.
pub(super) fn request_handle(request: &Message<'_>) -> Option<Handle> {
    use super::header::command::{CLOSE, IOCTL, QUERY_DIRECTORY, READ, SET_INFO, WRITE};
    let at = match request.command {
        CLOSE | IOCTL | QUERY_DIRECTORY => 8,
        READ | WRITE | SET_INFO => 16,
        _ => return None,
    };
    handle(request.body(), at)
}

/// File offset of a READ (§2.2.19) or WRITE (§2.2.21); 0 for other requests.
pub(super) fn offset(request: &Message<'_>) -> u64 {
    use super::header::command::{READ, WRITE};
    let has_offset = matches!(request.command, READ | WRITE);
    has_offset.then(|| read_u64(request.body(), 8)).flatten().unwrap_or(0)
}

/// Where the data of a READ response (§2.2.20) or a WRITE request begin, counted from the header, and their
/// length.
pub(super) fn data_place(message: &Message<'_>) -> Option<(usize, usize)> {
    let body = message.body();
    // The sizes of the two structures.
    let at = match (message.is_response, read_u16(body, 0)?) {
        (true, 17) => (*body.get(2)?).into(),
        (false, 49) => read_u16(body, 2)?.into(),
        _ => return None,
    };
    Some((at, usize::try_from(read_u32(body, 4)?).ok()?))
}

/// File size in a CLOSE response, if the client requested it (§2.2.16).
pub(super) fn closed_size(response: &Message<'_>) -> Option<u64> {
    let is_told = read_u16(response.body(), 2)? & 1 != 0;
    is_told.then(|| read_u64(response.body(), 48)).flatten()
}

/// Bytes read (§2.2.20) or written (§2.2.22).
pub(super) fn moved_bytes(response: &Message<'_>) -> u64 {
    read_u32(response.body(), 4).unwrap_or(0).into()
}

/// A change made by SET_INFO (§2.2.39, MS-FSCC §2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Rename.
    Name(String),
    /// Sets or clears deletion on close.
    Deletion(bool),
    /// Any other change.
    Other,
}

/// Parses a SET_INFO.
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

/// Names of the dialects in an SMB 1 NEGOTIATE (MS-CIFS §2.2.4.52.1), in order, 16 at most.
pub(super) fn old_dialects(message: &[u8]) -> Vec<String> {
    const PARTS_MAX: usize = 16;
    let parts = message.get(35..).unwrap_or_default().split(|byte| *byte == 2).skip(1);
    let name = |part: &[u8]| {
        let end = memchr::memchr(0, part).unwrap_or(part.len());
        crate::line::text(&part[..end], 32)
    };
    parts.take(PARTS_MAX).map(name).collect()
}

/// Index of the dialect chosen in the SMB 1 response (§2.2.4.52.2).
pub(super) fn old_choice(message: &[u8]) -> Option<usize> {
    let words = message.get(32)?;
    (*words > 0).then(|| read_u16(message, 33).map(usize::from)).flatten()
}
