//! Any bytes as a capture file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_io::source::fuzz_reader(bytes));
