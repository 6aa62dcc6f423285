//! `payload_json` of a flow file: any value that JSON can represent exactly. Dates, `nan`,
//! infinities and numbers that would lose digits are refused.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// Any JSON value.
pub(super) struct Payload(pub(super) Value);

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

/// Deserializes a payload that is present; `null` counts as one.
pub(super) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(from).map(Some)
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // Integers beyond 64 bits arrive here with their last digits lost.
        match Number::from_f64(value) {
            Some(number) if value.abs() < LARGEST => Ok(Value::Number(number)),
            Some(_) => Err(E::custom(format!(
                "payload_json: the number {value:e} loses digits; write it as a string"
            ))),
            None => Err(E::custom(format!(
                "payload_json: the number {value} is not JSON; write a string, or leave it out"
            ))),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Payload(value)) = seq.next_element()? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == TOML_DATE {
                let date: String = map.next_value()?;
                return Err(A::Error::custom(format!(
                    "payload_json: the date {date} is not JSON; write it as a string"
                )));
            }
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("payload_json: duplicate field `{name}`")));
            }
            let Payload(value) = map.next_value()?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

/// Integers from here on are refused: 2 to the power of 64.
const LARGEST: f64 = 18_446_744_073_709_551_616.0;
/// The field name by which the `toml` crate marks a date.
const TOML_DATE: &str = "$__toml_private_datetime";
