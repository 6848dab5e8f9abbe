//! `weir fields`: the field names of filters, from their definitions.

use crate::failure::Failure;
use crate::flags::formats;
use crate::kind::Group;
use crate::ndpi;
use crate::subcommand::Subcommand;
use crate::{input, output};
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir::lang::filter::{Catalog, FieldInfo};
use weir::packet::{Batch, Column, Value, ValueType};
use weir::{Compiler, Log};

/// Arguments of `fields`.
#[derive(ClapArgs)]
struct Args {
    /// Only fields with all these words in their name, other names, or meaning
    words: Vec<String>,
    /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must include the
    /// others
    #[arg(long, value_name = "NAME|FILE.weir")]
    stack: Vec<String>,
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("fields", "all fields"),
    ("fields tls", "fields with this word in name or meaning"),
    ("fields 'server name' --format json", "for other programs"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("fields", "The fields that filters can use, with type and meaning", |args: Args, _| {
        run(&args)
    })
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

/// The columns of the list.
pub const COLUMNS: &[Column] = &[
    Column::new("field", ValueType::Text, "name of the field"),
    Column::new("type", ValueType::Text, "type of the values"),
    Column::new("aliases", ValueType::Texts, "other names of the field"),
    Column::new("meaning", ValueType::Text, "description of the field"),
];

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.stack)?;
    let mut sink = output::listing(args.format.as_deref())?;
    let wanted = args.words.join(" ");
    let rows = rows(&compiler, &wanted);
    if rows.is_empty() {
        return Err(Failure::new(format!(
            "no field has `{}` in its name or meaning; `weir fields` lists all fields",
            wanted.to_lowercase()
        )));
    }
    sink.begin(COLUMNS)?;
    sink.batch(&rows)?;
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}

/// A row for each field that filters can use, and whose name or meaning has all of these words.
pub fn rows(compiler: &Compiler, words: &str) -> Batch {
    let wanted = words.to_lowercase();
    let mut rows = Batch::new(COLUMNS.len());
    let of_parts = Log::of_parts(compiler.sessions()).flat_map(|log| log.filter_fields(compiler));
    let of_rows: Vec<_> = of_parts.chain(ndpi::row_fields(&[]).filter_fields(compiler)).collect();
    for field in compiler.catalog().fields().iter().chain(&of_rows) {
        let text = format!("{} {} {}", field.name, field.aliases.join(" "), field.doc).to_lowercase();
        if !wanted.split_whitespace().all(|word| text.contains(word)) {
            continue;
        }
        let kind = type_name(field);
        rows.push(&[
            Value::Text(field.name.as_str().into()),
            Value::Text(kind.into()),
            if field.aliases.is_empty() { Value::Absent } else { Value::Texts(field.aliases.clone().into()) },
            Value::Text(field.doc.as_str().into()),
        ]);
    }
    rows
}

/// The type of a field's values, as the list has it.
pub fn type_name(field: &FieldInfo) -> String {
    match field.value_type {
        _ if field.is_protocol => "protocol".to_string(),
        ValueType::Unsigned if field.bits > 0 && field.bits < 64 => format!("u{}", field.bits),
        other => format!("{other:?}").to_lowercase(),
    }
}
