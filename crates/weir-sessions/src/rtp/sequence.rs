//! What was lost, came late, came twice: told from sequence numbers (RFC 3550 §A.1, §A.3).

/// Numbers that may be missing in a row; beyond, the sender may have begun anew.
const DROPOUT_MAX: u16 = 3000;

/// How far a packet may come behind.
const MISORDER_MAX: u16 = 100;

/// What a packet is, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is one of the stream.
    New,
    /// It had come before: its sender repeats it, or the capture has it twice.
    Again,
    /// It is none, as far as is known.
    Stray,
}

/// Where the numbers of a stream stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The first number, and the highest, with the rounds it has made.
    first: u64,
    highest: u64,
    /// Which of the 128 up to the highest have come: bit 0 the highest.
    window: u128,
    /// The number that would show that the sender has begun anew.
    anew: Option<u16>,
    /// Packets since it last began anew.
    received: u64,
    /// Before that: how many were to be expected and did not come.
    lost_before: u64,
    /// Packets that came behind a later one.
    pub(super) late: u64,
    /// Packets that had come before.
    pub(super) repeated: u64,
    /// The first number of all.
    pub(super) first_number: u16,
    /// Two have come one behind the other.
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

    /// Takes the next number.
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
                // One that came before the first was to be expected, too.
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

    /// Packets that did not come.
    pub(super) fn lost(&self) -> u64 {
        let expected = self.highest - self.first + 1;
        self.lost_before + expected.saturating_sub(self.received)
    }

    /// The highest number, without its rounds.
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
