//! Replies into Lua values, Lua values into replies and command arguments.

use std::vec::IntoIter;

use mlua::{BString, Either, IntoLua, Lua, Table, Value as LuaValue};
use selvedge_core::value::Value;

use super::error::until_nul;
use super::number::shortest;

/// How many values a returned table may hold in all. A server goes on until it is out of memory
/// when a table holds itself twice.
const REPLY_VALUES_MAX: usize = 1_000_000;

/// The protocol in which inner commands answer, chosen by `redis.setresp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A missing value is `false`; maps, sets and doubles are arrays and text.
    #[default]
    Resp2,
    /// A missing value is `nil`; maps, sets and doubles are tagged tables.
    Resp3,
}

/// A value on its way to Lua. Text, numbers and truth values go there directly; only what has become
/// a Lua value already is held by a reference, which costs as much as all the rest.
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

/// What a client gets for the value that a script returned.
///
/// Written as a loop over open arrays: a script may nest tables deeper than the native stack. Each
/// holds on to one Lua value at a time, since the VM has room for a few thousand of them only. Of a
/// plain list it is known that neither it nor a table in it has a tag, and that those are short.
pub(super) fn to_reply(value: LuaValue, protocol: Protocol, is_plain: bool) -> mlua::Result<Value> {
    let mut open: Vec<OpenArray> = Vec::new();
    let mut current = Some(value);
    let mut values = 0;
    while let Some(value) = current.take() {
        values += 1;
        if values > REPLY_VALUES_MAX {
            return Ok(Value::Error("ERR the reply of the script is too large".to_owned()));
        }
        let known = match (is_plain, open.len()) {
            (false, _) => Known::Nothing,
            (true, 0) => Known::List,
            (true, 1) => Known::ShortList,
            (true, _) => Known::Nothing,
        };
        let mut finished = match shape(value, protocol, known) {
            Ok(Shape::Plain(value)) => Some(value),
            Ok(Shape::Array(children)) => {
                open.push(OpenArray { children, items: Vec::new() });
                None
            }
            Err(error) => Some(too_deep(error)?),
        };
        while current.is_none() {
            let Some(innermost) = open.last_mut() else {
                return Ok(finished.unwrap_or(Value::Nil));
            };
            innermost.items.extend(finished.take());
            current = innermost.children.next().or_else(|error| {
                innermost.items.push(too_deep(error)?);
                Ok::<_, mlua::Error>(None)
            })?;
            if current.is_none() {
                finished = open.pop().map(|closed| Value::Array(closed.items));
            }
        }
    }
    Ok(Value::Nil)
}

/// What stands in the place of a table nested so deep that no value fits into the VM any more:
/// some eight thousand levels, here as on the server.
fn too_deep(error: mlua::Error) -> mlua::Result<Value> {
    match error {
        mlua::Error::StackError => Ok(Value::Error("ERR reached lua stack limit".to_owned())),
        error => Err(error),
    }
}

struct OpenArray {
    children: Children,
    items: Vec<Value>,
}

/// A Lua value seen as a reply: whole, or an array whose children are still to be seen.
enum Shape {
    Plain(Value),
    Array(Children),
}

/// Where the next child of an array comes from.
enum Children {
    /// From a table by index, up to the first nil.
    Sequence { table: Table, next: i64 },
    /// From a list made beforehand.
    Listed(IntoIter<LuaValue>),
}

impl Children {
    fn next(&mut self) -> mlua::Result<Option<LuaValue>> {
        match self {
            Self::Listed(values) => Ok(values.next()),
            Self::Sequence { table, next } => {
                let child: LuaValue = table.raw_get(*next)?;
                *next += 1;
                Ok((!child.is_nil()).then_some(child))
            }
        }
    }
}

/// What is known about a value, should it be a table.
#[derive(Clone, Copy)]
enum Known {
    Nothing,
    List,
    ShortList,
}

fn shape(value: LuaValue, protocol: Protocol, known: Known) -> mlua::Result<Shape> {
    Ok(Shape::Plain(match value {
        LuaValue::String(text) => Value::Bulk(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Value::Int(number),
        LuaValue::Number(number) => Value::Int(truncated(number)),
        LuaValue::Boolean(true) => Value::Int(1),
        // A script that asked for RESP3 has booleans, which an older client sees as numbers.
        LuaValue::Boolean(false) if protocol == Protocol::Resp3 => Value::Int(0),
        LuaValue::Table(table) => match known {
            Known::Nothing => return table_shape(table),
            Known::List => return Ok(Shape::Array(Children::Sequence { table, next: 1 })),
            Known::ShortList => match flat(&table, protocol)? {
                Some(values) => Value::Array(values),
                None => return Ok(Shape::Array(Children::Sequence { table, next: 1 })),
            },
        },
        _ => Value::Nil,
    }))
}

/// The values of a list without tables in it, taken in one go.
fn flat(list: &Table, protocol: Protocol) -> mlua::Result<Option<Vec<Value>>> {
    let mut values = Vec::new();
    for value in list.sequence_values::<LuaValue>() {
        match value? {
            LuaValue::Table(_) => return Ok(None),
            value => {
                if let Shape::Plain(value) = shape(value, protocol, Known::Nothing)? {
                    values.push(value);
                }
            }
        }
    }
    Ok(Some(values))
}

/// A tagged table is what its tag says; any other is an array, cut at the first nil.
fn table_shape(table: Table) -> mlua::Result<Shape> {
    if let LuaValue::String(text) = table.raw_get("err")? {
        return Ok(Shape::Plain(Value::Error(error_line(&text.as_bytes()))));
    }
    if let LuaValue::String(text) = table.raw_get("ok")? {
        return Ok(Shape::Plain(Value::Status(one_line(until_nul(&text.as_bytes())))));
    }
    match table.raw_get("double")? {
        LuaValue::Integer(number) => return Ok(double(number as f64)),
        LuaValue::Number(number) => return Ok(double(number)),
        _ => {}
    }
    if let LuaValue::Table(map) = table.raw_get("map")? {
        let mut children = Vec::new();
        for pair in map.pairs::<LuaValue, LuaValue>() {
            let (key, item) = pair?;
            children.extend([key, item]);
        }
        return Ok(Shape::Array(Children::Listed(children.into_iter())));
    }
    if let LuaValue::Table(set) = table.raw_get("set")? {
        let members = set.pairs::<LuaValue, LuaValue>().map(|pair| pair.map(|(key, _)| key));
        let members: Vec<_> = members.collect::<mlua::Result<_>>()?;
        return Ok(Shape::Array(Children::Listed(members.into_iter())));
    }
    if let LuaValue::String(text) = table.raw_get("big_number")? {
        let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        return Ok(Shape::Plain(Value::Bulk(
            until_nul(&text.as_bytes()).iter().map(blank).collect(),
        )));
    }
    if let LuaValue::Table(verbatim) = table.raw_get("verbatim_string")?
        && let LuaValue::String(text) = verbatim.raw_get("string")?
        && let LuaValue::String(_) = verbatim.raw_get("format")?
    {
        return Ok(Shape::Plain(Value::Bulk(text.as_bytes().to_vec())));
    }
    Ok(Shape::Array(Children::Sequence { table, next: 1 }))
}

/// A double in a reply keeps the sign of zero and drops that of what is no number.
fn double(number: f64) -> Shape {
    let text = match number {
        number if number.is_nan() => "nan".to_owned(),
        number if number == 0.0 && number.is_sign_negative() => "-0".to_owned(),
        number => shortest(number),
    };
    Shape::Plain(Value::Bulk(text.into_bytes()))
}

/// C's conversion to a 64-bit integer: towards zero, and the lowest number for what does not fit.
fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The text of an error reply: one line, without the line ends behind it.
pub(super) fn error_line(bytes: &[u8]) -> String {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut text = until_nul(bytes);
    while let Some((_, rest)) = text.split_last().filter(|(last, _)| is_end(last)) {
        text = rest;
    }
    one_line(text)
}

/// Statuses and errors travel in one line.
pub(super) fn one_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ")
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
