//! What a pipeline is told between items.

/// What a pipeline is told between items. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The watermark: items from before this time have passed, except late ones.
    Time(i64),
    /// The clock was set: the times of items go on here, before or after those so far.
    Restart(i64),
    /// Items since the last such signal are those of a window, from `start` to before `end`. Operators that
    /// collect items pass on what they have.
    Window {
        /// The first time of the window.
        start: i64,
        /// The first time after the window.
        end: i64,
    },
    /// Operators that collect items pass on what they have.
    Flush,
    /// No item follows. Operators that collect items pass on what they have. The last signal of a pipeline.
    End,
}

impl Signal {
    /// Whether operators that collect items pass on what they have.
    pub fn is_flush(self) -> bool {
        matches!(self, Self::Window { .. } | Self::Flush | Self::Restart(_) | Self::End)
    }
}

/// Joins the signals of several inputs of an operator.
///
/// A watermark counts once every input has reached it: the earliest is the operator's. `Flush` and `Restart`
/// of any input count at once, `End` counts when all inputs have ended. Windows of several inputs do not
/// pass: an input may be windows ahead of another one. Operators with several inputs go by the times of their
/// items.
#[derive(Debug, Default)]
pub(crate) struct SignalJoin {
    inputs: Vec<Input>,
    time: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Input {
    time: Option<i64>,
    has_ended: bool,
}

impl SignalJoin {
    /// Adds an input. Returns its number.
    pub(crate) fn add(&mut self) -> usize {
        self.inputs.push(Input::default());
        self.inputs.len() - 1
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Passes on the signals that follow from the signal of an input.
    pub(crate) fn take(&mut self, input: usize, signal: Signal, mut pass: impl FnMut(Signal)) {
        match signal {
            Signal::Time(time) => {
                let known = &mut self.inputs[input].time;
                *known = Some(known.map_or(time, |known| known.max(time)));
            }
            Signal::Window { .. } if self.inputs.len() > 1 => return,
            Signal::End => self.inputs[input].has_ended = true,
            Signal::Restart(time) => {
                self.inputs.iter_mut().for_each(|input| input.time = Some(time));
                self.time = Some(time);
                return pass(signal);
            }
            Signal::Window { .. } | Signal::Flush => return pass(signal),
        }
        let open = self.inputs.iter().filter(|input| !input.has_ended);
        if let Some(Some(time)) = open.map(|input| input.time).min()
            && self.time.is_none_or(|before| before < time)
        {
            self.time = Some(time);
            pass(Signal::Time(time));
        }
        if signal == Signal::End && self.inputs.iter().all(|input| input.has_ended) {
            pass(Signal::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(join: &mut SignalJoin, input: usize, signal: Signal) -> Vec<Signal> {
        let mut all = vec![];
        join.take(input, signal, |signal| all.push(signal));
        all
    }

    #[test]
    fn time_is_that_of_the_slowest_input_that_has_not_ended() {
        let mut join = SignalJoin::default();
        let (a, b) = (join.add(), join.add());
        assert_eq!(passed(&mut join, a, Signal::Time(9)), []);
        assert_eq!(passed(&mut join, b, Signal::Time(4)), [Signal::Time(4)]);
        assert_eq!(passed(&mut join, b, Signal::Time(3)), [], "an earlier time changes nothing");
        assert_eq!(passed(&mut join, a, Signal::Window { start: 0, end: 5 }), []);
        assert_eq!(
            passed(&mut join, b, Signal::End),
            [Signal::Time(9)],
            "an input that has ended delays nothing"
        );
        assert_eq!(passed(&mut join, a, Signal::End), [Signal::End]);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let mut join = SignalJoin::default();
        let a = join.add();
        assert_eq!(passed(&mut join, a, Signal::Time(9)), [Signal::Time(9)]);
        assert_eq!(passed(&mut join, a, Signal::Restart(2)), [Signal::Restart(2)]);
        assert_eq!(passed(&mut join, a, Signal::Time(3)), [Signal::Time(3)]);
        assert_eq!(passed(&mut join, a, Signal::Flush), [Signal::Flush]);
    }
}
