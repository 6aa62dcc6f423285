//! Parses a [`StoreUrl`].
//!
//! No error quotes the URL or a part of it, because it may contain a password.

use std::net::Ipv6Addr;
use std::str::FromStr;

use super::{Address, InvalidUrl, Location, Servers, StoreUrl};
use crate::secret_text::SecretText;

impl FromStr for StoreUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            invalid(
                "no scheme; expected memory://, valkey://HOST, valkeys://HOST, redis://HOST or \
                 rediss://HOST",
            )
        })?;
        let (scheme, tls) = match scheme {
            "memory" if rest.is_empty() => return Ok(Self::memory()),
            "memory" => return Err(invalid("nothing may follow memory://")),
            "valkey" => ("valkey", false),
            "valkeys" => ("valkeys", true),
            "redis" => ("redis", false),
            "rediss" => ("rediss", true),
            _ => {
                return Err(invalid(
                    "unknown scheme; expected memory, valkey, valkeys, redis or rediss",
                ));
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Most likely an unescaped password.
        if path.contains('@') || query.contains('@') {
            return Err(invalid(
                "an `@` comes after a `/` or `?`; in a password, write these as %2F and %3F",
            ));
        }
        // A password may contain an unescaped `@`; a host never does.
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let hosts = parse_hosts(hosts)?;
        let cluster = parse_query(query)?.unwrap_or(hosts.len() > 1);
        if hosts.len() > 1 && !cluster {
            return Err(invalid(
                "several hosts mean a cluster; give one host, or drop cluster=false",
            ));
        }
        let (user, password) = parse_credentials(credentials)?;
        let database = parse_database(path)?;
        Ok(Self(Location::Servers(Servers {
            scheme,
            tls,
            cluster,
            hosts,
            user,
            password,
            database,
        })))
    }
}

fn invalid(text: impl Into<String>) -> InvalidUrl {
    InvalidUrl(text.into())
}

fn parse_hosts(text: &str) -> Result<Vec<Address>, InvalidUrl> {
    text.split(',').map(parse_host).collect()
}

fn parse_host(text: &str) -> Result<Address, InvalidUrl> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| {
                invalid("an IPv6 address begins with `[` and lacks the closing `]`")
            })?;
            let (address, _zone) = host.split_once('%').unwrap_or((host, ""));
            if address.parse::<Ipv6Addr>().is_err() {
                return Err(invalid("only an IPv6 address may stand between `[` and `]`"));
            }
            match after {
                "" => (host, None),
                _ => (
                    host,
                    Some(after.strip_prefix(':').ok_or_else(|| {
                        invalid("only `:` and a port may follow the `]` of an IPv6 address")
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
        return Err(invalid("missing host"));
    }
    if host.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return Err(invalid("a host contains whitespace or control characters"));
    }
    if host.contains(['[', ']']) {
        return Err(invalid(
            "a host contains brackets; only a whole IPv6 address may be in brackets",
        ));
    }
    let port = match port {
        None => DEFAULT_PORT,
        // Not quoted: in a URL that lacks its `@`, this is the password.
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
            invalid(
                "invalid port after the `:` of a host: expected 1 to 65535; credentials end with \
                 `@`",
            )
        })?,
    };
    Ok(Address { host: host.to_owned(), port })
}

fn parse_credentials(
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

fn parse_database(path: &str) -> Result<u32, InvalidUrl> {
    match path {
        "" => Ok(0),
        _ => path
            .parse()
            .map_err(|_| invalid("invalid database after the `/`: expected a number, as in /2")),
    }
}

/// Parses the query: the only parameter is `cluster`.
fn parse_query(query: &str) -> Result<Option<bool>, InvalidUrl> {
    let mut cluster = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("cluster", _) if cluster.is_some() => return Err(invalid("`cluster` is given twice")),
            ("cluster", "true") => cluster = Some(true),
            ("cluster", "false") => cluster = Some(false),
            ("cluster", _) => return Err(invalid("`cluster` must be true or false")),
            _ => {
                return Err(invalid(
                    "unknown parameter after the `?`; the only one is cluster=true",
                ));
            }
        }
    }
    Ok(cluster)
}

/// Decodes percent-encoding. `what` names the text in errors, which do not quote it.
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
            return Err(invalid(format!("a `%` in the {what} is not followed by two hex digits")));
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("the {what} is not UTF-8")))
}

/// The default port of Valkey and Redis.
const DEFAULT_PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Servers {
        match text.parse::<StoreUrl>().unwrap().0 {
            Location::Servers(servers) => servers,
            Location::Memory => panic!("{text} is in memory"),
        }
    }

    #[test]
    fn every_form_is_parsed() {
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
    fn errors_name_the_problem_and_show_no_password() {
        for (text, why) in [
            ("localhost:6379", "no scheme"),
            ("http://s3cret@x", "unknown scheme"),
            ("u:s3cret://h", "unknown scheme"),
            ("valkey://u:s3cret", "invalid port"),
            ("valkey://u:s3cret/x", "invalid port"),
            ("valkey://h?s3cret", "unknown parameter"),
            ("valkey://h/s3cret", "invalid database"),
            ("memory://x", "nothing may follow"),
            ("valkey://", "missing host"),
            ("valkey://a,,b", "missing host"),
            ("valkey://u:s3cret@host:99999", "invalid port"),
            ("valkey://u:s3cret@host:0", "invalid port"),
            ("valkey://u:s3cret%zz@host", "not followed by two hex digits"),
            ("valkey://u:s3cret%ff@host", "the password is not UTF-8"),
            ("valkey://u:s3/cret@host", "%2F"),
            ("valkey://u:s3?cret=1@host", "%2F"),
            ("valkey://host/first", "invalid database"),
            ("valkey://host/-1", "invalid database"),
            ("valkey://[::1", "lacks the closing `]`"),
            ("valkey://[::1]x", "may follow the `]`"),
            ("valkey://a,b?cluster=false", "several hosts"),
            ("valkey://a?cluster=maybe", "true or false"),
            ("valkey://a?cluster=true&cluster=true", "twice"),
            ("valkey://a?tls=1", "unknown parameter"),
            ("valkey://a b", "whitespace"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
