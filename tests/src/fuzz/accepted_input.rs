//! Input that a parser must accept.
//!
//! A target that only checks what was read would pass a parser that refuses everything. So input in
//! its plain, documented form must be accepted; the rest may be accepted or refused. These
//! functions look at the form alone, without the parsers under test.

/// 32 small hex digits with hyphens in their places.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Digits without a leading zero, and not more than this.
#[must_use]
pub fn is_number(text: &str, most: u64) -> bool {
    text.parse::<u64>().is_ok_and(|number| number <= most && number.to_string() == text)
}

/// A hash tag of this family with a partition in it.
#[must_use]
pub fn is_tag(text: &str, family: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let number = inner.and_then(|inner| inner.strip_prefix(family)?.strip_prefix(':'));
    number.is_some_and(|number| is_number(number, u16::MAX.into()))
}

/// A partition of flows, and a UUID.
#[must_use]
pub fn is_execution_id(text: &str) -> bool {
    let parts = text.find("}:").map(|end| text.split_at(end + 1));
    parts.is_some_and(|(tag, id)| is_tag(tag, "fp") && is_uuid(&id[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn only_the_plain_spelling_must_be_accepted() {
        assert!(
            is_uuid(UUID) && !is_uuid(&UUID.to_uppercase()) && !is_uuid(&UUID.replace('-', ""))
        );
        assert!(is_number("65535", 65_535) && !is_number("65536", 65_535));
        assert!(is_number("0", 9) && !is_number("007", 9) && !is_number("+7", 9));
        assert!(is_execution_id(&format!("{{fp:7}}:{UUID}")));
        for other in [format!("{{b:7}}:{UUID}"), format!("{{fp:07}}:{UUID}"), "}:".to_owned()] {
            assert!(!is_execution_id(&other), "{other}");
        }
    }
}
