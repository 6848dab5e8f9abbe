//! The command `weir`. Everything is in the library, which other programs use too: see `lib.rs`.
#![deny(unsafe_code)]

mod allocator;

fn main() -> std::process::ExitCode {
    allocator::return_soon();
    weir_cli::run_command()
}
