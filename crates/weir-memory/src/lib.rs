//! Counts the bytes that each thread has allocated and not released, so that an account of memory sees what
//! a piece of code really holds: the code allocates through the program's allocator, and cannot pass it by.
//!
//! A program makes the count possible with one line:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);
//!
//! let before = weir_memory::live_bytes();
//! let text = String::from("some bytes");
//! assert!(weir_memory::is_counting() && weir_memory::live_bytes() - before >= text.len() as isize);
//! ```
//!
//! Without the line [`is_counting`] is false, and [`live_bytes`] is always 0.
//!
//! The count belongs to the thread that allocates or releases, not to the memory: if one thread releases what
//! another has allocated, the count of the first falls, and that of the other stays. Differences of the
//! count around a call are therefore exact if the call releases nothing that others have allocated and
//! passes nothing on. Memory of C libraries is not seen; its holders report it with [`Foreign`].
//!
//! [`keep_reserve`] keeps memory back, so that a program can end in order once the system refuses more.

#![deny(unsafe_code)]

mod count;
mod counted;
mod foreign;
mod reserve;

pub use count::{is_counting, live_bytes};
pub use counted::Counted;
pub use foreign::Foreign;
pub use reserve::{checked, keep_reserve};

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[global_allocator]
    static ALLOCATOR: Counted<System> = Counted(System);

    #[test]
    fn memory_counts_from_its_allocation_to_its_release() {
        assert!(is_counting());
        let before = live_bytes();
        let mut bytes: Vec<u8> = Vec::with_capacity(100);
        assert_eq!(live_bytes() - before, 112);
        bytes.reserve_exact(1000);
        assert_eq!(live_bytes() - before, 1024);
        let zeros = vec![0_u8; 64];
        assert_eq!(live_bytes() - before, 1024 + 64);
        drop((bytes, zeros));
        assert_eq!(live_bytes(), before);
    }

    #[test]
    fn memory_of_other_languages_counts_by_report() {
        let before = live_bytes();
        let mut window = Foreign::new(1000);
        window.set(300);
        assert_eq!(live_bytes() - before, 300);
        drop(window);
        assert_eq!(live_bytes(), before);
    }

    #[test]
    fn each_thread_has_its_own_count() {
        let before = live_bytes();
        let bytes = std::thread::spawn(|| vec![1_u8; 1 << 20]).join().expect("no panic");
        assert!(live_bytes() - before < 1 << 20);
        let held = live_bytes();
        drop(bytes);
        assert_eq!(held - live_bytes(), 1 << 20);
    }
}
