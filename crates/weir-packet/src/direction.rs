//! The two directions of a connection.

/// Who sent some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// The originator: who sent the first packet of the connection that was seen.
    Originator,
    /// The responder.
    Responder,
}

impl Direction {
    /// Both, the originator's first.
    pub const BOTH: [Direction; 2] = [Direction::Originator, Direction::Responder];

    /// The responder's where the condition holds, else the originator's.
    #[inline]
    pub fn responder_if(condition: bool) -> Self {
        if condition { Self::Responder } else { Self::Originator }
    }

    /// Whether it is the responder's.
    #[inline]
    pub fn is_responder(self) -> bool {
        self == Self::Responder
    }

    /// Its place in [`BOTH`](Self::BOTH).
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other one.
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
