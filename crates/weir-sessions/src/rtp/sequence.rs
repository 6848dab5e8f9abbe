//! Lost, late and repeated packets, derived from sequence numbers (RFC 3550 §A.1, §A.3).

/// Largest gap in sequence numbers; a larger one may be a restart of the sender.
const DROPOUT_MAX: u16 = 3000;

/// How far a late packet's number may lie behind the highest.
const MISORDER_MAX: u16 = 100;

/// Classification of a packet by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// A new packet of the stream.
    New,
    /// A repeated packet: the sender repeats it, or the capture has it twice.
    Again,
    /// A number far from the others; the packet may not belong to the stream.
    Stray,
}

/// Sequence state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The first and the highest number, extended by the number of wraparounds.
    first: u64,
    highest: u64,
    /// Received numbers among the highest 128; bit 0 is the highest.
    window: u128,
    /// The number that would confirm a restart of the sender.
    anew: Option<u16>,
    /// Packets since the last restart.
    received: u64,
    /// Packets lost before the last restart.
    lost_before: u64,
    /// Packets that arrived after a packet with a higher number.
    pub(super) late: u64,
    /// Repeated packets.
    pub(super) repeated: u64,
    /// The number of the first packet.
    pub(super) first_number: u16,
    /// Whether two packets with consecutive numbers have arrived.
    pub(super) is_likely: bool,
}

impl Sequence {
    pub(super) fn new(number: u16) -> Self {
        Self {
            first: number.into(),
            highest: number.into(),
            window: 1,
            anew: None,
            received: 1,
            lost_before: 0,
            late: 0,
            repeated: 0,
            first_number: number,
            is_likely: false,
        }
    }

    /// Classifies and counts the packet with this number.
    pub(super) fn take(&mut self, number: u16) -> Taken {
        let ahead = number.wrapping_sub(self.highest as u16);
        let mut taken = Taken::New;
        if ahead == 0 {
            self.repeated += 1;
            taken = Taken::Again;
        } else if ahead < DROPOUT_MAX {
            self.highest += u64::from(ahead);
            self.window = if ahead < 128 { self.window << ahead | 1 } else { 1 };
            self.received += 1;
            self.is_likely |= ahead == 1;
        } else if ahead > u16::MAX - MISORDER_MAX {
            let behind = u16::MAX - ahead + 1;
            let bit = 1_u128.checked_shl(behind.into()).unwrap_or(0);
            if self.window & bit != 0 {
                self.repeated += 1;
                taken = Taken::Again;
            } else {
                self.window |= bit;
                self.late += 1;
                self.received += 1;
                // A packet before the first one is also expected.
                self.first = self.first.min(self.highest.saturating_sub(behind.into()));
            }
        } else if self.anew == Some(number) {
            let begun = Self::new(number.wrapping_sub(1));
            *self = Self {
                lost_before: self.lost(),
                late: self.late,
                repeated: self.repeated,
                first_number: self.first_number,
                is_likely: true,
                highest: begun.highest + 1,
                received: 2,
                window: 3,
                ..begun
            };
        } else {
            self.anew = Some(number.wrapping_add(1));
            return Taken::Stray;
        }
        self.anew = None;
        taken
    }

    /// Number of lost packets.
    pub(super) fn lost(&self) -> u64 {
        let expected = self.highest - self.first + 1;
        self.lost_before + expected.saturating_sub(self.received)
    }

    /// The highest number, 16 bits.
    pub(super) fn last_number(&self) -> u16 {
        self.highest as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(numbers: &[u16]) -> (u64, u64, u64) {
        let mut sequence = Sequence::new(numbers[0]);
        for number in &numbers[1..] {
            sequence.take(*number);
        }
        (sequence.lost(), sequence.late, sequence.repeated)
    }

    #[test]
    fn what_is_missing_late_or_twice() {
        assert_eq!(take(&[1, 2, 3]), (0, 0, 0));
        assert_eq!(take(&[1, 2, 5, 6]), (2, 0, 0));
        assert_eq!(take(&[1, 3, 2, 4]), (0, 1, 0));
        assert_eq!(take(&[1, 2, 2, 1, 3]), (0, 0, 2));
        assert_eq!(take(&[5, 4, 6]), (0, 1, 0));
        assert_eq!(take(&[5, 3, 6]), (1, 1, 0));
        let far: Vec<u16> = (0..=100).chain([5, 5]).collect();
        assert_eq!(take(&far), (0, 0, 2));
    }

    #[test]
    fn numbers_go_round() {
        assert_eq!(take(&[65534, 65535, 0, 2]), (1, 0, 0));
        assert_eq!(take(&[65535, 1, 0]), (0, 1, 0));
        assert_eq!(take(&[0, 65535, 1]), (0, 1, 0));
        let mut sequence = Sequence::new(0);
        for round in 0..3_u16 {
            for number in 0..=u16::MAX {
                if (round, number) != (0, 0) {
                    assert_eq!(sequence.take(number), Taken::New);
                }
            }
        }
        assert_eq!((sequence.lost(), sequence.received), (0, 3 << 16));
    }

    #[test]
    fn a_sender_may_begin_anew() {
        assert_eq!(take(&[1, 2, 4, 30_000, 30_001, 30_003]), (2, 0, 0));
        assert_eq!(take(&[1, 2, 30_000, 3, 4]), (0, 0, 0), "one stray packet is none");
        let mut sequence = Sequence::new(1);
        assert_eq!(sequence.take(40_000), Taken::Stray);
        assert_eq!(sequence.take(40_001), Taken::New);
        assert_eq!((sequence.first_number, sequence.last_number(), sequence.received), (1, 40_001, 2));
    }
}
