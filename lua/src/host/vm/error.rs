//! From what a script raised to the error reply that a client sees.

use mlua::{Lua, Table, Value as LuaValue};

use super::args::Raised;
use super::to_lua::tagged;
use super::to_reply::error_line;

/// Chunk name of the sandbox: errors never name its frames as their place.
pub(super) const SANDBOX: &str = "=host";

/// What Lua itself raises when there is no memory left.
const OUT_OF_MEMORY: &[u8] = b"not enough memory";

/// What a script sees that catches an error with `pcall`.
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
        raised @ (Raised::Text(_) | Raised::Stop) => {
            Ok(LuaValue::String(lua.create_string(raised.to_string())?))
        }
    }
}

/// Whether this error is the one that stops a script.
pub(super) fn is_stop(_: &Lua, raised: LuaValue) -> mlua::Result<bool> {
    Ok(matches!(raised, LuaValue::Error(error) if matches!(Raised::of(&error), Raised::Stop)))
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
        // Without memory no handler runs, and the text has no code yet.
        LuaValue::String(text) if text.as_bytes() == OUT_OF_MEMORY => {
            format!("ERR {}", String::from_utf8_lossy(OUT_OF_MEMORY))
        }
        LuaValue::String(text) => error_line(&text.as_bytes()),
        LuaValue::Error(error) => of_the_host(error),
        other => format!("ERR {}", other.type_name()),
    }
}

/// The text of a reply when the VM itself failed, for instance without memory.
pub(super) fn of_the_host(error: &mlua::Error) -> String {
    error_line(format!("ERR {}", Raised::of(error)).as_bytes())
}

/// What C takes for the whole of a text. Errors go through C's formatting on the server.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

fn described(lua: &Lua, raised: LuaValue) -> mlua::Result<String> {
    match translated(lua, raised)? {
        LuaValue::Table(table) => described_table(&table),
        LuaValue::Nil => Ok("ERR nil".to_owned()),
        other => {
            let text = text_of(&other)?;
            Ok(format!("ERR {}", String::from_utf8_lossy(without_sandbox(until_nul(&text)))))
        }
    }
}

/// A text without the place in front, if that is in the sandbox: what called a script is native
/// code on the server, and has no place.
fn without_sandbox(text: &[u8]) -> &[u8] {
    let place =
        text.strip_prefix(&SANDBOX.as_bytes()[1..]).and_then(|rest| rest.strip_prefix(b":"));
    let Some(rest) = place else { return text };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { text } else { rest[digits..].strip_prefix(b": ").unwrap_or(text) }
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
    while native && level < 2 || source == SANDBOX {
        level += 1;
        (native, source, line) = frame(level)?;
    }
    let line = line.map_or_else(|| "-1".to_owned(), |line| line.to_string());
    Some(format!("{source}:{line}"))
}

#[cfg(test)]
mod tests {
    use selvedge_core::value::Value;

    use crate::host::{Host, HostConfig};

    fn eval(body: &str) -> Value {
        let config = HostConfig { lua_memory_max: 16 << 20, ..HostConfig::default() };
        Host::new(config).call(&["EVAL", body, "0"])
    }

    fn error(text: &str) -> Value {
        Value::Error(text.to_owned())
    }

    #[test]
    fn no_error_names_a_place_inside_the_host() {
        assert_eq!(eval("error('boo', 2)"), error("ERR boo script: on @user_script:1."));
        assert_eq!(
            eval("error('boo')"),
            error("ERR user_script:1: boo script: on @user_script:1.")
        );
    }

    #[test]
    fn the_error_for_no_memory_has_a_code_like_every_error() {
        assert_eq!(eval("return ('x'):rep(1e9)"), error("ERR not enough memory"));
    }

    #[test]
    fn what_one_script_leaves_behind_takes_no_memory_from_the_next() {
        let config = HostConfig { lua_memory_max: 16 << 20, ..HostConfig::default() };
        let mut host = Host::new(config);
        let fill = "local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1e5) .. i end";
        assert_eq!(host.call(&["EVAL", fill, "0"]), error("ERR not enough memory"));
        let modest = "local t = {} for i = 1, 3e5 do t[i] = i end return #t";
        assert_eq!(host.call(&["EVAL", modest, "0"]), Value::Int(300_000));
    }

    #[test]
    fn a_handler_that_loops_is_stopped_like_the_body() {
        let body = "while true do
            xpcall(function() while true do end end, function() while true do end end)
        end";
        let Value::Error(text) = eval(body) else { panic!("a loop came to an end") };
        assert!(text.contains("instruction budget"), "{text}");
    }

    #[test]
    fn an_error_reply_without_a_code_gets_the_general_one() {
        let replies =
            [("x", "ERR x"), ("-x", "ERR x"), ("X y", "X y"), ("-X y", "X y"), ("-", "ERR ")];
        for (given, expected) in replies {
            assert_eq!(eval(&format!("return redis.error_reply('{given}')")), error(expected));
        }
    }
}
