//! Isolates callbacks and handlers: a panic of one is caught and counted, and the run continues without the
//! result of this call. Panics of Weir's own code are not caught: only the calls of user-defined code are
//! inside of [`Isolation::call`].

use super::subscription::Subscription;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Number of panics after which a callback or handler is not called any more.
pub const CALLBACK_PANICS_MAX: u64 = 100;

/// The panics of a subscription's callback or handlers, on all threads.
#[derive(Debug, Clone, Default)]
pub struct Isolation(Arc<Panics>);

#[derive(Debug, Default)]
struct Panics {
    count: AtomicU64,
    first: OnceLock<String>,
}

impl Isolation {
    /// Calls user-defined code. `None`: the code panicked, or has panicked too often and is not called.
    pub(crate) fn call<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        if self.is_off() {
            return None;
        }
        // Whether the state of a handler is consistent after a panic is up to the handler: the documentation
        // says so.
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| self.add(&*panic)).ok()
    }

    fn add(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // Later panics change nothing.
        let _ = self.0.first.set(text.unwrap_or_else(|| "a panic without a text".to_string()));
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there were too many panics.
    pub(crate) fn is_off(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) >= CALLBACK_PANICS_MAX
    }

    /// The panics so far; `None` if there were none.
    pub(crate) fn report(&self, subscription: Subscription) -> Option<CallbackPanics> {
        let count = self.0.count.load(Ordering::Relaxed);
        let first = self.0.first.get().cloned().unwrap_or_default();
        (count > 0).then_some(CallbackPanics { subscription, count, first, is_off: self.is_off() })
    }
}

/// Panics of a subscription's callback or handlers. They were caught, and the run continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackPanics {
    /// The subscription.
    pub subscription: Subscription,
    /// Number of panics since the subscription was added; each lost the result of one call.
    pub count: u64,
    /// The message of the first panic.
    pub first: String,
    /// There were [too many](CALLBACK_PANICS_MAX) panics, and nothing more was delivered.
    pub is_off: bool,
}

impl fmt::Display for CallbackPanics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscription, count, first, is_off } = self;
        let end = if *is_off { "; it is not called any more" } else { "" };
        write!(f, "{count} panics in a callback of subscription {subscription}{end}. The first: {first}")
    }
}
