//! Follows the output of an attempt.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Failure, Procedure, Replies, Step};
use crate::call::stream::{ReadAttemptStream, StoredFrame};
use crate::command::Command;
use crate::id::{AttemptIndex, ExecutionId};
use crate::key::Key;
use crate::push::Hint;
use crate::reply::record;
use crate::state::TerminalOutcome;

/// How far the output of an attempt was read.
#[derive(Clone, Debug)]
pub struct TailPosition {
    execution_id: ExecutionId,
    attempt: AttemptIndex,
    /// The last frame that was read.
    after: Option<String>,
    /// Whether there may be frames that were not read: at first, after a push, after a full page.
    unread: bool,
    /// Whether the attempt has ended and cannot write any more.
    is_past: bool,
    is_over: bool,
}

impl TailPosition {
    /// The beginning of the output of an attempt.
    #[must_use]
    pub const fn start(execution_id: ExecutionId, attempt: AttemptIndex) -> Self {
        let (after, unread, is_past, is_over) = (None, true, false, false);
        Self { execution_id, attempt, after, unread, is_past, is_over }
    }
}

enum Stage {
    Frames,
    Attempt,
}

/// Waits for the next frames. None when all are read and no more can come: the output is closed,
/// the execution has ended, or a later attempt has started.
///
/// The position moves with every read, also when the procedure is dropped before its end. Pushes
/// about the output, and gaps, come without [`Step::Listen`]: the subscription outlives it.
pub struct NextFrames<'a> {
    position: &'a mut TailPosition,
    stage: Stage,
}

impl<'a> NextFrames<'a> {
    /// The frames after this position.
    pub const fn new(position: &'a mut TailPosition) -> Self {
        Self { position, stage: Stage::Frames }
    }

    fn read(&mut self) -> Step<Option<Vec<StoredFrame>>> {
        self.stage = Stage::Frames;
        self.position.unread = false;
        let after = self.position.after.as_deref();
        let call = ReadAttemptStream {
            execution_id: self.position.execution_id.clone(),
            attempt_index: self.position.attempt,
            from_id: after.map_or_else(|| "-".into(), |after| format!("({after}")),
            to_id: "+".into(),
            count_limit: PAGE,
            exclude_best_effort: false,
        };
        Step::Send(vec![Command::call(&call)])
    }

    fn on_frames(&mut self, mut replies: Replies) -> Step<Option<Vec<StoredFrame>>> {
        let page = match replies.call::<ReadAttemptStream>() {
            Ok(page) => page,
            Err(failure) => {
                self.position.unread = true;
                return Step::Done(Err(failure));
            }
        };
        let is_full = page.frames.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        self.position.unread |= is_full;
        self.position.is_over = (page.closed_at.is_some() || self.position.is_past) && !is_full;
        if let Some(last) = page.frames.last() {
            self.position.after = Some(last.entry_id.clone());
            return Step::Done(Ok(Some(page.frames)));
        }
        if self.position.is_over {
            return Step::Done(Ok(None));
        }
        // An attempt that wrote nothing has no output to close.
        self.stage = Stage::Attempt;
        let names: [&[u8]; 2] = [b"terminal_outcome", b"current_attempt_index"];
        let core = Key::execution(&self.position.execution_id).core();
        Step::Send(vec![Command::read("HMGET", &core, &names)])
    }

    fn on_attempt(&mut self, mut replies: Replies) -> Step<Option<Vec<StoredFrame>>> {
        let Some(record) = record(replies.value()) else {
            if self.position.after.is_none() {
                let id = &self.position.execution_id;
                return Step::Done(Err(Failure::not_found("execution", id)));
            }
            // Deleted: nothing can follow.
            self.position.is_past = true;
            return self.read();
        };
        let attempt = record.field(1).parse::<AttemptIndex>();
        let is_later = attempt.is_ok_and(|now| now > self.position.attempt);
        if is_later || record.field(0) != TerminalOutcome::None.as_str() {
            // Once more, for frames that were written before its end.
            self.position.is_past = true;
            return self.read();
        }
        if self.position.unread {
            return self.read();
        }
        Step::Wait { poll_within: POLL_EVERY, coalesce: Duration::ZERO }
    }
}

impl Procedure for NextFrames<'_> {
    type Output = Option<Vec<StoredFrame>>;

    fn begin(&mut self) -> Step<Option<Vec<StoredFrame>>> {
        if self.position.is_over {
            return Step::Done(Ok(None));
        }
        if self.position.unread {
            return self.read();
        }
        Step::Wait { poll_within: POLL_EVERY, coalesce: Duration::ZERO }
    }

    fn replied(&mut self, replies: Replies) -> Step<Option<Vec<StoredFrame>>> {
        match self.stage {
            Stage::Frames => self.on_frames(replies),
            Stage::Attempt => self.on_attempt(replies),
        }
    }

    fn resumed(&mut self) -> Step<Option<Vec<StoredFrame>>> {
        self.read()
    }

    fn pushed(&mut self, hint: &Hint) -> bool {
        let ours = matches!(hint, Hint::Frames(id, _) if *id == self.position.execution_id);
        self.position.unread |= ours;
        ours
    }

    fn missed_pushes(&mut self) {
        self.position.unread = true;
    }
}

/// Frames that are read at a time.
const PAGE: u32 = 500;
/// How often it reads without a push.
const POLL_EVERY: Duration = Duration::from_secs(5);
