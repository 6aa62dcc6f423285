//! Capability lists: sorted tokens joined by commas.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// What a worker can do, or what an execution needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<String>);

impl Capabilities {
    /// Most tokens in a list.
    pub const TOKENS_MAX: usize = 256;
    /// Longest list, joined.
    pub const BYTES_MAX: usize = 4096;

    /// A list of these tokens.
    ///
    /// # Errors
    /// When a token is empty, has a comma, whitespace or a control character, or the list is
    /// too long.
    pub fn new<T: Into<String>>(
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, InvalidCapabilities> {
        let tokens: BTreeSet<String> = tokens.into_iter().map(Into::into).collect();
        for token in &tokens {
            check(token)?;
        }
        if tokens.len() > Self::TOKENS_MAX {
            return Err(InvalidCapabilities::TooManyTokens { tokens: tokens.len() });
        }
        let list = Self(tokens);
        let bytes = list.to_string().len();
        if bytes > Self::BYTES_MAX {
            return Err(InvalidCapabilities::TooManyBytes { bytes });
        }
        Ok(list)
    }

    /// What `self` asks for and `offered` lacks, in order.
    #[must_use]
    pub fn missing_from(&self, offered: &Self) -> Vec<String> {
        self.0.difference(&offered.0).cloned().collect()
    }

    /// Digest for logs and the opaque hash of a claim: FNV-1a folded to 32 bits, as hex.
    #[must_use]
    pub fn digest(&self) -> String {
        let hash = fnv1a(self.to_string().as_bytes());
        alloc::format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
    }
}

/// Whether a worker that registered this list may have all of `needs`. A list that cannot be read
/// may hold them: the claim compares again. An empty one is of a worker that has none, or is gone.
#[must_use]
pub fn may_cover(registered: &str, needs: &Capabilities) -> bool {
    match registered.parse::<Capabilities>() {
        Ok(offered) => needs.missing_from(&offered).is_empty(),
        Err(_) => true,
    }
}

/// FNV-1a over 64 bits; the contract uses it for digests and for the offset of a worker's scan.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, token) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            f.write_str(token)?;
        }
        Ok(())
    }
}

impl FromStr for Capabilities {
    type Err = InvalidCapabilities;

    /// Reads a joined list; empty tokens are skipped.
    fn from_str(joined: &str) -> Result<Self, Self::Err> {
        Self::new(joined.split(',').filter(|token| !token.is_empty()))
    }
}

fn check(token: &str) -> Result<(), InvalidCapabilities> {
    let token_error = |what| Err(InvalidCapabilities::Token { token: token.into(), what });
    if token.is_empty() {
        return token_error("is empty");
    }
    if token.contains(',') {
        return token_error("has a comma");
    }
    if token.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return token_error("has whitespace or a control character");
    }
    Ok(())
}

/// A list that breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidCapabilities {
    /// One token is wrong.
    #[error("capability `{token}` {what}")]
    Token {
        /// The token.
        token: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Too many tokens.
    #[error("at most 256 capabilities are allowed, got {tokens}")]
    TooManyTokens {
        /// How many there are.
        tokens: usize,
    },
    /// Too long when joined.
    #[error("the joined capabilities may have at most 4096 bytes, got {bytes}")]
    TooManyBytes {
        /// How long it is.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_contract() {
        assert_eq!(Capabilities::default().digest(), "4fd0bfc1");
        // The contract's vector is over the unsorted text `gpu,cuda`.
        let hash = fnv1a(b"gpu,cuda");
        assert_eq!(alloc::format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff)), "b21a6dfa");
    }

    #[test]
    fn lists_are_sorted_and_bounded() {
        assert_eq!("gpu,,cuda".parse::<Capabilities>().unwrap().to_string(), "cuda,gpu");
        assert!(Capabilities::new(["a b"]).is_err());
        assert!(Capabilities::new(["a,b"]).is_err());
        assert!(Capabilities::new((0..257).map(|n| n.to_string())).is_err());
        assert!(Capabilities::new(["x".repeat(4097)]).is_err());
        assert!(Capabilities::new(["x".repeat(4096)]).is_ok());
    }

    #[test]
    fn what_is_missing_is_listed() {
        let needs: Capabilities = "a,b,c".parse().unwrap();
        let offers: Capabilities = "b".parse().unwrap();
        assert_eq!(needs.missing_from(&offers), ["a", "c"]);
    }
}
