//! Any bytes as both directions of a connection of one session protocol: that which `WEIR_PROTOCOL` names, else the
//! one that the first byte picks.
#![no_main]

use weir_sessions::SessionRegistry;
use weir_testing::conversation::fuzz_session;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let protocols = SessionRegistry::builtin().protocols();
    if let Ok(name) = std::env::var("WEIR_PROTOCOL") {
        let protocol = protocols.iter().find(|protocol| protocol.name == name).expect("a protocol of that name");
        fuzz_session(protocol, bytes);
    } else if let Some((first, rest)) = bytes.split_first() {
        fuzz_session(protocols[usize::from(*first) % protocols.len()], rest);
    }
});
