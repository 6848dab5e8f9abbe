//! Calls of a module with FFI: `trusted.lua` has the loops over the packets of a batch.

use crate::batch::Batch;
use crate::machine::Machine;
use crate::runtime::Runtime;
use crate::tables::FlowPlace;
use mlua::{Function, IntoLua, LightUserData, Lua, Table, Value};
use std::ffi::c_void;
use weir::packet::ValueType;
use weir::packet_task::{KeyTable, TaskValues};
use weir_pipeline::ByteTable;

/// Words of a record of a check: `struct weir_check` in `trusted.lua`.
const CHECK_WORDS: usize = 4;

/// The functions of `trusted.lua`.
pub struct Trusted {
    machine: Machine,
    extract: Function,
    handle: Function,
    begin_check: Function,
    check: Function,
    end_flows: Function,
    end_check: Function,
    filter: Function,
    key_bytes: Vec<usize>,
    state: Vec<u8>,
    /// The number of the packet that a function processes.
    done: Box<[i32; 2]>,
    checks: Vec<u64>,
}

impl Trusted {
    /// The functions of a module.
    ///
    /// # Errors
    /// A type is no C type.
    pub fn new(machine: Machine, values: &TaskValues) -> mlua::Result<Self> {
        let lua = &machine.lua;
        let layout = lua.create_table()?;
        layout.raw_set("words", values.words().max(1))?;
        layout.raw_set("layers", lua.create_sequence_from(values.layers().iter().map(String::as_str))?)?;
        let fields = values.fields().iter().map(|field| {
            let described = described(
                lua,
                &field.name,
                kind(field.value_type, field.bits, field.words().len() > 1, field.is_layer()),
            )?;
            described.raw_set("word", field.words().start)?;
            Ok(described)
        });
        layout.raw_set("fields", lua.create_sequence_from(fields.collect::<mlua::Result<Vec<_>>>()?)?)?;
        let keys = values.key().map_or(&[][..], |key| key.tables()).iter().map(|key| key_layout(lua, key));
        layout.raw_set("keys", lua.create_sequence_from(keys.collect::<mlua::Result<Vec<_>>>()?)?)?;
        let chunk = lua.load(include_str!("trusted.lua")).set_name("=trusted.lua");
        let calls: Table = chunk.call((&machine.module, &machine.api, layout))?;
        let state = calls.raw_get::<Function>("default_state")?.call::<mlua::LuaString>(())?;
        let state = state.as_bytes().to_vec();
        Ok(Self {
            extract: calls.raw_get("extract")?,
            handle: calls.raw_get("handle")?,
            begin_check: calls.raw_get("begin_check")?,
            check: calls.raw_get("check")?,
            end_flows: calls.raw_get("end_flows")?,
            end_check: calls.raw_get("end_check")?,
            filter: calls.raw_get("filter")?,
            key_bytes: calls.raw_get("key_sizes")?,
            state,
            done: Box::default(),
            checks: vec![],
            machine,
        })
    }

    /// Calls `call` with the first number and the address of `done`; after a failure, again with the number
    /// after that of the failure.
    fn run(&mut self, count: usize, call: impl Fn(&Self, usize, Value) -> mlua::Result<()>) {
        let mut first = 0;
        while first < count && !self.machine.host().is_off() {
            self.done[0] = first as i32;
            let done = address(self.done.as_mut_ptr());
            if self.machine.count(call(self, first, done)).is_some() {
                return;
            }
            first = (self.done[0] as usize).max(first) + 1;
        }
    }

    fn describe(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable]) {
        let state_words = self.state.len().div_ceil(size_of::<u64>());
        self.checks.clear();
        for (table, row) in rows {
            let (state, key) = tables[*table].row(*row).split_at_mut(state_words);
            let (key, state) = (key.as_mut_ptr() as u64, state.as_mut_ptr() as u64);
            self.checks.extend([key, state, *table as u64 + 1, 0]);
        }
    }
}

impl Runtime for Trusted {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn key_bytes(&self) -> Vec<usize> {
        self.key_bytes.clone()
    }

    fn state(&self) -> &[u8] {
        &self.state
    }

    fn extract(&mut self, batch: &mut Batch) {
        batch.place();
        let (records, count) = (address(batch.address()), batch.len());
        self.run(count, |this, first, done| this.extract.call((records.clone(), first, count, done)));
    }

    fn handle(&mut self, batch: &mut Batch, order: &mut [u32], _: &mut [ByteTable]) {
        batch.place();
        let (records, count, order) = (address(batch.address()), order.len(), address(order.as_mut_ptr()));
        self.run(count, |this, first, done| {
            this.handle.call((records.clone(), order.clone(), first, count, done))
        });
    }

    fn begin_check(&mut self) {
        self.machine.count(self.begin_check.call::<()>(()));
    }

    fn check(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], expired: &mut Vec<Option<f64>>) {
        self.describe(rows, tables);
        let (records, count) = (address(self.checks.as_mut_ptr()), rows.len());
        self.run(count, |this, first, done| this.check.call((records.clone(), first, count, done)));
        let checks = self.checks.chunks_exact(CHECK_WORDS);
        expired.extend(checks.map(|check| (check[2] >> 32 != 0).then(|| f64::from_bits(check[3]))));
    }

    fn end_flows(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], why: &str) {
        self.describe(rows, tables);
        let (records, count) = (address(self.checks.as_mut_ptr()), rows.len());
        self.run(count, |this, first, done| this.end_flows.call((records.clone(), why, first, count, done)));
    }

    fn end_check(&mut self, kept: u64, purged: u64) {
        self.machine.count(self.end_check.call::<()>((kept, purged)));
    }

    fn filter(&mut self, table: usize, key: &mut [u64]) -> Option<String> {
        let called = self.filter.call::<String>((address(key.as_mut_ptr()), table + 1));
        self.machine.count(called)
    }
}

/// A pointer for Lua. The memory stays where it is while the function that gets the pointer runs.
fn address<T>(pointer: *mut T) -> Value {
    Value::LightUserData(LightUserData(pointer.cast::<c_void>()))
}

/// The word of `trusted.lua` for values.
fn kind(value_type: ValueType, bits: u32, is_wide: bool, is_layer: bool) -> &'static str {
    match value_type {
        _ if is_layer => "layer",
        ValueType::Bool => "bool",
        ValueType::Fraction => "fraction",
        ValueType::Time | ValueType::Interval => "seconds",
        ValueType::Ipv4 => "ipv4",
        ValueType::Ipv6 | ValueType::Address if is_wide => "address",
        ValueType::Address => "ipv4",
        ValueType::Mac => "mac",
        _ if (1..=32).contains(&bits) => "number",
        _ => "long",
    }
}

/// A field: its name, the same name with `_` for signs that names of Lua do not have, and its kind.
fn described(lua: &Lua, name: &str, kind: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("name", name)?;
    table.raw_set("other", other_name(name))?;
    table.raw_set("kind", kind)?;
    Ok(table)
}

/// A name with `_` for `.` and other signs: `ip_ttl`.
pub fn other_name(name: &str) -> String {
    name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// The members of the C struct of a key, and its fields.
fn key_layout(lua: &Lua, key: &KeyTable) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let mut members: Vec<(usize, String)> = vec![];
    let mut fields = vec![];
    for (at, field) in key.fields.iter().enumerate() {
        let (number, of) =
            (at + 1, kind(field.value_type, field.bytes as u32 * 8, field.bytes == 16, field.is_layer));
        members.push((
            field.offset,
            match field.bytes {
                16 => format!("uint8_t v{number}[16];"),
                bytes => format!("uint{}_t v{number};", bytes * 8),
            },
        ));
        fields.push(described(lua, &field.name, of)?);
    }
    members.push((key.known_offset, format!("uint{}_t known;", key.known_bytes * 8)));
    members.sort();
    let members: Vec<String> = members.into_iter().map(|(_, member)| member).collect();
    table.raw_set("members", format!("{{ {} }} __attribute__((packed))", members.join(" ")))?;
    table.raw_set("fields", fields.into_lua(lua)?)?;
    Ok(table)
}
