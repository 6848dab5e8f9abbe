//! The fields of filters that have the values of columns, so that conditions on rows can become part of the
//! filter.

use weir::packet::ValueType;
use weir::sessions::{Field, SessionRegistry};
use weir::{Compiler, Log, connection_columns};

/// A column with the conditions of filters that it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterColumn {
    /// The name of the column.
    pub column: String,
    /// The fields that have the values of the column, one for each protocol of the log.
    pub fields: Vec<String>,
    /// Protocols whose sessions contain those of the log (QUIC contains TLS), or announce their connections
    /// (SIP announces RTP): fields of the log tell nothing of these sessions.
    pub carriers: Vec<String>,
}

/// The columns of a type of questions whose values are those of fields. A condition on the column can only be
/// true for rows for which it is true for one of the fields, or that come from a carrier. Columns of lists
/// are left out, and so are types whose rows are neither connections nor sessions.
pub fn filter_fields(kind: &str) -> Vec<FilterColumn> {
    let compiler = Compiler::default();
    let is_field = |field: &String| compiler.check_filter(field, false).is_ok();
    let is_single = |value_type| !matches!(value_type, ValueType::Texts | ValueType::Numbers);
    if kind == "flows" {
        let columns = connection_columns(compiler.stack());
        let single = columns.into_iter().filter(|column| is_single(column.value_type));
        let fields = single.map(|column| (format!("conn.{}", column.name), column.name.to_string()));
        let found = fields.filter(|(field, _)| is_field(field));
        return found
            .map(|(field, column)| FilterColumn { column, fields: vec![field], carriers: vec![] })
            .collect();
    }
    let registry = SessionRegistry::builtin();
    let (Some(number), Some(log)) = (registry.number_of(kind), Log::of(registry, kind)) else {
        return vec![];
    };
    let asked = registry.names(log.asked()).filter_map(|name| registry.number_of(name));
    let asked = asked.map(|number| registry.protocol(number));
    let (own, others): (Vec<_>, Vec<_>) = asked.partition(|protocol| protocol.log == log.path);
    let carriers: Vec<String> = others.iter().map(|protocol| protocol.name.to_string()).collect();
    // Identifiers of files are made for rows: fields have their numbers.
    let has_values = |column: &str| !column.is_empty() && !column.ends_with("fuid");
    let columns = registry.protocol(number).fields.iter();
    let has_values = |field: &Field| has_values(field.column) && !registry.is_only_in_rows(number, field);
    let columns = columns.filter(|field| is_single(field.value_type) && has_values(field));
    let found = columns.filter_map(|field| {
        let same = own.iter().map(|protocol| {
            let of = protocol.fields.iter().find(|other| other.column == field.column)?;
            Some(of.aliases.first().unwrap_or(&of.name).to_string()).filter(is_field)
        });
        let fields = same.collect::<Option<Vec<_>>>()?;
        Some(FilterColumn { column: field.column.to_string(), fields, carriers: carriers.clone() })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_fields_of_all_protocols_whose_sessions_make_the_rows() {
        let of = |kind: &str, column: &str| {
            let found = filter_fields(kind).into_iter().find(|found| found.column == column)?;
            Some((found.fields.join(" "), found.carriers.join(" ")))
        };
        let owned = |fields: &str, carriers: &str| Some((fields.to_string(), carriers.to_string()));
        assert_eq!(of("flows", "duration"), owned("conn.duration", ""));
        assert_eq!(of("http", "method"), owned("http.method", ""));
        assert_eq!(of("tls", "server_name"), owned("tls.sni dtls.sni", "quic"));
        assert_eq!(of("packets", "length"), None);
    }
}
