//! A generated text, a filter and packets: native code and passes against the interpreter without.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::engines::fuzz_text(bytes));
