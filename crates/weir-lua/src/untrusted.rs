//! Calls of a module without FFI: one for each packet, with a time limit. The module sees copies of states,
//! keys and packets.

use crate::batch::{Batch, KNOWN, LENGTHS, NUMBER, TIME, read_bytes, write_bytes};
use crate::c_struct::CStruct;
use crate::machine::Machine;
use crate::manifest::Manifest;
use crate::runtime::Runtime;
use crate::tables::FlowPlace;
use crate::views::{Bytes, KeyView, PacketView, StructView};
use mlua::{AnyUserData, Function, Table, Value};
use std::sync::Arc;
use weir::packet_task::TaskValues;
use weir_pipeline::ByteTable;

/// The functions of a module, and the views that they get.
pub struct Untrusted {
    machine: Machine,
    extract_flow_key: Option<Function>,
    handle_packet: Function,
    check_expiry: Option<Function>,
    flow_end: Option<Function>,
    check_state: Value,
    keys: Vec<Key>,
    /// The view that `extractFlowKey` gets: the module makes a key of it with `weir.key`.
    state_bytes: Bytes,
    state_view: AnyUserData,
    packet: AnyUserData,
    key_bytes: Vec<usize>,
    state: Vec<u8>,
}

/// The view of the keys of a table.
struct Key {
    bytes: Bytes,
    view: AnyUserData,
}

impl Untrusted {
    /// The functions of a module.
    ///
    /// # Errors
    /// A type is no struct that can be read without FFI, or `defaultState` has no such values.
    pub fn new(machine: Machine, manifest: &Manifest, values: &Arc<TaskValues>) -> mlua::Result<Self> {
        let lua = &machine.lua;
        let parse = |text: &String| CStruct::parse(text).map(Arc::new).map_err(mlua::Error::runtime);
        let layout = parse(&manifest.state_type)?;
        let (mut keys, mut key_bytes) = (vec![], vec![]);
        for text in &manifest.flow_keys {
            let layout = parse(text)?;
            key_bytes.push(layout.bytes);
            let bytes = Bytes::default();
            bytes.lock().resize(layout.bytes, 0);
            let view = lua.create_userdata(StructView { layout, bytes: bytes.clone() })?;
            keys.push(Key { bytes, view });
        }
        for (table, layout) in values.key().map_or(&[][..], |key| key.tables()).iter().enumerate() {
            key_bytes.push(layout.bytes());
            let bytes = Bytes::default();
            let view =
                lua.create_userdata(KeyView { values: Arc::clone(values), table, bytes: bytes.clone() })?;
            keys.push(Key { bytes, view });
        }
        let views: Table = lua.create_sequence_from(keys.iter().map(|key| key.view.clone()))?;
        let state_bytes = Bytes::default();
        state_bytes.lock().resize(layout.bytes, 0);
        let state_view = lua.create_userdata(StructView { layout, bytes: state_bytes.clone() })?;
        if let Some(defaults) = machine.module.raw_get::<Option<Table>>("defaultState")? {
            let set = lua.load(
                "local state, defaults = ... for name, value in pairs(defaults) do state[name] = value end",
            );
            set.set_name("=defaultState").call::<()>((state_view.clone(), defaults))?;
        }
        let state = state_bytes.lock().clone();
        let packet = lua.create_userdata(PacketView {
            values: Arc::clone(values),
            words: vec![],
            known: 0,
            frame: vec![],
            captured: 0,
            wire: 0,
            time_ns: 0,
            number: 0,
            is_swapped: false,
        })?;
        let check_state = match machine.module.raw_get::<Value>("checkState")? {
            Value::Nil => Value::Table(lua.create_table()?),
            given => given,
        };
        let handle_packet =
            machine.function("handlePacket").ok_or_else(|| mlua::Error::runtime("no handlePacket"))?;
        Ok(Self {
            extract_flow_key: machine.function("extractFlowKey"),
            handle_packet,
            check_expiry: machine.function("checkExpiry"),
            flow_end: machine.function("flowEnd"),
            check_state,
            keys: {
                machine.set_keys(views)?;
                keys
            },
            state_bytes,
            state_view,
            packet,
            key_bytes,
            state,
            machine,
        })
    }

    /// Shows a packet of a batch to the module.
    fn show(&self, batch: &Batch, packet: usize) {
        let Ok(mut view) = self.packet.borrow_mut::<PacketView>() else { return };
        view.words.clear();
        view.words.extend_from_slice(batch.fields(packet));
        view.frame.clear();
        view.frame.extend_from_slice(batch.frame(packet));
        let lengths = batch.word(packet, LENGTHS);
        (view.captured, view.wire) = (lengths & 0xffff_ffff, lengths >> 32);
        (view.known, view.number) = (batch.word(packet, KNOWN), batch.word(packet, NUMBER));
        view.time_ns = batch.word(packet, TIME) as i64;
        view.is_swapped = batch.is_swapped(packet);
    }

    fn show_key(&self, table: usize, key: &[u64]) -> AnyUserData {
        let mut bytes = self.keys[table].bytes.lock();
        bytes.resize(self.key_bytes[table], 0);
        read_bytes(key, &mut bytes);
        self.keys[table].view.clone()
    }

    /// Calls a function with the key and the state of a row, which the module may change.
    fn call_row(
        &self,
        function: &Function,
        row: FlowPlace,
        tables: &mut [ByteTable],
        last: impl mlua::IntoLuaMulti,
    ) -> Option<mlua::MultiValue> {
        let words = tables[row.0].row(row.1);
        let (state, key) = words.split_at_mut(self.state.len().div_ceil(size_of::<u64>()));
        let key = self.show_key(row.0, key);
        read_bytes(state, &mut self.state_bytes.lock());
        let mut arguments = match last.into_lua_multi(&self.machine.lua) {
            Ok(arguments) => arguments,
            Err(error) => return self.machine.count(Err(error)),
        };
        arguments.push_front(Value::UserData(self.state_view.clone()));
        arguments.push_front(Value::UserData(key));
        let returned = self.machine.call(function, arguments);
        write_bytes(&self.state_bytes.lock(), state);
        returned
    }
}

/// The index of `flowKeys` that a module returned after true.
fn index_of(returned: Option<&Value>, tables: usize) -> Option<usize> {
    let index = match returned? {
        Value::Integer(index) => *index as f64,
        Value::Number(index) => *index,
        _ => return None,
    };
    (index.fract() == 0.0 && (1.0..=tables as f64).contains(&index)).then(|| index as usize - 1)
}

fn is_true(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Nil | Value::Boolean(false)))
}

impl Runtime for Untrusted {
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
        let Some(function) = &self.extract_flow_key else { return };
        for packet in 0..batch.len() {
            if self.machine.host().is_off() {
                return;
            }
            self.show(batch, packet);
            self.keys.iter().for_each(|key| key.bytes.lock().fill(0));
            // The buffer is made a key with `weir.key(keyBuf, index)`.
            let Some(returned) = self.machine.call(function, (self.packet.clone(), Value::Nil)) else {
                continue;
            };
            if !is_true(returned.front()) {
                continue;
            }
            let Some(table) = index_of(returned.get(1), self.keys.len()) else {
                let wrong = "extractFlowKey returned no index of `flowKeys` after true";
                self.machine.count::<()>(Err(mlua::Error::runtime(wrong)));
                continue;
            };
            write_bytes(&self.keys[table].bytes.lock(), batch.key_mut(packet));
            batch.set_table(packet, Some(table));
        }
    }

    fn handle(&mut self, batch: &mut Batch, order: &mut [u32], tables: &mut [ByteTable]) {
        for packet in order.iter().map(|packet| *packet as usize) {
            if self.machine.host().is_off() {
                return;
            }
            let (Some(table), Some(row)) = (batch.table(packet), batch.rows[packet]) else { continue };
            self.show(batch, packet);
            let last = (self.packet.clone(), batch.is_first(packet));
            let returned = self.call_row(&self.handle_packet, (table, row), tables, last);
            if returned.is_some_and(|returned| matches!(returned.front(), Some(Value::Boolean(true)))) {
                batch.set_dumped(packet);
            }
        }
    }

    fn begin_check(&mut self) {
        if let Some(function) = self.machine.function("checkInitializer") {
            self.machine.call(&function, self.check_state.clone());
        }
    }

    fn check(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], expired: &mut Vec<Option<f64>>) {
        for row in rows {
            let function = self.check_expiry.as_ref().filter(|_| !self.machine.host().is_off());
            let returned =
                function.and_then(|function| self.call_row(function, *row, tables, self.check_state.clone()));
            let time =
                returned.filter(|returned| is_true(returned.front())).map(|returned| match returned.get(1) {
                    Some(Value::Number(time)) => *time,
                    Some(Value::Integer(time)) => *time as f64,
                    _ => 0.0,
                });
            expired.push(time);
        }
    }

    fn end_flows(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], why: &str) {
        let Some(function) = &self.flow_end else { return };
        for row in rows {
            if self.machine.host().is_off() {
                return;
            }
            self.call_row(function, *row, tables, why);
        }
    }

    fn end_check(&mut self, kept: u64, purged: u64) {
        if let Some(function) = self.machine.function("checkFinalizer") {
            self.machine.call(&function, (self.check_state.clone(), kept, purged));
        }
    }

    fn filter(&mut self, table: usize, key: &mut [u64]) -> Option<String> {
        let function = self.machine.function("buildPacketFilter")?;
        let view = self.show_key(table, key);
        match self.machine.call(&function, view)?.front() {
            Some(Value::String(text)) => Some(text.to_string_lossy()),
            _ => self.machine.count(Err(mlua::Error::runtime("buildPacketFilter returned no text"))),
        }
    }
}
