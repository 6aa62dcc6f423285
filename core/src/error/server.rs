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
#[non_exhaustive]
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

/// How a failure came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The server answered with an error.
    Reply,
    /// The call was sent, and no reply came.
    NoReply,
    /// The call was not sent.
    NotSent,
    /// No connection could be opened; the text names the server.
    Unreachable,
    /// The server has a newer function library than this program can use.
    ProgramTooOld,
}

/// One error reply of a server, or the failure to get any reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct ServerError {
    /// Its class.
    pub class: Class,
    /// Whether the call may have taken effect.
    pub applied: Applied,
    /// How it came about.
    pub cause: Cause,
    /// The text of the error reply, or of the failure.
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
        Self { class, applied, cause: Cause::Reply, text }
    }

    /// The failure of a call that was sent and got no reply.
    #[must_use]
    pub fn silence(text: impl Into<String>) -> Self {
        let (class, applied) = (Class::Silence, Applied::Perhaps);
        Self { class, applied, cause: Cause::NoReply, text: text.into() }
    }

    /// The failure of a call that was never sent.
    #[must_use]
    pub fn never_sent(text: impl Into<String>) -> Self {
        Self { cause: Cause::NotSent, ..Self::not_applied(Class::NotNow, text) }
    }

    /// The failure to connect to a server.
    #[must_use]
    pub fn unreachable(server: impl fmt::Display, why: impl fmt::Display) -> Self {
        let text = alloc::format!("cannot reach {server}: {why}");
        Self { cause: Cause::Unreachable, ..Self::not_applied(Class::NotNow, text) }
    }

    /// The server has a newer function library than this program can use.
    #[must_use]
    pub fn program_too_old(text: impl Into<String>) -> Self {
        Self { cause: Cause::ProgramTooOld, ..Self::not_applied(Class::Denied, text) }
    }

    /// A failure of this class, of a call that has certainly not taken effect.
    #[must_use]
    pub fn not_applied(class: Class, text: impl Into<String>) -> Self {
        Self { class, applied: Applied::No, cause: Cause::Reply, text: text.into() }
    }

    /// Whether the server answered, if only with an error.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        matches!(self.cause, Cause::Reply | Cause::ProgramTooOld)
    }

    /// Whether the server refused because of the user's rights, or because it does not know the
    /// user.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        self.cause == Cause::Reply
            && (ACCESS_DENIED.contains(&first_word(&self.text))
                || self.text.contains(DENIED_IN_SCRIPT))
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

/// First words of error replies about the user and its rights.
const ACCESS_DENIED: [&str; 3] = ["NOAUTH", "NOPERM", "WRONGPASS"];

/// In the error of a script, what the user may not do.
const DENIED_IN_SCRIPT: &str = "ACL failure in script";

/// Texts of servers that lack the function or its library.
const LIBRARY_MISSING: &[&str] = &[
    "ERR Function not found",
    "Function not loaded",
    "No matching function",
    "function not found",
];

/// In the error of a script, what it says of a key that is on another server: its slot migrates.
/// Our functions find that out before their first write.
const KEY_ELSEWHERE: &str = "ttempted to access a non local key in a cluster node";

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn classify(text: &str) -> (Class, Applied) {
    let first = first_word(text);
    if let Some(&(_, class)) = BY_FIRST_WORD.iter().find(|(word, _)| *word == first) {
        // Our functions detect a wrong type before their first write; other commands may not.
        let applied = if class == Class::Broken { Applied::Perhaps } else { Applied::No };
        return (class, applied);
    }
    // The user may call the function, and not what the function does; that it did some of it before
    // cannot be excluded.
    if text.contains(DENIED_IN_SCRIPT) {
        return (Class::Denied, Applied::Perhaps);
    }
    if text.contains(KEY_ELSEWHERE) {
        return (Class::NotNow, Applied::No);
    }
    if LIBRARY_MISSING.iter().any(|words| text.contains(words)) {
        return (Class::Library, Applied::No);
    }
    (Class::Broken, Applied::Perhaps)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

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
            (
                "ERR Attempted to access a non local key in a cluster node script: on @f:3.",
                Class::NotNow,
                Applied::No,
            ),
            (
                "ERR Script attempted to access a non local key in a cluster node script: f",
                Class::NotNow,
                Applied::No,
            ),
            ("WRONGTYPE Operation against a key", Class::Broken, Applied::Perhaps),
            ("ERR user_function:12: attempt to index nil", Class::Broken, Applied::Perhaps),
            ("", Class::Broken, Applied::Perhaps),
        ] {
            let error = ServerError::from_reply(text);
            assert_eq!((error.class, error.applied), (class, applied), "{text}");
        }
    }

    #[test]
    fn a_missing_right_is_named_as_the_rule_that_grants_it() {
        for (text, denied, right) in [
            ("NOPERM User app has no permissions to run the 'fcall' command", true, Some("+fcall")),
            (
                "NOPERM this user has no permissions to run the 'config|get' command",
                true,
                Some("+config|get"),
            ),
            ("NOPERM No permissions to access a channel", true, Some("&ff:*")),
            ("NOPERM No permissions to access a key", true, Some("~ff:*")),
            (
                "ERR ACL failure in script: User app has no permissions to run the 'hset' command \
                 script: ff_x",
                true,
                Some("+hset"),
            ),
            ("WRONGPASS invalid username-password pair or user is disabled.", true, None),
            ("NOAUTH Authentication required.", true, None),
            ("OOM command not allowed when used memory > 'maxmemory'.", false, None),
            ("ERR unknown command 'FCALL'", false, None),
        ] {
            let error = ServerError::from_reply(text);
            assert_eq!(error.is_access_denied(), denied, "{text}");
            assert_eq!(error.missing_right().as_deref(), right, "{text}");
        }
    }

    #[test]
    fn only_what_the_server_said_is_an_answer() {
        assert!(ServerError::from_reply("LOADING").is_answer());
        assert!(ServerError::program_too_old("upgrade").is_answer());
        assert!(!ServerError::silence("NOPERM in a text of ours").is_answer());
        assert!(!ServerError::silence("NOPERM in a text of ours").is_access_denied());
        assert!(!ServerError::never_sent("closed").is_answer());
        let unreachable = ServerError::unreachable("h:1", "refused");
        assert!(!unreachable.is_answer());
        assert_eq!(unreachable.to_string(), "cannot reach h:1: refused");
    }
}
