//! Building batches: the commands that one input led to, sorted by hash slot and priority and cut
//! into batches of bounded size. The same read requested twice is sent once.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::call::execution::{JoinKey, PurgeExecutions};
use crate::command::Command;

/// Most commands in one batch.
pub const BATCH_MAX: usize = 128;

/// Most calls that are joined into one: it takes a server a few milliseconds.
const JOINED_MAX: usize = 64;

/// Which commands are sent first within a hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Work that is due.
    Due,
    /// Work that nothing waits for, such as an audit. It lets due work of its slot pass, for a
    /// bounded time.
    Background,
    /// Work that may take as long as the server has other work, such as purging. One batch of it
    /// is open at a time, and calls that can be one call are joined.
    Spare,
}

/// Commands with the same key share batches: one hash slot, one priority.
pub(super) type BatchKey = (u16, Priority);

/// Which reply of which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplySlot {
    pub(super) request: u64,
    pub(super) index: usize,
}

/// Commands for one hash slot, and for each command the requests that wait for its reply.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) slot: u16,
    pub(super) priority: Priority,
    pub(super) commands: Vec<Command>,
    pub(super) reply_slots: Vec<Vec<ReplySlot>>,
    /// The calls that were joined into the only command, each with reply slots of its own; empty
    /// if none were.
    pub(super) joined: Vec<Command>,
}

impl Batch {
    fn new((slot, priority): BatchKey) -> Self {
        Self { slot, priority, commands: Vec::new(), reply_slots: Vec::new(), joined: Vec::new() }
    }
}

/// Collects commands until they are taken as batches.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchBuilder {
    collected: BTreeMap<BatchKey, Batch>,
    /// Where a read stands among the collected commands.
    reads: BTreeMap<Vec<Vec<u8>>, (BatchKey, usize)>,
}

impl BatchBuilder {
    /// Adds a command whose reply belongs into `reply_slot`.
    pub(super) fn add(&mut self, reply_slot: ReplySlot, priority: Priority, command: Command) {
        let key = (command.slot, priority);
        let batch = self.collected.entry(key).or_insert_with(|| Batch::new(key));
        if command.reads {
            let here = (key, batch.commands.len());
            let (known_key, at) = *self.reads.entry(command.argv.clone()).or_insert(here);
            if known_key == key
                && let Some(reply_slots) = batch.reply_slots.get_mut(at)
            {
                reply_slots.push(reply_slot);
                return;
            }
        }
        batch.commands.push(command);
        batch.reply_slots.push(vec![reply_slot]);
    }

    /// Takes all collected commands, in the order of their keys, none of the batches too long.
    pub(super) fn take(&mut self) -> Vec<Batch> {
        self.reads.clear();
        let mut batches = Vec::new();
        for mut batch in core::mem::take(&mut self.collected).into_values() {
            if batch.priority == Priority::Spare {
                batches.extend(join_calls(batch));
                continue;
            }
            while batch.commands.len() > BATCH_MAX {
                let rest = Batch {
                    slot: batch.slot,
                    priority: batch.priority,
                    commands: batch.commands.split_off(BATCH_MAX),
                    reply_slots: batch.reply_slots.split_off(BATCH_MAX),
                    joined: Vec::new(),
                };
                batches.push(core::mem::replace(&mut batch, rest));
            }
            batches.push(batch);
        }
        batches
    }
}

/// Joins calls of a batch that can be one call. Each joined call is a batch of its own, so that it
/// is all that the server does for a batch; the rest stays together.
fn join_calls(batch: Batch) -> Vec<Batch> {
    let key = (batch.slot, batch.priority);
    let mut groups: Vec<(Option<JoinKey>, Batch)> = Vec::new();
    for (command, reply_slots) in batch.commands.into_iter().zip(batch.reply_slots) {
        let join_key = PurgeExecutions::join_key(&command);
        let most = if join_key.is_some() { JOINED_MAX } else { BATCH_MAX };
        let open = groups
            .iter_mut()
            .find(|(of, group)| *of == join_key && group.commands.len() < most)
            .map(|(_, group)| group);
        let group = match open {
            Some(group) => group,
            None => {
                groups.push((join_key, Batch::new(key)));
                let Some((_, group)) = groups.last_mut() else { continue };
                group
            }
        };
        group.commands.push(command);
        group.reply_slots.push(reply_slots);
    }
    let joined = |(_, mut group): (_, Batch)| {
        if let Some(call) = PurgeExecutions::joined(&group.commands) {
            group.joined = core::mem::replace(&mut group.commands, vec![call]);
        }
        group
    };
    groups.into_iter().map(joined).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::execution::PurgeExecution;
    use crate::id::ExecutionId;
    use alloc::string::String;

    fn command(name: &str, slot: u16, reads: bool) -> Command {
        Command { slot, argv: vec![name.as_bytes().to_vec()], reads }
    }

    fn slot(index: usize) -> ReplySlot {
        ReplySlot { request: 0, index }
    }

    #[test]
    fn long_requests_are_cut_into_batches() {
        let mut builder = BatchBuilder::default();
        for index in 0..=BATCH_MAX * 2 {
            builder.add(slot(index), Priority::Due, command("write", 1, false));
        }
        let sizes: Vec<usize> = builder.take().iter().map(|batch| batch.commands.len()).collect();
        assert_eq!(sizes, [BATCH_MAX, BATCH_MAX, 1]);
        assert!(builder.take().is_empty());
    }

    #[test]
    fn calls_that_can_be_one_call_are_joined_and_others_are_not() {
        let mut builder = BatchBuilder::default();
        let purge = |n: u128, lane: &str| {
            let execution_id = ExecutionId::new(0, uuid::Uuid::from_u128(n));
            let lane = lane.parse().unwrap();
            let (retention_ms, limit, keep) = (Some(7), Some(9), None);
            Command::call(&PurgeExecution { execution_id, lane, retention_ms, limit, keep })
        };
        for index in 0..JOINED_MAX + 2 {
            let lane = if index == 1 { "b" } else { "a" };
            let n = u128::try_from(index).unwrap();
            builder.add(slot(index), Priority::Spare, purge(n, lane));
        }
        builder.add(slot(99), Priority::Spare, command("read", purge(0, "a").slot, true));
        let batches = builder.take();
        let sizes: Vec<(usize, usize, usize)> = batches
            .iter()
            .map(|batch| (batch.commands.len(), batch.joined.len(), batch.reply_slots.len()))
            .collect();
        assert_eq!(sizes, [(1, 64, 64), (1, 0, 1), (1, 0, 1), (1, 0, 1)]);
        assert_eq!(batches[0].commands[0].argv[1], b"ff_purge_executions");
        let argv = &batches[0].commands[0].argv;
        let keys: usize = String::from_utf8_lossy(&argv[2]).parse().unwrap();
        assert_eq!(argv.len(), 3 + keys + 3 + 64);
        assert!(argv[3].ends_with(b":terminal"));
        builder.add(slot(0), Priority::Background, purge(0, "a"));
        builder.add(slot(1), Priority::Background, purge(1, "a"));
        assert_eq!(builder.take()[0].commands.len(), 2, "of another priority");
    }

    #[test]
    fn the_same_read_is_sent_once_and_answers_all_who_requested_it() {
        let mut builder = BatchBuilder::default();
        builder.add(slot(0), Priority::Due, command("read", 1, true));
        builder.add(slot(1), Priority::Due, command("write", 1, false));
        builder.add(slot(2), Priority::Due, command("write", 1, false));
        builder.add(slot(3), Priority::Due, command("read", 1, true));
        builder.add(slot(4), Priority::Background, command("read", 1, true));
        let batches = builder.take();
        assert_eq!(batches.len(), 2, "one for each priority");
        assert_eq!(batches[0].reply_slots, [vec![slot(0), slot(3)], vec![slot(1)], vec![slot(2)]]);
        assert_eq!(batches[1].reply_slots, [vec![slot(4)]]);
    }
}
