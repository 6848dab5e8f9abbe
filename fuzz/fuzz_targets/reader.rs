//! Any bytes as a capture file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::capture::fuzz_reader(bytes));
