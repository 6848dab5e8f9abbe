//! Any bytes as rules of Suricata, and as their settings; accepted rules inspect a payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_testing::rules::fuzz_rules(bytes));
