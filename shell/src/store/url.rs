//! [`StoreUrl`]: which store, in one line.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use thiserror::Error;

use crate::secret_text::SecretText;

/// Where the store is and how to reach it.
///
/// | form | meaning |
/// | --- | --- |
/// | `memory://` | in this process, gone with it |
/// | `valkey://[user[:password]@]host[:port][/db]` | one server; `redis://` means the same |
/// | `valkeys://…`, `rediss://…` | the same over TLS |
/// | `…host,host,…` or `…?cluster=true` | a cluster, found through any of the hosts |
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
pub struct StoreUrl(pub(super) Place);

/// The two kinds of stores.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    Memory,
    Servers(Servers),
}

/// How to reach servers.
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

/// A text that names no store. The text itself is not quoted: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the store URL is not usable: {0}")]
pub struct InvalidUrl(String);

impl StoreUrl {
    /// The in-process store.
    #[must_use]
    pub const fn memory() -> Self {
        Self(Place::Memory)
    }

    /// Whether this is the in-process store, which ends with the process.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self.0, Place::Memory)
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.servers().is_some_and(|servers| servers.tls)
    }

    /// The ACL user, if one is named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.servers().and_then(|servers| servers.user.as_deref())
    }

    /// Whether there is a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.servers().is_some_and(|servers| servers.password.is_some())
    }

    fn servers(&self) -> Option<&Servers> {
        if let Place::Servers(servers) = &self.0 { Some(servers) } else { None }
    }

    /// The same servers, with credentials that came another way. Those in the URL win.
    #[must_use]
    pub fn with_credentials(mut self, user: Option<String>, password: Option<SecretText>) -> Self {
        if let Place::Servers(servers) = &mut self.0 {
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

impl FromStr for StoreUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            wrong("it has no scheme; expected memory://, valkey://HOST, valkeys://HOST, redis:// or rediss://")
        })?;
        let (scheme, tls) = match scheme {
            "memory" if rest.is_empty() => return Ok(Self::memory()),
            "memory" => return Err(wrong("nothing may follow memory://")),
            "valkey" => ("valkey", false),
            "valkeys" => ("valkeys", true),
            "redis" => ("redis", false),
            "rediss" => ("rediss", true),
            _ => {
                return Err(wrong(
                    "unknown scheme; expected memory, valkey, valkeys, redis or rediss",
                ));
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Then it is a part of a password that stands here, and must not be quoted.
        if path.contains('@') || query.contains('@') {
            return Err(wrong(
                "an `@` comes after a `/` or `?`; in a password, write these as %2F and %3F",
            ));
        }
        // A password may hold an `@` that nobody escaped; a host never does.
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let hosts = read_hosts(hosts)?;
        let cluster = read_query(query)?.unwrap_or(hosts.len() > 1);
        if hosts.len() > 1 && !cluster {
            return Err(wrong("several hosts mean a cluster; leave one, or drop cluster=false"));
        }
        let (user, password) = read_credentials(credentials)?;
        let database = read_database(path)?;
        Ok(Self(Place::Servers(Servers { scheme, tls, cluster, hosts, user, password, database })))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place::Servers(servers) = &self.0 else { return formatter.write_str("memory://") };
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

fn wrong(text: impl Into<String>) -> InvalidUrl {
    InvalidUrl(text.into())
}

fn read_hosts(text: &str) -> Result<Vec<Address>, InvalidUrl> {
    text.split(',').map(read_host).collect()
}

fn read_host(text: &str) -> Result<Address, InvalidUrl> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| wrong("an IPv6 address begins with `[` and lacks its `]`"))?;
            let (address, _zone) = host.split_once('%').unwrap_or((host, ""));
            if address.parse::<Ipv6Addr>().is_err() {
                return Err(wrong("between `[` and `]` stands an IPv6 address and nothing else"));
            }
            match after {
                "" => (host, None),
                _ => (
                    host,
                    Some(after.strip_prefix(':').ok_or_else(|| {
                        wrong("after the `]` of an IPv6 address comes `:` and a port, or nothing")
                    })?),
                ),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong("a host is missing"));
    }
    if host.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return Err(wrong("a host contains blanks"));
    }
    if host.contains(['[', ']']) {
        return Err(wrong("a host contains brackets, which only go around a whole IPv6 address"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        // Not quoted: in a URL without its `@` a password stands here.
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
            wrong("after the `:` of a host comes no port from 1 to 65535; credentials end with `@`")
        })?,
    };
    Ok(Address { host: host.to_owned(), port })
}

fn read_credentials(
    text: Option<&str>,
) -> Result<(Option<String>, Option<SecretText>), InvalidUrl> {
    let Some(text) = text else { return Ok((None, None)) };
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let user = Some(unescape(user, "user")?).filter(|user| !user.is_empty());
    let password = password.map(|text| unescape(text, "password")).transpose()?;
    Ok((user, password.filter(|password| !password.is_empty()).map(SecretText::new)))
}

fn read_database(path: &str) -> Result<u32, InvalidUrl> {
    match path {
        "" => Ok(0),
        _ => path.parse().map_err(|_| wrong("after the `/` comes no database number, such as /2")),
    }
}

/// The only question so far is whether this is a cluster.
fn read_query(query: &str) -> Result<Option<bool>, InvalidUrl> {
    let mut cluster = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("cluster", _) if cluster.is_some() => return Err(wrong("`cluster` is said twice")),
            ("cluster", "true") => cluster = Some(true),
            ("cluster", "false") => cluster = Some(false),
            ("cluster", _) => return Err(wrong("`cluster` is either true or false")),
            _ => {
                return Err(wrong(
                    "after the `?` stands an unknown parameter; the only one is cluster=true",
                ));
            }
        }
    }
    Ok(cluster)
}

/// Reads `%41` as `A`. Neither the text nor a part of it is quoted: it is a secret, or next to one.
fn unescape(text: &str, what: &str) -> Result<String, InvalidUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|digit| {
            digit
                .and_then(|digit| char::from(digit).to_digit(16))
                .and_then(|d| u8::try_from(d).ok())
        });
        let [Some(high), Some(low)] = digits else {
            return Err(wrong(format!("a `%` in the {what} is not followed by two hex digits")));
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| wrong(format!("the {what} is not UTF-8")))
}

/// Writes whatever could be taken for another part of the URL as `%41`.
fn escape(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// What Valkey and Redis listen on unless told otherwise.
const DEFAULT_PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Servers {
        match text.parse::<StoreUrl>().unwrap().0 {
            Place::Servers(servers) => servers,
            Place::Memory => panic!("{text} is in memory"),
        }
    }

    #[test]
    fn every_form_is_read() {
        assert!("memory://".parse::<StoreUrl>().unwrap().is_memory());
        let plain = servers("valkey://localhost");
        assert_eq!((plain.tls, plain.cluster, plain.database), (false, false, 0));
        assert_eq!(plain.hosts[0].to_string(), "localhost:6379");
        let full = servers("rediss://a%40b:p%3Ass@[::1]:7000/3?cluster=true");
        assert_eq!((full.tls, full.cluster, full.database), (true, true, 3));
        assert_eq!(full.hosts[0].to_string(), "[::1]:7000");
        assert_eq!(full.user.as_deref(), Some("a@b"));
        assert_eq!(full.password.unwrap().expose(), "p:ss");
        let several = servers("valkeys://:only@one,two:1,[fe80::1]");
        assert!(several.cluster && several.user.is_none());
        assert_eq!(several.hosts.len(), 3);
        assert_eq!(servers("redis://u:p@ss@host").password.unwrap().expose(), "p@ss");
    }

    #[test]
    fn what_cannot_be_read_says_why_and_shows_no_password() {
        for (text, why) in [
            ("localhost:6379", "no scheme"),
            ("http://s3cret@x", "unknown scheme"),
            ("u:s3cret://h", "unknown scheme"),
            ("valkey://u:s3cret", "no port"),
            ("valkey://u:s3cret/x", "no port"),
            ("valkey://h?s3cret", "unknown parameter"),
            ("valkey://h/s3cret", "no database number"),
            ("memory://x", "nothing may follow"),
            ("valkey://", "a host is missing"),
            ("valkey://a,,b", "a host is missing"),
            ("valkey://u:s3cret@host:99999", "no port"),
            ("valkey://u:s3cret@host:0", "no port"),
            ("valkey://u:s3cret%zz@host", "not followed by two hex digits"),
            ("valkey://u:s3cret%ff@host", "the password is not UTF-8"),
            ("valkey://u:s3/cret@host", "%2F"),
            ("valkey://u:s3?cret=1@host", "%2F"),
            ("valkey://host/first", "no database number"),
            ("valkey://host/-1", "no database number"),
            ("valkey://[::1", "lacks its `]`"),
            ("valkey://[::1]x", "or nothing"),
            ("valkey://a,b?cluster=false", "several hosts"),
            ("valkey://a?cluster=maybe", "either true or false"),
            ("valkey://a?cluster=true&cluster=true", "twice"),
            ("valkey://a?tls=1", "unknown parameter"),
            ("valkey://a b", "blanks"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again_but_for_the_password() {
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
