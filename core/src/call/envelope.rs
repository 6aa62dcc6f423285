//! The reply envelope: `[1, status, field…]` or `[0, code, detail…]`.

use alloc::string::String;
use alloc::vec::{self, Vec};
use core::str::FromStr;

use crate::error::{Broken, CallError, Code, Refusal, ServerError};
use crate::value::Value;

/// A success reply, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// `OK`, `DUPLICATE`, …
    pub status: String,
    /// What follows the status.
    pub fields: Fields,
}

impl Envelope {
    /// Opens a reply; a refusal or a server error comes out as the error it is.
    ///
    /// # Errors
    /// The refusal, the server error, or [`Broken`] for any other shape.
    pub fn open(reply: Value) -> Result<Self, CallError> {
        let elements = match reply {
            Value::Array(elements) => elements,
            Value::Error(text) => return Err(ServerError::from_reply(text).into()),
            other @ (Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_)) => {
                return Err(broken("an array", other));
            }
        };
        let mut elements = elements.into_iter();
        let head = elements.next();
        let word = match elements.next() {
            Some(Value::Bulk(word)) => word,
            other => return Err(broken("a status or code", other.unwrap_or(Value::Nil))),
        };
        match head {
            Some(Value::Int(1)) => {
                let status = String::from_utf8(word)
                    .map_err(|bad| broken("a status", Value::Bulk(bad.into_bytes())))?;
                Ok(Self { status, fields: Fields { rest: elements } })
            }
            Some(Value::Int(0)) => Err(refusal(&word, elements)),
            other => Err(broken("1 or 0 first", other.unwrap_or(Value::Nil))),
        }
    }

    /// The fields, when the status is `OK`.
    ///
    /// # Errors
    /// [`Broken`] for any other status.
    pub fn ok(self) -> Result<Fields, CallError> {
        match self.status.as_str() {
            "OK" => Ok(self.fields),
            _ => Err(self.unexpected()),
        }
    }

    /// The error for a status that the function does not answer with.
    #[must_use]
    pub fn unexpected(self) -> CallError {
        broken("a status of this function", Value::Bulk(self.status.into_bytes()))
    }
}

fn refusal(code: &[u8], details: vec::IntoIter<Value>) -> CallError {
    let known = core::str::from_utf8(code).ok().and_then(Code::read);
    let Some((code, inline)) = known else {
        return broken("a known error code", Value::Bulk(code.to_vec()));
    };
    let mut texts: Vec<Vec<u8>> = inline.map(String::into_bytes).into_iter().collect();
    for detail in details {
        match bytes_of(detail) {
            Ok(bytes) => texts.push(bytes),
            Err(other) => return broken("a detail", other),
        }
    }
    Refusal { code, details: texts }.into()
}

pub(crate) fn broken(expected: &'static str, got: Value) -> CallError {
    Broken { expected, got }.into()
}

fn bytes_of(value: Value) -> Result<Vec<u8>, Value> {
    match value {
        Value::Bulk(bytes) => Ok(bytes),
        Value::Status(text) => Ok(text.into_bytes()),
        Value::Int(number) => Ok(alloc::string::ToString::to_string(&number).into_bytes()),
        Value::Nil => Ok(Vec::new()),
        other @ (Value::Error(_) | Value::Array(_)) => Err(other),
    }
}

/// The fields of a success reply, read from front to back.
#[derive(Clone, Debug)]
pub struct Fields {
    rest: vec::IntoIter<Value>,
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.rest.as_slice() == other.rest.as_slice()
    }
}

impl Eq for Fields {}

impl Fields {
    /// The next field as it is; nil when there is none.
    pub fn value(&mut self) -> Value {
        self.rest.next().unwrap_or(Value::Nil)
    }

    /// The next field as bytes; empty when there is none.
    ///
    /// # Errors
    /// [`Broken`] when it is an array or an error.
    pub fn bytes(&mut self) -> Result<Vec<u8>, CallError> {
        bytes_of(self.value()).map_err(|other| broken("a text field", other))
    }

    /// The next field as text; empty when there is none.
    ///
    /// # Errors
    /// [`Broken`] when it is no UTF-8 text.
    pub fn text(&mut self) -> Result<String, CallError> {
        String::from_utf8(self.bytes()?)
            .map_err(|bad| broken("UTF-8 text", Value::Bulk(bad.into_bytes())))
    }

    /// The next field as an id, a number or a word; `expected` says which.
    ///
    /// # Errors
    /// [`Broken`] when it is not.
    pub fn parse<T: FromStr>(&mut self, expected: &'static str) -> Result<T, CallError> {
        let text = self.text()?;
        text.parse().map_err(|_| broken(expected, Value::Bulk(text.into_bytes())))
    }

    /// The same, but an empty field is none.
    ///
    /// # Errors
    /// [`Broken`] when it is filled with something else.
    pub fn parse_if_set<T: FromStr>(
        &mut self,
        expected: &'static str,
    ) -> Result<Option<T>, CallError> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| broken(expected, Value::Bulk(text.into_bytes())))
    }

    /// Demands that the next field is exactly `word`.
    ///
    /// # Errors
    /// [`Broken`] when it is not.
    pub fn expect(&mut self, word: &'static str) -> Result<(), CallError> {
        let text = self.bytes()?;
        if text == word.as_bytes() { Ok(()) } else { Err(broken(word, Value::Bulk(text))) }
    }

    /// The next field as an array; empty when there is none.
    ///
    /// # Errors
    /// [`Broken`] when it is something else.
    pub fn array(&mut self) -> Result<Vec<Value>, CallError> {
        match self.value() {
            Value::Array(elements) => Ok(elements),
            Value::Nil => Ok(Vec::new()),
            other @ (Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_)) => {
                Err(broken("an array", other))
            }
        }
    }

    /// Whether fields are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    /// Fields over the elements of a nested array.
    #[must_use]
    pub fn over(elements: Vec<Value>) -> Self {
        Self { rest: elements.into_iter() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn a_refusal_keeps_all_its_details() {
        let reply = Value::Array(vec![
            Value::Int(0),
            bulk("execution_not_active"),
            bulk("success"),
            bulk("3"),
            bulk("terminal"),
            bulk(""),
        ]);
        let Err(CallError::Refused(refusal)) = Envelope::open(reply) else { panic!("not refused") };
        assert_eq!(refusal.code, Code::ExecutionNotActive);
        assert_eq!(refusal.detail(1), "3");
        assert_eq!(refusal.detail(9), "");
    }

    #[test]
    fn odd_shapes_are_broken_and_keep_their_bytes() {
        for reply in [
            Value::Nil,
            Value::Int(1),
            bulk("OK"),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Int(2), bulk("OK")]),
            Value::Array(vec![Value::Int(0), bulk("no_such_code")]),
            Value::Array(vec![Value::Int(1), Value::Bulk(vec![0xff])]),
        ] {
            assert!(matches!(Envelope::open(reply), Err(CallError::Broken(_))));
        }
        assert!(matches!(Envelope::open(Value::Error("OOM no".into())), Err(CallError::Server(_))));
    }

    #[test]
    fn missing_fields_read_as_empty() {
        let mut fields = Fields::over(vec![bulk("7")]);
        assert_eq!(fields.parse::<u32>("a count").unwrap(), 7);
        assert_eq!(fields.text().unwrap(), "");
        assert_eq!(fields.parse_if_set::<u32>("a count").unwrap(), None);
        assert!(fields.parse::<u32>("a count").is_err());
    }
}
