//! The table of a log in ClickHouse: [`create_table`].

use weir_packet::{Column, ValueType};

/// Repeats are recognised among this many batches of a table.
const DEDUPLICATION_WINDOW: u32 = 10_000;

/// A name in backticks.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// The statement that creates a table for rows with these columns, unless there is one: `table` is a quoted
/// name.
///
/// The rows of a sensor are stored by time if there is a column `ts`, and divided by month.
pub fn create_table(table: &str, columns: &[Column]) -> String {
    let mut text = format!("CREATE TABLE IF NOT EXISTS {table}\n(\n    `sensor` LowCardinality(String)");
    for column in columns {
        text += &format!(",\n    {} {}", quoted(&column.name), type_of(column));
    }
    text += "\n)\nENGINE = MergeTree\n";
    let has_time = columns.iter().any(is_key);
    text += match has_time {
        true => "PARTITION BY toYYYYMM(`ts`)\nORDER BY (`sensor`, `ts`)\n",
        false => "ORDER BY `sensor`\n",
    };
    text + &format!("SETTINGS non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}")
}

/// Whether rows are stored in the order of this column.
fn is_key(column: &Column) -> bool {
    column.name == "ts" && column.value_type == ValueType::Time
}

/// The type of a column. An absent number, time or truth value is NULL; an absent text or list is empty.
fn type_of(column: &Column) -> &'static str {
    match column.value_type {
        ValueType::Time if is_key(column) => "DateTime64(9, 'UTC')",
        ValueType::Time => "Nullable(DateTime64(9, 'UTC'))",
        ValueType::Bool => "Nullable(Bool)",
        ValueType::Unsigned => "Nullable(UInt64)",
        ValueType::Fraction | ValueType::Interval => "Nullable(Float64)",
        // Texts: ClickHouse takes a text of 16 bytes in Arrow for the bytes of an IPv6 address.
        ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address | ValueType::Bytes => "String",
        ValueType::Mac => "LowCardinality(String)",
        ValueType::Text if RECURRING.contains(&column.name.as_ref()) => "LowCardinality(String)",
        ValueType::Text => "String",
        ValueType::Texts => "Array(String)",
        ValueType::Numbers => "Array(UInt64)",
    }
}

/// Texts with few different values.
const RECURRING: &[&str] = &[
    "proto",
    "service",
    "conn_state",
    "version",
    "cipher",
    "curve",
    "method",
    "qclass_name",
    "qtype_name",
    "rcode_name",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, value_type: ValueType) -> Column {
        Column { name: name.into(), value_type, doc: "".into() }
    }

    #[test]
    fn a_table_has_the_columns_of_its_rows() {
        let columns = [
            column("ts", ValueType::Time),
            column("id.orig_h", ValueType::Address),
            column("proto", ValueType::Text),
            column("orig_bytes", ValueType::Unsigned),
            column("answers", ValueType::Texts),
        ];
        let wanted = "\
CREATE TABLE IF NOT EXISTS `db`.`conn`
(
    `sensor` LowCardinality(String),
    `ts` DateTime64(9, 'UTC'),
    `id.orig_h` String,
    `proto` LowCardinality(String),
    `orig_bytes` Nullable(UInt64),
    `answers` Array(String)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(`ts`)
ORDER BY (`sensor`, `ts`)
SETTINGS non_replicated_deduplication_window = 10000";
        assert_eq!(create_table("`db`.`conn`", &columns), wanted);
    }

    #[test]
    fn rows_without_a_time_are_stored_by_sensor() {
        let text = create_table("`a`", &[column("count()", ValueType::Unsigned)]);
        assert!(text.contains("    `count()` Nullable(UInt64)\n"), "{text}");
        assert!(text.contains("ORDER BY `sensor`\n") && !text.contains("PARTITION"), "{text}");
    }

    #[test]
    fn names_cannot_leave_their_quotes() {
        assert_eq!(quoted("a`b\\c"), "`a\\`b\\\\c`");
    }
}
