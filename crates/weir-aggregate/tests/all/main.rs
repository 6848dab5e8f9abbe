//! Bounds, plans, and properties against a model. One program, so that the crate is linked once.

mod bounds;
mod plan;
mod properties;

/// The windows that `act` closes.
fn listed(act: impl FnOnce(&mut dyn FnMut(weir_aggregate::Window))) -> Vec<weir_aggregate::Window> {
    let mut windows = vec![];
    act(&mut |window| windows.push(window));
    windows
}
