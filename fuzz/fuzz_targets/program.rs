//! A filter and packets: native code against the interpreter.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::engines::fuzz_program(bytes));
