//! The contract of operators, and how two of them become one.

use crate::signal::Signal;

/// Receives items and signals.
pub trait Port<T> {
    /// Receives an item.
    fn put(&mut self, item: T);

    /// Receives a signal.
    fn signal(&mut self, signal: Signal);
}

impl<T, P: Port<T> + ?Sized> Port<T> for &mut P {
    fn put(&mut self, item: T) {
        (**self).put(item);
    }

    fn signal(&mut self, signal: Signal) {
        (**self).signal(signal);
    }
}

/// Items in a list; signals are left out.
impl<T> Port<T> for Vec<T> {
    fn put(&mut self, item: T) {
        self.push(item);
    }

    fn signal(&mut self, _: Signal) {}
}

/// A port that calls a function for each item.
#[derive(Debug, Clone)]
pub struct Each<F>(pub F);

impl<T, F: FnMut(T)> Port<T> for Each<F> {
    fn put(&mut self, item: T) {
        (self.0)(item);
    }

    fn signal(&mut self, _: Signal) {}
}

/// Takes items, and passes on others.
///
/// An operator with several inputs takes an [`Either`] of their types.
pub trait Operator<In> {
    /// What it passes on.
    type Out;

    /// Takes an item.
    fn take(&mut self, item: In, out: &mut impl Port<Self::Out>);

    /// Takes a signal. An operator that collects items passes them on [if the signal says
    /// so](Signal::is_flush), before the signal. Each signal is passed on, unless the operator replaces it.
    fn signal(&mut self, signal: Signal, out: &mut impl Port<Self::Out>) {
        out.signal(signal);
    }

    /// Tells what the bounds of the operator cut off so far: the name and the value of each counter.
    fn counters(&self, _tell: &mut dyn FnMut(&'static str, u64)) {}
}

/// One of two items: of an operator with two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Either<L, R> {
    /// An item of the first input.
    Left(L),
    /// An item of the second input.
    Right(R),
}

/// Passes on what it takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass;

impl<In> Operator<In> for Pass {
    type Out = In;

    fn take(&mut self, item: In, out: &mut impl Port<In>) {
        out.put(item);
    }
}

/// Two operators in succession. Items go from one to the other by a call that the compiler inlines: there is
/// no queue.
#[derive(Debug, Clone)]
pub struct Then<A, B> {
    pub(crate) first: A,
    pub(crate) second: B,
}

/// An operator together with the port for what it passes on: a port for what it takes.
#[derive(Debug)]
pub struct Fused<O, P> {
    pub(crate) operator: O,
    pub(crate) out: P,
}

impl<'a, O, P> Fused<&'a mut O, &'a mut P> {
    /// The operator, with `out` for what it passes on.
    pub fn new(operator: &'a mut O, out: &'a mut P) -> Self {
        Self { operator, out }
    }
}

impl<In, O: Operator<In>, P: Port<O::Out>> Port<In> for Fused<&mut O, &mut P> {
    #[inline]
    fn put(&mut self, item: In) {
        self.operator.take(item, self.out);
    }

    #[inline]
    fn signal(&mut self, signal: Signal) {
        self.operator.signal(signal, self.out);
    }
}

impl<In, A: Operator<In>, B: Operator<A::Out>> Operator<In> for Then<A, B> {
    type Out = B::Out;

    #[inline]
    fn take(&mut self, item: In, out: &mut impl Port<B::Out>) {
        self.first.take(item, &mut Fused { operator: &mut self.second, out });
    }

    #[inline]
    fn signal(&mut self, signal: Signal, out: &mut impl Port<B::Out>) {
        self.first.signal(signal, &mut Fused { operator: &mut self.second, out });
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.first.counters(tell);
        self.second.counters(tell);
    }
}
