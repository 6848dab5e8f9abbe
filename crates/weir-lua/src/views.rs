//! What modules without FFI see of structs, keys and packets: copies of bytes, which Rust reads and writes.
//!
//! A view has the bytes of the current packet or flow. A module that keeps a view sees those of a later one,
//! and nothing else.

use crate::c_struct::{CStruct, Member, Number};
use crate::machine::error_at;
use crate::trusted::other_name;
use mlua::{Lua, LuaString, MetaMethod, Result, UserData, UserDataMethods, Value};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir::packet::Cell;
use weir::packet_task::{KeyTable, TaskValues};

/// The bytes of a view; a view of an array has those of its struct.
#[derive(Debug, Clone, Default)]
pub struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    pub fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A struct: its members are numbers, and arrays of numbers.
#[derive(Debug, Clone)]
pub struct StructView {
    pub layout: Arc<CStruct>,
    pub bytes: Bytes,
}

/// An array in a struct. Its first element is 0, as in C.
struct ArrayView {
    member: Member,
    bytes: Bytes,
}

/// The key that Weir has found.
pub struct KeyView {
    pub values: Arc<TaskValues>,
    pub table: usize,
    pub bytes: Bytes,
}

/// A packet.
pub struct PacketView {
    pub values: Arc<TaskValues>,
    pub words: Vec<u64>,
    pub known: u64,
    pub frame: Vec<u8>,
    pub captured: u64,
    pub wire: u64,
    pub time_ns: i64,
    pub number: u64,
    pub is_swapped: bool,
}

fn read(number: Number, offset: usize, bytes: &[u8]) -> Value {
    let value = bytes.get(offset..offset + number.bytes()).map(|bytes| number.read(bytes));
    match (number, value) {
        (_, None) => Value::Nil,
        (Number::Bool, Some(value)) => Value::Boolean(value != 0.0),
        (_, Some(value)) => Value::Number(value),
    }
}

fn write(lua: &Lua, number: Number, offset: usize, value: &Value, bytes: &mut [u8]) -> Result<()> {
    let value = match value {
        Value::Integer(value) => *value as f64,
        Value::Number(value) => *value,
        Value::Boolean(value) => f64::from(u8::from(*value)),
        other => {
            return Err(error_at(
                lua,
                format!("a member is a number, not of the type {}", other.type_name()),
            ));
        }
    };
    if let Some(bytes) = bytes.get_mut(offset..offset + number.bytes()) {
        number.write(value, bytes);
    }
    Ok(())
}

impl UserData for StructView {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        let member = |lua: &Lua, this: &Self, name: &LuaString| -> Result<Member> {
            let name = name.to_string_lossy();
            let member = this.layout.member(&name).cloned();
            member.ok_or_else(|| error_at(lua, format!("the struct has no member `{name}`")))
        };
        methods.add_meta_method(MetaMethod::Index, move |lua, this, name: LuaString| {
            let member = member(lua, this, &name)?;
            match member.length {
                Some(_) => {
                    lua.create_userdata(ArrayView { member, bytes: this.bytes.clone() }).map(Value::UserData)
                }
                None => Ok(read(member.number, member.offset, &this.bytes.lock())),
            }
        });
        methods.add_meta_method(MetaMethod::NewIndex, move |lua, this, (name, value): (LuaString, Value)| {
            let member = member(lua, this, &name)?;
            if member.length.is_some() {
                return Err(error_at(lua, format!("`{}` is an array: write its elements", member.name)));
            }
            write(lua, member.number, member.offset, &value, &mut this.bytes.lock())
        });
    }
}

impl ArrayView {
    fn offset(&self, lua: &Lua, index: f64) -> Result<usize> {
        let length = self.member.length.unwrap_or(0);
        if index.fract() != 0.0 || !(0.0..length as f64).contains(&index) {
            return Err(error_at(
                lua,
                format!("`{}` has the elements 0 to {}", self.member.name, length - 1),
            ));
        }
        Ok(self.member.offset + index as usize * self.member.number.bytes())
    }
}

impl UserData for ArrayView {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, index: f64| {
            Ok(read(this.member.number, this.offset(lua, index)?, &this.bytes.lock()))
        });
        methods.add_meta_method(MetaMethod::NewIndex, |lua, this, (index, value): (f64, Value)| {
            write(lua, this.member.number, this.offset(lua, index)?, &value, &mut this.bytes.lock())
        });
    }
}

/// The value of a field for Lua.
fn value_of(lua: &Lua, cell: Cell<'_>) -> Result<Value> {
    let text = |text: String| lua.create_string(text).map(Value::String);
    match cell {
        Cell::Absent => Ok(Value::Nil),
        Cell::Bool(value) => Ok(Value::Boolean(value)),
        Cell::Unsigned(value) => Ok(Value::Number(value as f64)),
        Cell::Fraction(value) => Ok(Value::Number(value)),
        Cell::Time(value) => Ok(Value::Number(value.0 as f64 / 1e9)),
        Cell::Interval(value) => Ok(Value::Number(value as f64 / 1e9)),
        Cell::Address(IpAddr::V4(address)) => text(address.to_string()),
        Cell::Address(IpAddr::V6(address)) => text(address.to_string()),
        Cell::Text(value) => text(value.to_string()),
        other => {
            let mut shown = String::new();
            other.append_to(&mut shown);
            text(shown)
        }
    }
}

/// Whether a name of Lua is that of a field.
fn is_named(field: &str, name: &str) -> bool {
    field == name || other_name(field) == name
}

impl KeyView {
    fn layout(&self) -> Option<&KeyTable> {
        self.values.key()?.tables().get(self.table)
    }
}

impl UserData for KeyView {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, name: LuaString| {
            let name = name.to_string_lossy();
            let unknown = || error_at(lua, format!("the key has no `{name}`"));
            let layout = this.layout().ok_or_else(unknown)?;
            let field =
                layout.fields.iter().position(|field| is_named(&field.name, &name)).ok_or_else(unknown)?;
            value_of(lua, layout.cell(field, &this.bytes.lock(), this.values.layers()))
        });
    }
}

impl PacketView {
    /// The big-endian number at an offset of the frame.
    fn number<const N: usize>(&self, offset: f64) -> Option<u64> {
        let offset = Some(offset).filter(|offset| (0.0..=1e9).contains(offset))? as usize;
        let bytes = self.frame.get(offset..offset + N)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl UserData for PacketView {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getTimestamp", |_, this, ()| Ok(this.time_ns as f64 / 1e9));
        methods.add_method("getSize", |_, this, ()| Ok(this.wire));
        methods.add_method("u8", |_, this, offset: f64| Ok(this.number::<1>(offset)));
        methods.add_method("u16", |_, this, offset: f64| Ok(this.number::<2>(offset)));
        methods.add_method("u32", |_, this, offset: f64| Ok(this.number::<4>(offset)));
        methods.add_method("copy", |lua, this, (to, offset, length): (mlua::AnyUserData, f64, f64)| {
            if !(0.0..=1e9).contains(&offset) || !(0.0..=1e9).contains(&length) {
                return Ok(false);
            }
            let (offset, length) = (offset as usize, length as usize);
            let Some(from) = this.frame.get(offset..offset + length) else { return Ok(false) };
            let array = to
                .borrow::<ArrayView>()
                .map_err(|_| error_at(lua, "packets are copied to arrays of structs"))?;
            let Member { offset, number, length: elements, .. } = array.member;
            if length > number.bytes() * elements.unwrap_or(0) {
                return Err(error_at(lua, format!("`{}` has no room for {length} bytes", array.member.name)));
            }
            if let Some(to) = array.bytes.lock().get_mut(offset..offset + length) {
                to.copy_from_slice(from);
            }
            Ok(true)
        });
        methods.add_meta_method(MetaMethod::Index, |lua, this, name: LuaString| {
            let name = name.to_string_lossy();
            let number = |value: u64| Ok(Value::Number(value as f64));
            match name.as_str() {
                "time" => return Ok(Value::Number(this.time_ns as f64 / 1e9)),
                "number" => return number(this.number),
                "captured" => return number(this.captured),
                "wire" => return number(this.wire),
                "direction" => return number(u64::from(this.is_swapped)),
                _ => {}
            }
            let fields = this.values.fields();
            let Some(at) = fields.iter().position(|field| is_named(&field.name, &name)) else {
                return Err(error_at(lua, format!("packets have no `{name}`: name the field in `fields`")));
            };
            match this.known >> at & 1 {
                0 => Ok(Value::Nil),
                _ => value_of(lua, this.values.cell(&fields[at], &this.words)),
            }
        });
    }
}
