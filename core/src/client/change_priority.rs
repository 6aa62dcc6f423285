//! Changes the priority of an execution.

use alloc::vec;

use super::{Failure, Procedure, Replies, Step};
use crate::call::scheduling;
use crate::command::Command;
use crate::error::{Broken, Code};
use crate::id::ExecutionId;
use crate::key::Key;
use crate::reply::record;
use crate::value::Value;

/// Changes the priority of an execution that waits for a worker: its record says in which lane.
pub struct ChangePriority {
    id: ExecutionId,
    priority: u32,
    is_read: bool,
}

impl ChangePriority {
    /// Gives this execution this priority.
    #[must_use]
    pub const fn new(id: ExecutionId, priority: u32) -> Self {
        Self { id, priority, is_read: false }
    }

    fn not_found(&self) -> Step<()> {
        Step::Done(Err(Failure::not_found("execution", &self.id)))
    }
}

impl Procedure for ChangePriority {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        let read = Command::read("HMGET", &Key::execution(&self.id).core(), &[b"lane_id"]);
        Step::Send(vec![read])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<()> {
        if self.is_read {
            return match replies.call::<scheduling::ChangePriority>() {
                Ok(_) => Step::Done(Ok(())),
                Err(Failure::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
                    self.not_found()
                }
                Err(failure) => Step::Done(Err(failure)),
            };
        }
        self.is_read = true;
        let Some(record) = record(replies.value()) else { return self.not_found() };
        let Ok(lane_id) = record.field(0).parse() else {
            let got = Value::Bulk(record.field(0).as_bytes().to_vec());
            return Step::Done(Err(Failure::Unreadable(Broken { expected: "a lane", got })));
        };
        let call = scheduling::ChangePriority {
            execution_id: self.id.clone(),
            lane_id,
            new_priority: i64::from(self.priority),
        };
        Step::Send(vec![Command::call(&call)])
    }
}
