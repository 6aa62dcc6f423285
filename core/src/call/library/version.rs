use alloc::string::String;
use alloc::vec::Vec;

use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::{CallError, ServerError};
use crate::key::Key;
use crate::value::Value;

/// Asks for the version of the library.
#[derive(Clone, Copy, Debug)]
pub struct Version;

impl Function for Version {
    const NAME: &'static str = "ff_version";
    const KEYS: &'static [&'static str] = &[];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = String;

    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<String, CallError> {
        Err(envelope.unexpected())
    }

    /// The one reply without an envelope at all: a bare text.
    fn parse(reply: Value) -> Result<String, CallError> {
        match reply {
            Value::Bulk(text) => String::from_utf8(text)
                .map_err(|bad| broken("a version", Value::Bulk(bad.into_bytes()))),
            Value::Error(text) => Err(ServerError::from_reply(text).into()),
            other @ (Value::Nil | Value::Int(_) | Value::Status(_) | Value::Array(_)) => {
                Err(broken("a version", other))
            }
        }
    }
}
