//! When the next message is sent, and what is said about one that failed.

use std::time::Duration;

/// Time after the first failure; each further one doubles this time.
const RETRY_MIN: Duration = Duration::from_secs(1);

/// The longest time between two tries.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Characters of what the collector says about a failure.
const REASON_MAX: usize = 200;

/// Time until the next export after so many failures in a row.
pub fn wait(failures: u32, interval: Duration) -> Duration {
    match failures.checked_sub(1) {
        None => interval,
        Some(doublings) => RETRY_MIN.saturating_mul(1 << doublings.min(10)).min(RETRY_MAX),
    }
}

/// The beginning of a text of the collector, without characters that control terminals.
pub fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(REASON_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_lengthen_the_time_between_tries() {
        let interval = Duration::from_secs(10);
        let seconds = |failures| wait(failures, interval).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, u32::MAX].map(seconds), [10, 1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn words_of_the_collector_are_bounded_and_printable() {
        assert_eq!(printable("no\u{1b}[2J\nmore"), "no[2Jmore");
        assert_eq!(printable(&"é".repeat(1_000)).chars().count(), REASON_MAX);
    }
}
