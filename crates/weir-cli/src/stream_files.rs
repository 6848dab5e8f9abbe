//! One file per stream in a directory, with tcpflow's file names.

use crate::failure::Failure;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use weir::stream::Stream;

/// Buffer size: bytes are written in pieces of about this size.
const BUFFER_BYTES: usize = 16 << 10;

/// The directory, and the files in it.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// Streams so far by file name, with a number for each: connections may reuse ports.
    names: Mutex<HashMap<String, (String, u32)>>,
    /// The first failure.
    fault: Mutex<Option<String>>,
}

/// A stream's file. It is open only during writes, since streams may outnumber the file descriptors.
#[derive(Debug)]
pub struct StreamFile {
    path: PathBuf,
    created: bool,
    /// Bytes not yet written, and their offset in the stream.
    buffer: Vec<u8>,
    at: u64,
    files: std::sync::Arc<Files>,
}

impl Files {
    /// Files in this directory, which is created with the first file.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, names: Mutex::default(), fault: Mutex::default() }
    }

    /// The file of a stream. It is created at the first byte.
    pub fn of(self: &std::sync::Arc<Self>, stream: &Stream<'_, '_>) -> StreamFile {
        let [(src, src_port), (dst, dst_port)] = stream.endpoints();
        let mut name = format!("{}.{src_port:05}-{}.{dst_port:05}", digits(src), digits(dst));
        if stream.proto() != "tcp" {
            name = format!("{name}.{}", stream.proto());
        }
        let uid = stream.uid();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // All streams between the same endpoints belong to one worker, so their numbers do not depend on the number of
        // workers.
        let (last, number) = names.entry(name.clone()).or_insert((uid.clone(), 0));
        if *last != uid {
            (*last, *number) = (uid, *number + 1);
        }
        if *number > 0 {
            name = format!("{name}c{number}");
        }
        let path = self.directory.join(name);
        StreamFile { path, created: false, buffer: vec![], at: 0, files: std::sync::Arc::clone(self) }
    }

    /// The first failure, if any.
    pub fn fault(&self) -> Option<Failure> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.map(Failure::new)
    }
}

impl StreamFile {
    /// Writes bytes at `offset` of the stream; missing bytes stay a hole.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.at + self.buffer.len() as u64 {
            self.flush();
            self.at = offset;
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let open = || match self.created {
            true => File::options().write(true).open(&self.path),
            false => File::create(&self.path).or_else(|error| match error.kind() {
                // Create the directory with the first file.
                ErrorKind::NotFound => {
                    fs::create_dir_all(&self.files.directory).and_then(|()| File::create(&self.path))
                }
                _ => Err(error),
            }),
        };
        if let Err(error) = open().and_then(|file| file.write_all_at(&self.buffer, self.at)) {
            let mut fault = self.files.fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.get_or_insert_with(|| format!("{}: {error}", self.path.display()));
        }
        self.created = true;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
    }
}

impl Drop for StreamFile {
    fn drop(&mut self) {
        self.flush();
    }
}

/// An address in tcpflow's format: IPv4 octets have three digits, so names sort in address order.
fn digits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.octets().map(|byte| format!("{byte:03}")).join("."),
        IpAddr::V6(v6) => v6.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_tcpflow() {
        assert_eq!(digits("10.0.7.200".parse().unwrap()), "010.000.007.200");
        assert_eq!(digits("2001:db8::1".parse().unwrap()), "2001:db8::1");
    }
}
