//! The names that aggregates and records may use: fields of packets with one value, parts of a packet's
//! tuple, columns of rows.

use super::compile::Compiler;
use crate::rows::values::{Part, Source, words_of};
use weir_compile::{FieldKey, TuplePart, ValueOf};
use weir_lang::aggregate::{Key, Shorthand, compile_keys};
use weir_lang::diag::{Diagnostics, Sources, suggest};
use weir_lang::filter::{Catalog, FieldInfo, Stage};
use weir_packet::{Column, ValueType};

/// The parts of a packet's tuple as fields.
const TUPLE: &[(TuplePart, ValueType, &str)] = &[
    (TuplePart::Source, ValueType::Address, "address of the sender, IPv4 or IPv6"),
    (TuplePart::SourcePort, ValueType::Unsigned, "port of the sender"),
    (TuplePart::Destination, ValueType::Address, "address of the receiver, IPv4 or IPv6"),
    (TuplePart::DestinationPort, ValueType::Unsigned, "port of the receiver"),
    (TuplePart::Layer, ValueType::Text, "transport protocol"),
];

/// The names of values.
pub(crate) struct Names {
    pub fields: Vec<FieldInfo>,
    pub sources: Vec<Source>,
    /// Fields of filters that have no or several values here, and why.
    others: Vec<(FieldInfo, String)>,
}

impl Catalog for Names {
    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn why_not(&self, name: &str) -> Option<String> {
        let is_it = |field: &FieldInfo| field.name == name || field.aliases.iter().any(|alias| alias == name);
        self.others.iter().find(|(field, _)| is_it(field)).map(|(_, why)| why.clone())
    }
}

fn field(name: &str, aliases: Vec<String>, value_type: ValueType, doc: &str) -> FieldInfo {
    let name = name.to_string();
    let (stage, doc) = (Stage::Packet, doc.to_string());
    FieldInfo { name, aliases, value_type, bits: 0, stage, doc, is_protocol: false, is_frame: false, key: 0 }
}

impl Names {
    /// The fields of packets with one value, and the parts of the tuple.
    pub fn of_packets(compiler: &Compiler) -> Self {
        let catalog = compiler.catalog();
        let is_number = |value_type| {
            !matches!(value_type, ValueType::Text | ValueType::Bytes | ValueType::Texts | ValueType::Numbers)
        };
        let is_value = |index: usize| {
            let is_one =
                matches!(catalog.key(index), FieldKey::Field(..) | FieldKey::Let(..) | FieldKey::Meta(_));
            is_one && is_number(catalog.fields()[index].value_type)
        };
        let of_packets =
            (0..catalog.fields().len().min(usize::from(u16::MAX))).filter(|&index| is_value(index));
        let mut all: Vec<(FieldInfo, Source)> = of_packets
            .map(|index| (catalog.fields()[index].clone(), Source::Packet(ValueOf::Field(index as u16))))
            .collect();
        let tuple = TUPLE.iter().map(|(part, value_type, doc)| {
            // Numbers of the tuple are ports.
            let bits = if *value_type == ValueType::Unsigned { 16 } else { 0 };
            let field = FieldInfo { bits, ..field(part.name(), vec![], *value_type, doc) };
            (field, Source::Packet(ValueOf::Tuple(*part)))
        });
        all.extend(tuple);
        let (fields, sources): (Vec<FieldInfo>, Vec<Source>) = all.into_iter().unzip();
        let is_other = |index: &usize| !is_value(*index) && !catalog.fields()[*index].is_protocol;
        let others = (0..catalog.fields().len()).filter(is_other);
        let others = others.map(|index| {
            let field = &catalog.fields()[index];
            (field.clone(), why_no_value(field, catalog.key(index), &fields))
        });
        Self { others: others.collect(), fields, sources }
    }

    /// Adds a name that is not of a packet's record.
    pub fn add(&mut self, name: &str, value_type: ValueType, doc: &str) {
        self.fields.push(field(name, vec![], value_type, doc));
        self.sources.push(Source::Row(self.sources.len()));
    }

    /// The index of a name.
    ///
    /// # Errors
    /// If there is no `what` of this name, with a name that is near.
    pub fn named(&self, name: &str, what: &str) -> Result<usize, String> {
        self.find(name).ok_or_else(|| {
            let known = self.fields.iter().map(|field| field.name.as_str());
            match suggest(name, known) {
                Some(near) => format!("there is no {what} `{name}`: is `{near}` meant?"),
                None => format!("there is no {what} `{name}`: `weir fields` lists the fields of packets"),
            }
        })
    }

    /// The columns of a log: with their names, and with those of the log's fields.
    pub fn of_rows(log: &str, columns: &[Column], compiler: &Compiler) -> Self {
        let catalog = compiler.catalog();
        let of_column = |(at, column): (usize, &Column)| {
            let mut aliases = vec![format!("{log}.{}", column.name)];
            // A field of sessions may have another name than its column.
            let is_of_column = |known: &&FieldInfo| {
                known.doc == *column.doc
                    && known.name.strip_prefix(log).is_some_and(|rest| rest.starts_with('.'))
            };
            for known in catalog.fields().iter().filter(is_of_column) {
                aliases.push(known.name.clone());
                aliases.extend(known.aliases.iter().cloned());
            }
            (field(&column.name, aliases, column.value_type, &column.doc), Source::Row(at))
        };
        let (fields, sources) = columns.iter().enumerate().map(of_column).unzip();
        Self { fields, sources, others: vec![] }
    }
}

/// Why a field of filters is no value of a packet.
fn why_no_value(field: &FieldInfo, key: FieldKey, values: &[FieldInfo]) -> String {
    if let FieldKey::Field(..) | FieldKey::Let(..) | FieldKey::Meta(_) = key {
        return "texts and bytes of packets are no keys and no inputs of measures".to_string();
    }
    let prefix = |field: &FieldInfo| field.name.split_once('.').map(|(prefix, _)| prefix.to_string());
    if !matches!(key, FieldKey::Alias(..)) {
        let of =
            prefix(field).map_or("flows".to_string(), |of| if of == "conn" { "flows".into() } else { of });
        return format!("a packet has no value of this field, but a row may have one: --of {of}");
    }
    let is_part = |value: &&FieldInfo| value.value_type == field.value_type && prefix(value) == prefix(field);
    let parts: Vec<String> =
        values.iter().filter(is_part).take(2).map(|value| format!("`{}`", value.name)).collect();
    format!("a packet has several values of this field: name one, such as {}", parts.join(" or "))
}

/// The part of this field, whose first word is `word`.
pub(crate) fn part_of(names: &Names, field: usize, word: usize) -> Part {
    let (source, value_type) = (names.sources[field], names.fields[field].value_type);
    let is_layer = source == Source::Packet(ValueOf::Tuple(TuplePart::Layer));
    let words = match value_type {
        // The number of a layer stands for its name.
        _ if is_layer => 1,
        ValueType::Ipv6 | ValueType::Address | ValueType::Text | ValueType::Bytes => 2,
        _ => 1,
    };
    Part { source, value_type, word, words, prefix: None }
}

/// The parts of a key, with the words of each part after those of the part before.
pub(crate) fn parts_of(names: &Names, keys: &[Key]) -> Vec<Part> {
    let mut parts: Vec<Part> = vec![];
    for key in keys {
        let part = part_of(names, key.field, words_of(&parts));
        parts.push(Part { prefix: key.prefix, ..part });
    }
    parts
}

/// The fields that a text names: `ip.src/24, tcp.dstport`. `what` is the name of the text in messages.
///
/// # Errors
/// All mistakes in the text.
pub(crate) fn keys_of(
    names: &Names,
    what: &str,
    text: &str,
    shorthands: &[Shorthand<'_>],
) -> Result<Vec<Key>, Diagnostics> {
    compile_keys(text, names, shorthands).map_err(|list| {
        let mut sources = Sources::new();
        sources.add(what, text);
        Diagnostics { sources, list }
    })
}
