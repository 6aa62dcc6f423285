//! What a client's call gives when it does not give its answer.

use selvedge_core::error::{Broken, CallError, Class, Code, Refusal, Retry, ServerError};
use thiserror::Error;

use super::invalid_flow::InvalidFlow;
use crate::deployment::DeploymentError;
use crate::store::{InvalidUrl, StoreError};

/// Why a call of the [`Client`](super::Client) did not succeed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The store's URL cannot be read.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The store cannot be reached or used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client does not fit the deployment; nothing was sent.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// The flow makes no sense; nothing was sent.
    #[error(transparent)]
    Flow(#[from] InvalidFlow),
    /// An argument cannot be used; nothing was sent.
    #[error("{0}")]
    Input(String),
    /// There is no such thing.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// What was looked for.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The library refused. The code says why; repeating the same call rarely helps.
    #[error("{}", explain(.0))]
    Refused(Refusal),
    /// The server did not answer, or could not. The call was repeated in vain where that is
    /// harmless.
    #[error("{}", unavailable(.0))]
    Unavailable(ServerError),
    /// The server's answer makes no sense. A person should look.
    #[error(transparent)]
    Unreadable(Broken),
    /// What was waited for did not come in time.
    #[error("not within {0:?}")]
    TimedOut(std::time::Duration),
}

impl ClientError {
    /// A stable word for programs and for the documentation.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "invalid_url",
            Self::Store(_) => "store_unusable",
            Self::Deployment(_) => "other_deployment",
            Self::Flow(_) => "invalid_flow",
            Self::Input(_) => "invalid_input",
            Self::NotFound { .. } => "not_found",
            Self::Refused(refusal) => refusal.code.as_str(),
            Self::Unavailable(_) => "unavailable",
            Self::Unreadable(_) => "unreadable",
            Self::TimedOut(_) => "timed_out",
        }
    }

    /// Whether the same call may succeed later, with nobody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::TimedOut(_) => true,
            Self::Store(StoreError::Server(error)) => error.class != Class::Denied,
            Self::Deployment(error) => error.may_pass(),
            Self::Refused(refusal) => refusal.code.retry() == Retry::Retryable,
            Self::Store(_)
            | Self::Url(_)
            | Self::Flow(_)
            | Self::Input(_)
            | Self::NotFound { .. }
            | Self::Unreadable(_) => false,
        }
    }

    /// The refusal's code, when it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<Code> {
        if let Self::Refused(refusal) = self { Some(refusal.code) } else { None }
    }
}

/// The server's own words, or that there were none: an error reply begins with a word in capitals.
fn unavailable(error: &ServerError) -> String {
    let word = error.text.split(' ').next().unwrap_or_default();
    let answered = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let what = if answered { "the store cannot do it" } else { "the store does not answer" };
    format!("{what}: {error}")
}

impl From<CallError> for ClientError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::Server(error) => Self::Unavailable(error),
            CallError::Broken(broken) => Self::Unreadable(broken),
        }
    }
}

impl From<ServerError> for ClientError {
    fn from(error: ServerError) -> Self {
        Self::Unavailable(error)
    }
}

/// The code and its details, and what to do about the common ones.
fn explain(refusal: &Refusal) -> String {
    let advice = match refusal.code.as_str() {
        "hmac_secret_not_initialized" => "; start an engine or run `selvedge secret rotate`",
        "invalid_token" => "; the token is for another waitpoint, or its key was rotated out",
        "flow_already_terminal" => "; it has ended",
        "execution_not_active"
            if refusal.detail(1) == "terminal" || refusal.detail(2) == "terminal" =>
        {
            "; it has ended"
        }
        "execution_not_terminal" => "; it has not ended yet",
        _ => "",
    };
    format!("refused: {refusal}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable_and_tell_what_may_be_repeated() {
        let silence = ClientError::from(ServerError::silence("gone"));
        assert_eq!(silence.code(), "unavailable");
        assert!(silence.is_retryable());
        let refusal = Refusal { code: Code::FlowNotFound, details: Vec::new() };
        let refused = ClientError::from(CallError::Refused(refusal));
        assert_eq!(refused.code(), "flow_not_found");
        assert!(!refused.is_retryable());
    }
}
