//! [`Settings`]: the environment variables of the command, read once and checked.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SELVEDGE_URL`, `SELVEDGE_URL_FILE` | the store; `memory://` when unset |
//! | `SELVEDGE_USER` | ACL user, unless the URL names one |
//! | `SELVEDGE_PASSWORD`, `SELVEDGE_PASSWORD_FILE` | its password, unless the URL has one |
//! | `SELVEDGE_TLS_CA_FILE` | trusted CA certificates instead of those of the system |
//! | `SELVEDGE_TLS_CERT_FILE`, `SELVEDGE_TLS_KEY_FILE` | client certificate and its key |
//! | `SELVEDGE_WAITPOINT_SECRET`, `SELVEDGE_WAITPOINT_SECRET_FILE` | signs waitpoint tokens; hex digits |
//! | `SELVEDGE_REQUIRE_WAITPOINT_SECRET` | `true`: an engine never generates a missing secret |
//! | `SELVEDGE_NAMESPACE` | the namespace that the command works on |
//! | `SELVEDGE_LISTEN` | the address of `serve`; `127.0.0.1:9180` when unset |
//! | `SELVEDGE_RETENTION` | how long ended executions are kept, such as `7d`; `1d` when unset |
//! | `SELVEDGE_LONGEST_SLEEP_MS` | how long an engine sleeps at most; `30000` when unset |
//! | `SELVEDGE_AUDIT_…` | how much of a server audits may take |
//! | `SELVEDGE_RETENTION_COUNT` | how many of a lane and partition are kept; any number when unset |
//! | `FF_…` | the settings of the engine, with the names of the contract |
//!
//! A `…_FILE` variable names a file that holds the value, which keeps secrets out of the
//! environment.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_core::engine::{EngineConfig, InvalidSetting};
use selvedge_core::partition::PartitionCounts;
use thiserror::Error;

use selvedge::SecretText;
use selvedge::client::DURATION_MAX;
use selvedge::secret::{self, SecretError, SecretSource};
use selvedge::store::{InvalidUrl, StoreOptions, StoreUrl, TlsOptions};

/// The settings from the environment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Which store.
    pub store: StoreUrl,
    /// How to use it.
    pub options: StoreOptions,
    /// How the engine works.
    pub engine: EngineConfig,
    /// The waitpoint secret, if one is given.
    pub secret: Option<SecretText>,
    /// Whether an engine must not generate a missing waitpoint secret.
    pub secret_required: bool,
    /// The address of `serve`.
    pub listen: SocketAddr,
    credentials: (Option<String>, Option<SecretText>),
    /// Whether the URL itself has a user and a password.
    in_url: (bool, bool),
    store_named: bool,
    partitions_named: bool,
}

/// A setting that cannot be used. Secrets are not quoted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// One of the engine's variables.
    #[error(transparent)]
    Engine(#[from] InvalidSetting),
    /// The store's URL.
    #[error("SELVEDGE_URL: {0}")]
    Url(#[from] InvalidUrl),
    /// The waitpoint secret.
    #[error("SELVEDGE_WAITPOINT_SECRET: {0}")]
    Secret(#[from] SecretError),
    /// The address to listen on.
    #[error("SELVEDGE_LISTEN=`{text}`: expected an address and a port, such as 127.0.0.1:9180")]
    Listen {
        /// What was given.
        text: String,
    },
    /// No whole number.
    #[error("SELVEDGE_RETENTION_COUNT=`{text}`: expected a whole number")]
    RetentionCount {
        /// What was given.
        text: String,
    },
    /// No duration in range.
    #[error("SELVEDGE_RETENTION=`{text}`: expected a duration of at least a second, such as 7d")]
    Retention {
        /// What was given.
        text: String,
    },
    /// A file that a variable names.
    #[error("{variable} names {}, which cannot be read: {error}", path.display())]
    File {
        /// The variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Both a value and a file are given.
    #[error("{variable} and {variable}_FILE are both set; leave one")]
    Twice {
        /// The variable without `_FILE`.
        variable: &'static str,
    },
    /// Neither `true` nor `false`.
    #[error("{variable}=`{text}`: expected true or false")]
    NotBoolean {
        /// The variable.
        variable: &'static str,
        /// What was given.
        text: String,
    },
    /// A value that is not text.
    #[error("{variable} is not UTF-8 text")]
    NotText {
        /// The variable.
        variable: String,
    },
}

/// The variables that name the store.
const URL_VARIABLES: [&str; 2] = ["SELVEDGE_URL", "SELVEDGE_URL_FILE"];

/// The variable that keeps an engine from generating a waitpoint secret.
const REQUIRE_SECRET: &str = "SELVEDGE_REQUIRE_WAITPOINT_SECRET";

/// The variable that says how long ended executions are kept.
pub(crate) const RETENTION: &str = "SELVEDGE_RETENTION";

/// The variable that says how many ended executions of a lane and partition are kept.
pub(crate) const RETENTION_COUNT: &str = "SELVEDGE_RETENTION_COUNT";

/// Whether the command reads a variable.
fn is_ours(name: &str) -> bool {
    name.starts_with("SELVEDGE_") || name.starts_with("FF_")
}

impl Settings {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// The first setting that cannot be used, by name.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_env_for(None)
    }

    /// Reads the environment of this process; `store` replaces the store of the environment, whose
    /// variables are then ignored.
    ///
    /// # Errors
    /// The first setting that cannot be used, by name.
    pub fn from_env_for(store: Option<StoreUrl>) -> Result<Self, SettingsError> {
        let passed_over = |name: &str| store.is_some() && URL_VARIABLES.contains(&name);
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| is_ours(name) && !passed_over(name))
            else {
                continue;
            };
            if value.to_str().is_none() {
                return Err(SettingsError::NotText { variable: name.to_owned() });
            }
        }
        let settings = Self::read(|name| std::env::var(name).ok().filter(|_| !passed_over(name)))?;
        Ok(match store {
            Some(store) => settings.at(store),
            None => settings,
        })
    }

    /// Reads settings through `lookup`; an empty value counts as unset.
    ///
    /// # Errors
    /// The first setting that cannot be used, by name.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let url = value_or_file(lookup, "SELVEDGE_URL")?;
        let store_named = url.is_some();
        let store: StoreUrl = match url {
            Some(text) => text.trim().parse()?,
            None => StoreUrl::memory(),
        };
        let password = value_or_file(lookup, "SELVEDGE_PASSWORD")?
            .map(|text| SecretText::new(text.trim_end_matches(['\r', '\n'])));
        let file = |name: &str| lookup(name).map(PathBuf::from);
        let mut tls = TlsOptions::default();
        tls.ca_file = file("SELVEDGE_TLS_CA_FILE");
        tls.cert_file = file("SELVEDGE_TLS_CERT_FILE");
        tls.key_file = file("SELVEDGE_TLS_KEY_FILE");
        let secret = value_or_file(lookup, "SELVEDGE_WAITPOINT_SECRET")?
            .map(|text| secret::parse(&text))
            .transpose()?;
        let secret_required = match lookup(REQUIRE_SECRET) {
            None => false,
            Some(text) => text
                .parse()
                .map_err(|_| SettingsError::NotBoolean { variable: REQUIRE_SECRET, text })?,
        };
        let listen = lookup("SELVEDGE_LISTEN").unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
        let credentials = (lookup("SELVEDGE_USER"), password);
        let mut engine = EngineConfig::from_env(lookup)?;
        if let Some(text) = lookup(RETENTION) {
            engine = engine.with_retention(read_retention(text)?);
        }
        if let Some(text) = lookup(RETENTION_COUNT) {
            let most = text.parse().map_err(|_| SettingsError::RetentionCount { text })?;
            engine = engine.with_keep_ended(Some(most));
        }
        let mut seen = BTreeSet::new();
        if engine.lanes.iter().any(|lane| !seen.insert(lane)) {
            let text = lookup("FF_LANES").unwrap_or_default();
            let invalid = InvalidSetting::new("FF_LANES", &text, "a lane is named twice");
            return Err(SettingsError::Engine(invalid));
        }
        let partitions_named = PARTITION_VARIABLES.iter().any(|name| lookup(name).is_some());
        Ok(Self {
            in_url: (store.user().is_some(), store.has_password()),
            store_named,
            partitions_named,
            store: store.with_credentials(credentials.0.clone(), credentials.1.clone()),
            options: StoreOptions::default().tls(tls),
            engine,
            secret,
            secret_required,
            listen: listen.parse().map_err(|_| SettingsError::Listen { text: listen })?,
            credentials,
        })
    }

    /// The same settings for another store. Credentials that its URL lacks come from the
    /// environment.
    #[must_use]
    pub fn at(mut self, store: StoreUrl) -> Self {
        let (user, password) = self.credentials.clone();
        self.in_url = (store.user().is_some(), store.has_password());
        self.store = store.with_credentials(user, password);
        self
    }

    /// Whether the environment names a store.
    #[must_use]
    pub fn store_named(&self) -> bool {
        self.store_named
    }

    /// The partition counts of the environment; `None` if it sets none. A store with other counts
    /// is refused.
    #[must_use]
    pub fn partitions(&self) -> Option<PartitionCounts> {
        self.partitions_named.then_some(self.engine.partitions)
    }

    /// Whether the URL contains the user, and whether it contains the password. They take
    /// precedence over the variables.
    #[must_use]
    pub fn credentials_in_url(&self) -> (bool, bool) {
        self.in_url
    }

    /// The source of the waitpoint secret.
    #[must_use]
    pub fn secret_source(&self) -> SecretSource {
        match &self.secret {
            Some(secret) => SecretSource::Given(secret.clone()),
            None if self.secret_required => SecretSource::Stored,
            None => SecretSource::Generate,
        }
    }
}

fn read_retention(text: String) -> Result<Duration, SettingsError> {
    let range = Duration::from_secs(1)..=DURATION_MAX;
    match humantime::parse_duration(&text) {
        Ok(retention) if range.contains(&retention) => Ok(retention),
        Ok(_) | Err(_) => Err(SettingsError::Retention { text }),
    }
}

fn value_or_file(
    lookup: impl Fn(&str) -> Option<String>,
    variable: &'static str,
) -> Result<Option<String>, SettingsError> {
    let file_variable = format!("{variable}_FILE");
    match (lookup(variable), lookup(&file_variable)) {
        (Some(_), Some(_)) => Err(SettingsError::Twice { variable }),
        (Some(value), None) => Ok(Some(value)),
        (None, None) => Ok(None),
        (None, Some(path)) => match read_short(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                Err(SettingsError::File { variable: file_variable, path: path.into(), error })
            }
        },
    }
}

/// The content of a file with a single value. Reading is limited: a device file may have no end.
fn read_short(path: &str) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(VALUE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > VALUE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The variables of the partition counts.
const PARTITION_VARIABLES: [&str; 3] =
    ["FF_FLOW_PARTITIONS", "FF_BUDGET_PARTITIONS", "FF_QUOTA_PARTITIONS"];

/// Longer than any URL, password or secret.
const VALUE_BYTES_MAX: u64 = 64 * 1024;

/// Only reachable from this machine unless configured otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:9180";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn nothing_set_means_an_engine_in_memory() {
        let settings = read(&[]).unwrap();
        assert!(settings.store.is_memory());
        assert_eq!(settings.secret_source(), SecretSource::Generate);
        assert!(settings.listen.ip().is_loopback());
    }

    #[test]
    fn credentials_come_beside_the_url_or_in_it() {
        let settings = read(&[
            ("SELVEDGE_URL", "valkey://h"),
            ("SELVEDGE_USER", "app"),
            ("SELVEDGE_PASSWORD", "s3cret"),
        ])
        .unwrap();
        assert_eq!(settings.store.to_string(), "valkey://app:***@h:6379");
        assert_eq!(settings.secret_source(), SecretSource::Generate);
        let required = read(&[("SELVEDGE_REQUIRE_WAITPOINT_SECRET", "true")]).unwrap();
        assert_eq!(required.secret_source(), SecretSource::Stored);
        let error = read(&[("SELVEDGE_REQUIRE_WAITPOINT_SECRET", "maybe")]).unwrap_err();
        assert!(error.to_string().contains("true or false"), "{error}");
        assert!(!format!("{settings:?}").contains("s3cret"));
        assert_eq!(settings.credentials_in_url(), (false, false));
        let elsewhere = settings.at("valkey://reader@other".parse().unwrap());
        assert_eq!(elsewhere.store.to_string(), "valkey://reader:***@other:6379");
        assert_eq!(elsewhere.credentials_in_url(), (true, false));
    }

    #[test]
    fn partition_counts_count_only_where_somebody_names_one() {
        assert_eq!(read(&[]).unwrap().partitions(), None);
        let counts = read(&[("FF_BUDGET_PARTITIONS", "8")]).unwrap().partitions().unwrap();
        assert_eq!((counts.flow.get(), counts.budget.get()), (256, 8));
    }

    #[test]
    fn a_secret_may_stand_in_a_file() {
        let file = std::env::temp_dir().join(format!("selvedge-{}", uuid::Uuid::new_v4()));
        fs::write(&file, format!("{}\n", "ab".repeat(32))).unwrap();
        let named = file.to_str().unwrap();
        let settings = read(&[("SELVEDGE_WAITPOINT_SECRET_FILE", named)]);
        fs::remove_file(&file).unwrap();
        assert_eq!(settings.unwrap().secret.unwrap().expose(), "ab".repeat(32));
        let error = read(&[("SELVEDGE_PASSWORD_FILE", named)]).unwrap_err().to_string();
        assert!(error.contains("SELVEDGE_PASSWORD_FILE") && error.contains(named), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_named_and_no_secret_shown() {
        for (pairs, name) in [
            (&[("SELVEDGE_URL", "s3cret")][..], "SELVEDGE_URL"),
            (&[("SELVEDGE_LISTEN", "here")], "SELVEDGE_LISTEN"),
            (&[("SELVEDGE_RETENTION", "0s")], "SELVEDGE_RETENTION"),
            (&[("SELVEDGE_RETENTION", "7")], "SELVEDGE_RETENTION"),
            (&[("SELVEDGE_RETENTION_COUNT", "-1")], "SELVEDGE_RETENTION_COUNT"),
            (&[("SELVEDGE_WAITPOINT_SECRET", "s3cret")], "SELVEDGE_WAITPOINT_SECRET"),
            (&[("FF_LANES", ",")], "FF_LANES"),
            (&[("FF_LANES", "mail,print, mail")], "FF_LANES"),
            (
                &[("SELVEDGE_PASSWORD", "s3cret"), ("SELVEDGE_PASSWORD_FILE", "f")],
                "SELVEDGE_PASSWORD",
            ),
        ] {
            let error = read(pairs).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("s3cret"), "{error}");
        }
    }
}
