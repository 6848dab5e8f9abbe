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

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Originator => Self::Responder,
            Self::Responder => Self::Originator,
        }
    }
}
