//! [`StoreError`]: why a store cannot be opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_core::error::{Cause, ServerError};
use thiserror::Error;

/// Longest time limit for connecting and for a call.
pub const LIMIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Why a store cannot be opened.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The server cannot be reached, or does not answer.
    #[error("{0}")]
    Unreachable(ServerError),
    /// The server answered with an error.
    #[error("{0}")]
    Server(ServerError),
    /// The server has a newer function library than this program can use.
    #[error("{0}")]
    ProgramTooOld(ServerError),
    /// Another program listens there.
    #[error("{server} is not a Valkey or Redis server")]
    NotValkey {
        /// Its address.
        server: String,
    },
    /// The server ended the TLS connection, for example because it wants a client certificate.
    #[error("TLS: {server}: {reason}")]
    TlsRefused {
        /// Its address.
        server: String,
        /// What it said.
        reason: String,
    },
    /// A certificate or key file cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The function library cannot be loaded into the in-memory store.
    #[error("cannot load the function library: {0}")]
    Library(ServerError),
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

/// Why TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A client certificate was given, and no key.
    #[error("a client certificate needs its key file")]
    NoKey,
    /// A client key was given, and no certificate.
    #[error("a client key needs its certificate file")]
    NoClientCertificate,
    /// No authority was found.
    #[error("no trusted CA certificates found; set a CA file")]
    NoAuthorities,
    /// A file contains no certificate.
    #[error("{role} {} contains no certificate", file.display())]
    NoCertificate {
        /// What the file is for.
        role: TlsFile,
        /// The file.
        file: PathBuf,
    },
    /// A file cannot be read or used.
    #[error("{role} {}: {reason}", file.display())]
    File {
        /// What the file is for.
        role: TlsFile,
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The TLS library refuses its settings.
    #[error("{0}")]
    Settings(String),
}

/// What a file of the TLS options is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFile {
    /// The trusted authorities.
    Authorities,
    /// The client certificate.
    Certificate,
    /// The key of the client certificate.
    Key,
}

impl fmt::Display for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authorities => "the CA file",
            Self::Certificate => "the client certificate",
            Self::Key => "the client key",
        })
    }
}

impl From<ServerError> for StoreError {
    fn from(error: ServerError) -> Self {
        if error.cause == Cause::ProgramTooOld {
            Self::ProgramTooOld(error)
        } else if error.is_answer() {
            Self::Server(error)
        } else {
            Self::Unreachable(error)
        }
    }
}

impl StoreError {
    /// The server error behind it, if there is one.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Unreachable(error)
            | Self::Server(error)
            | Self::ProgramTooOld(error)
            | Self::Library(error) => Some(error),
            Self::NotValkey { .. }
            | Self::TlsRefused { .. }
            | Self::Tls(_)
            | Self::IsCluster(_)
            | Self::NoSlots
            | Self::FeatureDisabled { .. }
            | Self::NoHost
            | Self::InvalidLimit { .. } => None,
        }
    }

    /// Whether opening the store may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(error) | Self::Server(error) => error.is_transient(),
            // The cluster is still being created.
            Self::NoSlots => true,
            Self::ProgramTooOld(_)
            | Self::NotValkey { .. }
            | Self::TlsRefused { .. }
            | Self::Tls(_)
            | Self::Library(_)
            | Self::IsCluster(_)
            | Self::FeatureDisabled { .. }
            | Self::InvalidLimit { .. }
            | Self::NoHost => false,
        }
    }
}
