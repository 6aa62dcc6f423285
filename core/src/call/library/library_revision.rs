use alloc::string::String;
use alloc::vec::Vec;

use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;

/// Asks which revision of the library a server holds. An added function.
#[derive(Clone, Copy, Debug)]
pub struct LibraryRevision;

/// One revision of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Grows with every release that changes the library.
    pub revision: u32,
    /// Tells texts of the same revision apart.
    pub digest: String,
}

impl Function for LibraryRevision {
    const NAME: &'static str = "ff_library_revision";
    const KEYS: &'static [&'static str] = &[];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = Edition;

    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<Edition, CallError> {
        let mut fields = envelope.ok()?;
        Ok(Edition { revision: fields.parse("a revision")?, digest: fields.text()? })
    }
}
