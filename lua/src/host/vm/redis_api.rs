//! What scripts reach as `redis` (or `server`), while they run and while a library loads.

use mlua::{Lua, MultiValue, Table, Value as LuaValue};
use selvedge_core::value::Value;
use sha1::{Digest, Sha1};

use super::VmKind;
use super::args::{Arguments, Raised};
use super::error::until_nul;
use super::memory::unlimited;
use super::registration::{Registration, registered};
use super::to_lua::{Protocol, Pushed, pushed, tagged, to_argument, to_lua_typed, whole};
use crate::host::store::SharedStore;

/// The server that the host stands for, as scripts see it.
const SERVER_NAME: &str = "valkey";
const VALKEY_VERSION: (&str, u32) = ("9.1.2", 0x0009_0102);
const REDIS_VERSION: (&str, u32) = ("7.2.4", 0x0007_0204);

/// What a running script finds in `redis`.
pub(super) fn api(lua: &Lua, kind: VmKind, store: &SharedStore) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    add_versions_and_log(lua, &api)?;
    for (name, flag) in [("ALL", 3), ("AOF", 1), ("SLAVE", 2), ("REPLICA", 2), ("NONE", 0)] {
        api.raw_set(format!("REPL_{name}"), flag)?;
    }
    let calls = store.clone();
    api.raw_set(
        "call",
        lua.create_function(move |lua, values| {
            unlimited(lua, || inner_call(lua, &calls, &values, raise))
        })?,
    )?;
    let calls = store.clone();
    api.raw_set(
        "pcall",
        lua.create_function(move |lua, values| {
            unlimited(lua, || inner_call(lua, &calls, &values, hand_back))
        })?,
    )?;
    api.raw_set(
        "error_reply",
        lua.create_function(|lua, values| unlimited(lua, || error_reply(lua, values)))?,
    )?;
    api.raw_set(
        "status_reply",
        lua.create_function(|lua, values| unlimited(lua, || status_reply(lua, values)))?,
    )?;
    api.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    api.raw_set("set_repl", lua.create_function(set_repl)?)?;
    api.raw_set("acl_check_cmd", lua.create_function(acl_check_cmd)?)?;
    let protocol = store.clone();
    let setresp = lua.create_function(move |_, values: MultiValue| {
        protocol.lock().script.protocol = chosen_protocol(&values)?;
        Ok(())
    })?;
    api.raw_set("setresp", setresp)?;
    if kind == VmKind::Scripts {
        api.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
        api.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        api.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    }
    Ok(api)
}

/// What a loading library finds in `redis`.
pub(super) fn load_api(lua: &Lua, registration: &Registration) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    add_versions_and_log(lua, &api)?;
    let registration = registration.clone();
    let register = lua.create_function(move |_, values: MultiValue| {
        registration.add(registered(&values)?);
        Ok(())
    })?;
    api.raw_set("register_function", register)?;
    Ok(api)
}

fn add_versions_and_log(lua: &Lua, api: &Table) -> mlua::Result<()> {
    api.raw_set("SERVER_NAME", SERVER_NAME)?;
    api.raw_set("VALKEY_VERSION", VALKEY_VERSION.0)?;
    api.raw_set("VALKEY_VERSION_NUM", VALKEY_VERSION.1)?;
    api.raw_set("REDIS_VERSION", REDIS_VERSION.0)?;
    api.raw_set("REDIS_VERSION_NUM", REDIS_VERSION.1)?;
    for (level, name) in ["DEBUG", "VERBOSE", "NOTICE", "WARNING"].into_iter().enumerate() {
        api.raw_set(format!("LOG_{name}"), level)?;
    }
    api.raw_set("log", lua.create_function(log)?)
}

/// Carries out `redis.call` or `redis.pcall`; the two differ in what becomes of an error.
fn inner_call(
    lua: &Lua,
    store: &SharedStore,
    values: &MultiValue,
    on_error: fn(&Lua, String) -> mlua::Result<LuaValue>,
) -> mlua::Result<Pushed> {
    let refuse = |text: String| on_error(lua, text).map(whole);
    let Some(argv) = values.iter().map(to_argument).collect::<Option<Vec<_>>>() else {
        return refuse("ERR Command arguments must be strings or integers".to_owned());
    };
    if argv.is_empty() {
        return refuse("ERR Please specify at least one argument for this call".to_owned());
    }
    let mut store = store.lock();
    let typed = (store.script.protocol == Protocol::Resp3).then(|| argv.clone());
    let reply = store.inner_call(argv);
    drop(store);
    match (reply, typed) {
        (Value::Error(text), _) => refuse(text),
        (reply, None) => pushed(lua, reply),
        (reply, Some(argv)) => to_lua_typed(lua, &argv, reply).map(whole),
    }
}

fn raise(_: &Lua, text: String) -> mlua::Result<LuaValue> {
    Err(Raised::Reply(text).into())
}

fn hand_back(lua: &Lua, text: String) -> mlua::Result<LuaValue> {
    let table = tagged(lua, "err", text)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(LuaValue::Table(table))
}

fn error_reply(lua: &Lua, values: MultiValue) -> mlua::Result<Table> {
    let Some(text) = only_string(&values) else {
        return tagged(lua, "err", "ERR wrong number or type of arguments");
    };
    let text = until_nul(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    // An error without a code gets the general one.
    let code: &[u8] = if text.contains(&b' ') { b"" } else { b"ERR " };
    let text = [code, text].concat();
    tagged(lua, "err", lua.create_string(text)?)
}

fn status_reply(lua: &Lua, values: MultiValue) -> mlua::Result<Table> {
    match only_string(&values) {
        Some(text) => tagged(lua, "ok", lua.create_string(text)?),
        None => tagged(lua, "err", "ERR wrong number or type of arguments"),
    }
}

fn only_string(values: &MultiValue) -> Option<Vec<u8>> {
    match (values.len(), values.front()) {
        (1, Some(LuaValue::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

fn sha1hex(lua: &Lua, values: MultiValue) -> mlua::Result<String> {
    if values.len() != 1 {
        return Err(Raised::Reply("ERR wrong number of arguments".to_owned()).into());
    }
    let text = Arguments::new(lua, &values).text(1).unwrap_or_default();
    Ok(hexadecimal(&Sha1::digest(text)))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Checks its arguments as the server does; the host writes no log.
fn log(lua: &Lua, values: MultiValue) -> mlua::Result<()> {
    let refuse = |text: &str| Err(Raised::Reply(format!("ERR {text}")).into());
    if values.len() < 2 {
        return refuse("server.log() requires two arguments or more.");
    }
    match Arguments::new(lua, &values).number(1).map(c_int) {
        Ok(0..=3) => Ok(()),
        Ok(_) => refuse("Invalid log level."),
        Err(_) => refuse("First argument must be a number (log level)."),
    }
}

/// C's conversion to a 32-bit integer: the lowest number stands for what does not fit.
fn c_int(number: f64) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&number) { number as i32 } else { i32::MIN }
}

/// The host does not replicate, so every valid choice does the same.
fn set_repl(lua: &Lua, values: MultiValue) -> mlua::Result<()> {
    if values.len() != 1 {
        let text = "ERR server.set_repl() requires one argument.";
        return Err(Raised::Reply(text.to_owned()).into());
    }
    // What is no number counts as zero, as in C.
    match c_int(Arguments::new(lua, &values).number(1).unwrap_or(0.0)) {
        0..=3 => Ok(()),
        _ => {
            let text = "ERR Invalid replication flags. \
                        Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            Err(Raised::Reply(text.to_owned()).into())
        }
    }
}

/// The host has no access control: only a command that does not exist is refused.
fn acl_check_cmd(_: &Lua, values: MultiValue) -> mlua::Result<bool> {
    let name = values.front().and_then(to_argument).unwrap_or_default();
    if crate::host::command::lookup(&name).is_some() {
        return Ok(true);
    }
    Err(Raised::Reply("ERR Invalid command passed to server.acl_check_cmd()".to_owned()).into())
}

fn chosen_protocol(values: &MultiValue) -> Result<Protocol, Raised> {
    let wanted = match (values.len(), values.front()) {
        (1, Some(value)) => to_argument(value).unwrap_or_default(),
        _ => {
            let text = "ERR server.setresp() requires one argument.";
            return Err(Raised::Reply(text.to_owned()));
        }
    };
    match wanted.as_slice() {
        b"2" => Ok(Protocol::Resp2),
        b"3" => Ok(Protocol::Resp3),
        _ => Err(Raised::Reply("ERR RESP version must be 2 or 3.".to_owned())),
    }
}
