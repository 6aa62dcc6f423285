//! Building batches: the commands that one input led to, sorted by hash slot and priority and cut
//! into batches of bounded size. The same read requested twice is sent once.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::command::Command;

/// Most commands in one batch.
pub const BATCH_MAX: usize = 128;

/// Which commands are sent first within a hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Work that is due.
    Due,
    /// Work that nothing waits for, such as an audit. It lets due work of its slot pass, for a
    /// bounded time.
    Background,
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
}

impl Batch {
    fn new((slot, priority): BatchKey) -> Self {
        Self { slot, priority, commands: Vec::new(), reply_slots: Vec::new() }
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
            while batch.commands.len() > BATCH_MAX {
                let rest = Batch {
                    slot: batch.slot,
                    priority: batch.priority,
                    commands: batch.commands.split_off(BATCH_MAX),
                    reply_slots: batch.reply_slots.split_off(BATCH_MAX),
                };
                batches.push(core::mem::replace(&mut batch, rest));
            }
            batches.push(batch);
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
