use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::Key;
use crate::value::Value;

/// Makes the index entries of one execution equal to what its record demands. An added function.
#[derive(Clone, Debug)]
pub struct RepairIndex {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The lane in which an entry without a record was found.
    pub lane: Option<LaneId>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Everything was as it should be.
    Consistent,
    /// So it was; but the execution is suspended and has open edges.
    Awaits,
    /// These were changed: `+` or `-` and the key.
    Repaired(Vec<String>),
    /// The record does not say where it belongs, and this is why; nothing was changed.
    Unknown(String),
}

impl Function for RepairIndex {
    const NAME: &'static str = "ff_repair_index";
    const KEYS: &'static [&'static str] = &["exec_core"];
    const ARGS: &'static [&'static str] = &["execution_id", "lane_id"];

    type Reply = Repair;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.lane]
    }

    fn read(envelope: Envelope) -> Result<Repair, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "consistent" => Ok(Repair::Consistent),
            "awaits" => Ok(Repair::Awaits),
            "repaired" => {
                let mut changes = Vec::new();
                while !fields.is_empty() {
                    changes.push(fields.text()?);
                }
                Ok(Repair::Repaired(changes))
            }
            "unknown" => fields.text().map(Repair::Unknown),
            _ => Err(broken("an outcome of a repair", Value::Bulk(word.into_bytes()))),
        }
    }
}
