//! [`StoreError`]: why a store cannot be opened.

use std::time::Duration;

use selvedge_core::error::ServerError;
use thiserror::Error;

/// Longest time limit for connecting and for a call.
pub const LIMIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Why a store cannot be opened.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The server cannot be reached, or refuses the connection.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// A certificate or key file cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The function library cannot be loaded.
    #[error("cannot load the function library: {0}")]
    Library(String),
    /// The URL names a single server, but it is a node of a cluster.
    #[error("{0} is a node of a cluster; add ?cluster=true to the URL")]
    IsCluster(String),
    /// The cluster has no slots assigned.
    #[error("the cluster has no slots assigned to any server")]
    NoSlots,
    /// The crate was built without what the URL needs.
    #[error("this program cannot open {url}: the crate `selvedge` lacks the feature `{feature}`")]
    FeatureDisabled {
        /// The URLs that need it.
        url: &'static str,
        /// The feature to switch on.
        feature: &'static str,
    },
    /// The URL names no host.
    #[error("the store URL names no host")]
    NoHost,
    /// A time limit of the options is out of range.
    #[error("{option} cannot be {limit:?}: it is from 1 ms to {LIMIT_MAX:?}")]
    InvalidLimit {
        /// The option.
        option: &'static str,
        /// Its value.
        limit: Duration,
    },
}

impl StoreError {
    /// The server error behind it, if there is one.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerError> {
        if let Self::Server(error) = self { Some(error) } else { None }
    }

    /// Whether opening the store may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Server(error) => error.is_transient(),
            // The cluster is still being created.
            Self::NoSlots => true,
            Self::Tls(_)
            | Self::Library(_)
            | Self::IsCluster(_)
            | Self::FeatureDisabled { .. }
            | Self::InvalidLimit { .. }
            | Self::NoHost => false,
        }
    }
}
