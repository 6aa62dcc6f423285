use alloc::string::String;
use alloc::vec::Vec;

use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// Lists the key that signs on a partition and those that still verify.
#[derive(Clone, Copy, Debug)]
pub struct ListWaitpointHmacKids {
    /// The partition.
    pub partition: Partition,
}

/// The signing keys of a partition, by name only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKids {
    /// The one that signs, if any.
    pub current: Option<String>,
    /// Former ones and how long they verify.
    pub verifying: Vec<(String, ServerTime)>,
}

impl Function for ListWaitpointHmacKids {
    const NAME: &'static str = "ff_list_waitpoint_hmac_kids";
    const KEYS: &'static [&'static str] = &["hmac"];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = SigningKids;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::WaitpointSecrets(self.partition)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<SigningKids, CallError> {
        let mut fields = envelope.ok()?;
        let current = Some(fields.text()?).filter(|kid| !kid.is_empty());
        let count: u32 = fields.parse("a count of keys")?;
        let verifying = (0..count)
            .map(|_| Ok((fields.text()?, fields.parse("an expiry")?)))
            .collect::<Result<_, CallError>>()?;
        Ok(SigningKids { current, verifying })
    }
}
