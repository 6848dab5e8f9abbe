//! The fields that filters can use, as rows.

use crate::ndpi;
use weir::lang::filter::{Catalog, FieldInfo};
use weir::packet::{Batch, Column, Value, ValueType};
use weir::{Compiler, Log};

/// The columns of the list.
pub const COLUMNS: &[Column] = &[
    Column::new("field", ValueType::Text, "name of the field"),
    Column::new("type", ValueType::Text, "type of the values"),
    Column::new("aliases", ValueType::Texts, "other names of the field"),
    Column::new("meaning", ValueType::Text, "description of the field"),
];

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
