//! Any bytes as a filter, in both syntaxes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::language::fuzz_filter(bytes));
