//! Lua values to JSON text.

use mlua::{Lua, Table, Value};

use super::super::args::{Arguments, Raised, type_name};
use super::super::number::general;
use super::{InvalidNumbers, Settings, failed};

/// Writes one value.
pub(super) fn encode(
    arguments: &Arguments<'_>,
    settings: &Settings,
    value: &Value,
) -> Result<Vec<u8>, Raised> {
    let mut encoder = Encoder { lua: arguments.lua(), settings, text: Vec::new() };
    encoder.value(value, 0)?;
    Ok(encoder.text)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    text: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i32) -> Result<(), Raised> {
        match value {
            Value::Nil => self.text.extend(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.text.extend(b"null"),
            Value::Boolean(true) => self.text.extend(b"true"),
            Value::Boolean(false) => self.text.extend(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => self.table(table, depth + 1)?,
            _ => return Err(self.cannot(value, "type not supported")),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i32) -> Result<(), Raised> {
        if depth > self.settings.encode_depth_max {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(Raised::located(self.lua, &text));
        }
        match self.array_length(table)? {
            Some(length) => self.array(table, length, depth),
            None => self.object(table, depth),
        }
    }

    /// The highest index of a table whose keys are all positive whole numbers. Lengths live in
    /// a C `int` on the server, so a huge index wraps and the table turns into an object.
    fn array_length(&self, table: &Table) -> Result<Option<i64>, Raised> {
        let (mut max, mut items) = (0_i32, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            let (key, _) = pair.map_err(failed)?;
            let index = match key {
                Value::Integer(index) => index as f64,
                Value::Number(index) => index,
                _ => return Ok(None),
            };
            if index < 1.0 || index.floor() != index {
                return Ok(None);
            }
            items += 1;
            if index > f64::from(max) {
                max = if index > f64::from(i32::MAX) { i32::MIN } else { index as i32 };
            }
        }
        let sparse = self.settings.sparse_ratio > 0
            && i64::from(max) > items * i64::from(self.settings.sparse_ratio)
            && max > self.settings.sparse_safe;
        match (sparse, self.settings.sparse_convert) {
            (true, false) => {
                Err(self.cannot(&Value::Table(table.clone()), "excessively sparse array"))
            }
            (true, true) => Ok(None),
            (false, _) => Ok((max > 0).then_some(i64::from(max))),
        }
    }

    fn array(&mut self, table: &Table, length: i64, depth: i32) -> Result<(), Raised> {
        self.text.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.text.push(b',');
            }
            let item: Value = table.raw_get(index).map_err(failed)?;
            self.value(&item, depth)?;
        }
        self.text.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i32) -> Result<(), Raised> {
        self.text.push(b'{');
        let start = self.text.len();
        for pair in table.pairs::<Value, Value>() {
            let (key, item) = pair.map_err(failed)?;
            if self.text.len() > start {
                self.text.push(b',');
            }
            match &key {
                Value::Integer(number) => self.number_key(*number as f64)?,
                Value::Number(number) => self.number_key(*number)?,
                Value::String(text) => self.string(&text.as_bytes()),
                _ => return Err(self.cannot(&key, "table key must be a number or string")),
            }
            self.text.push(b':');
            self.value(&item, depth)?;
        }
        self.text.push(b'}');
        Ok(())
    }

    fn number_key(&mut self, number: f64) -> Result<(), Raised> {
        self.text.push(b'"');
        self.number(number)?;
        self.text.push(b'"');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Raised> {
        if !number.is_finite() {
            match self.settings.encode_invalid_numbers {
                InvalidNumbers::Refuse => {
                    return Err(self.cannot(&Value::Number(number), "must not be NaN or Inf"));
                }
                InvalidNumbers::Null => self.text.extend(b"null"),
                InvalidNumbers::Write if number.is_nan() => self.text.extend(b"nan"),
                InvalidNumbers::Write => self.text.extend(general(number, 14).bytes()),
            }
            return Ok(());
        }
        let digits = usize::try_from(self.settings.encode_digits).unwrap_or(14);
        self.text.extend(general(number, digits).bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.text.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.text.extend([b'\\', byte]),
                8 => self.text.extend(b"\\b"),
                b'\t' => self.text.extend(b"\\t"),
                b'\n' => self.text.extend(b"\\n"),
                12 => self.text.extend(b"\\f"),
                b'\r' => self.text.extend(b"\\r"),
                0..=31 | 127 => self.text.extend(format!("\\u{byte:04x}").bytes()),
                _ => self.text.push(byte),
            }
        }
        self.text.push(b'"');
    }

    fn cannot(&self, value: &Value, why: &str) -> Raised {
        let text = format!("Cannot serialise {}: {why}", type_name(value));
        Raised::located(self.lua, &text)
    }
}
