//! The part of a filter that a worker sends to its keeper: instructions of eBPF.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::engines::fuzz_part(bytes));
