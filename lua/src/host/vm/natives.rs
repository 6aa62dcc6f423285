//! The native functions out of which `sandbox.lua` builds the globals of a script.

use mlua::{Lua, MultiValue, Table, Value as LuaValue};

use super::args::{Arguments, Raised};
use super::random::LuaRandom;
use super::registration::Registration;
use super::{VmKind, base_library, bit_library, cjson, error, redis_api};
use crate::host::store::SharedStore;

/// The table that the sandbox takes as `native`.
pub(super) fn natives(
    lua: &Lua,
    kind: VmKind,
    store: &SharedStore,
    registration: &Registration,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("refuse_write", lua.create_function(refuse_write)?)?;
    native.raw_set("guarded", lua.create_function(base_library::guarded)?)?;
    native.raw_set("missing_global", lua.create_function(missing_global)?)?;
    native.raw_set("unsupported_library", lua.create_function(unsupported_library)?)?;
    native.raw_set("caught", lua.create_function(error::caught)?)?;
    native.raw_set("translated", lua.create_function(error::translated)?)?;
    native.raw_set("is_stop", lua.create_function(error::is_stop)?)?;
    native.raw_set("blame", lua.create_function(error::blame)?)?;
    native.raw_set("blame_load", lua.create_function(error::blame_load)?)?;
    native.raw_set("bit", bit_library::table(lua)?)?;
    native.raw_set("cjson", cjson::table(lua)?)?;
    add_random(lua, &native, store)?;
    let clock = store.clone();
    native.raw_set(
        "clock",
        lua.create_function(move |_, ()| Ok(clock.lock().now_us as f64 / 1_000_000.0))?,
    )?;
    native.raw_set("api", redis_api::api(lua, kind, store)?)?;
    native.raw_set("load_api", redis_api::load_api(lua, registration)?)?;
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

fn unsupported_library(_: &Lua, name: String) -> mlua::Result<()> {
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
