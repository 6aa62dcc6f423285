//! Whether a budget has room, and whether a quota admits one more: one rule each, for the worker
//! that asks before it claims and for the scanner that releases what was held back. If the two
//! judged differently, they would release and hold back the same execution again and again.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::command::Command;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::PartitionCounts;

/// The budgets in a comma-separated list. What is not a budget id limits nothing.
pub fn budget_ids(list: &str) -> impl Iterator<Item = BudgetId> + '_ {
    list.split(',').filter_map(|id| id.trim().parse().ok())
}

/// What to read of each budget, in pairs: its limits and its usage, for [`exhausted`].
#[must_use]
pub fn budget_reads(
    partitions: PartitionCounts,
    budgets: impl Iterator<Item = BudgetId>,
) -> Vec<Command> {
    budgets
        .flat_map(|id| {
            let keys = Key::budget(partitions.of_budget(id), id);
            [keys.limits(), keys.usage()].map(|key| Command::read("HGETALL", &key, &[]))
        })
        .collect()
}

/// A hard limit of a budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted<'a> {
    /// Of which dimension.
    pub dimension: &'a str,
    /// How much of it is used.
    pub used: i64,
    /// How much of it may be used.
    pub limit: i64,
}

impl fmt::Display for Exhausted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.dimension, self.used, self.limit)
    }
}

/// The first hard limit of a budget that is used up; none while the budget has room. A limit of
/// zero or less, or one that is not a number, does not limit.
#[must_use]
pub fn exhausted<'a>(
    limits: &'a BTreeMap<String, String>,
    usage: &BTreeMap<String, String>,
) -> Option<Exhausted<'a>> {
    limits.iter().find_map(|(name, limit)| {
        let dimension = name.strip_prefix("hard:")?;
        // Usage is counted in whole units: a limit of 10.5 is reached with 11.
        let limit = read_limit(limit);
        let used = usage.get(dimension).map_or(0, |used| read_usage(used));
        (limit > 0 && used >= limit).then_some(Exhausted { dimension, used, limit })
    })
}

/// A stored limit in whole units, rounded up; zero or less if there is none.
#[must_use]
pub fn read_limit(text: &str) -> i64 {
    number(text).map_or(0, |limit| floor(-limit).saturating_neg())
}

/// A stored usage in whole units, rounded down; zero if it is not a number.
#[must_use]
pub fn read_usage(text: &str) -> i64 {
    number(text).map_or(0, floor)
}

/// A stored amount, which other programs may write in any form that the store's functions read.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| !number.is_nan())
}

/// The largest whole number that is not above `number`.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "saturates")]
const fn floor(number: f64) -> i64 {
    let whole = number as i64;
    if number < whole as f64 { whole.saturating_sub(1) } else { whole }
}

/// What a quota admits, as its stored policy defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaTerms {
    /// How many may start within a window; zero for any number.
    pub rate: u64,
    /// How long a window lasts; never zero.
    pub window_seconds: u64,
    /// How many may run at a time; zero for any number.
    pub concurrency_cap: u64,
    /// By how much the hint when to ask again is spread.
    pub jitter_ms: u64,
}

impl QuotaTerms {
    /// The fields of a stored policy, for an `HMGET` whose reply [`QuotaTerms::read`] reads.
    pub const FIELDS: [&'static [u8]; 4] = [
        b"max_requests_per_window",
        b"requests_per_window_seconds",
        b"active_concurrency_cap",
        b"jitter_ms",
    ];

    /// Reads the fields of a stored policy. A window that is zero, missing or not a number is one
    /// of [`DEFAULT_WINDOW_SECONDS`]; any other such field does not limit.
    #[must_use]
    pub fn read(fields: &[String]) -> Self {
        let number = |at: usize| {
            fields.get(at).map_or(0, |text| u64::try_from(read_limit(text)).unwrap_or(0))
        };
        let window_seconds = match number(1) {
            0 => DEFAULT_WINDOW_SECONDS,
            seconds => seconds,
        };
        Self { rate: number(0), window_seconds, concurrency_cap: number(2), jitter_ms: number(3) }
    }

    /// Whether it admits everything.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.rate == 0 && self.concurrency_cap == 0
    }

    /// How long a window lasts.
    #[must_use]
    pub fn window_ms(&self) -> i64 {
        i64::try_from(self.window_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }

    /// When there is room for another start once the one of this time has to leave the window: one
    /// millisecond after its last.
    #[must_use]
    pub fn frees_at(&self, started_at: i64) -> i64 {
        started_at.saturating_add(self.window_ms()).saturating_add(1)
    }

    /// How many more it admits now, with so many running and so many started within the window.
    #[must_use]
    pub const fn room(&self, running: u64, started: u64) -> u64 {
        let slots = match self.concurrency_cap {
            0 => u64::MAX,
            cap => cap.saturating_sub(running),
        };
        let starts = match self.rate {
            0 => u64::MAX,
            rate => rate.saturating_sub(started),
        };
        if slots < starts { slots } else { starts }
    }
}

/// The window of a quota policy that defines none, as the wire contract has it.
pub const DEFAULT_WINDOW_SECONDS: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;

    fn hash(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn terms(fields: [&str; 4]) -> QuotaTerms {
        QuotaTerms::read(&fields.map(ToOwned::to_owned))
    }

    #[test]
    fn a_budget_has_room_until_a_hard_limit_is_reached() {
        let limits = hash(&[("hard:tokens", "10"), ("hard:usd", "0"), ("soft:tokens", "1")]);
        assert_eq!(exhausted(&limits, &hash(&[])), None);
        assert_eq!(exhausted(&limits, &hash(&[("tokens", "9"), ("usd", "99")])), None);
        let usage = hash(&[("tokens", "10")]);
        let found = exhausted(&limits, &usage).unwrap();
        assert_eq!(found.to_string(), "tokens 10/10");
    }

    #[test]
    fn amounts_are_read_as_the_stores_functions_read_them() {
        for (limit, used, is_exhausted) in [
            ("10.5", "10", false),
            ("10.5", "11", true),
            ("0.5", "0", false),
            ("0.5", "1", true),
            ("1e1", "10", true),
            ("10", "10.9", true),
            ("10", "9.9", false),
            ("-1", "5", false),
            ("9007199254740993", "9007199254740991", false),
            ("inf", "5", false),
            ("1e19", "5", false),
            ("-inf", "5", false),
        ] {
            let (limits, usage) = (hash(&[("hard:tokens", limit)]), hash(&[("tokens", used)]));
            assert_eq!(exhausted(&limits, &usage).is_some(), is_exhausted, "{used} of {limit}");
        }
    }

    #[test]
    fn what_is_not_a_number_does_not_limit() {
        let limits = hash(&[("hard:tokens", "many")]);
        assert_eq!(exhausted(&limits, &hash(&[("tokens", "9")])), None);
        let limits = hash(&[("hard:tokens", "5")]);
        assert_eq!(exhausted(&limits, &hash(&[("tokens", "some")])), None);
        assert!(terms(["many", "soon", "few", ""]).is_unlimited());
    }

    #[test]
    fn a_list_of_budgets_may_hold_other_texts() {
        let id = "550e8400-e29b-41d4-a716-446655440000";
        let found = budget_ids(&alloc::format!(" {id} ,,not a budget")).collect::<Vec<_>>();
        assert_eq!(found, [id.parse().unwrap()]);
    }

    #[test]
    fn a_window_of_zero_is_the_default_window() {
        for window in ["0", "", "soon"] {
            assert_eq!(terms(["1", window, "0", "0"]).window_seconds, DEFAULT_WINDOW_SECONDS);
        }
        assert_eq!(terms(["1", "5", "0", "0"]).window_ms(), 5_000);
        assert_eq!(terms(["1", &u64::MAX.to_string(), "0", "0"]).window_ms(), i64::MAX);
    }

    #[test]
    fn a_quota_has_room_while_neither_limit_is_reached() {
        assert_eq!(terms(["3", "1", "2", "0"]).room(1, 0), 1);
        assert_eq!(terms(["3", "1", "2", "0"]).room(0, 2), 1);
        assert_eq!(terms(["3", "1", "2", "0"]).room(2, 0), 0);
        assert_eq!(terms(["3", "1", "2", "0"]).room(0, 9), 0);
        assert_eq!(terms(["0", "1", "0", "0"]).room(9, 9), u64::MAX);
    }
}
