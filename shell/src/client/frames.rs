//! Output of executions: reading pages of frames, and following them as they come.

use std::time::Duration;

use selvedge_core::call::stream::{Frame as StoredFrame, ReadAttemptStream, ReadSummary};
use selvedge_core::engine::Command;
use selvedge_core::id::{AttemptIndex, ExecutionId};
use selvedge_core::key::Key;
use selvedge_core::push::Channel;
use selvedge_core::state::TerminalOutcome;
use tokio::time::timeout;

use super::read::fields;
use super::{Client, ClientError};
use crate::store::Subscription;

/// One frame of an attempt's output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// Its id in the stream; larger is later.
    pub id: String,
    /// `stdout`, `event`, or whatever its writer said.
    pub kind: String,
    /// What it carries: any bytes.
    pub payload: Vec<u8>,
}

/// Some frames, and whether more can come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FramePage {
    /// The frames, oldest first.
    pub frames: Vec<Frame>,
    /// Why the output was closed; `None` while it is open.
    pub closed: Option<String>,
}

impl Client {
    /// Reads at most `limit` frames of an attempt that come after the id `after`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn frames(
        &self,
        id: &ExecutionId,
        attempt: AttemptIndex,
        after: Option<&str>,
        limit: u32,
    ) -> Result<FramePage, ClientError> {
        let call = ReadAttemptStream {
            execution_id: id.clone(),
            attempt_index: attempt,
            from_id: after.map_or_else(|| "-".to_owned(), |after| format!("({after}")),
            to_id: "+".to_owned(),
            count_limit: limit.clamp(1, PAGE_MAX),
            exclude_best_effort: false,
        };
        let page = self.repeat(&call).await?;
        let closed = page.closed_at.map(|_| page.closed_reason);
        Ok(FramePage { frames: page.frames.into_iter().map(Frame::read).collect(), closed })
    }

    /// The rolling document of an attempt, as JSON; `None` when there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn summary(
        &self,
        id: &ExecutionId,
        attempt: AttemptIndex,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let call = ReadSummary { execution_id: id.clone(), attempt_index: attempt };
        let summary = self.repeat(&call).await?;
        Ok((summary.version > 0).then_some(summary.document))
    }

    /// Follows the output of an attempt from its beginning, over a connection of its own.
    #[must_use]
    pub fn tail(&self, id: &ExecutionId, attempt: AttemptIndex) -> Tail {
        let channel = Channel::Frames(id.clone()).to_string();
        Tail {
            client: self.clone(),
            execution_id: id.clone(),
            attempt,
            after: None,
            pushes: self.store().subscribe(&[&channel]),
            has_more: false,
            is_past: false,
            is_over: false,
        }
    }
}

/// Output as it comes. Nothing is kept here but the place where to go on, so a slow reader costs
/// nothing.
pub struct Tail {
    client: Client,
    execution_id: ExecutionId,
    attempt: AttemptIndex,
    after: Option<String>,
    pushes: Subscription,
    has_more: bool,
    /// Whether the attempt can write no more.
    is_past: bool,
    is_over: bool,
}

impl Tail {
    /// The next frames, at most a page of them; `None` when the output is closed and read, or none
    /// can come: the execution has ended, or a later attempt runs.
    ///
    /// # Errors
    /// When there is no such execution, or the store does not answer; the next call goes on at the
    /// same place.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, ClientError> {
        while !self.is_over {
            if !self.has_more {
                // A gap comes first of all, and whenever messages may have been missed; only what
                // a cluster loses between its own nodes is found by the slow look.
                let _ = timeout(SLOW_LOOK, self.pushes.next()).await;
            }
            let after = self.after.as_deref();
            let page =
                self.client.frames(&self.execution_id, self.attempt, after, TAIL_PAGE).await?;
            self.has_more = page.frames.len() >= usize::try_from(TAIL_PAGE).unwrap_or(usize::MAX);
            self.is_over = (page.closed.is_some() || self.is_past) && !self.has_more;
            if let Some(last) = page.frames.last() {
                self.after = Some(last.id.clone());
                return Ok(Some(page.frames));
            }
            if !self.is_over {
                // An attempt that never wrote has nothing that could be closed. What it wrote before
                // its end is read once more.
                self.is_past = self.attempt_is_past().await?;
                self.has_more = self.is_past;
            }
        }
        Ok(None)
    }

    async fn attempt_is_past(&self) -> Result<bool, ClientError> {
        let names: [&[u8]; 2] = [b"terminal_outcome", b"current_attempt_index"];
        let core = Key::execution(&self.execution_id).core();
        let record = fields(self.client.read_one(Command::read("HMGET", &core, &names)).await?);
        let field = |at: usize| record.get(at).map(String::as_str).unwrap_or_default();
        if field(0).is_empty() && self.after.is_none() {
            let id = self.execution_id.to_string();
            return Err(ClientError::NotFound { kind: "execution", id });
        }
        let later = field(1).parse::<AttemptIndex>().is_ok_and(|now| now > self.attempt);
        Ok(later || field(0) != TerminalOutcome::None.as_str())
    }
}

impl Frame {
    fn read(stored: StoredFrame) -> Self {
        let mut frame = Self { id: stored.entry_id, kind: String::new(), payload: Vec::new() };
        for (name, value) in stored.fields {
            match name.as_str() {
                "frame_type" => frame.kind = String::from_utf8_lossy(&value).into_owned(),
                "payload" => frame.payload = value,
                _ => {}
            }
        }
        frame
    }
}

/// Most frames of one read, as the function has it.
const PAGE_MAX: u32 = 10_000;
/// Frames that a tail reads at a time.
const TAIL_PAGE: u32 = 500;
/// How often a tail looks without having been told.
const SLOW_LOOK: Duration = Duration::from_secs(5);
