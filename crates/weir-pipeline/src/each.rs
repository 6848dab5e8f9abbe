//! Operators without state: each item on its own.

use crate::operator::{Operator, Port};
use std::fmt::Display;
use std::io::Write;

/// Passes on items that a function accepts.
#[derive(Debug, Clone)]
pub struct Filter<F>(pub F);

impl<T, F: FnMut(&T) -> bool> Operator<T> for Filter<F> {
    type Out = T;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<T>) {
        if (self.0)(&item) {
            out.put(item);
        }
    }
}

/// Passes on what a function makes of each item.
#[derive(Debug, Clone)]
pub struct Map<F>(pub F);

impl<T, U, F: FnMut(T) -> U> Operator<T> for Map<F> {
    type Out = U;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<U>) {
        out.put((self.0)(item));
    }
}

/// Passes on the items that a function makes of each item.
#[derive(Debug, Clone)]
pub struct FlatMap<F>(pub F);

impl<T, I: IntoIterator, F: FnMut(T) -> I> Operator<T> for FlatMap<F> {
    type Out = I::Item;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<I::Item>) {
        for made in (self.0)(item) {
            out.put(made);
        }
    }
}

/// Shows each item to a function, and passes it on.
#[derive(Debug, Clone)]
pub struct Inspect<F>(pub F);

impl<T, F: FnMut(&T)> Operator<T> for Inspect<F> {
    type Out = T;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<T>) {
        (self.0)(&item);
        out.put(item);
    }
}

/// Writes each item as a line, and passes it on. The first error of the output ends the lines, and is kept.
#[derive(Debug)]
pub struct Print<W> {
    to: W,
    error: Option<std::io::Error>,
}

impl<W: Write> Print<W> {
    /// Writes to this output.
    pub fn to(to: W) -> Self {
        Self { to, error: None }
    }

    /// Why the lines ended early.
    pub fn error(&self) -> Option<&std::io::Error> {
        self.error.as_ref()
    }
}

impl<T: Display, W: Write> Operator<T> for Print<W> {
    type Out = T;

    fn take(&mut self, item: T, out: &mut impl Port<T>) {
        if self.error.is_none() {
            self.error = writeln!(self.to, "{item}").err();
        }
        out.put(item);
    }
}
