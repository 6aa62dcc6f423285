use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::{ToArg, args};
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, EdgeId, ExecutionId};
use crate::key::Key;
use crate::value::Value;

/// Makes the sets, counters and group of an execution's edges, and the list of its attempts, agree
/// with the records that are left, and removes it from indexes that its record does not name.
#[derive(Clone, Debug)]
pub struct RepairExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Indexes of its partition that list it.
    pub strays: Vec<Key>,
    /// Whether edges that no record describes hold it no longer.
    pub accept: bool,
    /// The attempts that have a record.
    pub attempts: Vec<AttemptIndex>,
    /// The edges that have a record.
    pub edges: Vec<EdgeId>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRepair {
    /// What is lost: `edge:ID`, `policy` or `attempt:N`.
    pub lost: Vec<String>,
    /// What was changed.
    pub changes: Vec<String>,
}

impl Function for RepairExecution {
    const NAME: &'static str = "ff_repair_execution";
    const KEYS: &'static [&'static str] = &["exec_core", "strays"];
    const ARGS: &'static [&'static str] = &["execution_id", "accept", "attempts", "found"];

    type Reply = ExecutionRepair;

    fn keys(&self) -> Vec<Key> {
        let mut keys = alloc::vec![Key::execution(&self.execution_id).core()];
        keys.extend(self.strays.iter().cloned());
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.execution_id, self.accept.then_some("1"), self.attempts.len()];
        args.extend(self.attempts.iter().map(ToArg::to_arg));
        args.extend(self.edges.iter().map(ToArg::to_arg));
        args
    }

    fn read(envelope: Envelope) -> Result<ExecutionRepair, CallError> {
        let mut fields = envelope.ok()?;
        let _word = fields.text()?;
        let count: u64 = fields.parse("a count")?;
        // The count is the sender's claim: a list that ends before it is broken.
        let lost = (0..count).map(|_| match fields.is_empty() {
            false => fields.text(),
            true => Err(broken("as many records as are counted", Value::Nil)),
        });
        let lost = lost.collect::<Result<_, _>>()?;
        let mut changes = Vec::new();
        while !fields.is_empty() {
            changes.push(fields.text()?);
        }
        Ok(ExecutionRepair { lost, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_nothing_follows_is_broken_at_once() {
        let texts = ["OK", "repaired", "18446744073709551615", "attempt"];
        let texts = texts.map(|text| Value::Bulk(text.as_bytes().to_vec()));
        let reply = core::iter::once(Value::Int(1)).chain(texts).collect();
        let read = RepairExecution::parse(Value::Array(reply));
        assert!(matches!(read, Err(CallError::Broken(_))), "{read:?}");
    }
}
