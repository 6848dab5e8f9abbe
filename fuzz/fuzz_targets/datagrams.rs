//! Any bytes as datagrams of packets over UDP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::datagrams::fuzz_datagrams(bytes));
