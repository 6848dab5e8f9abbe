//! Any bytes as both directions of a TLS connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_sessions::tls::fuzz_tls(bytes));
