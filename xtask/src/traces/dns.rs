//! 1 M DNS queries over UDP with their responses, from 50 k clients to 8 resolvers: short flows of one
//! transaction.

use std::path::Path;

use crate::shell::Result;
use crate::traces::frame::{Ends, Trace, ethernet, ipv4, udp};
use weir_testing::Random;

const QUERIES: f64 = 1_000_000.0;
const STEP_US: u64 = 5;
const WORDS: [&str; 12] =
    ["www", "mail", "api", "cdn", "static", "video", "shop", "news", "example", "weir", "river", "delta"];
const ENDINGS: [&str; 4] = ["com", "org", "net", "example"];

pub fn make(file: &Path, scale: f64) -> Result {
    let mut random = Random::new(53);
    let mut trace = Trace::create(file, STEP_US)?;
    for n in 0..(QUERIES * scale) as u64 {
        let client = Ends {
            src: 0x0a00_0000 | random.below(50_000) as u32,
            dst: 0xc633_6400 | random.below(8) as u32,
            src_port: 1024 + random.below(64_000) as u16,
            dst_port: 53,
        };
        let (id, kind) = (random.bits() as u16, [1u16, 28, 15, 16][random.below(4) as usize]);
        let question = question(&mut random, kind);
        let mut query = header(id, 0x0100, 0);
        query.extend_from_slice(&question);
        trace.put(&ethernet(0x0800, &ipv4(client, 17, n as u16, 0, &udp(client, &query))))?;
        let data: &[u8] = match kind {
            1 => &[198, 51, 100, 7],
            28 => &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
            15 => &[0, 10, 0xc0, 12],
            _ => b"\x0bv=spf1 -all",
        };
        let mut answer = header(id, 0x8180, 1);
        answer.extend_from_slice(&question);
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 1, 44]);
        answer.extend_from_slice(&(data.len() as u16).to_be_bytes());
        answer.extend_from_slice(data);
        let server = client.reversed();
        trace.put(&ethernet(0x0800, &ipv4(server, 17, n as u16, 0, &udp(server, &answer))))?;
    }
    trace.finish()
}

fn header(id: u16, flags: u16, answers: u16) -> Vec<u8> {
    [id, flags, 1, answers, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A question of class IN for a name of two words and a top-level domain.
fn question(random: &mut Random, kind: u16) -> Vec<u8> {
    let mut question = vec![];
    let word = |random: &mut Random| WORDS[random.below(WORDS.len() as u64) as usize];
    for label in [word(random), word(random), ENDINGS[random.below(ENDINGS.len() as u64) as usize]] {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.push(0);
    question.extend_from_slice(&kind.to_be_bytes());
    question.extend_from_slice(&[0, 1]);
    question
}
