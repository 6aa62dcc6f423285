//! Reads the output frames of an attempt: page by page, or following them with a [`Tail`].

use selvedge_core::call::stream::{ReadAttemptStream, ReadSummary, StoredFrame};
use selvedge_core::client::{NextFrames, TailPosition};
use selvedge_core::id::{AttemptIndex, ExecutionId};
use selvedge_core::push::Channel;

use super::list::check_limit;
use super::{Client, ClientError};
use crate::store::Subscription;

/// One frame of an attempt's output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// Its id in the stream; larger is later.
    pub id: String,
    /// Its type, as the handler named it: `stdout`, `event`, …
    pub kind: String,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// One page of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FramePage {
    /// The frames, oldest first.
    pub frames: Vec<Frame>,
    /// Why the output was closed; `None` while it is open.
    pub closed: Option<String>,
}

impl Client {
    /// Reads at most `limit` frames (1 to 10,000) of an attempt; `after` is the id of the last
    /// frame already read.
    ///
    /// # Errors
    /// [`ClientError::InvalidInput`] for another limit; otherwise when the store does not answer.
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
            count_limit: check_limit(limit, PAGE_MAX)?,
            exclude_best_effort: false,
        };
        let page = self.call_with_retry(&call).await?;
        let closed = page.closed_at.map(|_| page.closed_reason);
        Ok(FramePage { frames: page.frames.into_iter().map(Frame::read).collect(), closed })
    }

    /// The summary document of an attempt, as JSON; `None` if there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn summary(
        &self,
        id: &ExecutionId,
        attempt: AttemptIndex,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let call = ReadSummary { execution_id: id.clone(), attempt_index: attempt };
        let summary = self.call_with_retry(&call).await?;
        Ok((summary.version > 0).then_some(summary.document))
    }

    /// Follows the output of an attempt from its beginning, over a subscription of its own.
    #[must_use]
    pub fn tail(&self, id: &ExecutionId, attempt: AttemptIndex) -> Tail {
        let channel = Channel::Frames(id.clone()).to_string();
        Tail {
            client: self.clone(),
            position: TailPosition::start(id.clone(), attempt),
            pushes: self.store().subscribe(&[&channel]),
        }
    }
}

/// Follows the output of one attempt. Buffers nothing but the position, so a slow reader costs no
/// memory.
#[derive(Debug)]
pub struct Tail {
    client: Client,
    position: TailPosition,
    pushes: Subscription,
}

impl Tail {
    /// Waits for the next frames, at most 500. `None` when all frames are read and no more can
    /// come: the output is closed, the execution has ended, or a later attempt has started.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the execution does not exist; otherwise when the store does
    /// not answer. The next call continues at the same position.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, ClientError> {
        let next = NextFrames::new(&mut self.position);
        let frames = self.client.run_with_pushes(next, &mut self.pushes).await?;
        Ok(frames.map(|frames| frames.into_iter().map(Frame::read).collect()))
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

/// Most frames of one read, as the function limits it.
const PAGE_MAX: u32 = 10_000;
