//! What a script returned, as the reply that a client gets.

use std::vec::IntoIter;

use mlua::{Table, Value as LuaValue};
use selvedge_core::value::Value;

use super::error::until_nul;
use super::number::shortest;
use super::to_lua::Protocol;

/// How many values a returned table may hold in all. A server goes on until it is out of memory
/// when a table holds itself twice.
const REPLY_VALUES_MAX: usize = 1_000_000;

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
