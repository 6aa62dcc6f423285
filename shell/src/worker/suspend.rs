//! Suspending an execution until signals arrive, and reading the signals it received.

use std::time::Duration;

use selvedge_core::call::suspension::{SuspensionReason, TimeoutBehavior};
use selvedge_core::command::Command;
use selvedge_core::error::Broken;
use selvedge_core::id::SignalId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_core::worker::{HandlerReply, HandlerRequest, Suspension};
use serde_json::json;

use super::context::Context;
use crate::client::{
    ClientError, DURATION_MAX, InvalidInput, SignalTicket, as_bytes, check_name, fields, text_hash,
};

/// Which signals resume a suspended execution, and what happens if they do not arrive in time.
///
/// ```
/// use selvedge::worker::Suspend;
/// use std::time::Duration;
///
/// let suspend = Suspend::for_signal("approved").timeout(Duration::from_secs(3_600));
/// # let _ = suspend;
/// ```
#[derive(Clone, Debug)]
pub struct Suspend {
    signals: Vec<String>,
    all: bool,
    timeout: Option<(Duration, TimeoutBehavior)>,
    reason: SuspensionReason,
}

impl Suspend {
    /// Resume on this signal.
    #[must_use]
    pub fn for_signal(name: impl Into<String>) -> Self {
        Self {
            signals: vec![name.into()],
            all: false,
            timeout: None,
            reason: SuspensionReason::WaitingForSignal,
        }
    }

    /// Resume when all of these signals have arrived.
    #[must_use]
    pub fn for_all<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        let signals = names.into_iter().map(Into::into).collect();
        Self { signals, all: true, ..Self::for_signal("") }
    }

    /// Resume on the first of these signals.
    #[must_use]
    pub fn for_any<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        Self { all: false, ..Self::for_all(names) }
    }

    /// The reason that is recorded; [`SuspensionReason::WaitingForSignal`] by default.
    #[must_use]
    pub fn because(mut self, reason: SuspensionReason) -> Self {
        self.reason = reason;
        self
    }

    /// Fails the execution if it is not resumed within this time, at most [`DURATION_MAX`].
    #[must_use]
    pub fn timeout(self, after: Duration) -> Self {
        self.timeout_then(after, TimeoutBehavior::Fail)
    }

    /// Does this if the execution is not resumed within this time, at most [`DURATION_MAX`].
    #[must_use]
    pub fn timeout_then(mut self, after: Duration, behavior: TimeoutBehavior) -> Self {
        self.timeout = Some((after, behavior));
        self
    }
}

/// A signal that the execution has received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedSignal {
    /// The name of the signal.
    pub name: String,
    /// The identity of the sender, as it was given.
    pub source: String,
    /// Its payload; may be empty.
    pub payload: Vec<u8>,
}

impl Context {
    /// Suspends the execution until its signals arrive. Returns the ticket that authorizes somebody
    /// to send them. Suspending gives up the lease: hand the ticket out, then return
    /// [`Done::Suspended`](super::Done::Suspended). When the execution is resumed, the handler runs
    /// again from the start, as the same attempt.
    ///
    /// # Errors
    /// When a signal name is invalid or none is given, the timeout is zero or too long, the lease
    /// is lost, no waitpoint secret is installed, or the store does not answer.
    pub async fn suspend(&self, suspend: Suspend) -> Result<SignalTicket, ClientError> {
        suspend.check()?;
        let suspension = Suspension {
            waitpoint: None,
            condition_json: suspend.condition(),
            reason: suspend.reason,
            timeout: suspend.timeout,
        };
        let waitpoints = match self.request(HandlerRequest::Suspend(suspension)).await? {
            HandlerReply::Suspended(waitpoints) => waitpoints,
            HandlerReply::Done | HandlerReply::Spent(_) | HandlerReply::Waitpoint(_) => Vec::new(),
        };
        let bound = waitpoints.into_iter().next().ok_or_else(|| {
            ClientError::Unreadable(Broken::new("the waitpoint of the suspension", Value::Nil))
        })?;
        Ok(SignalTicket {
            execution_id: self.id().clone(),
            waitpoint_id: bound.id,
            token: bound.token,
        })
    }

    /// The signals received so far, oldest first, at most 100.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn signals(&self) -> Result<Vec<ReceivedSignal>, ClientError> {
        let client = self.client();
        let key = Key::execution(self.id()).signals();
        let range: [&[u8]; 2] = [b"0", SIGNALS_LAST];
        let ids = client.read_one(Command::read("ZRANGE", &key, &range)).await?;
        let partition = self.id().partition();
        let mut reads = Vec::new();
        for id in fields(ids) {
            let Ok(id) = id.parse::<SignalId>() else { continue };
            reads.push(Command::read("HGETALL", &Key::signal(partition, id), &[]));
            reads.push(Command::read("GET", &Key::signal_payload(partition, id), &[]));
        }
        let mut replies = client.read(reads).await?.into_iter();
        let mut received = Vec::new();
        while let (Some(record), Some(payload)) = (replies.next(), replies.next()) {
            let mut record = text_hash(record);
            received.push(ReceivedSignal {
                name: record.remove("signal_name").unwrap_or_default(),
                source: record.remove("source_identity").unwrap_or_default(),
                payload: as_bytes(payload).unwrap_or_default(),
            });
        }
        Ok(received)
    }
}

impl Suspend {
    /// Checks the timeout and the signal names. An empty list is refused, because to the library it
    /// means "any signal".
    fn check(&self) -> Result<(), InvalidInput> {
        if self.signals.is_empty() {
            return Err(InvalidInput::NoSignal);
        }
        for name in &self.signals {
            check_name(name)
                .map_err(|reason| InvalidInput::SignalName { name: name.clone(), reason })?;
        }
        match self.timeout {
            Some((after, _)) if after.is_zero() => Err(InvalidInput::ZeroTimeout),
            Some((after, _)) if after > DURATION_MAX => Err(InvalidInput::TimeoutTooLong(after)),
            Some(_) | None => Ok(()),
        }
    }

    /// The resume condition as JSON, in the contract's simple form.
    fn condition(&self) -> String {
        json!({
            "condition_type": "signal_set",
            "required_signal_names": self.signals,
            "signal_match_mode": if self.all { "all" } else { "any" },
            "minimum_signal_count": 1,
        })
        .to_string()
    }
}

/// Index of the last signal to read.
const SIGNALS_LAST: &[u8] = b"99";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_names_and_timeout_are_checked() {
        assert!(Suspend::for_any(["a", "größer"]).check().is_ok());
        for (bad, says) in [
            (Suspend::for_all(Vec::<String>::new()), "no signal to wait for"),
            (Suspend::for_signal(""), "empty"),
            (Suspend::for_any(["a", "b\n"]), "\"b\\n\""),
            (Suspend::for_signal("a").timeout(DURATION_MAX * 2), "the timeout"),
            (Suspend::for_signal("a").timeout(Duration::ZERO), "suspension is zero"),
        ] {
            let refused = bad.check().unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
