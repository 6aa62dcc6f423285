//! Numbers in text, read and written as the server does.

/// Reads a whole number in its one canonical spelling: no plus sign, no blanks, no leading zeros.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical || digits.len() > 19 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a number without sign, as leniently as the C library does: blanks, a plus sign or
/// leading zeros in front, and a minus sign that wraps around.
pub(crate) fn parse_unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_int(text) {
        return u64::try_from(number).ok();
    }
    let (negated, digits) = match text.trim_ascii_start() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negated { number.wrapping_neg() } else { number })
}

/// Reads a float: decimal or scientific, or an infinity by name. Refuses NaN, blanks, and what
/// only an infinity or a zero could stand for.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let named = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
    if number.is_nan() || (number.is_infinite() && !named) {
        return None;
    }
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(text);
    let underflowed = number == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    if underflowed { None } else { Some(number) }
}

/// Writes a float in the fewest digits that read back as the same number.
pub(crate) fn format_float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if number == 0.0 && number.is_sign_negative() {
        return "-0".to_owned();
    }
    // Whole numbers that surely fit a signed integer are written as one.
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return (number as i64).to_string();
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|char| *char != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", lay_out(&digits, exponent))
}

/// Places the point among the digits, of which the first has the weight of `exponent`.
fn lay_out(digits: &str, exponent: i32) -> String {
    let count = digits.len() as i32;
    // The weight of the last digit.
    let shift = exponent - count + 1;
    if shift >= 0 && exponent.abs() < count + 7 {
        return format!("{digits}{}", "0".repeat(shift as usize));
    }
    if shift < 0 && (shift > -7 || exponent.abs() < 4) {
        return if exponent < 0 {
            format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize))
        } else {
            let (whole, fraction) = digits.split_at((exponent + 1) as usize);
            format!("{whole}.{fraction}")
        };
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{first}{point}{rest}e{exponent:+}")
}
