//! Numbers as the server writes them.

use crate::host::number::format_float;

/// A number given to `redis.call` as an argument, or returned as `{double = …}`.
pub(super) fn shortest(value: f64) -> String {
    match not_finite(value) {
        Some(text) => text.to_owned(),
        // Valkey writes whole numbers as integers here, and those have no negative zero.
        None if value == 0.0 => "0".to_owned(),
        None => format_float(value),
    }
}

/// C's `%.<precision>g`.
pub(super) fn general(value: f64, precision: usize) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, value.abs());
    let (digits, exponent) = decimal_digits(&scientific);
    let kept = digits.trim_end_matches('0');
    let kept = if kept.is_empty() { "0" } else { kept };
    let precision = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= precision {
        let (mark, size) = if exponent < 0 { ('-', -exponent) } else { ('+', exponent) };
        return format!("{sign}{}e{mark}{size:02}", with_point(kept, 1));
    }
    format!("{sign}{}", plain(kept, exponent))
}

fn not_finite(value: f64) -> Option<&'static str> {
    match (value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        (true, _, true) => Some("-nan"),
        (true, _, false) => Some("nan"),
        (_, true, true) => Some("-inf"),
        (_, true, false) => Some("inf"),
        (false, false, _) => None,
    }
}

/// Splits `d.ddde±x` into its digits and the exponent of the first one.
fn decimal_digits(scientific: &str) -> (String, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Digits without an exponent, padded with zeros on either side as needed.
fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("0.{}{digits}", "0".repeat(zeros));
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    with_point(digits, whole)
}

fn with_point(digits: &str, whole: usize) -> String {
    match digits.split_at_checked(whole) {
        Some((front, back)) if !back.is_empty() => format!("{front}.{back}"),
        Some(_) | None => digits.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{general, shortest};

    #[test]
    fn numbers_given_to_a_command_read_as_on_the_server() {
        let cases: [(f64, &str); 17] = [
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1e15, "1000000000000000"),
            (1e17, "100000000000000000"),
            (1e20, "1e+20"),
            (9_223_372_036_854_775_808.0, "9223372036854776000"),
            (-9_223_372_036_854_775_808.0, "-9223372036854776000"),
            (9_223_372_036_854_774_784.0, "9223372036854775000"),
            (f64::INFINITY, "inf"),
            (-0.0, "0"),
            (1e300, "1e+300"),
            (1e-5, "0.00001"),
            (1e-7, "1e-7"),
            (123_456_789.125, "123456789.125"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1.5e22, "1.5e+22"),
            (-2.5, "-2.5"),
        ];
        for (value, text) in cases {
            assert_eq!(shortest(value), text);
        }
    }

    #[test]
    fn fourteen_digits_read_as_in_c() {
        let cases: [(f64, &str); 11] = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e14, "1e+14"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (12_345_678_901_234.0, "12345678901234"),
            (1e300, "1e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
        ];
        for (value, text) in cases {
            assert_eq!(general(value, 14), text);
        }
    }
}
