//! A machine of Lua that has loaded a script.

use crate::host::{Desk, Host};
use crate::options::{ScriptError, ScriptOptions};
use mlua::chunk::ChunkMode;
use mlua::debug::Debug;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use weir::packet::Column;

/// The longest call of a module without trust.
const CALL_MAX: Duration = Duration::from_millis(100);
/// The longest loading of a module without trust.
const LOAD_MAX: Duration = Duration::from_secs(1);
/// Memory of a machine without trust, in bytes.
const MEMORY_MAX: usize = 64 << 20;
/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 1000;

/// A machine, with the module that its script returned.
pub struct Machine {
    pub lua: Lua,
    pub module: Table,
    pub desk: Arc<Desk>,
    host: Arc<Host>,
    /// Calls a function, and turns errors that are no texts into texts.
    guard: Option<Function>,
    /// The table `weir` of the module.
    pub api: Table,
}

impl Machine {
    /// Loads a script.
    ///
    /// # Errors
    /// The text is no Lua, raises an error, or returns no table.
    pub fn load(options: &ScriptOptions, columns: &[Column], host: &Arc<Host>) -> Result<Self, ScriptError> {
        let desk = Arc::new(Desk::new(Arc::clone(host)).with_columns(columns.to_vec()));
        let wrong = |error: mlua::Error| ScriptError::new(&options.name, message_of(&error));
        let lua =
            if options.is_trusted { with_everything() } else { without_rights(&desk).map_err(wrong)? };
        let functions = api(&lua, &desk, &options.arguments).map_err(wrong)?;
        let (environment, guard) = match options.is_trusted {
            true => (trusted_environment(&lua, &functions).map_err(wrong)?, None),
            false => {
                let (environment, guard) = untrusted_environment(&lua, &functions, &desk).map_err(wrong)?;
                (environment, Some(guard))
            }
        };
        let chunk = lua
            .load(&options.text)
            .set_name(format!("={}", options.name))
            .set_mode(ChunkMode::Text)
            .set_environment(environment.clone());
        let function = chunk.into_function().map_err(wrong)?;
        let api = environment.raw_get("weir").map_err(wrong)?;
        desk.begin_call(LOAD_MAX);
        let returned = match &guard {
            Some(guard) => guard.call::<Value>(function),
            None => function.call::<Value>(()),
        };
        let module = match returned.map_err(wrong)? {
            Value::Table(module) => module,
            _ => environment.raw_get::<Table>("module").map_err(|_| {
                let message = "the script returns no table: end it with `return module`".to_string();
                ScriptError::new(&options.name, message)
            })?,
        };
        Ok(Self { lua, module, desk, host: Arc::clone(host), guard, api })
    }

    /// The module's function of this name, if it has one.
    pub fn function(&self, name: &str) -> Option<Function> {
        self.module.raw_get(name).ok()
    }

    /// Calls a function of a module without trust. `None`: the call failed, and is counted.
    pub fn call(&self, function: &Function, arguments: impl mlua::IntoLuaMulti) -> Option<MultiValue> {
        self.desk.begin_call(CALL_MAX);
        let called = match &self.guard {
            Some(guard) => {
                let mut all = match arguments.into_lua_multi(&self.lua) {
                    Ok(all) => all,
                    Err(error) => return self.count(Err(error)),
                };
                all.push_front(Value::Function(function.clone()));
                guard.call(all)
            }
            None => function.call(arguments),
        };
        self.count(called)
    }

    /// The result of a call; failures are counted.
    pub fn count<T>(&self, called: mlua::Result<T>) -> Option<T> {
        called
            .map_err(|error| {
                let message = message_of(&error);
                // Lua's own message, which `untrusted.lua` passes on.
                let is_memory = message.ends_with("not enough memory");
                self.host.fail(&message, self.desk.is_stopped() || is_memory);
            })
            .ok()
    }

    /// Sets the views that `weir.key` returns in a module without trust.
    ///
    /// # Errors
    /// No memory.
    pub fn set_keys(&self, views: Table) -> mlua::Result<()> {
        let key =
            self.lua.create_function(move |_, (_, number): (Value, usize)| views.raw_get::<Value>(number))?;
        self.api.raw_set("key", key)
    }

    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }
}

/// The first line of an error: the rest is a traceback.
pub fn message_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::CallbackError { cause, traceback } => {
            // The place of the call is in the traceback.
            let at = traceback.lines().find_map(|line| {
                let line = line.trim();
                let place = line.split(": in ").next()?;
                (place.contains(':') && !place.starts_with('[')).then_some(place)
            });
            let message = message_of(cause);
            at.map_or(message.clone(), |at| format!("{at}: {message}"))
        }
        other => other.to_string(),
    };
    let text = text.strip_prefix("runtime error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_string()
}

/// An error at the line of the script that calls the current function.
pub fn error_at(lua: &Lua, message: impl fmt::Display) -> mlua::Error {
    let place = lua.inspect_stack(1, place_of).flatten().unwrap_or_default();
    mlua::Error::runtime(format!("{place}{message}"))
}

/// The line of a function on the stack: `script.lua:7: `.
fn place_of(debug: &Debug<'_>) -> Option<String> {
    let source = debug.source().short_src?.into_owned();
    Some(format!("{source}:{}: ", debug.current_line()?))
}

/// A machine with all libraries of LuaJIT.
#[allow(unsafe_code)]
fn with_everything() -> Lua {
    // Calls of `pcall` are compiled only if they are those of LuaJIT.
    let options = LuaOptions::new().catch_rust_panics(false);
    // SAFETY: the libraries `ffi` and `debug` allow scripts to break memory. Whoever runs a script with
    // `--trust` trusts it with that.
    unsafe { Lua::unsafe_new_with(StdLib::ALL, options) }
}

/// A machine with an interpreter, a memory limit, and calls that end in time.
fn without_rights(desk: &Arc<Desk>) -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::JIT;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    // Compiled code does not look at the clock.
    lua.load("jit.off() jit.flush()").exec()?;
    lua.set_memory_limit(MEMORY_MAX)?;
    let desk = Arc::clone(desk);
    lua.set_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, debug| {
        match desk.is_overdue() {
            true => {
                let place = place_of(debug).unwrap_or_default();
                Err(mlua::Error::runtime(format!(
                    "{place}the call took more than {} ms, and was stopped",
                    CALL_MAX.as_millis()
                )))
            }
            false => Ok(VmState::Continue),
        }
    })?;
    Ok(lua)
}

/// The table `weir` of modules.
fn api(lua: &Lua, desk: &Arc<Desk>, arguments: &[String]) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    let of = Arc::clone(desk);
    api.raw_set("now", lua.create_function(move |_, ()| Ok(of.now()))?)?;
    let of = Arc::clone(desk);
    api.raw_set(
        "add_row",
        lua.create_function(move |lua, row: Value| {
            let Value::Table(row) = row else {
                return Err(error_at(lua, "weir.row takes a table: { column = value, … }"));
            };
            of.add_row(|column| row.raw_get::<Value>(column)).map_err(|why| error_at(lua, why))
        })?,
    )?;
    let of = Arc::clone(desk);
    api.raw_set(
        "print_line",
        lua.create_function(move |_, line: mlua::LuaString| {
            of.print(&line.to_string_lossy());
            Ok(())
        })?,
    )?;
    let address = lua.create_function(|_, (a, b, c, d): (u32, u32, u32, u32)| {
        let bits = [a, b, c, d].iter().fold(0_u128, |bits, word| bits << 32 | u128::from(*word));
        let address = std::net::Ipv6Addr::from_bits(bits);
        Ok(address.to_ipv4_mapped().map_or(address.to_string(), |address| address.to_string()))
    })?;
    api.raw_set("address", address)?;
    api.raw_set("args", lua.create_sequence_from(arguments.iter().map(String::as_str))?)?;
    Ok(api)
}

/// The environment of a module that may do everything: the globals, with `weir`, and modules of FlowScope
/// under their names.
fn trusted_environment(lua: &Lua, api: &Table) -> mlua::Result<Table> {
    let globals = lua.globals();
    lua.load(include_str!("modules.lua")).set_name("=modules.lua").call::<()>(api)?;
    globals.raw_set("weir", api)?;
    Ok(globals)
}

/// The environment of a module without rights, and the function that calls its functions.
fn untrusted_environment(lua: &Lua, api: &Table, desk: &Arc<Desk>) -> mlua::Result<(Table, Function)> {
    let of = Arc::clone(desk);
    let stopped = lua.create_function(move |_, ()| Ok(of.is_stopped()))?;
    lua.load(include_str!("untrusted.lua")).set_name("=untrusted.lua").call((api, stopped))
}
