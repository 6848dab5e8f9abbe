//! The first bytes of files, and their digests.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::sessions::{Content, ContentStore, ContentWriter};

/// Bytes of a file that rules inspect, as by default in Suricata (`request-body-limit`).
pub const FILE_BYTES_MAX: usize = 100 << 10;

/// Keeps the first bytes of each file in memory, once rules look at them.
#[derive(Debug, Default)]
pub struct FirstBytes {
    is_wanted: AtomicBool,
    with_digests: AtomicBool,
}

impl FirstBytes {
    /// Rules look at files; at their digests, too.
    pub(crate) fn want(&self, with_digests: bool) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.with_digests.fetch_or(with_digests, Ordering::Relaxed);
    }
}

/// The first bytes of a file.
#[derive(Debug)]
struct Kept {
    is_wanted: bool,
    bytes: Vec<u8>,
    digests: Option<Box<(Md5, Sha1, Sha256)>>,
}

impl ContentStore for FirstBytes {
    fn begin(&self) -> Box<dyn ContentWriter> {
        let is_wanted = self.is_wanted.load(Ordering::Relaxed);
        let digests = self.with_digests.load(Ordering::Relaxed).then(Box::default);
        Box::new(Kept { is_wanted, bytes: vec![], digests })
    }

    /// Rules have digests of their own.
    fn with_digest(&self) -> bool {
        false
    }
}

impl ContentWriter for Kept {
    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> usize {
        // Bytes at other places than the end are missing ones: the content is inspected up to there.
        if self.is_wanted && offset_bytes == self.bytes.len() as u64 {
            let room = FILE_BYTES_MAX - self.bytes.len();
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if let Some(digests) = &mut self.digests {
            digests.0.update(bytes);
            digests.1.update(bytes);
            digests.2.update(bytes);
        }
        bytes.len()
    }

    fn end(&mut self) {}

    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.digests.as_ref().map_or(0, |_| size_of::<(Md5, Sha1, Sha256)>())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The first bytes of a content.
pub fn bytes_of(content: &Content) -> Vec<u8> {
    content.with_writer(|writer| {
        writer.downcast_ref::<Kept>().map(|kept| kept.bytes.clone()).unwrap_or_default()
    })
}

/// A digest of a content, hexadecimal: `md5`, `sha1` or `sha256`.
pub fn digest_of(content: &Content, name: &str) -> Option<String> {
    content.with_writer(|writer| {
        let digests = writer.downcast_ref::<Kept>()?.digests.as_deref()?;
        Some(match name {
            "md5" => hexadecimal(&digests.0.clone().finalize()),
            "sha1" => hexadecimal(&digests.1.clone().finalize()),
            _ => hexadecimal(&digests.2.clone().finalize()),
        })
    })
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
