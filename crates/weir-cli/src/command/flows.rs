//! `weir flows`: connections, with the columns of Zeek's conn.log.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::form::Form;
use crate::rows::WriteRow;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, QuestionKind, Resolved, Subcommand};
use weir::{Item, Need, Question, Shape, Want};

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Connections, one row each at their end: Zeek's conn.log";
    Subcommand::new("flows", about, |args: Ask, all| {
        let args = args.settled();
        ask::answer_one(&ask::spec("flows", &args), &args, all)
    })
    .with_question(QuestionKind::new(resolve))
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let count_only = *context.form == Form::Count;
    let need = Need { service: !count_only, ..Need::default() };
    let ask = weir::Ask { filter: spec.filter.clone(), need, want: Want::Connections };
    let question = Question::new(ask, Shape { count_only, ..Shape::default() });
    let rows = |item: &Item, row: WriteRow<'_>| match item {
        Item::Connection(connection) => row(&connection.values()),
        _ => Ok(()),
    };
    let resolved =
        Resolved::new(vec![question], "conn", weir::connection_columns(context.compiler.stack()), rows);
    Ok(Resolved { counted: Counted::Matched, ..resolved })
}
