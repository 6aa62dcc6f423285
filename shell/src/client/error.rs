//! [`ClientError`]: why a call of the client or the worker failed.

use selvedge_core::client::{Failure, Outcome};
use selvedge_core::error::{Broken, CallError, Class, Code, Refusal, ServerError};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::retry::Retry;
use thiserror::Error;

use super::invalid_flow::InvalidFlow;
use super::invalid_input::InvalidInput;
use super::replay::ReplayNeed;
use crate::deployment::{self, DeploymentError};
use crate::store::{InvalidUrl, StoreError};
use crate::worker::InvalidWorker;

/// Why a call of the [`Client`](super::Client) or a worker failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The store URL cannot be parsed.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The store cannot be reached or used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The partition counts or the waitpoint secret do not match the deployment; nothing was sent.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// The flow is invalid; nothing was sent.
    #[error(transparent)]
    Flow(#[from] InvalidFlow),
    /// The worker's settings cannot be used; nothing was sent.
    #[error(transparent)]
    Worker(#[from] InvalidWorker),
    /// An argument is invalid; nothing was sent.
    #[error(transparent)]
    InvalidInput(#[from] InvalidInput),
    /// The worker no longer holds the lease of the execution that it runs: it expired, was revoked,
    /// or the execution was cancelled. Nothing that the handler does counts any more.
    #[error("the lease of {0} was lost")]
    LeaseLost(ExecutionId),
    /// It does not exist.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// What was looked for: `execution`, `flow`, `budget` or `quota`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The execution cannot be replayed alone: it would wait for upstreams that have failed and do
    /// not run again.
    #[error("{}", needs_upstreams(.id, .needs))]
    NeedsUpstreams {
        /// The execution.
        id: ExecutionId,
        /// What it needs.
        needs: Vec<ReplayNeed>,
    },
    /// It was submitted before with other content, under the same id or idempotency key; nothing
    /// was written.
    #[error("{kind} {id} was submitted before with other content; use another idempotency key")]
    OtherContent {
        /// `flow` or `execution`.
        kind: &'static str,
        /// The id of the first.
        id: String,
    },
    /// An operator drains the lane: nothing new is accepted. Nothing was written.
    #[error("lane {lane} accepts no new work: it is being drained")]
    LaneDraining {
        /// The lane.
        lane: LaneId,
    },
    /// The function library refused the call. The code tells why.
    #[error("{}", explain(.0))]
    Refused(Refusal),
    /// The server did not answer, or cannot serve the call now. Idempotent calls were retried.
    #[error("{}: {}", what_happened(.0), .0)]
    Unavailable(ServerError),
    /// The server does not know the user, or does not allow it to do this.
    #[error("{}: {error}", what_happened(error))]
    Denied {
        /// The right that the user lacks, as an ACL rule that grants it, such as `+fcall`; `None`
        /// when the server names none.
        right: Option<String>,
        /// The error.
        error: ServerError,
    },
    /// The server answered with another error: out of memory, a key of the wrong type, …
    #[error("{}: {}", what_happened(.0), .0)]
    Server(ServerError),
    /// The server's reply cannot be parsed.
    #[error(transparent)]
    Unreadable(Broken),
    /// A payload or result is not the JSON that was asked for.
    #[error("the {what} of {id} is not the JSON of {expected}: {reason}")]
    NotJson {
        /// `payload` or `result`.
        what: &'static str,
        /// The execution.
        id: ExecutionId,
        /// The type that was asked for.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The execution ended without a result: it failed, expired, or was cancelled or skipped.
    #[error("{} ended as {}{}", .0.id, .0.outcome, because(.0))]
    NoSuccess(Outcome),
    /// The time limit was reached.
    #[error("timed out after {0:?}")]
    TimedOut(std::time::Duration),
}

impl ClientError {
    /// A stable error code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "invalid_url",
            Self::Store(_) => "store_unusable",
            Self::Deployment(_) => "other_deployment",
            Self::Flow(_) => "invalid_flow",
            Self::Worker(_) => "invalid_worker",
            Self::InvalidInput(_) => "invalid_input",
            Self::LeaseLost(_) => "lease_lost",
            Self::NotFound { .. } => "not_found",
            Self::NeedsUpstreams { .. } => "needs_upstreams",
            Self::OtherContent { .. } => "other_content",
            Self::LaneDraining { .. } => "lane_draining",
            Self::Refused(refusal) => refusal.code.as_str(),
            Self::Unavailable(_) => "unavailable",
            Self::Denied { .. } => "denied",
            Self::Server(_) => "server_error",
            Self::Unreadable(_) => "unreadable",
            Self::NotJson { .. } => "not_json",
            Self::NoSuccess(_) => "no_success",
            Self::TimedOut(_) => "timed_out",
        }
    }

    /// Whether the same call may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TimedOut(_) => true,
            Self::Unavailable(error) | Self::Server(error) => error.is_transient(),
            Self::Store(error) => error.is_retryable(),
            Self::Deployment(error) => error.is_retryable(),
            Self::Refused(refusal) => refusal.retry() == Retry::AfterPause,
            Self::Url(_)
            | Self::Denied { .. }
            | Self::Flow(_)
            | Self::Worker(_)
            | Self::InvalidInput(_)
            | Self::LeaseLost(_)
            | Self::NotFound { .. }
            | Self::NeedsUpstreams { .. }
            | Self::OtherContent { .. }
            | Self::LaneDraining { .. }
            | Self::Unreadable(_)
            | Self::NotJson { .. }
            | Self::NoSuccess(_) => false,
        }
    }

    /// The error of a procedure that ended without its result, in a client with these counts.
    pub(crate) fn of(failure: Failure, counts: &PartitionCounts) -> Self {
        match failure {
            Failure::NotFound { kind, id } => Self::NotFound { kind, id },
            Failure::OtherContent { kind, id } => Self::OtherContent { kind, id },
            Failure::LaneDraining { lane } => Self::LaneDraining { lane },
            Failure::OtherCounts { flow, budget, quota } => {
                Self::Deployment(deployment::other_counts(&flow, &budget, &quota, *counts))
            }
            Failure::Refused(refusal) => Self::Refused(refusal),
            Failure::Unavailable(error) => error.into(),
            Failure::Unreadable(broken) => Self::Unreadable(broken),
        }
    }

    /// The server error behind it, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Unavailable(error) | Self::Server(error) | Self::Denied { error, .. } => {
                Some(error)
            }
            Self::Store(error) => error.server(),
            Self::Deployment(error) => error.server(),
            Self::Url(_)
            | Self::Flow(_)
            | Self::Worker(_)
            | Self::InvalidInput(_)
            | Self::LeaseLost(_)
            | Self::NotFound { .. }
            | Self::NeedsUpstreams { .. }
            | Self::OtherContent { .. }
            | Self::LaneDraining { .. }
            | Self::Refused(_)
            | Self::Unreadable(_)
            | Self::NotJson { .. }
            | Self::NoSuccess(_)
            | Self::TimedOut(_) => None,
        }
    }

    /// The code of a [`ClientError::Refused`].
    #[must_use]
    pub fn refusal(&self) -> Option<Code> {
        if let Self::Refused(refusal) = self { Some(refusal.code) } else { None }
    }
}

/// What has to be replayed before an execution can be.
fn needs_upstreams(id: &ExecutionId, needs: &[ReplayNeed]) -> String {
    let named = needs.iter().take(NEEDS_SHOWN).map(|need| match need.outcome.as_str() {
        "" => format!("{} (its record is gone)", need.upstream),
        outcome => format!("{} ({outcome})", need.upstream),
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if needs.len() > NEEDS_SHOWN {
        named.push_str(&format!(" and {} more", needs.len() - NEEDS_SHOWN));
    }
    format!("{id} cannot run again before what it depends on: {named}")
}

/// Most upstreams that an error names.
const NEEDS_SHOWN: usize = 5;

/// Why an execution ended without a result, if it says so.
fn because(outcome: &Outcome) -> String {
    if outcome.reason.is_empty() { String::new() } else { format!(": {}", outcome.reason) }
}

fn what_happened(error: &ServerError) -> &'static str {
    if error.is_answer() { "the store returned an error" } else { "the store does not answer" }
}

impl From<CallError> for ClientError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::Server(error) => error.into(),
            CallError::Broken(broken) => Self::Unreadable(broken),
        }
    }
}

impl From<ServerError> for ClientError {
    fn from(error: ServerError) -> Self {
        if error.is_access_denied() {
            return Self::Denied { right: error.missing_right(), error };
        }
        let is_away = matches!(error.class, Class::Silence | Class::NotNow | Class::Redirect);
        if is_away || !error.is_answer() { Self::Unavailable(error) } else { Self::Server(error) }
    }
}

/// What the refusal means, as a sentence, with the code for searches.
fn explain(refusal: &Refusal) -> String {
    let code = refusal.code.as_str();
    match sentence(refusal) {
        Some(sentence) => format!("refused: {sentence} ({code})"),
        None => format!("refused: {refusal}"),
    }
}

/// `None` for codes that a client does not meet, or whose details say it.
#[expect(clippy::wildcard_enum_match_arm, reason = "most codes are met by workers only")]
fn sentence(refusal: &Refusal) -> Option<String> {
    let detail = |at| refusal.detail(at);
    Some(match refusal.code {
        Code::ExecutionNotActive => match (detail(2).as_str(), detail(0)) {
            ("terminal", outcome) => format!("it has ended, with the outcome {outcome}"),
            (phase, _) => format!("it is {phase}, not active"),
        },
        Code::ExecutionNotTerminal => "it has not ended yet".to_owned(),
        Code::ExecutionNotSuspended => "it is not suspended".to_owned(),
        Code::ExecutionNotEligible => "it does not wait for a worker now".to_owned(),
        Code::ExecutionNotFound => "there is no such execution".to_owned(),
        Code::FlowNotFound => "there is no such flow".to_owned(),
        Code::FlowAlreadyTerminal => "the flow has ended".to_owned(),
        Code::MaxReplaysExhausted => "it was replayed as often as it may be".to_owned(),
        Code::HmacSecretNotInitialized => "no waitpoint secret is installed; start an engine or \
                                           run `selvedge secret rotate`"
            .to_owned(),
        Code::InvalidToken => {
            "the token is for another waitpoint, or its key was rotated out".to_owned()
        }
        Code::TokenExpired => "the key of the token was rotated out".to_owned(),
        Code::WaitpointClosed => "the waitpoint is closed".to_owned(),
        Code::WaitpointNotFound => "there is no such waitpoint".to_owned(),
        Code::TargetNotSignalable => "it cannot take a signal any more".to_owned(),
        Code::SignalLimitExceeded => "it has had as many signals as it may".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable_and_tell_what_may_be_repeated() {
        let silence = ClientError::from(ServerError::silence("gone"));
        assert_eq!(silence.code(), "unavailable");
        assert!(silence.is_retryable());
        let refusal = Refusal::new(Code::FlowNotFound, Vec::new());
        let refused = ClientError::from(CallError::Refused(refusal));
        assert_eq!(refused.code(), "flow_not_found");
        assert!(!refused.is_retryable());
        for (text, code, retryable) in [
            ("NOPERM no permissions", "denied", false),
            ("OOM command not allowed", "server_error", false),
            ("WRONGTYPE Operation against a key", "server_error", false),
            ("READONLY You can't write", "server_error", true),
            ("LOADING the dataset", "unavailable", true),
            ("CLUSTERDOWN The cluster is down", "unavailable", true),
        ] {
            let error = ClientError::from(ServerError::from_reply(text));
            assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{text}");
            assert!(error.to_string().starts_with("the store returned an error: "), "{error}");
        }
        let closed = ClientError::from(ServerError::silence("EOF in a text of ours"));
        assert!(closed.to_string().starts_with("the store does not answer: "), "{closed}");
        let denied = ServerError::from_reply("NOPERM no permissions");
        let deployment = DeploymentError::Call(CallError::Server(denied.clone()));
        assert!(!ClientError::from(denied).is_retryable());
        assert!(!ClientError::Deployment(deployment).is_retryable());
    }
}
