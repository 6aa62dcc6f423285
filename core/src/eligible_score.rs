//! The score of an execution in the eligible index of its lane: the lowest is claimed first. A
//! higher priority comes before an earlier creation.

use crate::time::ServerTime;

/// One step of priority, in milliseconds of creation time: about 31 years.
const PRIORITY_STEP_MS: i64 = 1_000_000_000_000;

/// The score of an execution that was created at this time. A priority may be any number that is in
/// the record.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a time of this millennium is exact")]
pub fn eligible_score(created_at_ms: i64, priority: f64) -> f64 {
    created_at_ms as f64 - priority * PRIORITY_STEP_MS as f64
}

/// The age of a waiting execution by its score. No execution is as old as one step of priority, so
/// the two can be separated.
#[must_use]
pub fn age_ms(now: ServerTime, score: i64) -> i64 {
    now.0.saturating_sub(score).rem_euclid(PRIORITY_STEP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_read_from_a_score_with_any_priority() {
        let now = ServerTime(1_790_000_000_000);
        for (priority, score) in [
            (0.0, 1_789_999_998_500),
            (1.0, 789_999_998_500),
            (5.0, -3_210_000_001_500),
            (9_000.0, -8_998_210_000_001_500),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let as_float = score as f64;
            assert_eq!(age_ms(now, score), 1_500, "{priority}");
            assert!((eligible_score(now.0 - 1_500, priority) - as_float).abs() < 0.5);
        }
    }
}
