//! The two directions of a connection.

/// The sender of bytes within a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// The originator: the sender of the first packet seen of the connection.
    Originator,
    /// The responder.
    Responder,
}

impl Direction {
    /// Both directions, the originator's first.
    pub const BOTH: [Direction; 2] = [Direction::Originator, Direction::Responder];

    /// The responder if the condition holds, else the originator.
    #[inline]
    pub fn responder_if(condition: bool) -> Self {
        if condition { Self::Responder } else { Self::Originator }
    }

    /// Whether this is the responder.
    #[inline]
    pub fn is_responder(self) -> bool {
        self == Self::Responder
    }

    /// The index in [`BOTH`](Self::BOTH).
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other direction.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Originator => Self::Responder,
            Self::Responder => Self::Originator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_made_of_its_parts() {
        for (index, direction) in Direction::BOTH.into_iter().enumerate() {
            assert_eq!(direction.index(), index);
            assert_eq!(Direction::responder_if(direction.is_responder()), direction);
            assert_eq!(direction.other().index(), 1 - index);
        }
    }
}
