//! Functions of Lua's base library that the sandbox restricts.

use mlua::chunk::ChunkMode;
use mlua::{Lua, MultiValue, Table, Value};

use super::args::{Arguments, Raised};
use super::error::until_nul;

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// The first byte of a compiled chunk. Such a chunk could break the VM.
const BYTECODE_MARK: u8 = 27;

/// Builds the functions. `frozen` has the read-only tables as its keys.
pub(super) fn guarded(lua: &Lua, frozen: Table) -> mlua::Result<Table> {
    let functions = lua.create_table()?;
    let kept = frozen.clone();
    functions.raw_set(
        "setmetatable",
        lua.create_function(move |lua, values: MultiValue| {
            set_metatable(&Arguments::new(lua, &values), &kept)
        })?,
    )?;
    functions.raw_set(
        "rawset",
        lua.create_function(move |lua, values: MultiValue| {
            raw_set(&Arguments::new(lua, &values), &frozen)
        })?,
    )?;
    functions.raw_set("loadstring", lua.create_function(load_string)?)?;
    Ok(functions)
}

fn set_metatable(arguments: &Arguments<'_>, frozen: &Table) -> mlua::Result<Table> {
    let table = arguments.table(1)?;
    let metatable = match arguments.get(2) {
        Some(Value::Table(metatable)) => Some(metatable.clone()),
        Some(Value::Nil) => None,
        _ => return Err(arguments.bad(2, "nil or table expected").into()),
    };
    refuse_frozen(table, frozen)?;
    if let Some(old) = table.metatable()
        && !old.raw_get::<Value>("__metatable")?.is_nil()
    {
        let text = "cannot change a protected metatable";
        return Err(Raised::located(arguments.lua(), text).into());
    }
    table.set_metatable(metatable)?;
    Ok(table.clone())
}

fn raw_set(arguments: &Arguments<'_>, frozen: &Table) -> mlua::Result<Table> {
    let table = arguments.table(1)?;
    let (key, value) = (arguments.any(2)?, arguments.any(3)?);
    refuse_frozen(table, frozen)?;
    table.raw_set(key, value)?;
    Ok(table.clone())
}

fn refuse_frozen(table: &Table, frozen: &Table) -> mlua::Result<()> {
    if frozen.raw_get::<Value>(table)?.is_nil() {
        return Ok(());
    }
    Err(Raised::Text(READ_ONLY.to_owned()).into())
}

/// Compiles a text; answers the function, or nil and what is wrong.
fn load_string(lua: &Lua, values: MultiValue) -> mlua::Result<(Option<mlua::Function>, Value)> {
    let arguments = Arguments::new(lua, &values);
    let text = arguments.text(1)?;
    let name = match arguments.get(2) {
        None | Some(Value::Nil) => text.clone(),
        Some(_) => arguments.text(2)?,
    };
    let refused = |message: &str| Ok((None, Value::String(lua.create_string(message)?)));
    if text.first() == Some(&BYTECODE_MARK) {
        return refused("attempt to load chunk with wrong mode");
    }
    let name = String::from_utf8_lossy(until_nul(&name)).into_owned();
    match lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function() {
        Ok(function) => Ok((Some(function), Value::Nil)),
        Err(mlua::Error::SyntaxError { message, .. }) => refused(&message),
        Err(error) => Err(error),
    }
}
