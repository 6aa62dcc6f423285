//! The server's own error replies, classified by one table.

use alloc::string::String;
use core::fmt;

use thiserror::Error;

/// Whether a call that failed has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Certainly not: the call may be repeated as it is.
    No,
    /// Perhaps: repeat only an idempotent call, or read and compare.
    Perhaps,
}

/// The kind of a failure. [`crate::retry`] says which kinds are worth another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No reply came.
    Silence,
    /// The server cannot answer now. No fault of the item that the call was about.
    NotNow,
    /// Another server owns the slot; the store follows it.
    Redirect,
    /// The function library is missing or of another version; the store reloads it.
    Library,
    /// Something is wrong with the data or with this program.
    Broken,
    /// Refused because of rights, role, memory or disk: the engine reports it and keeps trying.
    Denied,
}

/// One error reply of a server, or the failure to get any reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct ServerError {
    /// Its class.
    pub class: Class,
    /// Whether the call may have taken effect.
    pub applied: Applied,
    /// The text of the error reply.
    pub text: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ServerError {
    /// Classifies an error reply. An unknown one is *broken* and *perhaps applied*.
    #[must_use]
    pub fn from_reply(text: impl Into<String>) -> Self {
        let text = text.into();
        let (class, applied) = classify(&text);
        Self { class, applied, text }
    }

    /// The failure of a call that was sent and got no reply.
    #[must_use]
    pub fn silence(text: impl Into<String>) -> Self {
        Self { class: Class::Silence, applied: Applied::Perhaps, text: text.into() }
    }

    /// The failure of a call that was never sent.
    #[must_use]
    pub fn never_sent(text: impl Into<String>) -> Self {
        Self::not_applied(Class::NotNow, text)
    }

    /// What an ACL rule must allow for the call to pass, such as `+hset`: `None` for any other
    /// error, and for servers that do not name it.
    #[must_use]
    pub fn missing_right(&self) -> Option<String> {
        let quoted = |words: &str| {
            let (_, rest) = self.text.split_once(words)?;
            rest.split_once('\'').map(|(name, _)| name)
        };
        if let Some(command) = quoted("no permissions to run the '") {
            return Some(alloc::format!("+{command}"));
        }
        let lacks = |words: &str| self.text.contains(words);
        match () {
            () if lacks("access a channel") || lacks("to access a channel used") => {
                Some("&ff:*".into())
            }
            () if lacks("access a key") || lacks("to access one of the keys") => {
                Some("~ff:*".into())
            }
            () => None,
        }
    }

    /// A failure of this class, of a call that has certainly not taken effect.
    #[must_use]
    pub fn not_applied(class: Class, text: impl Into<String>) -> Self {
        Self { class, applied: Applied::No, text: text.into() }
    }
}

/// First words of error replies that a server gives before it runs anything.
const BY_FIRST_WORD: &[(&str, Class)] = &[
    ("LOADING", Class::NotNow),
    ("BUSY", Class::NotNow),
    ("CLUSTERDOWN", Class::NotNow),
    ("TRYAGAIN", Class::NotNow),
    ("MASTERDOWN", Class::NotNow),
    ("UNBLOCKED", Class::NotNow),
    ("MOVED", Class::Redirect),
    ("ASK", Class::Redirect),
    ("NOAUTH", Class::Denied),
    ("NOPERM", Class::Denied),
    ("WRONGPASS", Class::Denied),
    ("READONLY", Class::Denied),
    ("OOM", Class::Denied),
    ("MISCONF", Class::Denied),
    ("NOREPLICAS", Class::Denied),
    ("CROSSSLOT", Class::Broken),
    ("WRONGTYPE", Class::Broken),
];

/// Texts of servers that lack the function or its library.
const LIBRARY_MISSING: &[&str] = &[
    "ERR Function not found",
    "Function not loaded",
    "No matching function",
    "function not found",
];

fn classify(text: &str) -> (Class, Applied) {
    let first = text.split(' ').next().unwrap_or_default();
    if let Some(&(_, class)) = BY_FIRST_WORD.iter().find(|(word, _)| *word == first) {
        // Our functions detect a wrong type before their first write; other commands may not.
        let applied = if class == Class::Broken { Applied::Perhaps } else { Applied::No };
        return (class, applied);
    }
    // The user may call the function, and not what the function does; that it did some of it before
    // cannot be excluded.
    if text.contains("ACL failure in script") {
        return (Class::Denied, Applied::Perhaps);
    }
    if LIBRARY_MISSING.iter().any(|words| text.contains(words)) {
        return (Class::Library, Applied::No);
    }
    (Class::Broken, Applied::Perhaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_right_is_named() {
        for (text, right) in [
            ("NOPERM User app has no permissions to run the 'fcall' command", Some("+fcall")),
            (
                "ERR ACL failure in script: User a has no permissions to run the 'hset' command \
              script: f, on @user_function:1.",
                Some("+hset"),
            ),
            ("NOPERM No permissions to access a channel", Some("&ff:*")),
            ("NOPERM No permissions to access a key", Some("~ff:*")),
            ("NOAUTH Authentication required.", None),
        ] {
            assert_eq!(ServerError::from_reply(text).missing_right().as_deref(), right, "{text}");
        }
    }

    #[test]
    fn known_errors_have_their_class() {
        for (text, class, applied) in [
            ("LOADING server is loading the dataset in memory", Class::NotNow, Applied::No),
            ("BUSY running a script", Class::NotNow, Applied::No),
            ("CLUSTERDOWN The cluster is down", Class::NotNow, Applied::No),
            ("MOVED 3999 127.0.0.1:6381", Class::Redirect, Applied::No),
            ("NOAUTH Authentication required.", Class::Denied, Applied::No),
            ("READONLY You can't write against a read only replica.", Class::Denied, Applied::No),
            (
                "ERR ACL failure in script: User app has no permissions to run the 'set' command",
                Class::Denied,
                Applied::Perhaps,
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", Class::Denied, Applied::No),
            ("ERR Function not found", Class::Library, Applied::No),
            ("WRONGTYPE Operation against a key", Class::Broken, Applied::Perhaps),
            ("ERR user_function:12: attempt to index nil", Class::Broken, Applied::Perhaps),
            ("", Class::Broken, Applied::Perhaps),
        ] {
            let error = ServerError::from_reply(text);
            assert_eq!((error.class, error.applied), (class, applied), "{text}");
        }
    }
}
