//! The session protocols that were recognised in a flow.

/// The protocols recognised in a flow, in order: numbers of the plan's registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognised([u8; RECOGNISED_MAX]);

/// Limit of protocols per flow. Later protocols are not parsed.
const RECOGNISED_MAX: usize = 4;

/// No protocol.
const NONE: u8 = u8::MAX;
const _: () = assert!(weir_sessions::PROTOCOLS_MAX <= NONE as usize, "a protocol's number is a byte");

impl Default for Recognised {
    fn default() -> Self {
        Self([NONE; RECOGNISED_MAX])
    }
}

impl Recognised {
    /// The indices of the protocols, in order.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().take_while(|&index| index != NONE).map(usize::from)
    }

    /// No protocol was recognised.
    pub fn is_empty(self) -> bool {
        self.0[0] == NONE
    }

    pub(crate) fn is_full(self) -> bool {
        self.0[RECOGNISED_MAX - 1] != NONE
    }

    pub(crate) fn with(mut self, protocol: usize) -> Self {
        if let Some(free) = self.0.iter_mut().find(|index| **index == NONE) {
            *free = protocol as u8;
        }
        self
    }

    pub(crate) fn last(self) -> Option<usize> {
        self.indices().last()
    }
}
