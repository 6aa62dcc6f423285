//! Waitpoint tokens: read byte for byte or refused, and never shown.

use selvedge_core::token::{InvalidToken, WaitpointToken};

/// Reads a text as a token.
///
/// # Panics
/// When a token is changed or shown, or refused for anything but its form.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    assert_eq!(text.parse::<WaitpointToken>().err(), wrong_form(text), "`{text}`");
    match text.parse::<WaitpointToken>() {
        Ok(token) => {
            assert_eq!(token.expose(), text);
            let digest = text.get(token.kid().len() + 1..).expect("the digest follows the kid");
            assert_eq!(digest.len(), 40, "a digest of another length was let through");
            let another = format!("{}:{}", token.kid(), "0".repeat(40)).parse::<WaitpointToken>();
            let shown = format!("{:?}", Ok::<_, InvalidToken>(token));
            assert_eq!(shown, format!("{another:?}"), "what is shown depends on the digest");
        }
        Err(error) => {
            let another = masked(text).parse::<WaitpointToken>();
            assert_eq!(Err(error), another, "the refusal depends on the letters");
        }
    }
}

/// What is wrong with the form of a text, in the order in which the contract asks.
fn wrong_form(text: &str) -> Option<InvalidToken> {
    let parted = text.bytes().position(|byte| byte == b':');
    match parted.map(|at| (at, text.len() - at - 1)) {
        None if text.is_empty() => Some(InvalidToken::Missing),
        None | Some((0, _) | (_, 0)) => Some(InvalidToken::Form),
        Some((_, 40)) => None,
        Some(_) => Some(InvalidToken::DigestLength),
    }
}

/// A text of the same form without any of its letters.
fn masked(text: &str) -> String {
    let mask =
        |letter: char| if letter == ':' { ":".to_owned() } else { "x".repeat(letter.len_utf8()) };
    text.chars().map(mask).collect()
}
