use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::key::Key;

/// Asks what the library declares. An added function.
#[derive(Clone, Copy, Debug)]
pub struct LibrarySignatures;

/// One function as the library declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeclaredSignature {
    /// Its name.
    pub name: String,
    /// Names of its KEYS, in order.
    pub keys: Vec<String>,
    /// Names of its ARGV, in order.
    pub args: Vec<String>,
    /// Whether it only reads.
    pub reads_only: bool,
}

impl Function for LibrarySignatures {
    const NAME: &'static str = "ff_library_signatures";
    const KEYS: &'static [&'static str] = &[];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = Vec<DeclaredSignature>;

    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<Vec<DeclaredSignature>, CallError> {
        let mut fields = envelope.ok()?;
        let mut declared = Vec::new();
        while !fields.is_empty() {
            let mut entry = Fields::over(fields.array()?);
            declared.push(DeclaredSignature {
                name: entry.text()?,
                keys: names(&entry.text()?),
                args: names(&entry.text()?),
                reads_only: entry.text()? == "reads",
            });
        }
        Ok(declared)
    }
}

fn names(joined: &str) -> Vec<String> {
    joined.split(',').filter(|name| !name.is_empty()).map(ToString::to_string).collect()
}
