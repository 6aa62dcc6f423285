//! Signed waitpoint tokens: `<kid>:<40 lowercase hex digits>`.
//!
//! Tokens are minted and checked inside the store; here they are only read, so that a malformed
//! one is refused before it travels.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// Length of the digest: HMAC-SHA1 as hex.
const DIGEST_DIGITS: usize = 40;

/// A token that has the form of one. Whether it is true only the store can say.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WaitpointToken(String);

impl WaitpointToken {
    /// The key id that signed it.
    #[must_use]
    pub fn kid(&self) -> &str {
        self.0.split_once(':').map_or("", |(kid, _)| kid)
    }

    /// The token as it goes over the wire. It is a credential: do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WaitpointToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitpointToken({}:…)", self.kid())
    }
}

/// Why a text is no token; it does not repeat the text, which may be a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// Nothing there.
    #[error("the waitpoint token is empty")]
    Missing,
    /// No `kid:` before the digest.
    #[error("a waitpoint token must be `<kid>:<digest>`, neither part empty")]
    Form,
    /// A digest of another length.
    #[error("the digest of a waitpoint token must have 40 characters")]
    DigestLength,
}

impl FromStr for WaitpointToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidToken::Missing);
        }
        match text.split_once(':') {
            Some((kid, digest)) if !kid.is_empty() && !digest.is_empty() => {
                if digest.len() == DIGEST_DIGITS {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidToken::DigestLength)
                }
            }
            Some(_) | None => Err(InvalidToken::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn the_form_is_checked_in_the_order_of_the_contract() {
        let read = |text: &str| text.parse::<WaitpointToken>().map(|token| token.kid().len());
        assert_eq!(read("k1:ffce0f2360557335e0fdcbf3438cd2990f67f58b"), Ok(2));
        assert_eq!(read(""), Err(InvalidToken::Missing));
        for form in ["k1", ":abc", "k1:"] {
            assert_eq!(read(form), Err(InvalidToken::Form), "{form}");
        }
        assert_eq!(read("k1:abc"), Err(InvalidToken::DigestLength));
    }

    #[test]
    fn a_token_is_not_printed() {
        let token: WaitpointToken = "k1:ffce0f2360557335e0fdcbf3438cd2990f67f58b".parse().unwrap();
        assert!(!format!("{token:?}").contains("ffce"));
    }
}
