//! What a flow waits for: its members that do not move, by reason.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{DueBy, Explanation, Reason, UnblockedBy, Urgency};

/// What some executions wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Causes {
    /// What holds back those that do not move, worst first.
    pub causes: Vec<Cause>,
    /// How many wait for others only.
    pub dependent: usize,
    /// How many run.
    pub running: usize,
    /// How many have ended.
    pub ended: usize,
}

/// Executions that do not move for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// How urgently a person should look at them.
    pub urgency: Urgency,
    /// What they wait for.
    pub reason: Reason,
    /// How many there are.
    pub count: usize,
    /// The one that has not moved for longest.
    pub example: Explanation,
    /// By when the first of them moves, if that is known.
    pub first: DueBy,
}

/// Groups executions by what holds them back. One that only waits for others is no cause.
#[must_use]
pub fn causes(explained: Vec<Explanation>) -> Causes {
    let mut all = Causes::default();
    let mut groups: BTreeMap<(Urgency, Reason, String), Cause> = BTreeMap::new();
    for one in explained {
        let urgency = one.urgency();
        match urgency {
            Urgency::Upstream => all.dependent += 1,
            Urgency::Runs => all.running += 1,
            Urgency::Ended => all.ended += 1,
            Urgency::Broken
            | Urgency::Overdue
            | Urgency::NoWorker
            | Urgency::Person
            | Urgency::Limit
            | Urgency::Worker
            | Urgency::Engine => {
                let (reason, who, by) = root(&one);
                groups
                    .entry((urgency, reason, who))
                    .and_modify(|cause| cause.add(&one, by))
                    .or_insert(Cause { urgency, reason, count: 1, example: one, first: by });
            }
        }
    }
    all.causes = groups.into_values().collect();
    all.causes.sort_by_key(|cause| (cause.urgency, usize::MAX - cause.count));
    all
}

/// Why an execution does not move, what tells it from others with that reason, and by when it does.
fn root(one: &Explanation) -> (Reason, String, DueBy) {
    let is_late = |wait: &&super::Wait| matches!(wait.by, DueBy::Overdue(_));
    let late = one.limits.iter().find(is_late);
    let Some(wait) = one.root().filter(|wait| is_late(wait) || late.is_none()).or(late) else {
        return (Reason::Damage, String::new(), DueBy::Unknown);
    };
    let who = match (&wait.limit, &wait.unblocked_by) {
        (Some(limit), _) => limit.id.clone(),
        (None, UnblockedBy::Worker(who)) => who.clone(),
        (None, UnblockedBy::Upstream(id)) => id.to_string(),
        (
            None,
            UnblockedBy::Signaller(_)
            | UnblockedBy::Scanner(_)
            | UnblockedBy::Submitter
            | UnblockedBy::Operator
            | UnblockedBy::Nobody,
        ) => String::new(),
    };
    (wait.reason, who, wait.by)
}

impl Cause {
    fn add(&mut self, one: &Explanation, by: DueBy) {
        self.count += 1;
        if one.moved_at < self.example.moved_at {
            self.example = one.clone();
        }
        self.first = match (self.first, by) {
            (DueBy::Unknown, by) => by,
            (first, DueBy::Unknown) => first,
            (first, by) if time(by) < time(first) => by,
            (first, _) => first,
        };
    }
}

const fn time(by: DueBy) -> i64 {
    match by {
        DueBy::Time(at) | DueBy::Overdue(at) => at.0,
        DueBy::Unknown => i64::MAX,
    }
}
