//! Self-test of the library, run once per process before its first use.

use std::sync::OnceLock;

use super::error::{Error, INSTALL};
use super::library::{self, Functions};
use super::{Database, Literal, SCAN_BYTES_MIN};

/// Sizes of the sets of literals, such that the library uses each of its algorithms. Bugs were found in sets
/// of 2 to 60 literals, in one of four sets or fewer.
const SMALL: [usize; 8] = [1, 2, 9, 5, 2, 9, 12, 20];
/// Larger sets, which take longer to compile.
const LARGE: [usize; 2] = [60, 120];
/// The alphabets of the literals.
const ALPHABETS: [&[u8]; 3] = [b"ab", b"aAbB-", b"etaoin shrdluETAOIN=/.\r\n"];
/// The number of literals of a set that are searched.
const LOOKED_FOR: usize = 4;
/// The number of positions per literal: each offset below this, because vectors have at most 64 bytes.
const PLACES: usize = 130;
/// A byte that is in no literal.
const FILLER: u8 = b'~';

/// The library's functions, if the self-test passed.
pub(super) fn functions() -> Result<&'static Functions, Error> {
    static PROVEN: OnceLock<Result<&'static Functions, Error>> = OnceLock::new();
    let proven = PROVEN.get_or_init(|| {
        let hs = library::functions()?;
        prove(hs).map(|()| hs)
    });
    proven.clone()
}

/// Searches literals at every position within vectors, and near the end of the bytes. Takes some
/// milliseconds.
pub(super) fn prove(hs: &'static Functions) -> Result<(), Error> {
    let (mut random, mut block, mut found) = (Random(1), vec![], vec![]);
    let small = SMALL.iter().flat_map(|&size| ALPHABETS.map(|alphabet| (alphabet, size)));
    let large = LARGE.map(|size| (ALPHABETS[2], size));
    for (round, (alphabet, size)) in small.chain(large).enumerate() {
        let literals: Vec<Literal> =
            (0..size).map(|n| random.literal(alphabet, 2 + (n * 7 + round) % 11)).collect();
        let mut scanner = Database::compile_with(hs, &literals)?.scanner()?;
        for literal in literals.iter().take(LOOKED_FOR) {
            for before in 0..PLACES {
                let behind = (before * 37 % PLACES).max(SCAN_BYTES_MIN.saturating_sub(before));
                block.clear();
                block.resize(before, FILLER);
                block.extend_from_slice(&literal.bytes);
                let end = block.len() as u32;
                block.resize(block.len() + behind, FILLER);
                scanner.ends(&block, block.len(), &mut found)?;
                if !found.contains(&end) {
                    return Err(faulty(hs, literal, before));
                }
            }
        }
    }
    Ok(())
}

fn faulty(hs: &Functions, literal: &Literal, before: usize) -> Error {
    let (version, text) = (&hs.version_text, literal.bytes.escape_ascii());
    Error::Missing(format!(
        "version {version} is faulty on this processor: it does not find \"{text}\" after {before} bytes; {INSTALL}"
    ))
}

/// Pseudo-random numbers, the same in each process (PCG's multiplier).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    pub(super) fn bytes(&mut self, alphabet: &[u8], length: usize) -> Vec<u8> {
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }

    pub(super) fn literal(&mut self, alphabet: &[u8], length: usize) -> Literal {
        Literal { bytes: self.bytes(alphabet, length), ignore_case: self.below(3) == 0 }
    }
}
