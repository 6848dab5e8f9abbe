//! The command `weir`. Everything is in the library, which other programs use too: see `lib.rs`.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: weir_memory::Counted<mimalloc::MiMalloc> = weir_memory::Counted(mimalloc::MiMalloc);

fn main() -> std::process::ExitCode {
    weir_memory::return_soon();
    weir_cli::run_command()
}
