//! A token is read or refused, kept to the byte, and never shown.

use selvedge_core::token::{InvalidToken, WaitpointToken};

/// Reads a text as a token.
///
/// # Panics
/// When a token is changed or shown.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
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
            let told = error.to_string();
            assert!(text.len() < 12 || !told.contains(text), "the refusal repeats the text");
        }
    }
}
