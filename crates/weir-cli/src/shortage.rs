//! Ends the run in order once the system refuses memory, with the reserve that is kept for this.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_questions::source::Ender;

/// The system has refused memory.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Ends the captures of the run.
static ENDER: OnceLock<Ender> = OnceLock::new();

/// Keeps the reserve. To be called before the program asks for much.
pub fn prepare() {
    // The closure runs inside of a refused request, and must not allocate.
    weir_memory::keep_reserve(|| {
        IS_SHORT.store(true, Ordering::SeqCst);
        ENDER.get().into_iter().for_each(Ender::end);
    });
}

/// The captures of the run end once memory is short. Only the first captures of a process do.
pub fn ends(ender: &Ender) {
    let _ = ENDER.set(ender.clone());
    if IS_SHORT.load(Ordering::SeqCst) {
        ender.end();
    }
}

/// If memory was short: says so, and returns true.
pub fn is_reported() -> bool {
    let is_short = IS_SHORT.load(Ordering::SeqCst);
    if is_short {
        say!("weir: no memory: the system refused a request, and the run ended before its input did");
        note!("weir: the packets before are processed; a smaller --memory leaves room for the rest");
    }
    is_short
}
