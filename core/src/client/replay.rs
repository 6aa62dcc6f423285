//! Runs an ended execution again.

use alloc::vec;
use alloc::vec::Vec;

use super::{Failure, Procedure, Replies, Step};
use crate::call::Function;
use crate::call::flow::ReplayExecution;
use crate::command::Command;
use crate::error::{Applied, CallError, ServerError};
use crate::id::{ExecutionId, LaneId};
use crate::key::Key;
use crate::reply::record;
use crate::value::Value;

/// Replays an execution, once. The call is not idempotent: after silence the number of replays
/// tells whether it was applied.
pub struct Replay {
    id: ExecutionId,
    /// The number of replays before.
    before: Option<u64>,
    lane: LaneId,
    /// The failure of the last try, if that try was perhaps applied.
    in_doubt: Option<ServerError>,
}

impl Replay {
    /// Replays this execution.
    #[must_use]
    pub fn new(id: ExecutionId) -> Self {
        Self { id, before: None, lane: LaneId::default_lane(), in_doubt: None }
    }

    fn call(&self) -> Step<()> {
        let call = ReplayExecution {
            execution_id: self.id.clone(),
            lane_id: self.lane.clone(),
            inbound_edges: Vec::new(),
        };
        Step::SendOnce(vec![Command::call(&call)])
    }

    fn read(&self) -> Step<()> {
        let names: [&[u8]; 2] = [b"lane_id", b"replay_count"];
        Step::Send(vec![Command::read("HMGET", &Key::execution(&self.id).core(), &names)])
    }
}

impl Procedure for Replay {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        self.read()
    }

    fn replied(&mut self, mut replies: Replies) -> Step<()> {
        let Some(record) = record(replies.value()) else {
            return Step::Done(Err(Failure::not_found("execution", &self.id)));
        };
        let replays = record.field(1).parse().unwrap_or(0);
        match (self.before, self.in_doubt.take()) {
            (Some(before), Some(_)) if replays > before => Step::Done(Ok(())),
            (Some(_), Some(_) | None) => self.call(),
            (None, _) => {
                self.before = Some(replays);
                self.lane = record.field(0).parse().unwrap_or_else(|_| LaneId::default_lane());
                self.call()
            }
        }
    }

    fn answered(&mut self, answers: Vec<Result<Value, ServerError>>) -> Step<()> {
        let answer = answers.into_iter().next();
        let answer = answer.unwrap_or_else(|| Err(ServerError::silence("not answered")));
        match answer.map_err(CallError::from).and_then(ReplayExecution::parse) {
            Ok(_) => Step::Done(Ok(())),
            Err(CallError::Server(error)) => {
                if error.applied == Applied::Perhaps {
                    self.in_doubt = Some(error.clone());
                }
                Step::Pause(error)
            }
            Err(error @ (CallError::Refused(_) | CallError::Broken(_))) => {
                Step::Done(Err(error.into()))
            }
        }
    }

    fn resumed(&mut self) -> Step<()> {
        if self.in_doubt.is_some() { self.read() } else { self.call() }
    }
}
