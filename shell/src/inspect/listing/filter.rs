//! [`ExecutionFilter`]: which executions to list or to change, built from conditions such as
//! `state=failed`, `tag.app.customer=acme` or `age>1h`.

use std::str::FromStr;
use std::time::Duration;

use selvedge_core::id::LaneId;
use selvedge_core::key::LaneIndex;
use selvedge_core::state::PublicState;
use selvedge_core::time::ServerTime;
use thiserror::Error;

/// Which executions. An empty list or an absent value allows all; each of the others has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutionFilter {
    /// Those of this namespace; an execution without one belongs to all.
    pub namespace: Option<String>,
    /// Those in one of these states.
    pub states: Vec<PublicState>,
    /// Those of one of these lanes; without any, those of the lanes in the registry.
    pub lanes: Vec<LaneId>,
    /// Those of one of these kinds.
    pub kinds: Vec<String>,
    /// Those with all of these tags.
    pub tags: Vec<(String, String)>,
    /// Those whose last attempt failed with one of these categories.
    pub categories: Vec<String>,
    /// Those with this reason of a failure or cancellation.
    pub reason: Option<ReasonText>,
    /// Those that changed their state at least so long ago.
    pub older_than: Option<Duration>,
    /// Those that changed their state at most so long ago.
    pub younger_than: Option<Duration>,
}

/// What the reason of a failure or cancellation has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasonText {
    /// This text.
    Is(String),
    /// A text with this part; upper and lower case are the same.
    Contains(String),
}

/// A condition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{condition}`: {reason}")]
pub struct InvalidCondition {
    /// The condition.
    pub condition: String,
    /// What is wrong with it.
    pub reason: String,
}

impl ExecutionFilter {
    /// The syntax of a condition, for help texts.
    pub const SYNTAX: &'static str = "state=…, lane=…, kind=…, category=… (several values: \
        a,b), tag.KEY=…, reason=…, reason~PART, age>1h, age<2d";

    /// Adds a condition: see [`Self::SYNTAX`].
    ///
    /// # Errors
    /// When the field, the operator or the value is unknown.
    pub fn add(&mut self, condition: &str) -> Result<(), InvalidCondition> {
        let added = self.add_condition(condition);
        added.map_err(|reason| InvalidCondition { condition: condition.to_owned(), reason })
    }

    fn add_condition(&mut self, condition: &str) -> Result<(), String> {
        let unknown = || format!("expected one of {}", Self::SYNTAX);
        let at = condition.find(['=', '~', '<', '>']).ok_or_else(unknown)?;
        let (field, operator, value) =
            (condition[..at].trim(), &condition[at..=at], condition[at + 1..].trim());
        match (field, operator) {
            ("state", "=") => add_all(&mut self.states, value),
            ("lane", "=") => add_all(&mut self.lanes, value),
            ("kind", "=") => add_all(&mut self.kinds, value),
            ("category", "=") => add_all(&mut self.categories, value),
            ("reason", "=") => set_once(&mut self.reason, ReasonText::Is(value.into())),
            ("reason", "~") => {
                set_once(&mut self.reason, ReasonText::Contains(value.to_lowercase()))
            }
            ("age", ">") => set_once(&mut self.older_than, age(value)?),
            ("age", "<") => set_once(&mut self.younger_than, age(value)?),
            (_, "=") if field.strip_prefix("tag.").is_some_and(|key| !key.is_empty()) => {
                self.tags.push((field["tag.".len()..].into(), value.into()));
                Ok(())
            }
            _ => Err(unknown()),
        }
    }

    /// The lane indexes that may hold such executions. Work moves along this order, so that what
    /// moves on during a list is met again rather than missed.
    pub(super) fn indexes(&self) -> Vec<LaneIndex> {
        let holds = |index: &LaneIndex| {
            self.states.is_empty() || self.states.iter().any(|state| homes(*state).contains(index))
        };
        ORDER.iter().copied().filter(holds).collect()
    }

    /// Whether the index entries alone tell which executions match.
    pub(super) fn is_decided_by_indexes(&self) -> bool {
        let Self {
            namespace,
            kinds,
            tags,
            categories,
            reason,
            older_than,
            younger_than,
            states,
            ..
        } = self;
        let by_time = older_than.is_some() || younger_than.is_some();
        let ended = PublicState::ALL.iter().filter(|state| state.is_end());
        let all_or_no_end = ended.clone().all(|state| states.contains(state))
            || !ended.clone().any(|state| states.contains(state));
        let only_ended = !states.is_empty() && states.iter().all(|state| state.is_end());
        namespace.is_none()
            && kinds.is_empty()
            && tags.is_empty()
            && categories.is_empty()
            && reason.is_none()
            && all_or_no_end
            && !states.contains(&PublicState::Resumable)
            && (!by_time || only_ended)
    }

    /// When a matching execution may have changed its state: from the first to the second time.
    pub(super) fn window(&self, now: ServerTime) -> (i64, i64) {
        let before = |age: Duration| {
            now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
        };
        (self.younger_than.map_or(i64::MIN, before), self.older_than.map_or(i64::MAX, before))
    }

    pub(super) fn allows_reason(&self, reason: &str) -> bool {
        match &self.reason {
            None => true,
            Some(ReasonText::Is(whole)) => reason == whole,
            Some(ReasonText::Contains(part)) => reason.to_lowercase().contains(part.as_str()),
        }
    }
}

/// The indexes where executions of this public state are.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is open")]
fn homes(state: PublicState) -> &'static [LaneIndex] {
    match state {
        // What the state of its lane holds back is `waiting` or `rate_limited`, and is where what
        // an operator holds back is.
        PublicState::Waiting => &[LaneIndex::Eligible, LaneIndex::BlockedOperator],
        PublicState::Delayed => &[LaneIndex::Delayed],
        PublicState::RateLimited => &[
            LaneIndex::BlockedBudget,
            LaneIndex::BlockedQuota,
            LaneIndex::BlockedRoute,
            LaneIndex::BlockedOperator,
        ],
        PublicState::WaitingChildren => &[LaneIndex::BlockedDependencies],
        PublicState::Active => &[LaneIndex::Active],
        PublicState::Suspended => &[LaneIndex::Suspended],
        PublicState::Completed
        | PublicState::Failed
        | PublicState::Cancelled
        | PublicState::Expired
        | PublicState::Skipped => &[LaneIndex::Terminal],
        _ => &[],
    }
}

fn add_all<T: FromStr>(to: &mut Vec<T>, value: &str) -> Result<(), String>
where
    T::Err: std::fmt::Display,
{
    for one in value.split(',').map(str::trim) {
        if one.is_empty() {
            return Err("a value is missing".into());
        }
        to.push(one.parse().map_err(|error: T::Err| format!("{one}: {error}"))?);
    }
    Ok(())
}

fn set_once<T>(to: &mut Option<T>, value: T) -> Result<(), String> {
    match to.replace(value) {
        None => Ok(()),
        Some(_) => Err("this condition was given twice".into()),
    }
}

/// A whole number and a unit: `500ms`, `90s`, `15m`, `2h`, `7d`, or several of them.
fn age(text: &str) -> Result<Duration, String> {
    let unknown = || format!("{text}: expected a time such as 90s, 15m, 2h or 7d");
    let (mut total_ms, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(unknown)?;
        let (digits, after) = rest.split_at(unit_at);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let unit_ms = match after[..end].trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => return Err(unknown()),
        };
        let number: u64 = digits.parse().map_err(|_| unknown())?;
        let ms = number.checked_mul(unit_ms).ok_or_else(unknown)?;
        total_ms = total_ms.checked_add(ms).ok_or_else(unknown)?;
        rest = &after[end..];
    }
    if text.is_empty() { Err(unknown()) } else { Ok(Duration::from_millis(total_ms)) }
}

/// All indexes: blocked, then ready, then running, then ended.
const ORDER: [LaneIndex; 10] = [
    LaneIndex::BlockedDependencies,
    LaneIndex::BlockedBudget,
    LaneIndex::BlockedQuota,
    LaneIndex::BlockedRoute,
    LaneIndex::BlockedOperator,
    LaneIndex::Delayed,
    LaneIndex::Suspended,
    LaneIndex::Eligible,
    LaneIndex::Active,
    LaneIndex::Terminal,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(conditions: &[&str]) -> Result<ExecutionFilter, InvalidCondition> {
        let mut filter = ExecutionFilter::default();
        conditions.iter().try_for_each(|condition| filter.add(condition))?;
        Ok(filter)
    }

    #[test]
    fn conditions_are_read() {
        let conditions =
            ["state=failed, expired", "lane=gpu", "tag.app.id=a=b", "reason~No Route", "age>1h30m"];
        let read = filter(&conditions).unwrap();
        assert_eq!(read.states, [PublicState::Failed, PublicState::Expired]);
        assert_eq!(read.tags, [("app.id".to_owned(), "a=b".to_owned())]);
        assert_eq!(read.older_than, Some(Duration::from_secs(5_400)));
        assert!(read.allows_reason("there is NO ROUTE to it") && !read.allows_reason("timeout"));
        assert_eq!(read.indexes(), [LaneIndex::Terminal]);
        assert_eq!(read.window(ServerTime(10_000_000)), (i64::MIN, 4_600_000));
    }

    #[test]
    fn an_unknown_condition_is_refused_and_named() {
        for odd in [
            "state",
            "state=lost",
            "state=",
            "color=red",
            "state~failed",
            "age>1",
            "age>",
            "age=1h",
            "tag.=x",
            "lane=\u{e9}",
            "age>99999999999999999999d",
            "age>h",
        ] {
            let error = filter(&[odd]).expect_err(odd);
            assert!(error.to_string().contains(odd), "{error}");
        }
        assert!(filter(&["age>1h", "age>2h"]).is_err(), "which of the two?");
    }

    #[test]
    fn indexes_decide_only_what_they_know() {
        for (conditions, decided) in [
            (&["state=delayed,active"][..], true),
            (&["state=completed,failed,cancelled,expired,skipped", "age>1d"], true),
            (&["lane=gpu"], true),
            (&["state=failed"], false),
            (&["state=delayed", "age>1h"], false),
            (&["state=delayed", "kind=mail"], false),
            (&["state=waiting,rate_limited"], true),
        ] {
            let filter = filter(conditions).unwrap();
            assert_eq!(filter.is_decided_by_indexes(), decided, "{conditions:?}");
        }
    }
}
