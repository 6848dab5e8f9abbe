//! DPDK in this process: its initialisation, its log, and its thread.
#![allow(unsafe_code)]

use crate::Error;
use crate::arguments::{Needs, arguments, first_processor, free_huge_bytes};
use crate::library::{self, Functions};
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The thread of DPDK answers within this time.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Bytes of DPDK's log that an error may have.
const LOG_BYTES_MAX: usize = 4_096;
/// Is in the last line of the log after each failed attachment.
const SAYS_NOTHING: &str = "Failed to attach device on primary process";
/// Lines of DPDK's log in an error.
const LOG_LINES_MAX: usize = 3;

/// The arguments of the user with which DPDK was initialised, and the result.
static STARTED: Mutex<Option<Started>> = Mutex::new(None);

/// An initialisation.
struct Started {
    stated: Vec<String>,
    result: Result<(), Error>,
}

/// Initialises DPDK. Later calls in the process do nothing, if they state the same arguments.
///
/// # Errors
/// [`Error::Missing`]; [`Error::Failed`] with the log of DPDK, which cannot be initialised a second time.
pub fn start(needs: &Needs) -> Result<(), Error> {
    let functions = library::functions()?;
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*started {
        Some(started) if started.stated == needs.stated => return started.result.clone(),
        Some(_) => return Err(Error::Failed("DPDK runs already, with other arguments".to_string())),
        None => {}
    }
    let words = arguments(needs, free_huge_bytes(), first_processor())?;
    // DPDK binds the thread that initialises it to a processor. Its other threads inherit from the process.
    let thread = std::thread::Builder::new().name("dpdk-start".to_string());
    let result =
        thread.spawn(move || functions.start(words)).map_err(|error| Error::Failed(error.to_string()))?;
    let result = result.join().unwrap_or_else(|_| Err(Error::Failed("DPDK did not start".to_string())));
    *started = Some(Started { stated: needs.stated.clone(), result: result.clone() });
    result
}

/// A call that waits for the thread of DPDK.
type Call = Box<dyn FnOnce() + Send>;

/// Calls a function in the thread of DPDK that serves interrupts of devices, and returns its result. `None`:
/// DPDK was not started.
///
/// # Errors
/// If the thread does not call the function in time, or the function panics.
pub fn in_its_thread<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    if !matches!(
        &*STARTED.lock().unwrap_or_else(PoisonError::into_inner),
        Some(Started { result: Ok(()), .. })
    ) {
        return Ok(None);
    }
    let functions = library::functions()?;
    let (sender, receiver) = channel();
    let call: Call = Box::new(move || drop(sender.send(call())));
    let argument = Box::into_raw(Box::new(call));
    // SAFETY: the thread calls `run` once, with this argument.
    let result = unsafe { (functions.call)(run, argument.cast()) };
    if let Err(why) = functions.checked(result) {
        // SAFETY: no call was accepted, so this is the only owner.
        drop(unsafe { Box::from_raw(argument) });
        return Err(Error::Failed(why));
    }
    let late = |_| Error::Failed("the thread of DPDK does not answer".to_string());
    receiver.recv_timeout(CALL_MAX).map(Some).map_err(late)
}

/// Called in the thread of DPDK.
unsafe extern "C" fn run(argument: *mut c_void) {
    // SAFETY: `in_its_thread` passed this box, and gave it away.
    let call = unsafe { Box::from_raw(argument.cast::<Call>()) };
    // No panic may unwind through C. The channel tells the caller.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

impl Functions {
    fn start(&self, words: Vec<String>) -> Result<(), Error> {
        let shown = words[1..].join(" ");
        let words: Result<Vec<CString>, _> = words.into_iter().map(CString::new).collect();
        let words = words.map_err(|_| Error::Failed("an argument of DPDK has a zero byte".to_string()))?;
        // DPDK permutes the array, and keeps pointers to the texts: they live as long as the process.
        let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
        let count = words.len() as c_int;
        words.push(ptr::null_mut());
        // SAFETY: the array has `count` texts, and a null pointer behind them; the caller calls this once.
        let result = unsafe { (self.start)(count, words.leak().as_mut_ptr()) };
        self.checked(result).map(|_| ()).map_err(|why| {
            Error::Failed(format!(
                "DPDK cannot be initialised: {why} (its arguments: {shown}; --dpdk-eal adds others)"
            ))
        })
    }

    /// The result, or the number of an error with the last lines of the log.
    pub(crate) fn checked(&self, result: c_int) -> Result<u32, String> {
        let log = self.take_log();
        u32::try_from(result).map_err(|_| {
            // The last line of each failed attachment says nothing, and the numbers of errors are often
            // wrong.
            let lines =
                log.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(SAYS_NOTHING));
            let lines: Vec<&str> = lines.collect();
            match &lines[lines.len().saturating_sub(LOG_LINES_MAX)..] {
                [] => io::Error::from_raw_os_error(-result).to_string(),
                lines => lines.join("; "),
            }
        })
    }

    pub(crate) fn take_log(&self) -> String {
        let mut text = vec![0u8; LOG_BYTES_MAX];
        // SAFETY: the plug-in writes at most so many bytes.
        let bytes = unsafe { (self.take_log)(text.as_mut_ptr().cast(), text.len()) };
        String::from_utf8_lossy(&text[..bytes.min(text.len())]).into_owned()
    }
}
