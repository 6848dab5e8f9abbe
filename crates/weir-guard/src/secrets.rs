//! Secrets: files that others must not read, and texts that nobody guesses.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a file with a secret.
const BYTES_MAX: u64 = 64 << 10;

/// The text of a file that only its owner can read.
///
/// # Errors
/// Others can read or change the file; those of the system.
pub fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    // A pipe (`<(command)`) has nobody else at its end.
    if about.is_file() && about.mode() & 0o077 != 0 {
        let message = format!("other users can read it: chmod 600 {}", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Random bytes from the system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let (mut bytes, mut filled) = ([0; N], 0);
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A random text of hexadecimal digits, two for each of `N` bytes.
///
/// # Errors
/// As [`random`].
pub fn random_text<const N: usize>() -> io::Result<String> {
    Ok(random::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_that_others_can_read_are_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("token");
        fs::write(&path, "secret").expect("a file");
        for (mode, is_secret) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o666, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its owner may");
            assert_eq!(read(&path).is_ok(), is_secret, "{mode:o}");
        }
        let refused = read(&path).expect_err("others can read it").to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn random_texts_differ() {
        let texts = [random_text::<16>().expect("random"), random_text::<16>().expect("random")];
        assert!(texts[0] != texts[1] && texts[0].len() == 32, "{texts:?}");
    }
}
