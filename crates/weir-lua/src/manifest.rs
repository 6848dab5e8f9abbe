//! What a module states: the filter, the key, fields, columns, and the types of its tables.

use crate::machine::Machine;
use mlua::{Table, Value};
use weir::packet::{Column, ValueType};

/// Words for the types of columns.
const TYPES: &[(&str, ValueType)] = &[
    ("unsigned", ValueType::Unsigned),
    ("fraction", ValueType::Fraction),
    ("text", ValueType::Text),
    ("address", ValueType::Address),
    ("time", ValueType::Time),
    ("interval", ValueType::Interval),
    ("bool", ValueType::Bool),
];
/// The interval between two checks, in seconds.
const INTERVAL: std::ops::RangeInclusive<f64> = 0.01..=86_400.0;
/// Flows of a table of a worker, or of one that workers share.
pub const FLOWS_MAX: u64 = 1 << 24;
/// Dumps of a run.
const DUMPS_MAX: u64 = 50;

/// What a module states.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The filter; empty: all packets.
    pub filter: String,
    /// The key of packets, if Weir finds it.
    pub key: Option<String>,
    /// Fields, separated by commas.
    pub fields: String,
    pub columns: Vec<Column>,
    /// C types of keys, if the module finds them.
    pub flow_keys: Vec<String>,
    /// The C type of states.
    pub state_type: String,
    /// Workers share the flows.
    pub is_shared: bool,
    /// Time between two checks, in nanoseconds.
    pub check_interval_ns: Option<i64>,
    pub dumps_max: u64,
    pub flows_max: usize,
    /// The module reads the bytes of packets.
    pub has_frames: bool,
}

impl Manifest {
    /// What the module of a machine states.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn of(machine: &Machine) -> Result<Self, String> {
        let module = &machine.module;
        let text = |name: &str| optional::<String>(module, name, "a text");
        let (key, flow_keys) = (text("key")?, texts(module, "flowKeys")?);
        if machine.function("handlePacket").is_none() {
            return Err(
                "the module has no function `handlePacket(flowKey, state, packet, isFirstPacket)`".into()
            );
        }
        match (&key, flow_keys.is_empty(), machine.function("extractFlowKey").is_some()) {
            (Some(_), true, false) => {}
            (Some(_), ..) => {
                return Err(
                    "the module states `key`, and `flowKeys` or `extractFlowKey`: state one of both".into()
                );
            }
            (None, false, true) => {}
            (None, true, false) => {
                return Err("the module has no key: state `key = \"flow\"`, or `flowKeys` and `extractFlowKey(packet, keyBuf)`".into());
            }
            (None, false, false) => {
                return Err("`flowKeys` needs the function `extractFlowKey(packet, keyBuf)`".into());
            }
            (None, true, true) => return Err("`extractFlowKey` needs `flowKeys`, a list of C types".into()),
        }
        if flow_keys.len() > 16 {
            return Err("`flowKeys` has more than 16 types".into());
        }
        let check_interval = optional::<f64>(module, "checkInterval", "a number of seconds")?;
        if check_interval.is_some_and(|seconds| !INTERVAL.contains(&seconds)) {
            return Err("`checkInterval` is a number of seconds from 0.01 to 86400".into());
        }
        let count = |name: &str, usual: u64, most: u64| match optional::<f64>(module, name, "a number")? {
            None => Ok(usual),
            Some(count) if (1.0..=most as f64).contains(&count) => Ok(count as u64),
            Some(_) => Err(format!("`{name}` is a number from 1 to {most}")),
        };
        Ok(Self {
            filter: text("filter")?.unwrap_or_default(),
            fields: texts(module, "fields")?.join(", "),
            columns: columns(&texts(module, "columns")?)?,
            state_type: text("stateType")?.unwrap_or_else(|| "struct {}".to_string()),
            is_shared: optional::<bool>(module, "shared", "true or false")?.unwrap_or(false),
            check_interval_ns: check_interval.map(|seconds| (seconds * 1e9) as i64),
            dumps_max: count("maxDumperRules", DUMPS_MAX, 10_000)?,
            flows_max: count("maxFlows", FLOWS_MAX, 1 << 30)? as usize,
            has_frames: key.is_none()
                || optional::<bool>(module, "frames", "true or false")?.unwrap_or(false),
            key,
            flow_keys,
        })
    }

    /// Whether flows of a module that stated `before` can go on.
    ///
    /// # Errors
    /// What has changed.
    pub fn continues(&self, before: &Self) -> Result<(), String> {
        let of = |manifest: &Self| {
            let Self { filter, key, fields, columns, flow_keys, state_type, is_shared, .. } =
                manifest.clone();
            [
                ("filter", filter),
                ("key", key.unwrap_or_default()),
                ("fields", fields),
                ("columns", format!("{columns:?}")),
                ("flowKeys", flow_keys.join(";")),
                ("stateType", state_type),
                ("shared", is_shared.to_string()),
            ]
        };
        match of(self).into_iter().zip(of(before)).find(|(now, before)| now.1 != before.1) {
            Some(((name, _), _)) => Err(format!("`{name}` has changed: start the run again")),
            None => Ok(()),
        }
    }
}

/// A member of the module, if it has it.
fn optional<T: mlua::FromLua>(module: &Table, name: &str, what: &str) -> Result<Option<T>, String> {
    module.raw_get::<Option<T>>(name).map_err(|_| format!("`{name}` is not {what}"))
}

/// A list of texts; none if the module does not have it.
fn texts(module: &Table, name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{name}` is a list of texts: {{ \"…\", \"…\" }}");
    match module.raw_get::<Value>(name).map_err(|_| wrong())? {
        Value::Nil => Ok(vec![]),
        Value::Table(list) if list.raw_len() <= 64 => {
            list.sequence_values::<String>().collect::<Result<_, _>>().map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

/// The columns of texts as `client address`.
fn columns(texts: &[String]) -> Result<Vec<Column>, String> {
    let column = |text: &String| {
        let (name, of) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), "text"));
        let value_type = TYPES.iter().find(|(word, _)| *word == of.trim()).map(|(_, value_type)| *value_type);
        let known: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
        let wrong = || format!("`columns`: `{of}` is no type; there are {}", known.join(", "));
        let name = name.to_string();
        let doc = format!("`{name}` of the script");
        Ok(Column { name: name.into(), value_type: value_type.ok_or_else(wrong)?, doc: doc.into() })
    };
    let columns: Vec<Column> = texts.iter().map(column).collect::<Result<_, String>>()?;
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|before| before.name == column.name) {
            return Err(format!("`columns`: there are two columns `{}`", column.name));
        }
    }
    Ok(columns)
}
