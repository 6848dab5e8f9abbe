//! Messages of a run: what went wrong, what the answers lack, and how the run proceeds. A [`Listener`]
//! receives them: that of the thread, or else that of the process.

/// Says what went wrong.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::messages::Message::of(&format!($($words)*), $crate::messages::Level::Error).tell()
    };
}

/// Says what the answers may lack, or which question is probably not meant as it is stated.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        $crate::messages::Message::of(&format!($($words)*), $crate::messages::Level::Warning).tell()
    };
}

/// Says something that was asked for: counters, an address, the lines of a script.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::messages::Message::of(&format!($($words)*), $crate::messages::Level::Answer).tell()
    };
}

/// Says how the run proceeds.
#[macro_export]
macro_rules! inform {
    ($($words:tt)*) => {
        $crate::messages::Message::of(&format!($($words)*), $crate::messages::Level::Progress).tell()
    };
}

pub(crate) mod failure;
pub(crate) mod file_bounds;
pub(crate) mod listener;

pub use failure::Failure;
pub use file_bounds::set as set_writable;
pub use listener::{Level, Listener, Message};
