//! Patterns, and walking large collections in pages.

/// Whether the text fits the pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // Where to go on if the text since the last star does not fit: one byte further.
    let mut retry: Option<(&[u8], &[u8])> = None;
    let (mut pattern_left, mut text_left) = (pattern, text);
    loop {
        let step = match (pattern_left, text_left) {
            ([], []) => return true,
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, text_left));
                pattern_left = rest;
                continue;
            }
            (_, [byte, ..]) => match_one(pattern_left, *byte),
            (_, []) => None,
        };
        match (step, &mut retry) {
            (Some(rest), _) => {
                pattern_left = rest;
                text_left = &text_left[1..];
            }
            (None, Some((after_star, [_, further @ ..]))) => {
                pattern_left = after_star;
                text_left = further;
                retry = Some((pattern_left, text_left));
            }
            (None, Some((_, [])) | None) => return false,
        }
    }
}

/// Matches one byte against the head of the pattern and answers the rest of the pattern.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => match_class(rest, byte),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Matches one byte against a class whose bracket is open. A class never closed ends with the
/// pattern.
fn match_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut left) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut hit = false;
    loop {
        left = match left {
            [] => break,
            [b']', rest @ ..] => {
                left = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
            [low, b'-', high, rest @ ..] => {
                hit |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
        };
    }
    (hit != negated).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_match_as_on_the_server() {
        let fits = |pattern: &str, text: &str| glob(pattern.as_bytes(), text.as_bytes());
        assert!(fits("*", ""));
        assert!(fits("a*c", "abbbc"));
        assert!(!fits("a*c", "abbb"));
        assert!(fits("*a*b*", "xxaxxbxx"));
        assert!(fits("h?llo", "hello"));
        assert!(!fits("h?llo", "hllo"));
        assert!(fits("h[ae]llo", "hallo"));
        assert!(fits("h[^e]llo", "hallo"));
        assert!(!fits("h[^e]llo", "hello"));
        assert!(fits("h[z-a]llo", "hmllo"));
        assert!(fits(r"a\*b", "a*b"));
        assert!(!fits(r"a\*b", "axb"));
        assert!(fits("[a", "a"));
        assert!(!fits("", "a"));
    }
}
