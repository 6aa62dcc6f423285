//! [`Failure`]: the exit code, message and hint of a command that failed.

use std::fmt;
use std::io;
use std::process::ExitCode;

use selvedge::client::ClientError;
use selvedge::deployment::DeploymentError;
use selvedge::store::{StoreError, StoreUrl, TlsError, TlsFile};
use selvedge_core::error::{Cause, Class, ServerError};

/// The exit codes, as `selvedge --help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// An error, or an unexpected outcome.
    Error = 1,
    /// Invalid command line, input or configuration; nothing was sent.
    Usage = 2,
    /// Not found.
    NotFound = 3,
    /// The store refused.
    Refused = 4,
    /// Partly done, or inconsistent data.
    Partial = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
    /// Whether the message names the server.
    names_server: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), hint: None, names_server: false }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the store, unless the message already names the server.
    pub(crate) fn at(mut self, store: &StoreUrl) -> Self {
        if !self.names_server {
            self.message = format!("{}: {store}", self.message);
        }
        self
    }

    /// Puts what was being done before the message.
    pub(crate) fn because(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// For programs: the message, what to do next, and the exit code.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.message,
            "hint": self.hint,
            "exit_code": self.exit as u8,
        })
    }

    /// Whether it is only that nobody reads our output any more: `selvedge library | head`.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.message.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Error, "");
        }
        Self::new(Exit::Error, error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let names_server = names_server(&error);
        let failure = Self { names_server, ..Self::new(exit_of(&error), &error) };
        if let Some((exit, hint)) = store_advice(&error) {
            return Self { exit, ..failure }.hint(hint);
        }
        let Some(server) = error.server() else { return failure };
        let (exit, hint) = advice(server);
        let hint = match server.missing_right() {
            Some(right) => format!("missing right: {right}; {hint}"),
            None => hint.to_owned(),
        };
        Self { exit, ..failure }.hint(hint)
    }
}

fn names_server(error: &ClientError) -> bool {
    let is_named = |error: &ServerError| error.cause == Cause::Unreachable;
    matches!(
        error,
        ClientError::Store(StoreError::NotValkey { .. } | StoreError::TlsRefused { .. })
    ) || error.server().is_some_and(is_named)
}

/// What to do about a store that cannot be opened, beyond what its server said.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is open")]
fn store_advice(error: &ClientError) -> Option<(Exit, &'static str)> {
    match error {
        ClientError::Store(StoreError::NotValkey { .. }) => {
            Some((Exit::Usage, "another program listens there: is the port in the URL right?"))
        }
        ClientError::Store(StoreError::TlsRefused { .. }) => Some((
            Exit::Refused,
            "check the certificates: SELVEDGE_TLS_CERT_FILE and SELVEDGE_TLS_KEY_FILE name the \
             client's, SELVEDGE_TLS_CA_FILE the authority",
        )),
        ClientError::Store(StoreError::Tls(error)) => Some((Exit::Usage, tls_advice(error))),
        _ => None,
    }
}

/// The variable to set when TLS cannot be set up.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is open")]
fn tls_advice(error: &TlsError) -> &'static str {
    match error {
        TlsError::NoKey => "SELVEDGE_TLS_KEY_FILE names the file with the key",
        TlsError::NoClientCertificate => {
            "SELVEDGE_TLS_CERT_FILE names the file with the certificate"
        }
        TlsError::File { role: TlsFile::Certificate, .. }
        | TlsError::NoCertificate { role: TlsFile::Certificate, .. } => {
            "SELVEDGE_TLS_CERT_FILE names it"
        }
        TlsError::File { role: TlsFile::Key, .. } => "SELVEDGE_TLS_KEY_FILE names it",
        _ => "SELVEDGE_TLS_CA_FILE names a PEM file with the trusted CA certificates",
    }
}

/// What a server's error means for whoever sits at the command line.
fn advice(error: &ServerError) -> (Exit, &'static str) {
    let first = error.text.split(' ').next().unwrap_or_default();
    let said = |words: &str| error.text.contains(words);
    match (first, error.class) {
        _ if said("without any password configured") => (
            Exit::Refused,
            "the server wants no password: leave it out of the URL and of SELVEDGE_PASSWORD",
        ),
        _ if said("DB index is out of range") => {
            (Exit::Usage, "the database number in the URL is too high")
        }
        _ if said("cluster support disabled") => {
            (Exit::Usage, "this server is no cluster: leave ?cluster=true out, and other hosts")
        }
        ("WRONGTYPE", _) => {
            (Exit::Refused, "another program wrote to this key; run `selvedge fsck`")
        }
        ("OOM", _) => (
            Exit::Refused,
            "the server is out of memory: raise maxmemory; waiting work then continues",
        ),
        _ if said("ACL failure in script") => (
            Exit::Refused,
            "the server lets this user call functions, and not what they do: allow it +@read, \
             +@write, +@fast and +publish on ff:*",
        ),
        ("READONLY", _) => {
            (Exit::Refused, "this server is a replica: name its primary, or a host of the cluster")
        }
        _ if error.cause == Cause::ProgramTooOld => {
            (Exit::Refused, "a newer Selvedge works on this store: use that one here as well")
        }
        (_, Class::Denied) => (
            Exit::Refused,
            "check user and password (in the URL, or SELVEDGE_USER and SELVEDGE_PASSWORD), and \
             what the server lets this user do",
        ),
        (_, Class::Library) => {
            (Exit::Error, "the function library is missing or differs; `selvedge serve` loads it")
        }
        ("MISCONF" | "NOREPLICAS" | "LOADING" | "BUSY" | "CLUSTERDOWN", _) => {
            (Exit::Error, "the server refuses commands now; see its message above")
        }
        _ => (
            Exit::Error,
            "check that the server is running and that host, port and scheme (valkeys:// for TLS) are right",
        ),
    }
}

/// Variants added later count as plain errors.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is open")]
fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Url(_) | ClientError::Flow(_) | ClientError::InvalidInput(_) => Exit::Usage,
        // The URL or the certificates cannot be used; nothing was sent.
        ClientError::Store(
            StoreError::Tls(_)
            | StoreError::FeatureDisabled { .. }
            | StoreError::IsCluster(_)
            | StoreError::NoHost,
        ) => Exit::Usage,
        ClientError::NotFound { .. } => Exit::NotFound,
        ClientError::Refused(refusal) if refusal.code.as_str().ends_with("_not_found") => {
            Exit::NotFound
        }
        ClientError::Refused(_)
        | ClientError::OtherContent { .. }
        | ClientError::LaneDraining { .. }
        | ClientError::NeedsUpstreams { .. }
        | ClientError::Deployment(DeploymentError::Counts { .. }) => Exit::Refused,
        _ => Exit::Error,
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        ClientError::from(error).into()
    }
}
