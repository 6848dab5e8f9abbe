//! Which layers may follow which ones in a packet.

use crate::model::{LayerId, Stack};

/// For each layer of a stack, the layers that may follow it, directly or above others.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    layers: usize,
    /// For each layer, one bit for each layer, in `words` words.
    bits: Vec<u64>,
    words: usize,
}

impl Reach {
    /// The transitive closure of a stack's edges (Warshall, "A Theorem on Boolean Matrices", 1962).
    pub fn of(stack: &Stack) -> Self {
        let layers = stack.layers.len();
        let words = layers.div_ceil(64);
        let mut bits = vec![0_u64; layers * words];
        for edge in &stack.edges {
            let to = usize::from(edge.to.0);
            bits[usize::from(edge.from.0) * words + to / 64] |= 1 << (to % 64);
        }
        for between in 0..layers {
            let above: Vec<u64> = bits[between * words..][..words].to_vec();
            for from in bits.chunks_exact_mut(words) {
                if from[between / 64] >> (between % 64) & 1 == 1 {
                    from.iter_mut().zip(&above).for_each(|(word, more)| *word |= more);
                }
            }
        }
        Self { layers, bits, words }
    }

    /// Whether a layer may follow another one. It follows itself only if it can be repeated.
    pub fn contains(&self, from: LayerId, to: LayerId) -> bool {
        let (from, to) = (usize::from(from.0), usize::from(to.0));
        self.bits[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }

    /// The layers that may follow a layer, in their order in the stack.
    pub fn above(&self, from: LayerId) -> impl Iterator<Item = LayerId> {
        (0..self.layers as u16).map(LayerId).filter(move |&to| self.contains(from, to))
    }
}
