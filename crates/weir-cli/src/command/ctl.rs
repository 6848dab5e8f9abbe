//! `weir ctl`: adds, lists and takes away questions of a `weir run --control SOCKET` that goes on.

use crate::args::{Ctl, CtlCommand};
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::output;
use crate::questions::QuestionSpec;
use std::process::ExitCode;
use weir::packet::{Column, Value, ValueType};

const COLUMNS: &[Column] = &[
    Column::new("name", ValueType::Text, "name of the question"),
    Column::new("ask", ValueType::Text, "what is wanted"),
    Column::new("filter", ValueType::Text, "which traffic"),
    Column::new("output", ValueType::Text, "output of the rows"),
];

pub fn run(args: &Ctl) -> Result<ExitCode, Failure> {
    let request = match &args.command {
        CtlCommand::Add(add) => {
            let (name, ask) = (add.name.clone(), add.ask.clone());
            let filter = add.filter.clone().unwrap_or_default();
            let output = add.output.as_ref().map(std::path::absolute).transpose().map_err(Failure::new)?;
            let (format, patterns) = (add.format.clone(), add.patterns.clone());
            Request::Add {
                question: QuestionSpec {
                    name,
                    ask,
                    filter,
                    format,
                    output,
                    patterns,
                    ..QuestionSpec::default()
                },
            }
        }
        CtlCommand::List => Request::List,
        CtlCommand::Remove { name } => Request::Remove { name: name.clone() },
    };
    let answer = control::ask(&args.socket, &request)?;
    if let Some(micros) = answer.micros.filter(|_| !matches!(request, Request::List)) {
        say!("done in {:.1} ms", micros as f64 / 1e3);
        return Ok(ExitCode::SUCCESS);
    }
    let mut sink = output::sink(&output::plain(None), "")?;
    sink.begin(COLUMNS)?;
    for question in &answer.questions {
        let text = |text: &str| Value::Text(text.to_string().into());
        let path = question.output.as_ref().map_or(Value::Absent, |path| text(&path.display().to_string()));
        sink.row(&[text(&question.name), text(&question.ask), text(&question.filter), path])?;
    }
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}
