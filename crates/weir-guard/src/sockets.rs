//! Socket files that only their owner, and those to whom the owner gives rights, connect to; and descriptors
//! that go from one process to another.

use rustix::fs::Mode;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::fs;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens on a socket file with the rights 0600. A file that a killed process left is replaced.
///
/// # Errors
/// `AddrInUse` if another process listens there, or the path is no socket; those of the system.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_err()
        && let Ok(about) = fs::symlink_metadata(path)
    {
        if !about.file_type().is_socket() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket"));
        }
        fs::remove_file(path)?;
    }
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux makes the file with the rights of the socket: the file never has others.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Sends bytes, and a descriptor with the first of them. There is at least a byte.
///
/// # Errors
/// Those of the system.
pub fn send(mut socket: &UnixStream, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let descriptors = descriptor.map(|one| [one]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = rustix::io::retry_on_intr(|| {
        net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    socket.write_all(&bytes[sent..])
}

/// Receives bytes, and the descriptor that comes with the first of them. Returns their number: 0 if the other
/// end is closed.
///
/// # Errors
/// Those of the system.
pub fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| {
        net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)
    })?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut all) => all.next(),
        _ => None,
    });
    Ok((received.bytes, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_file_is_of_its_owner_and_replaces_only_a_dead_one() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("s");
        let listener = listen(&path).expect("it listens");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(listen(&path).expect_err("taken").kind(), ErrorKind::AddrInUse);
        drop(listener);
        listen(&path).expect("nobody listens any more");
        let file = place.path().join("f");
        fs::write(&file, "kept").expect("a file");
        assert!(listen(&file).is_err() && fs::read(&file).is_ok_and(|text| text == b"kept"));
    }
}
