//! Any bytes as both directions of a connection of the session protocol that `WEIR_PROTOCOL` names. If
//! `WEIR_SHOW` is set, the conversation is printed as text.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::LazyLock;
use weir_sessions::{SessionProtocol, SessionRegistry};
use weir_testing::conversation::{Act, Conversation, fuzz_session};

/// What parsers hold is bounded.
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);

static PROTOCOL: LazyLock<&SessionProtocol> = LazyLock::new(|| {
    let name = std::env::var("WEIR_PROTOCOL").expect("WEIR_PROTOCOL names a session protocol");
    let mut all = SessionRegistry::builtin().protocols().iter();
    all.find(|protocol| protocol.name == name).unwrap_or_else(|| panic!("no session protocol {name}"))
});

static SHOW: LazyLock<bool> = LazyLock::new(|| std::env::var_os("WEIR_SHOW").is_some());

fuzz_target!(|bytes: &[u8]| {
    if *SHOW && !bytes.is_empty() {
        print!("#\n{}", Conversation::from_input(&PROTOCOL, bytes));
    }
    fuzz_session(&PROTOCOL, bytes);
});

/// Bytes that a mutation may add to a segment.
const GROWTH_BYTES: usize = 64;

// Changes one step, so that the lengths of the other segments stay right.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut talk = Conversation::from_input(&PROTOCOL, &data[..size]);
    edit(&mut talk, seed as usize);
    let input = talk.to_input(&PROTOCOL);
    let length = input.len().min(max_size);
    data[..length].copy_from_slice(&input[..length]);
    length
});

fn edit(talk: &mut Conversation, seed: usize) {
    let (action, place) = (seed % 16, seed / 16);
    if talk.steps.is_empty() || action == 0 {
        let from = if place % 2 == 0 {
            weir_sessions::Direction::Originator
        } else {
            weir_sessions::Direction::Responder
        };
        talk.push(from, Act::Send(mutated(&[], 1 + place % GROWTH_BYTES)));
        return;
    }
    let at = place % talk.steps.len();
    match action {
        1 => drop(talk.steps.remove(at)),
        2 => {
            let same = talk.steps[at].clone();
            talk.steps.insert(at, same);
        }
        3 => {
            let last = talk.steps.len() - 1;
            talk.steps.swap(at, (at + 1).min(last));
        }
        4 => talk.steps[at].from = talk.steps[at].from.other(),
        5 => talk.steps[at].act = Act::Lose(1 << (place / talk.steps.len() % 37)),
        _ => {
            if let Act::Send(bytes) = &talk.steps[at].act {
                let room = bytes.len() + GROWTH_BYTES;
                talk.steps[at].act = Act::Send(mutated(bytes, room));
            }
        }
    }
}

/// The bytes with libFuzzer's own mutations; at most `length_max` bytes.
fn mutated(bytes: &[u8], length_max: usize) -> Vec<u8> {
    let mut buffer = bytes.to_vec();
    buffer.resize(length_max, 0);
    let length = fuzzer_mutate(&mut buffer, bytes.len(), length_max);
    buffer.truncate(length);
    buffer
}
