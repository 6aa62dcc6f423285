use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;
use crate::partition::Partition;
use crate::value::Value;

/// Installs a new signing key on one partition.
#[derive(Clone)]
pub struct RotateWaitpointHmacSecret {
    /// The partition.
    pub partition: Partition,
    /// Name of the new key; no colon.
    pub new_kid: String,
    /// The new key as hex digits. A credential.
    pub new_secret_hex: String,
    /// How long tokens of the former key still verify.
    pub grace_ms: u64,
}

impl fmt::Debug for RotateWaitpointHmacSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotateWaitpointHmacSecret")
            .field("partition", &self.partition)
            .field("new_kid", &self.new_kid)
            .field("grace_ms", &self.grace_ms)
            .finish_non_exhaustive()
    }
}

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The new key signs from now on.
    Rotated {
        /// The key that signed before, if any.
        previous_kid: Option<String>,
        /// The key that signs now.
        kid: String,
        /// How many outlived keys were removed.
        removed: u32,
    },
    /// The key signed already.
    Unchanged {
        /// The key that signs.
        kid: String,
    },
}

impl Function for RotateWaitpointHmacSecret {
    const NAME: &'static str = "ff_rotate_waitpoint_hmac_secret";
    const KEYS: &'static [&'static str] = &["hmac"];
    const ARGS: &'static [&'static str] = &["new_kid", "new_secret_hex", "grace_ms"];

    type Reply = Rotation;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::WaitpointSecrets(self.partition)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.new_kid, self.new_secret_hex, self.grace_ms]
    }

    fn read(envelope: Envelope) -> Result<Rotation, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "rotated" => Ok(Rotation::Rotated {
                previous_kid: Some(fields.text()?).filter(|kid| !kid.is_empty()),
                kid: fields.text()?,
                removed: fields.parse("a count of keys")?,
            }),
            "noop" => Ok(Rotation::Unchanged { kid: fields.text()? }),
            _ => Err(broken("an outcome of a rotation", Value::Bulk(word.into_bytes()))),
        }
    }
}
