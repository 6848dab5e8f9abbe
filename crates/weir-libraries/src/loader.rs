//! Loading of a library, and its functions by name.

use std::error::Error as _;
use std::ffi::{CStr, OsStr, c_char};
use std::fmt;

/// A loaded library. Its functions may be called while the value exists.
#[derive(Debug)]
pub struct Library(libloading::Library);

/// The reason why a library can't be loaded, or lacks a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The program is static and loads no libraries. The text names the file.
    Static(String),
    /// The system's loader failed, with this message.
    Failed(String),
}

impl LoadError {
    /// The reason, for people. `explain` adds a remedy to the message of the system's loader; a static
    /// program has no remedy.
    pub fn explained(self, explain: impl FnOnce(String) -> String) -> String {
        match self {
            Self::Static(_) => self.to_string(),
            Self::Failed(cause) => explain(cause),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(file) => write!(f, "{file}: a static weir loads no libraries"),
            Self::Failed(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for LoadError {}

/// The message of the system's loader is the source of the crate's error.
impl From<libloading::Error> for LoadError {
    fn from(why: libloading::Error) -> Self {
        Self::Failed(why.source().map_or_else(|| why.to_string(), |cause| cause.to_string()))
    }
}

impl Library {
    /// Loads a library: the file at a path, or a name in the system's search path. Whoever controls the
    /// search path controls the code of every library in the process.
    ///
    /// # Errors
    ///
    /// Any [`LoadError`].
    ///
    /// # Safety
    ///
    /// Loading runs the constructors of the library and of those that it needs. They have no preconditions.
    pub unsafe fn load(file: impl AsRef<OsStr>) -> Result<Self, LoadError> {
        let file = file.as_ref();
        // A library needs the C library that it was linked with, and a static program has another one, or
        // another version: it would crash (seen with glibc 2.36 in Debian 13, November 2026).
        if cfg!(target_feature = "crt-static") {
            return Err(LoadError::Static(file.display().to_string()));
        }
        // SAFETY: as the caller promises.
        Ok(Self(unsafe { libloading::Library::new(file) }?))
    }

    /// The function with this name.
    ///
    /// # Errors
    ///
    /// [`LoadError::Failed`] if there is none.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to this function. The function is not called after the library is
    /// dropped.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, LoadError> {
        // SAFETY: as the caller promises.
        Ok(*unsafe { self.0.get::<F>(name) }?)
    }

    /// The text that the function with this name returns, without white space around it: a version.
    ///
    /// # Errors
    ///
    /// [`LoadError::Failed`] if there is no such function.
    ///
    /// # Safety
    ///
    /// The function has no parameters and no preconditions. It returns a pointer to a NUL-terminated text,
    /// which nobody changes.
    pub unsafe fn text(&self, name: &CStr) -> Result<String, LoadError> {
        // SAFETY: as the caller promises.
        unsafe {
            let function: unsafe extern "C" fn() -> *const c_char = self.function(name)?;
            Ok(CStr::from_ptr(function()).to_string_lossy().trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_and_a_missing_function_are_named() {
        // SAFETY: there is no such library.
        let missing = unsafe { Library::load("libweir_none.so") }.unwrap_err();
        assert!(missing.to_string().contains("libweir_none.so"), "{missing}");
        // SAFETY: the C library is loaded already, and there is no such function.
        let missing = unsafe {
            let library = Library::load("libc.so.6").unwrap();
            library.function::<unsafe extern "C" fn()>(c"weir_none").unwrap_err()
        };
        assert!(missing.to_string().contains("weir_none"), "{missing}");
        assert!(missing.explained(|cause| format!("{cause}; remedy")).ends_with("weir_none; remedy"));
    }

    #[test]
    fn a_text_is_that_of_the_library() {
        // SAFETY: `gnu_get_libc_version` takes nothing and returns a constant.
        let version =
            unsafe { Library::load("libc.so.6").and_then(|library| library.text(c"gnu_get_libc_version")) };
        assert!(version.unwrap().starts_with("2."));
    }

    #[test]
    fn a_static_program_has_no_remedy() {
        let message = LoadError::Static("libx.so".into()).explained(|cause| format!("{cause}; remedy"));
        assert_eq!(message, "libx.so: a static weir loads no libraries");
    }
}
