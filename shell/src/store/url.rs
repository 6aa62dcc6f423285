//! [`StoreUrl`]: where the store is and how to reach it. Parsing is in `url/parse.rs`.

mod parse;

use std::fmt;

use thiserror::Error;

use crate::secret_text::SecretText;

/// Where the store is and how to reach it. Parse it from text.
///
/// | form | meaning |
/// | --- | --- |
/// | `memory://` | in this process; the data ends with the process |
/// | `valkey://[user[:password]@]host[:port][/db]` | one server; `redis://` means the same |
/// | `valkeys://…`, `rediss://…` | the same over TLS |
/// | `…host,host,…` or `…?cluster=true` | a cluster; any of the hosts is a seed node |
///
/// A password never appears in its `Display` or `Debug` form.
///
/// ```
/// use selvedge::store::StoreUrl;
///
/// let url: StoreUrl = "valkeys://app:s3cret@db.example:6380/2".parse()?;
/// assert_eq!(url.to_string(), "valkeys://app:***@db.example:6380/2");
/// assert!(url.is_tls() && url.has_password() && url.user() == Some("app"));
/// assert!("valkey://host:port".parse::<StoreUrl>().is_err());
/// # Ok::<(), selvedge::store::InvalidUrl>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(pub(super) Location);

/// The two kinds of stores.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Location {
    Memory,
    Servers(Servers),
}

/// The parts of a URL that names servers.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Servers {
    scheme: &'static str,
    pub(super) tls: bool,
    pub(super) cluster: bool,
    pub(super) hosts: Vec<Address>,
    pub(super) user: Option<String>,
    pub(super) password: Option<SecretText>,
    pub(super) database: u32,
}

/// Host and port of one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// A store URL that cannot be parsed. The message does not quote it: it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid store URL: {0}")]
pub struct InvalidUrl(String);

impl StoreUrl {
    /// `memory://`, the in-process store.
    #[must_use]
    pub const fn memory() -> Self {
        Self(Location::Memory)
    }

    /// Whether this is the in-process store.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self.0, Location::Memory)
    }

    /// Whether connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.servers().is_some_and(|servers| servers.tls)
    }

    /// The ACL user, if one is given.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.servers().and_then(|servers| servers.user.as_deref())
    }

    /// Whether a password is given.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.servers().is_some_and(|servers| servers.password.is_some())
    }

    fn servers(&self) -> Option<&Servers> {
        if let Location::Servers(servers) = &self.0 { Some(servers) } else { None }
    }

    /// Adds credentials that are not in the URL. Those in the URL take precedence; `memory://`
    /// ignores both.
    #[must_use]
    pub fn with_credentials(mut self, user: Option<String>, password: Option<SecretText>) -> Self {
        if let Location::Servers(servers) = &mut self.0 {
            servers.user = servers.user.take().or(user);
            servers.password = servers.password.take().or(password);
        }
        self
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self::memory()
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location::Servers(servers) = &self.0 else { return formatter.write_str("memory://") };
        write!(formatter, "{}://", servers.scheme)?;
        let user = servers.user.as_deref().map(escape).unwrap_or_default();
        match (&servers.user, &servers.password) {
            (None, None) => {}
            (_, None) => write!(formatter, "{user}@")?,
            (_, Some(_)) => write!(formatter, "{user}:***@")?,
        }
        for (index, host) in servers.hosts.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            host.fmt(formatter)?;
        }
        if servers.database > 0 {
            write!(formatter, "/{}", servers.database)?;
        }
        if servers.cluster && servers.hosts.len() == 1 {
            formatter.write_str("?cluster=true")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Percent-encodes every byte that could be taken for another part of the URL.
fn escape(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_hides_the_password_and_escapes_the_user() {
        for (text, shown) in [
            ("memory://", "memory://"),
            ("valkey://h", "valkey://h:6379"),
            ("valkeys://u@h:1/2", "valkeys://u@h:1/2"),
            ("redis://:s3cret@h", "redis://:***@h:6379"),
            ("redis://h?cluster=true", "redis://h:6379?cluster=true"),
            ("redis://u:s3cret@h,i", "redis://u:***@h:6379,i:6379"),
            ("redis://a%2fb%40%25:s3cret@h", "redis://a%2Fb%40%25:***@h:6379"),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
    }
}
