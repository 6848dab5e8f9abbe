//! Idle time-outs of flows.

use crate::flow::read_number;

/// Shorter time-outs belong to short-lived states (unanswered, closed) and are not replaced.
const IDLE_MS_MIN: u32 = 60_000;
const NS_PER_MS: i64 = 1_000_000;

/// The idle time-outs of the flows of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// The time-out that the layer declares, if all flows share it.
    pub declared_ms: u32,
    /// The place of the flow's own time-out among its variables.
    pub at: Option<usize>,
    /// The replacement of idle time-outs ([`crate::plan::Limits::idle_timeout_ms`]).
    pub idle_ms: Option<u32>,
}

impl Timeouts {
    /// A time-out that never expires.
    const NEVER_MS: u32 = u32::MAX;

    /// A flow's time-out in milliseconds.
    #[inline]
    pub fn ms(self, data: &[u8]) -> u32 {
        let declared = self.at.map_or(self.declared_ms, |at| read_number(data, at, 32) as u32);
        match self.idle_ms {
            Some(0) if declared > 0 => Self::NEVER_MS,
            Some(replaced) if declared >= IDLE_MS_MIN => replaced,
            _ => declared,
        }
    }

    /// A flow's time-out in nanoseconds.
    #[inline]
    pub fn ns(self, data: &[u8]) -> i64 {
        Self::as_ns(self.ms(data))
    }

    #[inline]
    pub fn as_ns(millis: u32) -> i64 {
        match millis {
            Self::NEVER_MS => i64::MAX,
            millis => i64::from(millis) * NS_PER_MS,
        }
    }
}
