//! Replies of inner commands as Lua values, and Lua values as command arguments.

use mlua::{BString, Either, IntoLua, Lua, Table, Value as LuaValue};
use selvedge_core::value::Value;

use super::number::shortest;

/// The protocol in which inner commands answer, chosen by `redis.setresp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A missing value is `false`; maps, sets and doubles are arrays and text.
    #[default]
    Resp2,
    /// A missing value is `nil`; maps, sets and doubles are tagged tables.
    Resp3,
}

/// A value on its way to Lua. Text, numbers and truth values go there directly; only what has
/// become a Lua value already is held by a reference, which costs as much as all the rest.
pub(super) type Pushed = Either<Either<String, BString>, Either<i64, Either<bool, LuaValue>>>;

/// A Lua value on its way back.
pub(super) fn whole(value: LuaValue) -> Pushed {
    Either::Right(Either::Right(Either::Right(value)))
}

/// Bytes on their way to Lua. Those that are UTF-8, nearly all, have the shorter one.
pub(super) fn text(bytes: &[u8]) -> Either<&str, BString> {
    match str::from_utf8(bytes) {
        Ok(text) => Either::Left(text),
        Err(_) => Either::Right(BString::from(bytes)),
    }
}

/// A reply of an inner command in RESP2, as Lua sees it.
pub(super) fn pushed(lua: &Lua, value: Value) -> mlua::Result<Pushed> {
    Ok(match value {
        Value::Nil => Either::Right(Either::Right(Either::Left(false))),
        Value::Int(number) => Either::Right(Either::Left(number)),
        Value::Bulk(bytes) => Either::Left(match String::from_utf8(bytes) {
            Ok(text) => Either::Left(text),
            Err(error) => Either::Right(BString::from(error.into_bytes())),
        }),
        Value::Status(text) => whole(LuaValue::Table(tagged(lua, "ok", text)?)),
        Value::Error(text) => whole(LuaValue::Table(tagged(lua, "err", text)?)),
        Value::Array(items) => {
            let mut failed = None;
            let items = items.into_iter().map(|item| {
                pushed(lua, item).unwrap_or_else(|error| {
                    failed = Some(error);
                    whole(LuaValue::Nil)
                })
            });
            let table = lua.create_sequence_from(items)?;
            match failed {
                Some(error) => return Err(error),
                None => whole(LuaValue::Table(table)),
            }
        }
    })
}

/// A reply of an inner command in RESP3, where nil is nil.
fn to_lua(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Nil,
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in (1_i64..).zip(items) {
                table.raw_set(index, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        value @ (Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_)) => {
            pushed(lua, value)?.into_lua(lua)?
        }
    })
}

/// The reply to a command in RESP3, where its shape says more than the same reply in RESP2.
pub(super) fn to_lua_typed(lua: &Lua, argv: &[Vec<u8>], value: Value) -> mlua::Result<LuaValue> {
    let name = argv.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let says =
        |option: &str| argv.iter().skip(2).any(|word| word.eq_ignore_ascii_case(option.as_bytes()));
    match (name.as_slice(), value) {
        (b"hgetall", Value::Array(items)) => map(lua, pairs(items)),
        (b"xread", Value::Array(streams)) => map(
            lua,
            streams.into_iter().flat_map(|stream| match stream {
                Value::Array(parts) => pairs(parts).next(),
                Value::Nil
                | Value::Int(_)
                | Value::Bulk(_)
                | Value::Status(_)
                | Value::Error(_) => None,
            }),
        ),
        (b"smembers" | b"spop", Value::Array(items)) => set(lua, items),
        (b"zscore" | b"zincrby" | b"zmscore" | b"zadd", value) => scores(lua, value),
        (b"zrank" | b"zrevrank", Value::Array(items)) => scored(lua, items),
        (b"zpopmin" | b"zpopmax", Value::Array(items)) if argv.len() == 2 => scored(lua, items),
        (b"zpopmin" | b"zpopmax", Value::Array(items)) => scored_members(lua, items),
        (
            b"zrange" | b"zrevrange" | b"zrangebyscore" | b"zrevrangebyscore",
            Value::Array(items),
        ) if says("withscores") => scored_members(lua, items),
        (_, value) => to_lua(lua, value),
    }
}

fn pairs(items: Vec<Value>) -> impl Iterator<Item = (Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || items.next().zip(items.next()))
}

fn map(lua: &Lua, pairs: impl Iterator<Item = (Value, Value)>) -> mlua::Result<LuaValue> {
    let map = lua.create_table()?;
    for (key, item) in pairs {
        let key = to_lua(lua, key)?;
        map.raw_set(key, to_lua(lua, item)?)?;
    }
    Ok(LuaValue::Table(tagged(lua, "map", map)?))
}

fn set(lua: &Lua, items: Vec<Value>) -> mlua::Result<LuaValue> {
    let set = lua.create_table()?;
    for item in items {
        set.raw_set(to_lua(lua, item)?, true)?;
    }
    Ok(LuaValue::Table(tagged(lua, "set", set)?))
}

/// One pair of member and score after the other, each in a table of its own.
fn scored_members(lua: &Lua, items: Vec<Value>) -> mlua::Result<LuaValue> {
    let table = lua.create_table_with_capacity(items.len() / 2, 0)?;
    for (index, (member, score)) in (1_i64..).zip(pairs(items)) {
        table.raw_set(index, scored(lua, vec![member, score])?)?;
    }
    Ok(LuaValue::Table(table))
}

/// A member or its rank, and the score behind it, if there are any.
fn scored(lua: &Lua, items: Vec<Value>) -> mlua::Result<LuaValue> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for (member, score) in pairs(items) {
        table.raw_set(1, to_lua(lua, member)?)?;
        table.raw_set(2, scores(lua, score)?)?;
    }
    Ok(LuaValue::Table(table))
}

fn scores(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    match value {
        Value::Bulk(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let score: f64 = text.parse().unwrap_or(f64::NAN);
            Ok(LuaValue::Table(tagged(lua, "double", score)?))
        }
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in (1_i64..).zip(items) {
                table.raw_set(index, scores(lua, item)?)?;
            }
            Ok(LuaValue::Table(table))
        }
        other => to_lua(lua, other),
    }
}

/// The one-field tables in which Lua code sees statuses, errors and typed values.
pub(super) fn tagged(lua: &Lua, tag: &str, value: impl IntoLua) -> mlua::Result<Table> {
    lua.create_table_from([(tag, value)])
}

/// The bytes that a Lua value becomes as a command argument; `None` if it cannot be one.
pub(super) fn to_argument(value: &LuaValue) -> Option<Vec<u8>> {
    match value {
        LuaValue::String(text) => Some(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Some(shortest(*number as f64).into_bytes()),
        LuaValue::Number(number) => Some(shortest(*number).into_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_core::value::Value;

    use crate::host::{Host, HostConfig};

    /// What a script that asked for RESP3 sees of a reply, spelled out.
    fn seen(host: &mut Host, command: &str) -> Value {
        let body = format!(
            "redis.setresp(3)
            local function spelled(value)
              if type(value) ~= 'table' then return tostring(value) end
              local parts = {{}}
              for key, item in pairs(value) do
                parts[#parts + 1] = tostring(key) .. '=' .. spelled(item)
              end
              table.sort(parts)
              return '{{' .. table.concat(parts, ' ') .. '}}'
            end
            return spelled(redis.call({command}))"
        );
        host.call(&["EVAL", &body, "0"])
    }

    #[test]
    fn scores_maps_and_sets_are_typed_in_the_newer_protocol() {
        let mut host = Host::new(HostConfig::default());
        host.call(&["ZADD", "z", "1.5", "a", "2", "b"]);
        host.call(&["SADD", "s", "m"]);
        host.call(&["XADD", "t", "9-1", "f", "v"]);
        let pairs = "{1={1=a 2={double=1.5}} 2={1=b 2={double=2}}}";
        let cases = [
            ("'ZRANGE','z',0,-1,'WITHSCORES'", pairs),
            ("'ZRANGEBYSCORE','z',0,9,'withscores'", pairs),
            ("'ZREVRANGE','z',0,0,'WITHSCORES'", "{1={1=b 2={double=2}}}"),
            ("'ZRANGE','z',0,-1", "{1=a 2=b}"),
            ("'ZRANK','z','b','WITHSCORE'", "{1=1 2={double=2}}"),
            ("'ZADD','z','INCR',1,'b'", "{double=3}"),
            ("'ZADD','z','XX','INCR',1,'q'", "nil"),
            ("'ZPOPMIN','z'", "{1=a 2={double=1.5}}"),
            ("'ZPOPMIN','z',1", "{1={1=b 2={double=3}}}"),
            ("'SPOP','s',1", "{set={m=true}}"),
            ("'SPOP','s'", "nil"),
            ("'XREAD','STREAMS','t',0", "{map={t={1={1=9-1 2={1=f 2=v}}}}}"),
            ("'XREAD','STREAMS','t','$'", "nil"),
        ];
        for (command, expected) in cases {
            assert_eq!(seen(&mut host, command), Value::Bulk(expected.into()), "{command}");
        }
    }
}
