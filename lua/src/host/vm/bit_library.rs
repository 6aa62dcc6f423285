//! The `bit` library: 32-bit operations on Lua numbers.

use mlua::{Lua, Table, Value};

use super::args::{Arguments, Raised};

/// Adding this to a double leaves its value, modulo 2³², in the low bits of the mantissa. The
/// server normalises numbers by the same trick, so that halves and huge values come out alike.
const MANTISSA_SHIFT: f64 = 6_755_399_441_055_744.0;

/// Builds the table of functions.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    define(lua, &bit, "tobit", |arguments| Ok(Answer::Number(bits(arguments, 1)?)))?;
    define(lua, &bit, "bnot", |arguments| Ok(Answer::Number(!bits(arguments, 1)?)))?;
    define(lua, &bit, "bswap", |arguments| Ok(Answer::Number(bits(arguments, 1)?.swap_bytes())))?;
    define(lua, &bit, "band", |arguments| fold(arguments, |a, b| a & b))?;
    define(lua, &bit, "bor", |arguments| fold(arguments, |a, b| a | b))?;
    define(lua, &bit, "bxor", |arguments| fold(arguments, |a, b| a ^ b))?;
    define(lua, &bit, "lshift", |arguments| shift(arguments, |a, by| a << by))?;
    define(lua, &bit, "rshift", |arguments| shift(arguments, |a, by| a >> by))?;
    define(lua, &bit, "arshift", |arguments| {
        shift(arguments, |a, by| (a.cast_signed() >> by).cast_unsigned())
    })?;
    define(lua, &bit, "rol", |arguments| shift(arguments, u32::rotate_left))?;
    define(lua, &bit, "ror", |arguments| shift(arguments, u32::rotate_right))?;
    define(lua, &bit, "tohex", hexadecimal)?;
    Ok(bit)
}

/// What an operation answers: a number, read as signed, or text.
enum Answer {
    Number(u32),
    Text(String),
}

fn define(
    lua: &Lua,
    bit: &Table,
    name: &str,
    operation: fn(&Arguments<'_>) -> Result<Answer, Raised>,
) -> mlua::Result<()> {
    let function =
        lua.create_function(move |lua, values| match operation(&Arguments::new(lua, &values))? {
            Answer::Number(bits) => Ok(Value::Integer(i64::from(bits.cast_signed()))),
            Answer::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        })?;
    bit.raw_set(name, function)
}

fn bits(arguments: &Arguments<'_>, position: usize) -> Result<u32, Raised> {
    let shifted = (arguments.number(position)? + MANTISSA_SHIFT).to_bits();
    Ok((shifted & u64::from(u32::MAX)) as u32)
}

fn fold(arguments: &Arguments<'_>, combine: fn(u32, u32) -> u32) -> Result<Answer, Raised> {
    let mut result = bits(arguments, 1)?;
    // From the last to the second, which decides whose fault an error is.
    for position in (2..=arguments.count()).rev() {
        result = combine(result, bits(arguments, position)?);
    }
    Ok(Answer::Number(result))
}

fn shift(arguments: &Arguments<'_>, apply: fn(u32, u32) -> u32) -> Result<Answer, Raised> {
    let value = bits(arguments, 1)?;
    let by = bits(arguments, 2)? & 31;
    Ok(Answer::Number(apply(value, by)))
}

/// Eight digits unless told otherwise; a negative count asks for capitals.
fn hexadecimal(arguments: &Arguments<'_>) -> Result<Answer, Raised> {
    let value = bits(arguments, 1)?;
    let wanted = if arguments.count() < 2 { 8 } else { bits(arguments, 2)?.cast_signed() };
    let text = if wanted < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let digits = usize::try_from(wanted.unsigned_abs()).unwrap_or(8).min(8);
    Ok(Answer::Text(text[8 - digits..].to_owned()))
}
