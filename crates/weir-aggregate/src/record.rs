//! The input of an aggregator.

/// A packet, connection, session or event, as the compiled program presents it.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its time: nanoseconds since 1970.
    pub time_ns: i64,
    /// Its place in the order of arrival, which decides between records of the same time. The same for any
    /// number of workers.
    pub order: u64,
    /// The words of its key, as many as the plan says. Words of parts that are absent are 0.
    pub key: &'a [u64],
    /// A bit for each part of the key that is present. The program decides which bits it uses.
    pub key_present: u64,
    /// The words of the inputs, at least [`Plan::input_words`](crate::Plan::input_words).
    pub inputs: &'a [u64],
    /// A bit for each input that is present: the lowest bit is that of the first input.
    pub inputs_present: u64,
}
