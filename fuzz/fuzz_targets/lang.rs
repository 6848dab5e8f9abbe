//! Any bytes as a text of the protocol language.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::language::fuzz_lang(bytes));
