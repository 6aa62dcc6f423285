//! What a name may be: kinds, tasks, namespaces, signals and idempotency keys.
//!
//! They end up in keys, tables and log lines, so they are short and printable; what they mean is
//! their owner's business.

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Says what keeps a text from being a name, if anything does.
pub(crate) fn check_name(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(format!("it has {} bytes; at most {NAME_BYTES_MAX} are possible", text.len()));
    }
    match text.chars().position(char::is_control) {
        Some(at) => Err(format!("character {} cannot be printed", at + 1)),
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
            (&"x".repeat(NAME_BYTES_MAX + 1), "257 bytes"),
        ] {
            assert!(check_name(bad).unwrap_err().contains(says), "{bad:?}");
        }
    }
}
