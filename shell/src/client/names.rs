//! Checks names: kinds, tasks, namespaces, workers, signals, idempotency keys and tags.
//!
//! Names become parts of keys, tables and log lines, so they must be short and printable.

use thiserror::Error;

use super::invalid_flow::InvalidFlow;
use super::invalid_input::InvalidInput;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has {bytes} bytes; the limit is {NAME_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It contains a control character.
    #[error("character {position} is a control character")]
    ControlCharacter {
        /// Where, counted from one.
        position: usize,
    },
    /// It contains a character that cannot be seen.
    #[error("character {position} cannot be seen (U+{:04X})", u32::from(*.character))]
    InvisibleCharacter {
        /// Where, counted from one.
        position: usize,
        /// The character.
        character: char,
    },
}

/// Characters that show nothing, or change the direction of what follows: in a table or a log line
/// the name would look like another one.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    )
}

/// Checks a name: not empty, at most [`NAME_BYTES_MAX`] bytes, no control characters and none that
/// cannot be seen.
pub(crate) fn check_name(text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(InvalidName::TooLong { bytes: text.len() });
    }
    for (character, position) in text.chars().zip(1..) {
        if character.is_control() {
            return Err(InvalidName::ControlCharacter { position });
        }
        if is_invisible(character) {
            return Err(InvalidName::InvisibleCharacter { position, character });
        }
    }
    Ok(())
}

/// [`check_name`] for an argument of a call; `what` names it in the error.
pub(crate) fn check_argument(what: &'static str, text: &str) -> Result<(), InvalidInput> {
    check_name(text).map_err(|reason| InvalidInput::Name { what, reason })
}

/// [`check_name`] for a name in a flow; `what` names it in the error.
pub(super) fn check_text(what: &'static str, text: &str) -> Result<(), InvalidFlow> {
    check_name(text).map_err(|reason| InvalidFlow::Name { what, text: text.to_owned(), reason })
}

/// Checks tags by the contract's rule: `<caller>.<name>`, the caller in lower case letters, digits
/// and underscores.
pub(super) fn check_tags<'a>(
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), InvalidFlow> {
    let is_name = |tag: &str| {
        tag.split_once('.').is_some_and(|(caller, name)| {
            let word = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
            caller.starts_with(|first: char| first.is_ascii_lowercase())
                && caller.chars().all(word)
                && !name.is_empty()
                && !name.starts_with('.')
        })
    };
    match names.find(|tag| !is_name(tag)) {
        Some(tag) => Err(InvalidFlow::Tag { tag: tag.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        for good in ["a", "größer als null", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for (bad, says) in [
            ("", "empty"),
            ("a\nb", "character 2"),
            ("\u{7f}", "character 1"),
            ("pay\u{202e}fdp", "character 4 cannot be seen (U+202E)"),
            ("a\u{200b}", "character 2 cannot be seen"),
            (&"x".repeat(NAME_BYTES_MAX + 1), "257 bytes"),
        ] {
            assert!(check_name(bad).unwrap_err().to_string().contains(says), "{bad:?}");
        }
    }
}
