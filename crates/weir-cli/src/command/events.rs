//! `weir events`: what a stack's text declares to be worth telling, one row each.

use super::ask;
use crate::args::Events;
use crate::failure::Failure;
use crate::input;
use std::process::ExitCode;
use weir::{EventRows, EventSet, Item, Need, Want};

pub fn run(args: &Events) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.ask.input.program.stack)?;
    let stack = compiler.stack();
    let rows = EventRows::of(stack, &args.names).map_err(|name| {
        let known = EventRows::of_set(stack, EventSet::EMPTY).events;
        let names: Vec<&str> = known.iter().map(|event| event.name.as_str()).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        Failure::new(format!("the stack `{}` has no event `{name}`; it has {known}", stack.name))
    })?;
    let need = Need { events: rows.asked, ..Need::default() };
    let question = ask::compile_over(compiler, &args.ask, ask::one(&args.ask, need, Want::Events))?;
    ask::rows(&question, &args.ask.output, ("", &rows.columns), |item, write| match item {
        Item::Event(values) => write(values),
        _ => Ok(()),
    })
}
