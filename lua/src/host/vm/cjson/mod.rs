//! The `cjson` library, with the rules, limits and error texts of the one inside the server.

mod decode;
mod encode;

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, MultiValue, Table, Value};

use super::args::{Arguments, Raised};
use super::memory::unlimited;

/// What the `encode_…` and `decode_…` functions set. Each table made by `cjson.new` has its own.
#[derive(Clone, Copy, Debug)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    encode_digits: i32,
    encode_invalid_numbers: InvalidNumbers,
    decode_depth_max: i32,
    decode_invalid_numbers: bool,
    keep_buffer: bool,
}

/// How the encoder takes a number that JSON cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InvalidNumbers {
    Refuse,
    Write,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            encode_digits: 14,
            encode_invalid_numbers: InvalidNumbers::Refuse,
            decode_depth_max: 1000,
            decode_invalid_numbers: true,
            keep_buffer: true,
        }
    }
}

/// Longest text whose values may be made without watching the memory, in bytes. A table takes
/// two bytes of text and some sixty of memory.
const FREELY_DECODED_MAX: usize = 1024 * 1024;

type Shared = Arc<Mutex<Settings>>;

/// Builds the table of functions, with settings of its own.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let cjson = lua.create_table()?;
    let settings = Shared::default();
    define(lua, &cjson, "encode", &settings, |arguments, settings| {
        only_one(arguments)?;
        let text = encode::encode(arguments, settings, arguments.get(1).unwrap_or(&Value::Nil))?;
        Ok(Value::String(arguments.lua().create_string(text).map_err(failed)?))
    })?;
    define(lua, &cjson, "decode", &settings, |arguments, settings| {
        only_one(arguments)?;
        let (lua, text) = (arguments.lua(), arguments.text(1)?);
        if text.len() > FREELY_DECODED_MAX {
            return decode::decode(lua, settings, &text);
        }
        unlimited(lua, || Ok(decode::decode(lua, settings, &text)?)).map_err(failed)
    })?;
    whole(lua, &cjson, "encode_max_depth", &settings, i32::MAX, |s| &mut s.encode_depth_max)?;
    whole(lua, &cjson, "decode_max_depth", &settings, i32::MAX, |s| &mut s.decode_depth_max)?;
    whole(lua, &cjson, "encode_number_precision", &settings, 14, |s| &mut s.encode_digits)?;
    switch(lua, &cjson, "encode_keep_buffer", &settings, |s| &mut s.keep_buffer)?;
    switch(lua, &cjson, "decode_invalid_numbers", &settings, |s| &mut s.decode_invalid_numbers)?;
    define(lua, &cjson, "encode_invalid_numbers", &settings, encode_invalid_numbers)?;
    let sparse = Arc::clone(&settings);
    let encode_sparse_array = lua.create_function(move |lua, values: MultiValue| {
        let settings = &mut *sparse.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(encode_sparse_array(&Arguments::new(lua, &values), settings)?)
    })?;
    cjson.raw_set("encode_sparse_array", encode_sparse_array)?;
    cjson.raw_set("new", lua.create_function(|lua, ()| table(lua))?)?;
    cjson.raw_set("null", Value::NULL)?;
    cjson.raw_set("_NAME", "cjson")?;
    cjson.raw_set("_VERSION", "2.1.0")?;
    Ok(cjson)
}

fn define(
    lua: &Lua,
    cjson: &Table,
    name: &str,
    settings: &Shared,
    function: impl Fn(&Arguments<'_>, &mut Settings) -> Result<Value, Raised> + Send + 'static,
) -> mlua::Result<()> {
    let settings = Arc::clone(settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let settings = &mut *settings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(function(&Arguments::new(lua, &values), settings)?)
    })?;
    cjson.raw_set(name, function)
}

/// A setting that is a whole number from one to `max`; answers the value in force.
fn whole(
    lua: &Lua,
    cjson: &Table,
    name: &str,
    settings: &Shared,
    max: i32,
    field: fn(&mut Settings) -> &mut i32,
) -> mlua::Result<()> {
    define(lua, cjson, name, settings, move |arguments, settings| {
        at_most(arguments, 1)?;
        set_whole(arguments, 1, 1, max, field(settings))?;
        Ok(Value::Integer(i64::from(*field(settings))))
    })
}

/// A setting that is on or off; answers the value in force.
fn switch(
    lua: &Lua,
    cjson: &Table,
    name: &str,
    settings: &Shared,
    field: fn(&mut Settings) -> &mut bool,
) -> mlua::Result<()> {
    define(lua, cjson, name, settings, move |arguments, settings| {
        at_most(arguments, 1)?;
        set_switch(arguments, 1, field(settings))?;
        Ok(Value::Boolean(*field(settings)))
    })
}

fn encode_invalid_numbers(
    arguments: &Arguments<'_>,
    settings: &mut Settings,
) -> Result<Value, Raised> {
    at_most(arguments, 1)?;
    let chosen = &mut settings.encode_invalid_numbers;
    match arguments.get(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(true)) => *chosen = InvalidNumbers::Write,
        Some(Value::Boolean(false)) => *chosen = InvalidNumbers::Refuse,
        Some(_) => match arguments.text(1)?.as_slice() {
            b"off" => *chosen = InvalidNumbers::Refuse,
            b"on" => *chosen = InvalidNumbers::Write,
            b"null" => *chosen = InvalidNumbers::Null,
            other => return Err(invalid_option(arguments, other)),
        },
    }
    match chosen {
        InvalidNumbers::Refuse => Ok(Value::Boolean(false)),
        InvalidNumbers::Write => Ok(Value::Boolean(true)),
        InvalidNumbers::Null => {
            Ok(Value::String(arguments.lua().create_string("null").map_err(failed)?))
        }
    }
}

fn encode_sparse_array(
    arguments: &Arguments<'_>,
    settings: &mut Settings,
) -> Result<(bool, i32, i32), Raised> {
    at_most(arguments, 3)?;
    set_switch(arguments, 1, &mut settings.sparse_convert)?;
    set_whole(arguments, 2, 0, i32::MAX, &mut settings.sparse_ratio)?;
    set_whole(arguments, 3, 0, i32::MAX, &mut settings.sparse_safe)?;
    Ok((settings.sparse_convert, settings.sparse_ratio, settings.sparse_safe))
}

fn set_whole(
    arguments: &Arguments<'_>,
    position: usize,
    min: i32,
    max: i32,
    field: &mut i32,
) -> Result<(), Raised> {
    if matches!(arguments.get(position), None | Some(Value::Nil)) {
        return Ok(());
    }
    let wanted = arguments.number(position)?.trunc();
    if !(f64::from(min)..=f64::from(max)).contains(&wanted) {
        let why = format!("expected integer between {min} and {max}");
        return Err(arguments.bad(position, &why));
    }
    *field = wanted as i32;
    Ok(())
}

fn set_switch(arguments: &Arguments<'_>, position: usize, field: &mut bool) -> Result<(), Raised> {
    match arguments.get(position) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(wanted)) => *field = *wanted,
        Some(_) => match arguments.text(position)?.as_slice() {
            b"off" => *field = false,
            b"on" => *field = true,
            other => return Err(invalid_option(arguments, other)),
        },
    }
    Ok(())
}

fn invalid_option(arguments: &Arguments<'_>, option: &[u8]) -> Raised {
    arguments.bad(1, &format!("invalid option '{}'", String::from_utf8_lossy(option)))
}

fn only_one(arguments: &Arguments<'_>) -> Result<(), Raised> {
    match arguments.count() {
        1 => Ok(()),
        _ => Err(arguments.bad(1, "expected 1 argument")),
    }
}

fn at_most(arguments: &Arguments<'_>, max: usize) -> Result<(), Raised> {
    match arguments.count() {
        count if count <= max => Ok(()),
        _ => Err(arguments.bad(max + 1, "found too many arguments")),
    }
}

/// The VM itself gave up, which here means that it ran out of memory.
fn failed(error: mlua::Error) -> Raised {
    Raised::of(&error)
}
