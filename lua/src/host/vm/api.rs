//! What scripts reach as `redis` (or `server`), and the natives that the prelude builds on.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Function, Lua, MultiValue, Table, Value as LuaValue};
use selvedge_core::value::Value;
use sha1::{Digest, Sha1};

use super::args::{Arguments, Raised};
use super::convert::{Protocol, Pushed, pushed, tagged, to_argument, to_lua_typed, whole};
use super::error::until_nul;
use super::memory::unlimited;
use super::random::LuaRandom;
use super::{Body, VmKind, base, bits, cjson, error};
use crate::host::store::SharedStore;

/// The server that the host stands for, as scripts see it.
const SERVER_NAME: &str = "valkey";
const VALKEY_VERSION: (&str, u32) = ("9.1.2", 0x0009_0102);
const REDIS_VERSION: (&str, u32) = ("7.2.4", 0x0007_0204);

/// A function as a library registered it. Names are checked when the library is taken in.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: Vec<&'static str>,
    pub(crate) body: Body,
}

/// The functions that the library being loaded has registered so far.
#[derive(Clone, Default)]
pub(crate) struct Registration(Arc<Mutex<Vec<Registered>>>);

impl Registration {
    pub(super) fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn finish(&self) -> Vec<Registered> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, function: Registered) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(function);
    }
}

/// Every flag that a function may carry.
const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// The table that the prelude takes as `native`.
pub(super) fn natives(
    lua: &Lua,
    kind: VmKind,
    store: &SharedStore,
    registration: &Registration,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("refuse_write", lua.create_function(refuse_write)?)?;
    native.raw_set("guarded", lua.create_function(base::guarded)?)?;
    native.raw_set("missing_global", lua.create_function(missing_global)?)?;
    native.raw_set("absent_library", lua.create_function(absent_library)?)?;
    native.raw_set("caught", lua.create_function(error::caught)?)?;
    native.raw_set("translated", lua.create_function(error::translated)?)?;
    native.raw_set("is_stop", lua.create_function(error::is_stop)?)?;
    native.raw_set("blame", lua.create_function(error::blame)?)?;
    native.raw_set("blame_load", lua.create_function(error::blame_load)?)?;
    native.raw_set("bit", bits::table(lua)?)?;
    native.raw_set("cjson", cjson::table(lua)?)?;
    add_random(lua, &native, store)?;
    let clock = store.clone();
    native.raw_set(
        "clock",
        lua.create_function(move |_, ()| Ok(clock.lock().now_us as f64 / 1_000_000.0))?,
    )?;
    native.raw_set("api", api(lua, kind, store)?)?;
    native.raw_set("load_api", load_api(lua, registration)?)?;
    Ok(native)
}

fn refuse_write(lua: &Lua, _: MultiValue) -> mlua::Result<()> {
    Err(Raised::located(lua, "Attempt to modify a readonly table").into())
}

fn missing_global(lua: &Lua, (_, name): (LuaValue, LuaValue)) -> mlua::Result<()> {
    let name = name.to_string()?;
    let text = format!("Script attempted to access nonexistent global variable '{name}'");
    Err(Raised::located(lua, &text).into())
}

fn absent_library(_: &Lua, name: String) -> mlua::Result<()> {
    let text = format!("The library '{name}' is not part of the in-process host");
    Err(Raised::Reply(format!("ERR {text}")).into())
}

fn add_random(lua: &Lua, native: &Table, store: &SharedStore) -> mlua::Result<()> {
    let drawn = store.clone();
    let random = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments::new(lua, &values);
        let drawn = drawn.lock().lua_random.next();
        Ok(random_number(&arguments, drawn)?)
    })?;
    native.raw_set("random", random)?;
    let seeded = store.clone();
    let randomseed = lua.create_function(move |lua, values: MultiValue| {
        let seed = Arguments::new(lua, &values).number(1)? as i64;
        seeded.lock().lua_random = LuaRandom::seeded(seed as u32);
        Ok(())
    })?;
    native.raw_set("randomseed", randomseed)
}

fn random_number(arguments: &Arguments<'_>, drawn: f64) -> Result<f64, Raised> {
    let whole = |position| Ok::<_, Raised>(arguments.number(position)?.trunc());
    match arguments.count() {
        0 => Ok(drawn),
        1 => {
            let upper = whole(1)?;
            if upper < 1.0 {
                return Err(arguments.bad(1, "interval is empty"));
            }
            Ok((drawn * upper).floor() + 1.0)
        }
        2 => {
            let (lower, upper) = (whole(1)?, whole(2)?);
            if lower > upper {
                return Err(arguments.bad(2, "interval is empty"));
            }
            Ok((drawn * (upper - lower + 1.0)).floor() + lower)
        }
        _ => Err(Raised::located(arguments.lua(), "wrong number of arguments")),
    }
}

/// What a running script finds in `redis`.
fn api(lua: &Lua, kind: VmKind, store: &SharedStore) -> mlua::Result<Table> {
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
fn load_api(lua: &Lua, registration: &Registration) -> mlua::Result<Table> {
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
    // Without a code of its own, an error gets the general one.
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

/// Checks its arguments like the server's; the host has no log of its own to write to.
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

/// Nothing is replicated here, so that every valid choice is the same.
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

/// Everyone may do everything here; only a command that does not exist is refused.
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

/// Reads the arguments of `redis.register_function`, in either form.
fn registered(values: &MultiValue) -> Result<Registered, Raised> {
    let refuse = |text: &str| Err(Raised::Reply(format!("ERR {text}")));
    match (values.len(), values.front(), values.get(1)) {
        (1, Some(LuaValue::Table(named)), _) => registered_by_name(named),
        (1, _, _) => refuse(
            "calling server.register_function with a single argument is only applicable \
             to Lua table (representing named arguments).",
        ),
        (2, Some(name), Some(LuaValue::Function(body))) => match to_argument(name) {
            Some(name) => Ok(Registered {
                name,
                description: None,
                flags: Vec::new(),
                body: Body(body.clone()),
            }),
            None => refuse("first argument to server.register_function must be a string"),
        },
        (2, _, _) => refuse("second argument to server.register_function must be a function"),
        _ => refuse("wrong number of arguments to server.register_function"),
    }
}

fn registered_by_name(named: &Table) -> Result<Registered, Raised> {
    let refuse = |text: &str| Raised::Reply(format!("ERR {text}"));
    let mut name = None;
    let mut description = None;
    let mut flags = Vec::new();
    let mut body: Option<Function> = None;
    for pair in named.pairs::<LuaValue, LuaValue>() {
        let (field, value) = pair.map_err(|error| Raised::of(&error))?;
        let Some(field) = to_argument(&field) else {
            return Err(refuse(
                "named argument key given to server.register_function is not a string",
            ));
        };
        match field.as_slice() {
            b"function_name" => {
                name = Some(to_argument(&value).ok_or_else(|| {
                    refuse(
                        "function_name argument given to server.register_function must be a string",
                    )
                })?);
            }
            b"description" => {
                description = Some(to_argument(&value).ok_or_else(|| {
                    refuse(
                        "description argument given to server.register_function must be a string",
                    )
                })?);
            }
            b"callback" => match value {
                LuaValue::Function(function) => body = Some(function),
                _ => {
                    return Err(refuse(
                        "callback argument given to server.register_function must be a function",
                    ));
                }
            },
            b"flags" => match value {
                LuaValue::Table(list) => flags = chosen_flags(&list)?,
                _ => {
                    return Err(refuse(
                        "flags argument to server.register_function must be a table \
                         representing function flags",
                    ));
                }
            },
            _ => return Err(refuse("unknown argument given to server.register_function")),
        }
    }
    let name =
        name.ok_or_else(|| refuse("server.register_function must get a function name argument"))?;
    let body =
        body.ok_or_else(|| refuse("server.register_function must get a callback argument"))?;
    Ok(Registered { name, description, flags, body: Body(body) })
}

fn chosen_flags(list: &Table) -> Result<Vec<&'static str>, Raised> {
    let unknown = || Raised::Reply("ERR unknown flag given".to_owned());
    let mut chosen = Vec::new();
    for index in 1_i64.. {
        let flag: LuaValue = list.raw_get(index).map_err(|error| Raised::of(&error))?;
        if flag.is_nil() {
            break;
        }
        let flag = to_argument(&flag).ok_or_else(unknown)?;
        let known = FLAGS.into_iter().find(|known| known.as_bytes() == flag);
        chosen.push(known.ok_or_else(unknown)?);
    }
    Ok(FLAGS.into_iter().filter(|flag| chosen.contains(flag)).collect())
}
