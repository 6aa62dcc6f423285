use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Purge, PurgeExecution};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::command::{Answer, Command};
use crate::error::{CallError, ServerError};
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::partition::Partition;
use crate::value::Value;

/// Purges many executions of one index, each as [`PurgeExecution`] does. An added function.
#[derive(Clone, Debug)]
pub struct PurgeExecutions {
    /// The partition of all of them.
    pub partition: Partition,
    /// The lane in whose terminal index they were found.
    pub lane: LaneId,
    /// As for one.
    pub retention_ms: Option<u64>,
    /// Records in all.
    pub limit: Option<u32>,
    /// As for one.
    pub keep: Option<u64>,
    /// The executions, at most [`Self::MAX`].
    pub executions: Vec<ExecutionId>,
}

impl PurgeExecutions {
    /// Most executions of one call.
    pub const MAX: usize = 256;

    /// What calls of [`PurgeExecution`] have in common that can be one call; none for any other
    /// command.
    pub(crate) fn join_key(command: &Command) -> Option<JoinKey> {
        let (keys, args) = keys_and_args(command)?;
        let [_, retention_ms, _, keep] = args else { return None };
        let mut join_key = keys.get(1..)?.to_vec();
        join_key.extend([retention_ms.clone(), keep.clone()]);
        Some(join_key)
    }

    /// Several calls of [`PurgeExecution`] with the same [`Self::join_key`] as one call; none for
    /// fewer than two, or for other commands.
    pub(crate) fn joined(commands: &[Command]) -> Option<Command> {
        let first = commands.first().filter(|_| commands.len() > 1)?;
        let (keys, args) = keys_and_args(first)?;
        let ([_, keys @ ..], [_, retention_ms, _, keep]) = (keys, args) else { return None };
        let count = keys.len().to_string().into_bytes();
        let mut argv = alloc::vec![b"FCALL".to_vec(), Self::NAME.as_bytes().to_vec(), count];
        argv.extend(keys.iter().cloned());
        argv.extend([retention_ms.clone(), RECORDS_MAX.to_vec(), keep.clone()]);
        let calls = commands.iter().filter_map(keys_and_args);
        argv.extend(calls.filter_map(|(_, args)| args.first().cloned()));
        Some(Command { slot: first.slot, argv, reads: false })
    }

    /// The answers to the calls that were joined, as far as there are any: for the rest there was
    /// no room.
    pub(crate) fn split(answer: Answer, count: usize) -> Vec<Answer> {
        match answer {
            Answer::Applied(Value::Array(mut all)) if all.first() == Some(&Value::Int(1)) => {
                let answers = all.drain(all.len().min(2)..).take(count);
                answers.map(|one| Answer::Applied(unwrapped(one))).collect()
            }
            one @ (Answer::Applied(_) | Answer::NotApplied(_) | Answer::PerhapsApplied(_)) => {
                alloc::vec![one; count]
            }
        }
    }
}

/// The reply to one call: an error stands in an array of its own.
fn unwrapped(reply: Value) -> Value {
    match reply {
        Value::Array(mut one) if matches!(one.as_slice(), [Value::Bulk(_)]) => match one.pop() {
            Some(Value::Bulk(text)) => Value::Error(String::from_utf8_lossy(&text).into_owned()),
            other => other.unwrap_or(Value::Nil),
        },
        other @ (Value::Array(_)
        | Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Error(_)) => other,
    }
}

/// The keys and the arguments of a call of [`PurgeExecution`]; none for any other command.
fn keys_and_args(command: &Command) -> Option<(&Words, &Words)> {
    let [_, name, count, rest @ ..] = command.argv.as_slice() else { return None };
    let count = core::str::from_utf8(count).ok()?.parse().ok()?;
    let is_purge = name.as_slice() == PurgeExecution::NAME.as_bytes();
    rest.split_at_checked(count).filter(|_| is_purge)
}

/// Keys or arguments.
type Words = [Vec<u8>];

/// What calls have in common that can be joined: their keys but the record, and how they decide.
pub(crate) type JoinKey = Vec<Vec<u8>>;

/// Records that one joined call deletes at most.
const RECORDS_MAX: &[u8] = b"500";

impl Function for PurgeExecutions {
    const NAME: &'static str = "ff_purge_executions";
    const KEYS: &'static [&'static str] = &["terminal"];
    const ARGS: &'static [&'static str] = &["retention_ms", "limit", "keep"];

    /// One for each, in order; none for those for which there was no room left.
    type Reply = Vec<Result<Purge, CallError>>;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::index(self.partition).lane(&self.lane, LaneIndex::Terminal)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.retention_ms, self.limit, self.keep];
        args.extend(self.executions.iter().map(|id| id.as_str().as_bytes().to_vec()));
        args
    }

    fn read(envelope: Envelope) -> Result<Self::Reply, CallError> {
        let mut fields = envelope.ok()?;
        let mut purges = Vec::new();
        while !fields.is_empty() {
            purges.push(read_one(fields.array()?));
        }
        Ok(purges)
    }
}

fn read_one(reply: Vec<Value>) -> Result<Purge, CallError> {
    match unwrapped(Value::Array(reply)) {
        Value::Error(text) => Err(ServerError::from_reply(text).into()),
        reply @ (Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Array(_)) => PurgeExecution::parse(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_split_as_far_as_it_goes() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let purged = Value::Array([Value::Int(1), bulk("OK"), bulk("purged"), bulk("3")].into());
        let refused = Value::Array([Value::Int(0), bulk("execution_not_terminal")].into());
        let broken = Value::Array([bulk("WRONGTYPE x")].into());
        let all = [Value::Int(1), bulk("OK"), purged.clone(), refused.clone(), broken];
        let answers = PurgeExecutions::split(Answer::Applied(Value::Array(all.into())), 4);
        let error = Value::Error("WRONGTYPE x".into());
        assert_eq!(answers, [purged, refused.clone(), error].map(Answer::Applied));
        let refusal = Answer::Applied(refused);
        assert_eq!(PurgeExecutions::split(refusal.clone(), 2), [refusal.clone(), refusal]);
        let silent = Answer::PerhapsApplied(ServerError::silence("x"));
        assert_eq!(PurgeExecutions::split(silent.clone(), 2), [silent.clone(), silent]);
    }
}
