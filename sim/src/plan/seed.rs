//! Seeds: a number, or a commit id.

use std::fmt;
use std::str::FromStr;

/// A seed of all random draws: a whole number, or a commit id of 40 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed([u8; 20]);

impl Seed {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The seed `step` further on.
    #[must_use]
    pub fn plus(mut self, step: u64) -> Self {
        let mut carry = u128::from(step);
        for byte in self.0.iter_mut().rev() {
            carry += u128::from(*byte);
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        self
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        let mut bytes = [0; 20];
        bytes[12..].copy_from_slice(&number.to_be_bytes());
        Self(bytes)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, tail) = self.0.split_at(12);
        if head.iter().all(|byte| *byte == 0) {
            let number = tail.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
            return write!(f, "{number}");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a seed: expected a whole number or a commit id of 40 digits")
        };
        if text.len() != 40 {
            return text.parse::<u64>().map(Self::from).map_err(|_| wrong());
        }
        let mut bytes = [0; 20];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_round_trip() {
        for text in
            ["0", "8812940317", "18446744073709551615", "dc3657c0aa00000000000000000000000000ffff"]
        {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        for wrong in ["", "-1", "x", "zc3657c0aa00000000000000000000000000ffff"] {
            assert!(wrong.parse::<Seed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_count_up_with_carry() {
        let seed: Seed = "dc3657c0aa00000000000000000000000000ffff".parse().unwrap();
        assert_eq!(seed.plus(1).to_string(), "dc3657c0aa000000000000000000000000010000");
        assert_eq!(Seed::from(255).plus(1), Seed::from(256));
    }
}
