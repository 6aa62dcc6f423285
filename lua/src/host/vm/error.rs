//! From what a script raised to the error reply that a client sees.

use mlua::{Lua, Table, Value as LuaValue};

use super::args::Raised;
use super::convert::{error_line, tagged};

/// Chunk name of the prelude: its frames are the host's own and never blamed.
pub(super) const PRELUDE: &str = "=host";

/// What a script that catches an error without a handler of its own gets to see.
///
/// The server unwraps error tables to their text here, for scripts older than the tables.
pub(super) fn caught(lua: &Lua, raised: LuaValue) -> mlua::Result<LuaValue> {
    match translated(lua, raised)? {
        LuaValue::Table(table) => match table.raw_get("err")? {
            text @ (LuaValue::String(_) | LuaValue::Integer(_) | LuaValue::Number(_)) => Ok(text),
            _ => Ok(LuaValue::Table(table)),
        },
        other => Ok(other),
    }
}

/// A native error as the Lua value that the server would have raised; any other value as it is.
pub(super) fn translated(lua: &Lua, raised: LuaValue) -> mlua::Result<LuaValue> {
    let LuaValue::Error(error) = raised else { return Ok(raised) };
    match Raised::of(&error) {
        Raised::Reply(text) => {
            let table = tagged(lua, "err", text)?;
            table.raw_set("ignore_error_stats_update", true)?;
            Ok(LuaValue::Table(table))
        }
        Raised::Text(text) => Ok(LuaValue::String(lua.create_string(text)?)),
    }
}

/// The handler of a call: the text of the error and the place it came from.
pub(super) fn blame(lua: &Lua, raised: LuaValue) -> mlua::Result<String> {
    let text = described(lua, raised)?;
    match place(lua) {
        Some(place) => Ok(format!("{text} script: on {place}.")),
        None => Ok(text),
    }
}

/// The handler of loading a library, which names no place.
pub(super) fn blame_load(lua: &Lua, raised: LuaValue) -> mlua::Result<String> {
    described(lua, raised)
}

/// The text of a reply for what the handler returned.
pub(super) fn settled(raised: &LuaValue) -> String {
    match raised {
        LuaValue::String(text) => error_line(&text.as_bytes()),
        LuaValue::Error(error) => of_the_host(error),
        other => format!("ERR {}", other.type_name()),
    }
}

/// The text of a reply when the VM itself gave up, for instance for want of memory.
pub(super) fn of_the_host(error: &mlua::Error) -> String {
    let (Raised::Reply(text) | Raised::Text(text)) = Raised::of(error);
    error_line(format!("ERR {text}").as_bytes())
}

/// What C takes for the whole of a text. Errors go through C's formatting on the server.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

fn described(lua: &Lua, raised: LuaValue) -> mlua::Result<String> {
    match translated(lua, raised)? {
        LuaValue::Table(table) => described_table(&table),
        LuaValue::Nil => Ok("ERR nil".to_owned()),
        other => Ok(format!("ERR {}", String::from_utf8_lossy(until_nul(&text_of(&other)?)))),
    }
}

fn described_table(table: &Table) -> mlua::Result<String> {
    match table.raw_get("err")? {
        text @ (LuaValue::String(_) | LuaValue::Integer(_) | LuaValue::Number(_)) => {
            Ok(String::from_utf8_lossy(until_nul(&text_of(&text)?)).into_owned())
        }
        _ => Ok("ERR unknown error".to_owned()),
    }
}

fn text_of(value: &LuaValue) -> mlua::Result<Vec<u8>> {
    match value {
        LuaValue::String(text) => Ok(text.as_bytes().to_vec()),
        other => Ok(other.to_string()?.into_bytes()),
    }
}

/// `source:line` of the code that raised: the function on top of the stack, or its caller if
/// that function is a native one.
fn place(lua: &Lua) -> Option<String> {
    let frame = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(std::borrow::Cow::into_owned).unwrap_or_default();
            (source.what == "C", name, frame.current_line())
        })
    };
    let mut level = 1;
    let (mut native, mut source, mut line) = frame(level)?;
    while native && level < 2 || source == PRELUDE {
        level += 1;
        (native, source, line) = frame(level)?;
    }
    let line = line.map_or_else(|| "-1".to_owned(), |line| line.to_string());
    Some(format!("{source}:{line}"))
}
