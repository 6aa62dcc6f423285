//! A payload that a file gives as data: JSON, exactly as it is written. What JSON cannot say, or
//! could only say as something else, is refused.

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

/// A payload that is given: `null` is one, too.
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
        // A whole number that fits nowhere else arrives here with its last digits lost.
        match Number::from_f64(value) {
            Some(number) if value.abs() < LARGEST => Ok(Value::Number(number)),
            Some(_) => Err(E::custom(format!(
                "payload_json: {value:e} is too large to keep all its digits; write it as a text"
            ))),
            None => Err(E::custom(format!(
                "payload_json: JSON has no number {value}; write it as a text, or leave it out"
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
                    "payload_json: JSON has no date {date}; write it as a text"
                )));
            }
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("payload_json: `{name}` stands there twice")));
            }
            let Payload(value) = map.next_value()?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

/// Beyond this, no whole number is kept: 2 to the power of 64.
const LARGEST: f64 = 18_446_744_073_709_551_616.0;
/// How the reader of TOML tells of a date.
const TOML_DATE: &str = "$__toml_private_datetime";
